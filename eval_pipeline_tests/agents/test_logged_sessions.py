"""Sessions of Gemini CLI and Qwen Code with the chat logs that they keep: what standard output alone does not tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.agent_talks import AgentTalk
from eval_pipeline.agents.logged_answers import exit_code_in
from eval_pipeline.agents.session_import import read_session
from eval_pipeline.agents.session_store import find_log
from eval_pipeline.agents.session_watch import SessionTally
from eval_pipeline.reports.jsonl_records import objects_of
from eval_pipeline.reports.model import CommandEvent, MessageEvent, RetryEvent, SessionReport, ToolResultEvent
from eval_pipeline_tests.agents.recorded_sessions import (
    ANY_JSON,
    WORKSPACE,
    check_storable,
    log_of,
    mutated,
    printed,
    report_of,
)

CLIS = ["gemini", "qwen"]
PLACES = {
    "gemini": "tmp/workspace/chats/session-2026-11-24T02-12-1181e1a2.jsonl",
    "qwen": "projects/-agent-workspace/chats/e4b8c047-7d66-4b15-9bb1-3facb878b1d4.jsonl",
}
IDS = {"gemini": "1181e1a2-c86f-4222-8af6-22b8a15620cf", "qwen": "e4b8c047-7d66-4b15-9bb1-3facb878b1d4"}


def logged(cli: str, scenario: str = "logged", **texts: str) -> SessionReport:
    session = printed(cli, scenario, "session.jsonl")
    return report_of(cli, **{"stdout": printed(cli, scenario), "session": session, "cwd": WORKSPACE, **texts})


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


def cut(text: str, lines: int) -> str:
    return "".join(line + "\n" for line in text.splitlines()[:lines])


@pytest.mark.parametrize("cli", CLIS)
def test_a_command_has_the_exit_code_that_the_model_received(cli: str) -> None:
    report = logged(cli)

    (command,) = events(report, CommandEvent)
    assert (command.exit_code, command.output) == (3, "to-stdout\nto-stderr")
    assert [result.is_error for result in events(report, ToolResultEvent)] == [True, True]


@pytest.mark.parametrize("cli", CLIS)
def test_reasoning_is_in_its_place_and_its_tokens_are_known(cli: str) -> None:
    report = logged(cli)

    order = [event.text if isinstance(event, MessageEvent) else event.kind for event in report.events]
    look, say, answer = "I look at the workspace first.", "I know what to say.", "Done: scenario fail ended."
    assert [each for each in order if each in (look, say, answer, "tool_call")] == [
        look, "tool_call", "tool_call", say, answer
    ]  # fmt: skip
    assert (report.usage.output_tokens, report.usage.reasoning_tokens, report.model_calls) == (153, 32, 3)


def test_results_that_gemini_does_not_print_are_those_of_its_log() -> None:
    silent = printed("gemini", "logged").replace('"output": "File not found."', '"output": ""')
    silent = silent.replace(', "error": {"type"', ', "unused": {"type"')

    _, result = events(logged("gemini", stdout=silent), ToolResultEvent)

    assert result.output == f"File not found: {WORKSPACE}/does-not-exist.txt"


@pytest.mark.parametrize(("cli", "tokens"), [("gemini", (2100, 101)), ("qwen", (2100, 101))])
def test_a_session_that_was_ended_has_the_usage_of_its_log(cli: str, tokens: tuple[int, int]) -> None:
    stdout, log = printed(cli, "logged").splitlines(), printed(cli, "logged", "session.jsonl").splitlines()
    last = next(at for at, line in enumerate(log) if "I know what to say" in line or "chat-2" in line)

    report = logged(cli, stdout=cut("\n".join(stdout), len(stdout) - 4), session=cut("\n".join(log), last))

    assert report.failure_class == "target-crash"
    assert (report.usage.input_tokens, report.usage.output_tokens) == tokens


def test_refused_calls_of_qwen_are_retries_with_their_status() -> None:
    report = logged("qwen", "refused")

    retries = events(report, RetryEvent)
    assert [(retry.attempt, retry.status) for retry in retries] == [(1, 429), (2, 429), (3, 429)]
    assert "Rate limit reached" in retries[0].message


def test_the_refused_call_that_ended_a_session_of_qwen_is_no_retry() -> None:
    record = json.loads(printed("qwen", "refused", "session.jsonl").splitlines()[-1])
    error = record["systemPayload"]["uiEvent"]["error_message"]
    answer = {"role": "assistant", "content": [{"type": "text", "text": f"[API Error: {error}]"}]}
    rows = [{"type": "assistant", "message": answer}, {"type": "result", "result": f"[API Error: {error}]"}]

    report = logged("qwen", "refused", stdout="".join(json.dumps(row) + "\n" for row in rows))

    assert (report.failure_class, len(events(report, RetryEvent))) == ("rate-limited", 2)


@pytest.mark.parametrize("cli", CLIS)
def test_a_log_alone_is_the_same_session(cli: str) -> None:
    session = AGENTS.get(cli).sessions.format
    alone = report_of(session, session=printed(cli, "logged", "session.jsonl"), cwd=WORKSPACE)
    both = logged(cli)

    for report in (alone, both):
        assert report.final_output == "Done: scenario fail ended."
    assert alone.usage == both.usage
    shell = alone.tool_uses[0]
    assert (shell.tool, shell.is_error, shell.result and shell.result.output) == (
        "run_shell_command", True, "to-stdout\nto-stderr"
    )  # fmt: skip
    assert [event.exit_code for event in events(alone, CommandEvent)] == [3]
    assert (alone.session_id, alone.model, alone.model_calls) == (IDS[cli], "scripted", 3)


@pytest.mark.parametrize("cli", CLIS)
def test_the_log_of_a_session_is_found_by_its_id_and_names_its_folder(cli: str, tmp_path: Path) -> None:
    store, path = AGENTS.get(cli).sessions, tmp_path / f".{cli}" / PLACES[cli]
    path.parent.mkdir(parents=True)
    path.write_text(printed(cli, "logged", "session.jsonl"))

    found = find_log(store, tmp_path, {}, session_id=IDS[cli], cwd=tmp_path, since=0)

    assert found is not None
    assert (found.path, store.facts(store.read(found)).cwd) == (path, WORKSPACE)
    assert find_log(store, tmp_path, {}, session_id="another", cwd=tmp_path, since=0) is None
    session = read_session(AGENTS.get(cli), log_of(cli, path))
    assert (session.session_id, session.prompt) == (IDS[cli], "Please do. [[script:fail]]")


def test_of_a_resumed_session_of_gemini_only_the_last_run_counts() -> None:
    log = printed("gemini", "logged", "session.jsonl")
    head = json.loads(log.splitlines()[0])
    history = [json.loads(line) for line in log.splitlines() if '"type": "gemini"' in line]
    answer = {"id": "new", "type": "gemini", "content": "Done: scenario fail ended.", "model": "scripted",
              "tokens": {"input": 9, "output": 1, "total": 10}}  # fmt: skip
    again = "".join(json.dumps(row) + "\n" for row in (head, {"$set": {"messages": history}}, answer))

    assert logged("gemini", session=log + again).model_calls == 1
    assert logged("gemini", session=again).model_calls == 1
    assert report_of("gemini-session", session=log + again).model_calls == 4


def test_a_turn_reads_on_in_the_log_of_the_one_before_and_another_log_from_its_beginning() -> None:
    talk = AgentTalk(environment={}, closing=None)  # type: ignore[arg-type]

    begins = [talk.read_before(Path(name), size) for name, size in [("a", 10), ("a", 30), ("b", 50), ("b", 20)]]

    assert begins == [0, 10, 0, 0]


@pytest.mark.parametrize("cli", CLIS)
def test_a_log_tells_the_steps_and_tokens_of_a_running_session(cli: str) -> None:
    tally, read = SessionTally(), AGENTS.get(cli).live()
    for line in printed(cli, "logged", "session.jsonl").splitlines():
        for record in objects_of(line):
            for glimpse in read(record):
                tally.add(glimpse)

    assert (tally.steps, tally.usage.input_tokens, tally.usage.output_tokens) == (3, 3300, 153)


@pytest.mark.parametrize(
    ("sent", "printed_text", "code"),
    [
        pytest.param("Output: a\nProcess Group PGID: 9", "a", 0, id="absent when it is 0"),
        pytest.param("Output: a\nExit Code: 2\nProcess Group PGID: 9", "a", 2, id="present"),
        pytest.param("Output: Exit Code: 2\nProcess Group PGID: 9", "Exit Code: 2", 0, id="printed by the command"),
        pytest.param("Output: (empty)\nError: (none)\nExit Code: (none)\nSignal: 9", "", None, id="ended by a signal"),
        pytest.param("Output: a\nSignal: 15\nProcess Group PGID: 9", "a", None, id="signal alone"),
        pytest.param("Command was cancelled by user before it could complete.", "", None, id="cancelled"),
        pytest.param("Command moved to background (PID: 7). Output hidden.", "", None, id="background"),
    ],
)
def test_the_exit_code_in_a_result_for_the_model_is_read(sent: str, printed_text: str, code: int | None) -> None:
    assert exit_code_in(sent, printed_text) == code
    assert exit_code_in(f"<untrusted_context>\n{sent}\n</untrusted_context>", printed_text) == code


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(CLIS), st.data(), st.lists(ANY_JSON, max_size=3))
def test_no_log_makes_normalizing_fail(cli: str, data: st.DataObject, more: list[Any]) -> None:
    session = data.draw(mutated(printed(cli, "logged", "session.jsonl"))) + "\n".join(map(json.dumps, more))

    check_storable(logged(cli, session=session))
    check_storable(report_of(AGENTS.get(cli).sessions.format, session=session))
