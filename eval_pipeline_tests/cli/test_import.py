"""`import`: sessions of agents on this machine become transcripts, and suites that can be run at once."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli import import_sessions
from eval_pipeline.plugins import Registry
from eval_pipeline_tests.agents.recorded_sessions import WORKSPACE, printed
from eval_pipeline_tests.cli.sample_project import Answer, CliProject

SKILL = "176fcf9f-237a-4867-85b7-57327e27d630"
RUNNERS = """\
# mine
runners:
  - name: mine   # the best
    adapter: python
    function: parrot:say
# the end
"""


@pytest.fixture
def cli_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliProject:
    """A folder with nothing in it, and three recorded sessions of Claude Code, one a day, that this machine keeps."""
    kept = tmp_path / "kept"
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.setenv(variable, str(kept / variable))
    for day, scenario in enumerate(("plain", "files", "resume"), start=1):
        keep_claude(kept, scenario, day)
    (tmp_path / "desk").mkdir()
    return CliProject(tmp_path / "desk")


def keep_claude(kept: Path, scenario: str, day: int) -> None:
    text = printed("claude", scenario, "session.jsonl").replace(WORKSPACE, f"/agent/{scenario}")
    path = kept / "CLAUDE_CONFIG_DIR" / "projects" / "-agent" / f"{ids(scenario)}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    os.utime(path, (day * 86_400, day * 86_400))


def ids(scenario: str) -> str:
    first = printed("claude", scenario, "session.jsonl").splitlines()[0]
    return str(json.loads(first)["sessionId"])


def transcript(cli_project: CliProject, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (cli_project.root / name).read_text("utf-8").splitlines()]


def imported(answer: Answer) -> list[str]:
    """The sessions that `-o -` printed."""
    return [json.loads(line)["source"]["session_id"] for line in answer.out.splitlines()]


# Which sessions


def test_sessions_are_listed_the_newest_first(cli_project: CliProject) -> None:
    answer = cli_project("import", "claude", "--list")

    assert [line.split()[0] for line in answer.out.splitlines()[1:]] == [ids("resume"), ids("files"), ids("plain")]
    assert "/agent/files" in answer.out
    assert "Please do the task. [[stub:files]]" in answer.out


@pytest.mark.parametrize(
    ("arguments", "scenarios"),
    [
        (["--last", "1"], ["resume"]),
        (["--since", "1970-01-03T00:00:00+00:00"], ["resume", "files"]),
        (["--since", "1970-01-02T00:00:00+00:00", "--last", "2"], ["resume", "files"]),
        (["--cwd", "/agent/plain"], ["plain"]),
        (["--cwd", "/agent"], ["resume", "files", "plain"]),
        ([ids("files")], ["files"]),
        ([ids("plain")[:8], ids("files")[:8]], ["plain", "files"]),
    ],
    ids=["the last", "since", "the last of those since", "folder", "folder above", "id", "beginnings of ids"],
)
def test_sessions_are_chosen(cli_project: CliProject, arguments: list[str], scenarios: list[str]) -> None:
    answer = cli_project("import", "claude", *arguments, "-o", "-")

    assert (answer.code, imported(answer)) == (0, [ids(scenario) for scenario in scenarios])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the sessions"),
        (["--since", "1h"], "no claude session matches, of 3 in"),
        (["--since", "soon"], "expected a date, a time or an age such as 7d or 12h, got 'soon'"),
        (["nowhere"], "no claude session 'nowhere' among 3 in"),
        ([""], "begins the ids of 3 claude sessions"),
        (["--last", "1", "--suite", "My Suite"], "--suite: expected lower-case letters"),
    ],
    ids=["none", "nothing so new", "no moment", "unknown", "ambiguous", "no name of a suite"],
)
def test_a_wrong_choice_is_reported_and_exits_2(cli_project: CliProject, arguments: list[str], message: str) -> None:
    answer = cli_project("import", "claude", *arguments)

    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize("agent", ["codex", "copilot"])
def test_logs_of_every_agent_can_be_named_as_files(cli_project: CliProject, agent: str) -> None:
    scenario = {"codex": "patch", "copilot": "files"}[agent]
    cli_project.write("log.jsonl", printed(agent, scenario, "session.jsonl"))

    answer = cli_project("import", agent, "log.jsonl", "-o", "-")

    (line,) = map(json.loads, answer.out.splitlines())
    assert (line["source"]["provider"], line["output"][-1]["content"]) == (
        agent,
        "Done. STUB-FINAL-ANSWER for scenario files.",
    )


def test_a_copilot_session_can_be_named_by_its_folder(cli_project: CliProject) -> None:
    cli_project.write("state/events.jsonl", printed("copilot", "files", "session.jsonl"))

    assert imported(cli_project("import", "copilot", "state", "-o", "-")) == [SKILL]


# What becomes of them


def test_a_transcript_has_a_line_for_each_session(cli_project: CliProject) -> None:
    answer = cli_project("import", "claude", "--last", "2")

    lines = transcript(cli_project, "recordings/transcripts/claude-sessions.jsonl")
    assert [line["source"]["session_id"] for line in lines] == [ids("resume"), ids("files")]
    assert [set(line) for line in lines] == [
        {"input", "output", "token_usage", "duration_ms", "cost_usd", "source"}
    ] * 2
    assert "2 sessions → recordings/transcripts/claude-sessions.jsonl" in answer.err


def test_a_file_that_exists_is_kept_unless_forced(cli_project: CliProject) -> None:
    cli_project.write("mine.jsonl", "mine\n")

    kept = cli_project("import", "claude", "--last", "1", "-o", "mine.jsonl")

    assert (kept.code, (cli_project.root / "mine.jsonl").read_text()) == (2, "mine\n")
    assert "mine.jsonl exists; --force overwrites it" in kept.err
    assert cli_project("import", "claude", "--last", "1", "-o", "mine.jsonl", "--force").code == 0
    assert len(transcript(cli_project, "mine.jsonl")) == 1


def test_lines_that_are_no_json_are_counted_and_the_rest_is_imported(cli_project: CliProject) -> None:
    cli_project.write("log.jsonl", printed("claude", "plain", "session.jsonl") + "oops\n{\n")

    answer = cli_project("import", "claude", "log.jsonl", "-o", "-")

    assert answer.code == 0
    assert "log.jsonl: 2 lines are no JSON and were left out" in answer.err
    assert imported(answer) == [ids("plain")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (printed("codex", "patch", "session.jsonl"), "is a log of codex: eval-pipeline import codex reads it"),
        ("", "holds no words of a user"),
        ("not JSON\n", "holds no words of a user: not a claude session, or an empty one (1 line is no JSON)"),
        (printed("claude", "plain", "session.jsonl"), "holds session a14d0167-d641-4f2f-ac3d-9a74c490b3d3 again"),
    ],
    ids=["another agent's", "empty", "no JSON", "twice the same"],
)
def test_what_cannot_be_imported_is_reported_and_the_rest_is_imported(
    cli_project: CliProject, text: str, why: str
) -> None:
    cli_project.write("odd.jsonl", text)

    answer = cli_project("import", "claude", ids("plain"), "odd.jsonl", "-o", "-")

    assert (answer.code, imported(answer)) == (1, [ids("plain")])
    assert f"not imported: odd.jsonl {why}" in answer.err


def test_a_trajectory_without_words_of_a_user_is_a_trajectory_all_the_same(cli_project: CliProject) -> None:
    step = {"step_id": 1, "source": "agent", "message": "done"}
    document = {"schema_version": "ATIF-v1.7", "session_id": "s", "agent": {"name": "a", "version": "1"}}
    cli_project.write("odd.json", json.dumps({**document, "steps": [step]}))

    answer = cli_project("import", "atif", "odd.json")

    assert answer.code == 2
    assert answer.err.startswith("not imported: odd.json holds no words of a user\n")


def test_when_nothing_can_be_imported_nothing_is_written(cli_project: CliProject) -> None:
    cli_project.write("odd.jsonl", "")

    answer = cli_project("import", "claude", "odd.jsonl", "--suite", "odd")

    assert answer.code == 2
    assert [path.name for path in cli_project.root.iterdir()] == ["odd.jsonl"]


# Suites


def test_a_suite_of_sessions_runs_at_once_with_all_that_was_seen_of_them(cli_project: CliProject) -> None:
    made = cli_project("import", "claude", ids("files"), ids("plain"), "--suite", "seen")

    run = cli_project("run", "suites/seen.yaml", "--json")

    assert (made.code, run.code, run.counts["passed"]) == (0, 0, 2)
    ((kinds,),) = cli_project.ask("SELECT list(DISTINCT kind ORDER BY kind) FROM session_events")
    assert kinds == ["command", "file_read", "file_write", "message", "tool_call", "tool_result"]


def test_a_runner_is_added_to_the_runners_file_and_the_rest_of_it_stays(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", RUNNERS)

    cli_project("import", "claude", "--last", "1", "--suite", "seen")

    assert (cli_project.root / "runners.yaml").read_text() == RUNNERS.replace(
        "# the end",
        "  - name: seen-recorded\n    adapter: replay\n    recording: recordings/sessions/seen.jsonl\n# the end",
    )


@pytest.mark.parametrize(
    "text",
    [
        "runners: [{name: mine, adapter: python, function: 'parrot:say'}]\n",
        "targets:\n  - {name: mine, provider: mock}\n",
    ],
    ids=["a list in one line", "AgentV's targets"],
)
def test_a_runners_file_that_cannot_be_added_to_is_left_alone(cli_project: CliProject, text: str) -> None:
    cli_project.write("runners.yaml", text)

    answer = cli_project("import", "claude", "--last", "1", "--suite", "seen")

    runners_file = "recordings/sessions/seen.runners.yaml"
    assert (cli_project.root / "runners.yaml").read_text() == text
    assert f"eval-pipeline run suites/seen.yaml --runners {runners_file}" in answer.err
    assert cli_project("plan", "suites/seen.yaml", "--runners", runners_file).code == 0


def test_importing_again_changes_no_runner(cli_project: CliProject) -> None:
    cli_project("import", "claude", "--last", "1", "--suite", "seen")
    before = (cli_project.root / "runners.yaml").read_text()

    answer = cli_project("import", "claude", "--last", "2", "--suite", "seen", "--force")

    assert answer.code == 0
    assert (cli_project.root / "runners.yaml").read_text() == before


def test_a_suite_that_exists_is_kept(cli_project: CliProject) -> None:
    cli_project.write("suites/seen.yaml", "mine")

    answer = cli_project("import", "claude", "--last", "1", "--suite", "seen")

    assert answer.code == 2
    assert "suites/seen.yaml exist; --force overwrites" in answer.err
    assert not (cli_project.root / "recordings").exists()


def test_another_runner_of_that_name_is_not_taken_over(cli_project: CliProject) -> None:
    cli_project.write("runners.yaml", "runners:\n  - {name: seen-recorded, adapter: command, command: [ls]}\n")

    answer = cli_project("import", "claude", "--last", "1", "--suite", "seen")

    assert answer.code == 2
    assert "runners.yaml has another runner 'seen-recorded'" in answer.err


def test_prompts_of_several_lines_are_blocks_in_the_suite(cli_project: CliProject) -> None:
    text = printed("claude", "plain", "session.jsonl").replace("Please do the task.", "Please:\\n- one\\n- two\\n")
    cli_project.write("log.jsonl", text)

    cli_project("import", "claude", "log.jsonl", "--suite", "seen")

    assert (
        "    input: |-\n      Please:\n      - one\n      - two\n"
        in (cli_project.root / "suites/seen.yaml").read_text()
    )


def test_placeholders_in_a_prompt_are_reported(cli_project: CliProject) -> None:
    text = printed("claude", "plain", "session.jsonl").replace("Please do the task.", "Print ${{ HOME }}.")
    cli_project.write("log.jsonl", text)

    answer = cli_project("import", "claude", "log.jsonl", "--suite", "seen")

    assert "the suite fills in ${{ HOME }} in the words of its user" in answer.err


def test_help_leaves_out_a_kind_of_which_nothing_is_installed(
    cli_project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    none: Registry[Any] = Registry("format", folder=None, entry_point_group="eval_pipeline.no_such_group")
    monkeypatch.setattr(import_sessions, "RESULT_LOGS", none)

    answer = cli_project("import", "--help")

    assert answer.code == 0
    assert "Agents:" in answer.out
    assert "Other evaluation systems" not in answer.out
