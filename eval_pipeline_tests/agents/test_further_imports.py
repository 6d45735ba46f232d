"""Sessions of OpenCode, Gemini CLI and other programs are imported: by their own listing, log and trajectory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.agents.recorded_sessions import printed, report_of
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.exports.sample_rows import a_record, exported

AT = "2026-11-23T00:43:1%d.000Z"
ASKED = {"id": "u1", "timestamp": AT % 0, "type": "user", "content": [{"text": "Count the lines."}]}
RESULT = [{"functionResponse": {"id": "t1", "response": {"output": "3 notes.txt"}}}]
CALL = {"id": "t1", "name": "run_shell_command", "args": {"command": "wc -l notes.txt"}, "status": "success",
        "result": RESULT, "timestamp": AT % 2}  # fmt: skip
LOOKS = {"id": "g1", "timestamp": AT % 1, "type": "gemini", "content": "I look.", "model": "scripted",
         "tokens": {"input": 1000, "output": 34, "cached": 0, "thoughts": 16, "total": 1050}}  # fmt: skip
SAYS = {"id": "g2", "timestamp": AT % 3, "type": "gemini", "content": "Three.", "model": "scripted",
        "tokens": {"input": 1100, "output": 51, "cached": 256, "thoughts": 0, "total": 1151}}  # fmt: skip
CONTEXT = {"id": "c", "type": "user", "content": [{"text": "<session_context>\nThis is the Gemini CLI."}]}
GEMINI: list[dict[str, Any]] = [
    {"sessionId": "be13008f", "startTime": AT % 0, "kind": "main"},
    {"$set": {"messages": [CONTEXT]}},
    ASKED,
    LOOKS,
    {"$set": {"lastUpdated": AT % 1}},
    {**LOOKS, "toolCalls": [CALL]},
    {"id": "u2", "timestamp": AT % 2, "type": "user", "content": RESULT},
    SAYS,
]
EXPORT = {
    "info": {"id": "ses_1", "directory": "/work", "version": "1.18.33"},
    "messages": [
        {"info": {"role": "user", "sessionID": "ses_1"}, "parts": [{"type": "text", "text": "Say four."}]},
        {"info": {"role": "assistant", "sessionID": "ses_1", "modelID": "m", "tokens": {"input": 9, "output": 2}},
         "parts": [{"type": "text", "text": "Four."}]},
    ],
}  # fmt: skip
OPENCODE = """#!/bin/sh
case "$1" in
  session) echo '[{"id": "ses_1", "updated": 1795394727371}]' ;;
  export) echo 'Exporting session' >&2; cat "$EXPORTED" ;;
esac
"""


@pytest.fixture
def cli_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliProject:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    project = CliProject(tmp_path / "project")
    project.write("eval-pipeline.yaml", "suites: [suites]\n")
    return project


def transcript(project: CliProject, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.root / "recordings/transcripts" / name).read_text().splitlines()]


def test_a_chat_log_of_gemini_is_the_report_of_its_session() -> None:
    report = report_of("gemini-session", session="".join(json.dumps(row) + "\n" for row in GEMINI))

    assert (report.final_output, report.session_id, report.model) == ("Three.", "be13008f", "scripted")
    assert report.commands == ("wc -l notes.txt",)
    assert (report.usage.input_tokens, report.usage.cached_input_tokens, report.usage.output_tokens) == (2100, 256, 101)
    assert [use.result.output for use in report.tool_uses if use.result] == ["3 notes.txt"]


def test_sessions_of_gemini_are_found_where_it_keeps_them(cli_project: CliProject, tmp_path: Path) -> None:
    log = tmp_path / "home/.gemini/tmp/ws/chats/session-2026-11-23T00-43-be13008f.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps(row) + "\n" for row in GEMINI))

    answer = cli_project("import", "gemini", "--last", "1", "--suite", "mine")
    by_id = cli_project("import", "gemini", "be13008f-1111-4222-8333-944455566677")

    assert (answer.code, by_id.code) == (0, 0), answer.err + by_id.err
    assert "Count the lines." in (cli_project.root / "suites/mine.yaml").read_text()
    assert transcript(cli_project, "gemini-be13008f.jsonl")


def test_sessions_of_qwen_are_found_where_it_keeps_them(cli_project: CliProject, tmp_path: Path) -> None:
    log = tmp_path / "home/.qwen/projects/-work/chats/e4b8c047-7d66-4b15-9bb1-3facb878b1d4.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(printed("qwen", "logged", "session.jsonl"))

    listed, answer = cli_project("import", "qwen", "--list"), cli_project("import", "qwen", "e4b8c047", "--suite", "my")

    assert "Please do." in listed.out
    assert answer.code == 0, answer.err
    assert "Please do. [[script:fail]]" in (cli_project.root / "suites/my.yaml").read_text()


def test_sessions_of_cursor_cannot_be_imported(cli_project: CliProject) -> None:
    answer = cli_project("import", "cursor-agent", "--list")

    assert answer.code == 2
    assert "cursor-agent keeps its sessions in a database that only it reads" in answer.err
    assert "cursor-agent" not in cli_project("import", "--help").out


def test_sessions_of_opencode_are_listed_and_exported_by_it(
    cli_project: CliProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "opencode").write_text(OPENCODE)
    (tmp_path / "bin" / "opencode").chmod(0o755)
    (tmp_path / "export.json").write_text(json.dumps(EXPORT))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.setenv("EXPORTED", str(tmp_path / "export.json"))

    listed, answer = cli_project("import", "opencode", "--list"), cli_project("import", "opencode", "ses_1")

    assert "Say four." in listed.out
    assert answer.code == 0, answer.err
    assert "Four." in json.dumps(transcript(cli_project, "opencode-ses_1.jsonl"))


def test_without_opencode_there_are_no_sessions_of_it(cli_project: CliProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    assert "no 'opencode' on PATH" in cli_project("import", "opencode", "--last", "1").text
    assert "name files of `opencode export`" in cli_project("import", "opencode", "--list").text


def test_trajectories_of_one_name_have_their_folders_in_their_ids(cli_project: CliProject, tmp_path: Path) -> None:
    (content,) = exported("atif", a_record()).values()
    document = json.loads(content)
    document["steps"].insert(0, {"step_id": 0, "source": "user", "message": "What is 2 + 2?"})
    files = [tmp_path / name for name in ("one/run.json", "two/run.json", "other.json")]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(document))

    answer = cli_project("import", "atif", *map(str, files), "--suite", "theirs")

    assert answer.code == 0, answer.err
    suite = (cli_project.root / "suites/theirs.yaml").read_text()
    assert [line for line in suite.splitlines() if "- id:" in line] == [
        "  - id: one-run", "  - id: two-run", "  - id: other"
    ]  # fmt: skip


def test_a_trajectory_of_any_program_is_imported(cli_project: CliProject, tmp_path: Path) -> None:
    (content,) = exported("atif", a_record()).values()
    (tmp_path / "run.json").write_bytes(content)
    document = json.loads(content)
    document["steps"].insert(0, {"step_id": 0, "source": "user", "message": "What is 2 + 2?"})
    (tmp_path / "run.json").write_text(json.dumps(document, indent=2))

    answer = cli_project("import", "atif", str(tmp_path / "run.json"), "--suite", "theirs")

    assert answer.code == 0, answer.err
    assert "What is 2 + 2?" in (cli_project.root / "suites/theirs.yaml").read_text()
