from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    ErrorEvent,
    FileReadEvent,
    FileWriteEvent,
    MessageEvent,
    RetryEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline_tests.agents.recorded_sessions import (
    ANY_JSON,
    check_storable,
    lines,
    mutated,
    printed,
    report_of,
)


def recorded(scenario: str) -> SessionReport:
    """What the log of a recorded session says."""
    return report_of("copilot", session=printed("copilot", scenario, "session.jsonl"))


def report_of_records(*records: dict[str, Any]) -> SessionReport:
    return report_of("copilot", session=lines(*records))


def record(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "timestamp": "2026-11-22T02:49:55.286Z"}


def assistant(content: str, *tool_calls: str, **data: Any) -> dict[str, Any]:
    return record(
        "assistant.message", content=content, toolRequests=[{"toolCallId": id_} for id_ in tool_calls], **data
    )


def called(tool: str, call_id: str = "c1", **arguments: Any) -> dict[str, Any]:
    return record("tool.execution_start", toolCallId=call_id, toolName=tool, arguments=arguments)


def agent_message(content: str, call_id: str = "c1", success: bool = True, **data: Any) -> dict[str, Any]:
    result = {"result": {"content": content}} if success else {"error": {"message": content}}
    return record("tool.execution_complete", toolCallId=call_id, success=success, **result, **data)


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


# The answer, and what the session was


def test_a_log_has_the_answer_and_facts_of_the_session() -> None:
    report = recorded("files")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario files."
    assert (report.failure_class, report.error) == (None, None)
    assert (report.model, report.agent_version, report.model_calls) == ("stub-model", "1.0.102", 5)
    assert report.session_id == "176fcf9f-237a-4867-85b7-57327e27d630"
    assert (report.unknown_events, report.unparsed_lines) == ({}, 0)


def test_standard_output_has_the_same_events_as_the_log() -> None:
    stdout = report_of("copilot", stdout=printed("copilot", "files"))

    assert stdout.final_output == recorded("files").final_output
    assert [event.kind for event in stdout.events] == [event.kind for event in recorded("files").events]


def test_the_last_message_is_final_and_those_before_are_commentary() -> None:
    messages = events(recorded("files"), MessageEvent)

    assert [(message.role, message.phase) for message in messages] == [
        ("user", None), ("assistant", "thinking"), *[("assistant", "commentary")] * 4, ("assistant", "final"),
    ]  # fmt: skip


def test_a_resumed_session_has_the_answer_of_its_last_turn() -> None:
    report = recorded("resume")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario plain."
    assert [message.text for message in events(report, MessageEvent) if message.role == "user"] == [
        "Please do the task. [[stub:shell]]",
        "Second turn, please answer. [[stub:plain]]",
    ]


def test_an_empty_answer_is_no_answer() -> None:
    report = report_of_records(assistant("on it", "c1"), called("bash", command="ls"), agent_message(""), assistant(""))

    assert (report.final_output, report.failure_class) == (None, None)


def test_text_that_the_cli_put_into_the_users_role_is_injected() -> None:
    report = report_of_records(
        record("user.message", content="do it", source="user"),
        record("user.message", content="<skill-context>", source="skill-demo"),
        assistant("done"),
    )

    assert [event.injected for event in events(report, MessageEvent) if event.role == "user"] == [False, True]


def test_the_text_of_a_subagent_is_not_the_answer() -> None:
    report = report_of_records(assistant("mine"), assistant("a subagent's", parentToolCallId="c1"))

    assert report.final_output == "mine"


# Time and usage


def test_a_log_has_the_times_of_the_session() -> None:
    report = recorded("files")

    assert (report.started_at, report.ended_at) == ("2026-11-22T02:49:55.286Z", "2026-11-22T02:49:55.841Z")
    assert report.duration_ms == 555.0


def test_a_run_took_as_long_as_its_result_reports() -> None:
    result = {"type": "result", "exitCode": 0, "usage": {"sessionDurationMs": 724}}

    report = report_of(
        "copilot", stdout=lines(assistant("done"), result), session=printed("copilot", "files", "session.jsonl")
    )

    assert report.duration_ms == 724.0


def test_usage_is_the_sum_over_the_model_calls() -> None:
    assert recorded("resume").usage == Usage(
        input_tokens=3100, cached_input_tokens=256, cache_write_tokens=0, output_tokens=151, reasoning_tokens=32
    )


