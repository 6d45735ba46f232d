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
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline_tests.agents.recorded_sessions import (
    ANY_JSON,
    WORKSPACE,
    check_storable,
    lines,
    mutated,
    printed,
    report_of,
)

BEGUN = {"type": "turn.started"}
DONE: dict[str, Any] = {"type": "turn.completed", "usage": {}}
AT = "2026-04-03T10:00:01.000Z"


def recorded(scenario: str) -> SessionReport:
    return report_of("codex", stdout=printed("codex", scenario))


def with_rollout(scenario: str) -> SessionReport:
    return report_of("codex", stdout=printed("codex", scenario), session=printed("codex", scenario, "session.jsonl"))


def report_of_records(*records: dict[str, Any]) -> SessionReport:
    return report_of("codex", stdout=lines(*records))


def report_of_rollout(*records: dict[str, Any]) -> SessionReport:
    return report_of("codex", session=lines(*records))


def item(type_: str, id_: str = "item_1", *, stage: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{stage}", "item": {"id": id_, "type": type_, **fields}}


def command(text: str, *, exit_code: int | None = 0, output: str = "") -> dict[str, Any]:
    return item("command_execution", command=text, aggregated_output=output, exit_code=exit_code, status="completed")


def agent_message(text: str) -> dict[str, Any]:
    return item("agent_message", "item_9", text=text)


def response(type_: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "response_item", "payload": {"type": type_, **payload}}


def event(type_: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": AT, "type": "event_msg", "payload": {"type": type_, **payload}}


def counted(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    return event(
        "token_count", info={"total_token_usage": {"input_tokens": input_tokens, "output_tokens": output_tokens}}
    )


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


# The answer, and what the session was


def test_a_printed_session_has_its_answer_and_usage() -> None:
    report = recorded("skill")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario skill."
    assert (report.failure_class, report.error) == (None, None)
    assert report.session_id == "01a1ffe4-da22-79e2-8bf7-5fd98ace0962"
    assert report.usage == Usage(
        input_tokens=2100, cached_input_tokens=256, cache_write_tokens=0, output_tokens=101, reasoning_tokens=16
    )
    assert (report.model, report.model_calls, report.agent_version) == (None, None, None)
    assert (report.unknown_events, report.unparsed_lines) == ({}, 0)


def test_a_rollout_has_model_version_and_calls() -> None:
    report = with_rollout("patch")

    assert (report.model, report.agent_version, report.model_calls) == ("gpt-5.5", "0.169.0", 5)
    assert report.usage.input_tokens == 6000
    assert report.ttft_ms is not None
    assert report.unknown_events == {}


def test_the_last_message_is_final_and_those_before_are_commentary() -> None:
    messages = events(with_rollout("patch"), MessageEvent)

    spoken = [message.phase for message in messages if message.role == "assistant"]
    assert spoken == ["thinking", *["commentary"] * 4, "final"]


def test_an_empty_answer_is_no_answer() -> None:
    report = recorded("empty")

    assert (report.final_output, report.failure_class) == (None, None)


def test_only_messages_of_the_user_are_the_users() -> None:
    messages = [message for message in events(with_rollout("patch"), MessageEvent) if message.role == "user"]

    assert [message.injected for message in messages] == [True, False]
    assert messages[1].text == "Please do the task. [[stub:files]]"


def test_usage_and_events_of_a_resumed_thread_are_those_of_this_run() -> None:
    report = with_rollout("resume")

    assert (report.usage.input_tokens, report.usage.output_tokens, report.model_calls) == (1000, 50, 1)
    assert report.commands == ()
    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario plain."


def test_without_a_rollout_usage_of_a_resumed_thread_is_the_whole_threads() -> None:
    assert recorded("resume").usage.input_tokens == 3100


def test_a_count_of_the_thread_is_lessened_by_what_earlier_turns_took() -> None:
    started = event("task_started")
    rollout = lines(
        started, counted(100, 10), started, counted(150, 30), response("message", role="assistant", text="x")
    )

    report = report_of("codex", stdout=lines(BEGUN, agent_message("x"), DONE), session=rollout)

    assert (report.usage.input_tokens, report.usage.output_tokens) == (50, 20)


# How it can end


@pytest.mark.parametrize(
    ("scenario", "failure_class"),
    [
        ("auth401", "authentication"),
        ("badmodel", "model-rejected"),
        ("err_midstream", "server-error"),
        ("maxtok", "truncated"),
        ("tool_hang", "target-crash"),
    ],
)
def test_a_session_that_failed_has_a_class_and_no_answer(scenario: str, failure_class: str) -> None:
    report = recorded(scenario)

    assert report.failure_class == failure_class
    assert report.error
    assert report.final_output is None
    assert report.usage == Usage()


@pytest.mark.parametrize(
    ("message", "failure_class"),
    [
        pytest.param("unexpected status 503 Service Unavailable: busy", "server-error", id="status"),
        pytest.param("exceeded retry limit, last status: 429 Too Many Requests", "rate-limited", id="last status"),
        pytest.param("The model `x` does not exist or you do not have access to it.", "model-rejected", id="model"),
        pytest.param("Codex ran out of room in the model's context window.", "bad-request", id="too long"),
        pytest.param("Incomplete response returned, reason: max_output_tokens", "truncated", id="cut"),
        pytest.param("You've hit your usage limit.", "rate-limited", id="usage limit"),
        pytest.param('{"error": {"type": "invalid_request_error"}}', "bad-request", id="the provider's JSON"),
        pytest.param("stream disconnected: Transport error: network error", "connection", id="network"),
        pytest.param("We’re currently experiencing high demand", "server-error", id="high demand"),
        pytest.param("Invalid value for 'stub'.", "bad-request", id="the provider's own words"),
    ],
)
def test_a_failure_is_classed_by_its_text(message: str, failure_class: str) -> None:
    report = report_of_records(
        BEGUN, {"type": "error", "message": message}, {"type": "turn.failed", "error": {"message": message}}
    )

    assert (report.failure_class, report.error) == (failure_class, message)
    assert [(error.message, error.terminal) for error in events(report, ErrorEvent)] == [(message, True)]


def test_what_was_retried_is_the_providers_fault() -> None:
    retried = {"type": "error", "message": "Reconnecting... 1/5 (odd)"}

    report = report_of_records(BEGUN, retried, {"type": "turn.failed", "error": {"message": "odd"}})

    assert report.failure_class == "server-error"


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [
        pytest.param("model_not_found", "model-rejected", id="kind"),
        pytest.param({"http_connection_failed": {"http_status_code": 401}}, "authentication", id="status in the kind"),
        pytest.param("other", "timeout", id="a kind that tells nothing"),
        pytest.param(["odd"], "timeout", id="no kind at all"),
    ],
)
def test_a_rollout_classes_a_failure_by_its_kind(kind: Any, failure_class: str) -> None:
    error = {"message": "request timed out", "codex_error_info": kind}

    report = report_of_rollout(
        event("task_started"), response("message", role="user", text="x"), event("task_complete", error=error)
    )

    assert (report.failure_class, report.error) == (failure_class, "request timed out")


def test_an_aborted_turn_was_cancelled() -> None:
    report = report_of_rollout(
        response("message", role="assistant", text="working"), event("turn_aborted", reason="interrupted")
    )

    assert (report.failure_class, report.final_output) == ("cancelled", None)


def test_an_error_that_success_follows_is_none() -> None:
    report = report_of_records(BEGUN, {"type": "error", "message": "odd"}, agent_message("done"), DONE)

    assert (report.failure_class, report.final_output) == (None, "done")
    assert [error.terminal for error in events(report, ErrorEvent)] == [False]


def test_an_error_that_nothing_follows_ended_the_session() -> None:
    report = report_of_records(BEGUN, {"type": "error", "message": "unexpected status 500"})

    assert (report.failure_class, report.final_output) == ("server-error", None)


def test_retries_are_reported_with_their_status() -> None:
    retries = events(recorded("auth401"), RetryEvent)

    assert [(retry.attempt, retry.limit, retry.status) for retry in retries] == [(n, 5, 401) for n in range(1, 6)]


def test_printed_retries_complete_a_rollout() -> None:
    report = with_rollout("retried")

    (retry,) = events(report, RetryEvent)
    assert (retry.attempt, retry.status) == (1, 429)
    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario err429_once."


def test_thoughts_repeated_by_retries_are_reported_once() -> None:
    assert len(events(recorded("err_midstream"), MessageEvent)) == 1


def test_a_command_that_was_killed_never_finished() -> None:
    (command,) = events(recorded("tool_hang"), CommandEvent)

    assert (command.command, command.exit_code, command.output) == ("echo before-sleep; sleep 987", None, None)


# What it did


def test_a_printed_command_is_a_call_a_command_and_a_result() -> None:
    report = recorded("fail")

    first, second = events(report, CommandEvent)
    assert (first.command, first.exit_code, first.output) == (
        "echo to-stdout; echo to-stderr >&2; exit 3",
        3,
        "to-stdout\nto-stderr\n",
    )
    assert second.exit_code == 1
    assert [call.tool for call in report.tool_calls] == ["command_execution"] * 2
    assert [result.is_error for result in events(report, ToolResultEvent)] == [True, True]
    assert [(read.path, read.ok) for read in events(report, FileReadEvent)] == [("does-not-exist.txt", False)]


def test_a_rollout_names_the_tools_that_the_model_called() -> None:
    report = with_rollout("patch")

    assert [call.tool for call in report.tool_calls] == ["exec_command", "exec_command", "apply_patch", "apply_patch"]
    assert report.commands == ("cat notes.txt", "wc -l notes.txt")
    assert report.file_reads == ("notes.txt",)
    assert [(write.path, write.how, write.ok) for write in events(report, FileWriteEvent)] == [
        ("out.txt", "create", True),
        ("notes.txt", "edit", True),
    ]


def test_printed_patches_are_writes() -> None:
    report = report_of("codex", stdout=printed("codex", "patch"), cwd=WORKSPACE)

    assert [(write.path, write.how, write.ok) for write in events(report, FileWriteEvent)] == [
        ("out.txt", "create", True),
        ("notes.txt", "edit", True),
    ]


def test_what_a_script_of_code_mode_ran_are_commands_of_no_tool() -> None:
    report = with_rollout("code_mode")

    assert [call.tool for call in report.tool_calls] == ["exec", "exec"]
    assert [(command.command, command.exit_code) for command in events(report, CommandEvent)] == [
        ("echo to-stdout; echo to-stderr >&2; exit 3", 3),
        ("cat does-not-exist.txt", 1),
    ]


def test_a_call_that_is_not_printed_is_in_the_rollout() -> None:
    request_item = response("function_call", name="no_such_tool", call_id="c", arguments='{"x": 1}')
    refused = response("function_call_output", call_id="c", output="unsupported call: no_such_tool")

    report = report_of("codex", stdout=printed("codex", "unknown_tool"), session=lines(request_item, refused))

    (call,), (result,) = events(report, ToolCallEvent), events(report, ToolResultEvent)
    assert (call.tool, call.arguments) == ("no_such_tool", {"x": 1})
    assert (result.tool, result.is_error) == ("no_such_tool", True)


def test_other_servers_tools_and_searches_are_calls() -> None:
    request_item: dict[str, Any] = {"server": "docs", "tool": "find", "arguments": {"q": 1}}
    report = report_of_records(
        BEGUN,
        item("mcp_tool_call", "a", stage="started", status="in_progress", **request_item),
        item(
            "mcp_tool_call",
            "a",
            status="completed",
            result={"content": [{"type": "text", "text": "hit"}]},
            **request_item,
        ),
        item("web_search", "b", query="python"),
        DONE,
    )

    assert [(call.tool, call.arguments) for call in report.tool_calls] == [
        ("mcp:docs/find", {"q": 1}),
        ("web_search", "python"),
    ]
    assert [(result.output, result.is_error) for result in events(report, ToolResultEvent)] == [("hit", False)]


def test_a_printed_path_is_as_the_command_gave_it_when_no_folder_is_known() -> None:
    assert recorded("skill").file_reads == (".agents/skills/demo-skill/SKILL.md",)


def test_a_path_begins_where_its_command_ran() -> None:
    report = report_of_rollout(
        {"type": "session_meta", "payload": {"cwd": "/sess"}},
        response("function_call", name="exec_command", call_id="a", arguments='{"cmd": "cat x", "workdir": "sub"}'),
        response("function_call", name="shell", call_id="b", arguments='{"command": ["bash", "-lc", "cat y"]}'),
    )

    assert report.file_reads == ("sub/x", "y")


def test_a_skill_is_used_by_reading_it() -> None:
    assert recorded("skill").skills == (
        DetectedSkill(skill="demo-skill", confidence="strong", evidence=("read .agents/skills/demo-skill/SKILL.md",)),
    )


def test_a_skill_that_could_not_be_read_was_not_used() -> None:
    report = report_of_records(BEGUN, command("/bin/bash -lc 'cat skills/pdf/SKILL.md'", exit_code=1), DONE)

    assert [event.kind for event in report.events if event.kind == "skill"] == ["skill"]
    assert report.skills == ()


# Older shapes


def test_the_first_shape_of_the_stream_is_read() -> None:
    report = report_of_records(
        {"workdir": "/w", "model": "o4"},
        {"prompt": "do it"},
        {"id": "0", "msg": {"type": "task_started"}},
        {"id": "0", "msg": {"type": "agent_reasoning", "text": "hm"}},
        {
            "id": "0",
            "msg": {"type": "exec_command_begin", "call_id": "c", "command": ["bash", "-lc", "cat a"], "cwd": "/w"},
        },
        {"id": "0", "msg": {"type": "exec_command_end", "call_id": "c", "stdout": "A", "stderr": "", "exit_code": 0}},
        {
            "id": "0",
            "msg": {"type": "patch_apply_begin", "call_id": "p", "changes": {"/w/b": {"add": {"content": ""}}}},
        },
        {"id": "0", "msg": {"type": "patch_apply_end", "call_id": "p", "success": True}},
        {"id": "0", "msg": {"type": "token_count", "input_tokens": 7, "output_tokens": 3}},
        {"id": "0", "msg": {"type": "agent_message", "message": "done"}},
        {"id": "0", "msg": {"type": "task_complete", "last_agent_message": "done"}},
    )

    assert (report.final_output, report.failure_class) == ("done", None)
    assert [(run.command, run.exit_code, run.output) for run in events(report, CommandEvent)] == [("cat a", 0, "A")]
    assert report.file_reads == ("/w/a",)
    assert [(write.path, write.how, write.ok) for write in events(report, FileWriteEvent)] == [("/w/b", "create", True)]
    assert (report.usage.input_tokens, report.usage.output_tokens) == (7, 3)


def test_the_second_shape_of_the_stream_is_read() -> None:
    report = report_of_records(
        {"type": "session.created", "session_id": "s"},
        {"type": "item.completed", "item": {"id": "a", "item_type": "assistant_message", "text": "done"}},
        DONE,
    )

    assert (report.final_output, report.session_id) == ("done", "s")


def test_a_retry_of_an_older_stream_is_a_retry() -> None:
    message = "stream error: stream disconnected; retrying 2/5 in 1.5s…"

    (retry,) = events(report_of_records({"id": "0", "msg": {"type": "stream_error", "message": message}}), RetryEvent)

    assert (retry.attempt, retry.limit, retry.delay_ms) == (2, 5, 1500.0)


def test_a_rollout_without_turns_ends_with_its_last_message() -> None:
    report = report_of_rollout(
        event("agent_message", message="working"),
        response("message", role="assistant", phase="commentary", content=[{"type": "output_text", "text": "working"}]),
        response("message", role="developer", content=[{"type": "input_text", "text": "rules"}]),
        response("message", role="assistant", phase="final_answer", text="final"),
        event("agent_message", message="final"),
    )

    assert (report.final_output, report.failure_class) == ("final", None)
    assert [(message.text, message.phase, message.at) for message in events(report, MessageEvent)] == [
        ("working", "commentary", AT),
        ("final", "final", AT),
    ]


def test_a_result_that_names_its_command_adds_it() -> None:
    output = "Command: /bin/zsh -lc \"sed -n '1,200p' README.md && cat b.txt\"\nOutput: ok"

    report = report_of_rollout(
        {"type": "session_meta", "payload": {"cwd": "/w"}}, response("function_call_output", output=output)
    )

    assert report.commands == ("sed -n '1,200p' README.md && cat b.txt",)
    assert report.file_reads == ("README.md", "b.txt")


def test_variants_of_a_call_are_calls() -> None:
    report = report_of_rollout(
        response("function_call", tool="t", args={"a": 1}, callId="x"),
        response("function_call", name="n", arguments="not json", call_id="y"),
        response("function_call_output", call_id="x", output={"content": "o"}),
        response("function_call_output", call_id="z", output='{"output": "A", "metadata": {"exit_code": 2}}'),
    )

    assert [(call.tool, call.arguments) for call in report.tool_calls] == [("t", {"a": 1}), ("n", "not json")]
    assert [(result.tool, result.output, result.is_error) for result in events(report, ToolResultEvent)] == [
        ("t", '{"content":"o"}', None),
        (None, '{"output": "A", "metadata": {"exit_code": 2}}', True),
    ]


# Shapes nobody promised


def test_what_is_unknown_is_counted_and_nothing_fails() -> None:
    report = report_of_records({"type": "hologram"}, item("hologram"), {"x": 1}, BEGUN, agent_message("done"), DONE)

    assert report.unknown_events == {"hologram": 1, "item/hologram": 1, "no type": 1}
    assert report.final_output == "done"


def test_lines_that_cannot_be_read_are_counted() -> None:
    report = report_of("codex", stdout="Reading…\n" + lines(BEGUN, agent_message("done"), DONE), session="{cut")

    assert (report.unparsed_lines, report.final_output) == (2, "done")


@settings(deadline=None)
@given(st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))))
def test_no_text_makes_normalizing_fail(text: str) -> None:
    check_storable(report_of("codex", stdout=text))
    check_storable(report_of("codex", session=text))


@settings(deadline=None)
@given(mutated(printed("codex", "patch")), mutated(printed("codex", "patch", "session.jsonl")))
def test_no_change_of_a_recording_makes_normalizing_fail(stdout: str, session: str) -> None:
    check_storable(report_of("codex", stdout=stdout))
    check_storable(report_of("codex", stdout=stdout, session=session))


@settings(deadline=None)
@given(mutated(printed("codex", "code_mode", "session.jsonl")), mutated(printed("codex", "auth401")))
def test_no_change_of_a_failed_recording_makes_normalizing_fail(session: str, stdout: str) -> None:
    check_storable(report_of("codex", session=session))
    check_storable(report_of("codex", stdout=stdout, session=session))


def test_a_comment_with_the_words_of_the_answer_is_not_the_answer() -> None:
    report = report_of_rollout(
        response("message", role="assistant", phase="final_answer", content=[{"type": "output_text", "text": "done"}]),
        response("function_call", name="shell", call_id="c1", arguments="{}"),
        response("message", role="assistant", phase="commentary", content=[{"type": "output_text", "text": "done"}]),
    )

    assert [message.phase for message in events(report, MessageEvent)] == ["final", "commentary"]