def test_an_older_log_has_its_usage_in_the_shutdown() -> None:
    spent = {"inputTokens": 10, "outputTokens": 2, "cacheReadTokens": 4, "cacheWriteTokens": 1}
    metrics = {"one": {"requests": {"count": 1, "cost": 1}, "usage": spent}, "two": {"usage": spent}}

    report = report_of_records(assistant("done"), record("session.shutdown", modelMetrics=metrics))

    assert report.usage == Usage(
        input_tokens=20, cached_input_tokens=8, cache_write_tokens=2, output_tokens=4, reasoning_tokens=None
    )


def test_standard_output_alone_leaves_usage_unknown() -> None:
    assert report_of("copilot", stdout=printed("copilot", "files")).usage == Usage()


# How it can end


@pytest.mark.parametrize(
    ("scenario", "failure_class", "error"),
    [
        ("auth401", "authentication", "Authentication failed with provider"),
        ("maxtok", "truncated", "the answer was cut by the token limit"),
        ("tool_hang", "cancelled", "the session was aborted: user_initiated"),
    ],
)
def test_a_session_that_failed_has_a_class_and_no_answer(scenario: str, failure_class: str, error: str) -> None:
    report = recorded(scenario)

    assert report.failure_class == failure_class
    assert (report.error or "").startswith(error)
    assert report.final_output is None
    assert [event.terminal for event in events(report, ErrorEvent)] in ([True], [])


@pytest.mark.parametrize(
    ("data", "failure_class"),
    [
        pytest.param({"statusCode": 404, "message": "no model"}, "model-rejected", id="status"),
        pytest.param({"message": "Authentication failed (HTTP 401)."}, "authentication", id="status in the text"),
        pytest.param({"message": "Last error: 429 slow down"}, "rate-limited", id="status of the last error"),
        pytest.param({"errorType": "rate_limit", "message": "wait"}, "rate-limited", id="type"),
        pytest.param({"message": "Last error: unexpected EOF during chunk"}, "connection", id="connection"),
        pytest.param({"message": "Failed to get response from the AI model"}, "server-error", id="no response"),
        pytest.param({"message": "something else"}, "target-error", id="anything else"),
        pytest.param({}, "target-error", id="nothing"),
    ],
)
def test_a_failure_is_classed_by_its_most_specific_fact(data: dict[str, Any], failure_class: str) -> None:
    assert report_of_records(record("session.error", **data)).failure_class == failure_class


def test_an_error_that_the_session_got_over_is_not_its_end() -> None:
    report = report_of_records(record("session.error", statusCode=500, message="broken"), assistant("done"))

    assert (report.failure_class, report.final_output) == (None, "done")
    assert [event.terminal for event in events(report, ErrorEvent)] == [False]


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([record("user.message", content="do it")], id="at the question"),
        pytest.param([assistant("working", "c1"), called("bash", command="sleep 9")], id="in a tool"),
        pytest.param([assistant("working", "c1")], id="before a tool"),
    ],
)
def test_a_session_that_stops_in_the_middle_crashed(records: list[dict[str, Any]]) -> None:
    report = report_of_records(*records)

    assert (report.failure_class, report.error) == ("target-crash", "the session ended without a result")


def test_a_run_that_printed_no_result_crashed() -> None:
    assert report_of("copilot", stdout=lines(assistant("done"))).failure_class == "target-crash"


def test_an_exit_code_of_the_result_is_a_failure() -> None:
    report = report_of("copilot", stdout=lines(assistant("done"), {"type": "result", "exitCode": 3}))

    assert (report.failure_class, report.error) == ("target-error", "the session ended with exit code 3")


def test_the_cause_of_a_failed_start_is_in_the_error() -> None:
    report = report_of("copilot", stdout="", stderr="a warning\nnot logged in\n")

    assert report.error == "the session ended without a result: not logged in"


def test_retries_are_reported() -> None:
    (retry,) = events(report_of("copilot", stdout=printed("copilot", "err500_once")), RetryEvent)

    assert (retry.attempt, retry.status, retry.message) == (1, 500, "api_error")


def test_retries_that_were_only_printed_are_added_to_the_log() -> None:
    both = report_of(
        "copilot",
        stdout=printed("copilot", "err500_once"),
        session=printed("copilot", "err500_once", "session.jsonl"),
    )

    assert len(events(both, RetryEvent)) == 1
    assert [event for event in both.events if event.kind != "retry"] == list(recorded("err500_once").events)


# What it did


def test_files_read_and_changed_are_reported() -> None:
    report = recorded("files")

    assert report.file_reads == ("notes.txt",)
    assert [(event.path, event.how, event.ok) for event in events(report, FileWriteEvent)] == [
        ("out.txt", "create", True),
        ("notes.txt", "edit", True),
    ]


def test_a_command_has_its_exit_code_and_its_output_without_the_shells_note() -> None:
    (command,) = events(recorded("fail"), CommandEvent)

    assert (command.exit_code, command.output) == (3, "to-stdout\nto-stderr")


def test_a_command_that_failed_is_an_error_though_the_tool_succeeded() -> None:
    shell, read = events(recorded("fail"), ToolResultEvent)

    assert (shell.tool, shell.is_error) == ("bash", True)
    assert (read.tool, read.is_error, read.output) == ("view", True, "Path does not exist")


@pytest.mark.parametrize(
    ("result", "exit_code", "output"),
    [
        pytest.param([agent_message("a\n<shellId: 0 completed with exit code 4>")], 4, "a", id="in the text"),
        pytest.param([agent_message("a\n<exited with exit code 4>")], 4, "a", id="in the text of older versions"),
        pytest.param([agent_message("a", shellExecution={"exitCode": 4})], 4, "a", id="beside it"),
        pytest.param([agent_message("still running")], None, None, id="not reported"),
        pytest.param([], None, None, id="no result"),
    ],
)
def test_exit_codes_are_found_in_every_place(
    result: list[dict[str, Any]], exit_code: int | None, output: str | None
) -> None:
    (command,) = events(report_of_records(called("bash", command="false"), *result, assistant("done")), CommandEvent)

    assert (command.exit_code, command.output) == (exit_code, output)


def test_a_skill_tool_is_an_explicit_skill() -> None:
    report = recorded("skill")

    assert [(event.skill, event.ok) for event in events(report, SkillEvent)] == [("demo-skill", True)]
    assert report.skills == (
        DetectedSkill(skill="demo-skill", confidence="explicit", evidence=("called the skill tool",)),
    )


def test_a_relative_path_begins_in_the_sessions_folder() -> None:
    begin = record("session.start", sessionId="s", context={"cwd": "/work"})

    report = report_of_records(begin, called("view", path="a.txt"), agent_message("text"), assistant("done"))

    assert [(event.path, event.ok) for event in events(report, FileReadEvent)] == [("a.txt", True)]


def test_a_tool_that_changes_several_files_reports_each() -> None:
    edits = [{"path": "/a", "kind": "create"}, {"path": "/b", "kind": "delete"}]

    report = report_of_records(
        called("apply_patch", input="…"), agent_message("ok", fileEdits=edits), assistant("done")
    )

    assert [(event.path, event.how) for event in events(report, FileWriteEvent)] == [("/a", "create"), ("/b", "delete")]


def test_a_tool_of_another_server_is_named_by_it() -> None:
    call = record("tool.execution_start", toolCallId="c1", toolName="x", mcpServerName="docs", mcpToolName="find")

    (event,) = events(report_of_records(call, agent_message("ok"), assistant("done")), ToolCallEvent)

    assert event.tool == "mcp:docs/find"


def test_a_killed_session_keeps_what_it_did() -> None:
    (command,) = events(recorded("tool_hang"), CommandEvent)

    assert (command.command, command.exit_code, command.output) == ("echo before-sleep; sleep 987", None, None)


def test_unknown_events_are_counted() -> None:
    report = report_of_records(record("hologram"), {"no": "type"}, assistant("done"))

    assert report.unknown_events == {"hologram": 1, "no type": 1}


@settings(deadline=None)
@given(st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))))
def test_no_text_makes_normalizing_fail(text: str) -> None:
    check_storable(report_of("copilot", stdout=text, session=text))


@settings(deadline=None)
@given(
    mutated(printed("copilot", "files", "session.jsonl"))
    | mutated(printed("copilot", "maxtok", "session.jsonl"))
    | mutated(printed("copilot", "err500_once"))
)
def test_no_change_of_a_recording_makes_normalizing_fail(text: str) -> None:
    check_storable(report_of("copilot", stdout=text))
    check_storable(report_of("copilot", session=text))
