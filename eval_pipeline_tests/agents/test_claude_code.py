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

ANSWER = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}


def recorded(scenario: str) -> SessionReport:
    return report_of("claude-code", stdout=printed("claude", scenario))


def report_of_records(*records: dict[str, Any]) -> SessionReport:
    return report_of("claude-code", stdout=lines(*records))


def assistant(*blocks: dict[str, Any], **record: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"id": "m1", "model": "claude-x", "content": list(blocks)}, **record}


def tool_use(name: str, call_id: str = "t1", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def tool_result(content: Any, call_id: str = "t1", **block: Any) -> dict[str, Any]:
    content = {"type": "tool_result", "tool_use_id": call_id, "content": content, **block}
    return {"type": "user", "message": {"role": "user", "content": [content]}}


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def events(report: SessionReport, kind: type[Any]) -> list[Any]:
    return [event for event in report.events if isinstance(event, kind)]


# The answer, and what the session was


def test_a_session_has_an_answer_and_facts() -> None:
    report = recorded("files")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario files."
    assert (report.failure_class, report.error) == (None, None)
    assert (report.model, report.agent_version) == ("stub-model", "2.1.330")
    assert report.session_id == "028188fc-7fc1-42a5-a522-511501283f99"
    assert (report.model_calls, report.ttft_ms) == (5, 471.0)
    assert (report.unknown_events, report.unparsed_lines) == ({}, 0)


def test_the_last_message_is_final_and_those_before_are_commentary() -> None:
    messages = events(recorded("files"), MessageEvent)

    assert [message.phase for message in messages] == ["thinking", *["commentary"] * 4, "final"]


def test_an_empty_answer_is_no_answer() -> None:
    report = recorded("empty")

    assert (report.final_output, report.failure_class) == (None, None)


def test_a_session_printed_as_one_object_has_its_answer() -> None:
    report = recorded("json_single")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario plain."
    assert (report.usage.input_tokens, report.usage.output_tokens) == (1000, 50)
    assert (report.model, report.events, report.model_calls) == ("stub-model", (), None)


def test_a_session_printed_as_one_list_is_read_like_a_stream() -> None:
    stream = report_of_records(assistant(text_block("done")), ANSWER)

    report = report_of("claude-code", stdout=json.dumps([assistant(text_block("done")), ANSWER]))

    assert report.final_output == stream.final_output
    assert [event.kind for event in report.events] == ["message"]


def test_events_come_from_the_transcript_when_the_stream_has_none() -> None:
    answer = printed("claude", "json_single")

    report = report_of("claude", stdout=answer, session=printed("claude", "plain", "session.jsonl"))

    assert [(event.role, event.phase) for event in events(report, MessageEvent)] == [
        ("user", None),
        ("assistant", "thinking"),
        ("assistant", "final"),
    ]
    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario plain."
    assert (report.model, report.agent_version, report.model_calls) == ("stub-model", "2.1.330", 1)
    assert report.unknown_events == {}


def test_a_transcript_adds_nothing_to_a_stream_that_has_events() -> None:
    stream = printed("claude", "plain")

    both = report_of("claude-code", stdout=stream, session=printed("claude", "plain", "session.jsonl"))

    assert both.events == report_of("claude-code", stdout=stream).events


def test_a_structured_answer_is_kept_as_json() -> None:
    report = report_of_records({**ANSWER, "result": "", "structured_output": {"answer": 42}})

    assert report.final_output == '{"answer":42}'


def test_the_last_of_two_results_counts() -> None:
    assert report_of_records({**ANSWER, "result": "one"}, {**ANSWER, "result": "two"}).final_output == "two"


# Usage and cost


def test_input_holds_cache_reads_and_writes() -> None:
    assert recorded("files").usage == Usage(
        input_tokens=6000,
        cached_input_tokens=1024,
        cache_write_tokens=320,
        output_tokens=260,
        reasoning_tokens=None,
    )


def test_usage_of_assistant_records_is_no_usage() -> None:
    record = assistant(text_block("working"))
    record["message"]["usage"] = {"input_tokens": 1000, "output_tokens": 1}

    assert report_of_records(record).usage == Usage()


def test_a_result_without_usage_leaves_usage_unknown() -> None:
    assert report_of_records(ANSWER).usage == Usage()


@pytest.mark.parametrize(
    ("shown", "reported", "known"),
    [
        pytest.param([{"type": "thinking", "thinking": "hm"}], 0, None, id="thought but not counted"),
        pytest.param([{"type": "redacted_thinking", "data": "x"}], 0, None, id="thought in secret"),
        pytest.param([{"type": "thinking", "thinking": "hm"}], 7, 7, id="counted"),
        pytest.param([text_block("done")], 0, 0, id="did not think"),
        pytest.param([], 0, None, id="nothing shown"),
    ],
)
def test_thinking_tokens_are_believed_when_they_can_be(shown: list[Any], reported: int, known: int | None) -> None:
    usage = {"input_tokens": 5, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": reported}}
    record = [assistant(*shown)] if shown else []

    assert report_of_records(*record, {**ANSWER, "usage": usage}).usage.reasoning_tokens == known


@pytest.mark.parametrize(
    ("result", "cost"),
    [
        pytest.param({"total_cost_usd": 0.5}, 0.5, id="reported"),
        pytest.param({"cost_usd": 0.25}, 0.25, id="by its older name"),
        pytest.param({"total_cost_usd": -1}, None, id="not a cost"),
        pytest.param({"total_cost_usd": 0.5, "modelUsage": {"x": {"costBasis": "unknown"}}}, None, id="made up"),
        pytest.param(
            {"total_cost_usd": 0.5, "model_usage_since_last_result": {"x": {"costUSD": 0.2}, "y": {"costUSD": 0.1}}},
            pytest.approx(0.3),
            id="of this run, not of the resumed session",
        ),
    ],
)
def test_cost_is_what_this_run_is_known_to_have_cost(result: dict[str, Any], cost: Any) -> None:
    usage = report_of_records({**ANSWER, **result}).usage

    assert usage.cost_usd == cost
    assert usage.cost_source == (None if cost is None else "reported")


# How it can end


@pytest.mark.parametrize(
    ("scenario", "failure_class"),
    [("auth401", "authentication"), ("max_turns", "max-steps"), ("maxtok", "truncated"), ("tool_hang", "target-crash")],
)
def test_a_session_that_failed_has_a_class_and_no_answer(scenario: str, failure_class: str) -> None:
    report = recorded(scenario)

    assert report.failure_class == failure_class
    assert report.error
    assert report.final_output is None


@pytest.mark.parametrize(
    ("result", "failure_class"),
    [
        pytest.param({"terminal_reason": "budget_exhausted"}, "max-steps", id="budget"),
        pytest.param({"subtype": "error_max_turns", "is_error": None}, "max-steps", id="by subtype alone"),
        pytest.param({"terminal_reason": "prompt_too_long", "api_error_status": 400}, "bad-request", id="too long"),
        pytest.param({"terminal_reason": "aborted_tools"}, "cancelled", id="interrupted"),
        pytest.param({"api_error_status": 400}, "bad-request", id="400"),
        pytest.param({"api_error_status": 404}, "model-rejected", id="404"),
        pytest.param({"api_error_status": 429}, "rate-limited", id="429"),
        pytest.param({"api_error_status": 529}, "server-error", id="529"),
        pytest.param({"result": "API Error: 500 broken"}, "server-error", id="status in the text"),
        pytest.param({"result": "API Error: Request rejected (429) · slow down"}, "rate-limited", id="in brackets"),
        pytest.param({"result": "Not logged in · Please run /login"}, "authentication", id="not logged in"),
        pytest.param({"result": "API Error: Connection error."}, "connection", id="connection"),
        pytest.param({"result": "API Error: Request timed out."}, "timeout", id="time"),
        pytest.param({"result": "API Error: empty or malformed response"}, "server-error", id="malformed"),
        pytest.param({"result": "something else"}, "target-error", id="anything else"),
    ],
)
def test_a_failure_is_classed_by_its_most_specific_fact(result: dict[str, Any], failure_class: str) -> None:
    report = report_of_records({**ANSWER, "is_error": True, **result})

    assert report.failure_class == failure_class
    assert report.final_output is None


def test_the_kind_of_api_error_classes_a_failure_without_status() -> None:
    error = assistant(text_block("no such model"), error="model_not_found", is_api_error_message=True)
    error["message"]["model"] = "<synthetic>"

    report = report_of_records(error, {**ANSWER, "is_error": True, "result": "no such model"})

    assert report.failure_class == "model-rejected"
    assert [(event.message, event.terminal) for event in events(report, ErrorEvent)] == [("no such model", True)]


def test_the_text_of_an_error_is_an_error_and_no_message() -> None:
    report = recorded("auth401")

    (error,) = events(report, ErrorEvent)
    assert (error.message, error.status, error.terminal) == (report.error, 401, True)
    assert events(report, MessageEvent) == []


def test_zeros_of_a_failed_session_are_unknown() -> None:
    assert recorded("auth401").usage == Usage()


def test_tokens_of_a_failed_session_that_were_counted_are_kept() -> None:
    usage = recorded("max_turns").usage

    assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == (3300, 512, 153)


def test_a_killed_session_keeps_what_it_did() -> None:
    report = recorded("tool_hang")

    assert report.error == "the session ended without a result"
    assert report.usage == Usage()
    assert [(event.command, event.exit_code) for event in events(report, CommandEvent)] == [
        ("echo before-sleep; sleep 987", 137)
    ]


def test_the_cause_of_a_failed_start_is_in_the_error() -> None:
    report = report_of("claude-code", stdout="", stderr="a warning\nnot allowed as root\n")

    assert (report.failure_class, report.error) == (
        "target-crash",
        "the session ended without a result: not allowed as root",
    )


def test_retries_are_reported() -> None:
    (retry,) = events(recorded("err500_once"), RetryEvent)

    assert (retry.attempt, retry.limit, retry.delay_ms, retry.status) == (1, 10, 544.0, 500)


def test_retries_are_reported_from_a_transcript_too() -> None:
    record = {
        "type": "system", "subtype": "api_error", "retryAttempt": 2, "maxRetries": 10, "retryInMs": 9.5,
        "error": {"status": 429, "formatted": "slow down"},
    }  # fmt: skip

    (retry,) = events(report_of_records(record, ANSWER), RetryEvent)

    assert (retry.attempt, retry.limit, retry.delay_ms, retry.status, retry.message) == (2, 10, 9.5, 429, "slow down")


# What it did


def test_a_call_and_its_result_are_reported_at_their_lines() -> None:
    report = recorded("unknown_tool")

    (call,), (result,) = events(report, ToolCallEvent), events(report, ToolResultEvent)
    assert (call.tool, call.arguments, call.line) == ("no_such_tool", {"x": 1}, 7)
    assert (result.tool, result.call_id, result.is_error, result.line) == ("no_such_tool", call.call_id, True, 8)


def test_results_are_paired_by_id_in_whatever_order_they_come() -> None:
    report = recorded("parallel")

    (command,), (read,) = events(report, CommandEvent), events(report, FileReadEvent)
    assert (command.exit_code, command.output) == (0, "first")
    assert (read.path, read.ok) == ("notes.txt", True)


def test_exit_codes_and_output_come_from_the_text_of_the_result() -> None:
    report = recorded("fail")

    (command,), (read,) = events(report, CommandEvent), events(report, FileReadEvent)
    assert (command.exit_code, command.output) == (3, "to-stdout\nto-stderr")
    assert read.ok is False


@pytest.mark.parametrize(
    ("arguments", "result", "exit_code", "output"),
    [
        pytest.param({}, tool_result("fine"), 0, "fine", id="success"),
        pytest.param({}, tool_result("Exit code 2\nno", is_error=True), 2, "no", id="exit code"),
        pytest.param({}, tool_result("Exit code 1", is_error=True), 1, "", id="exit code without output"),
        pytest.param(
            {}, tool_result("Exit code 2 is what I print"), 0, "Exit code 2 is what I print", id="its own words"
        ),
        pytest.param({}, tool_result("Command timed out", is_error=True), None, "Command timed out", id="no code"),
        pytest.param({}, tool_result("<tool_use_error>no</tool_use_error>", is_error=True), None, None, id="not run"),
        pytest.param({"run_in_background": True}, tool_result("running"), None, None, id="in the background"),
        pytest.param(
            {}, {**tool_result("cut"), "tool_use_result": {"interrupted": True}}, None, "cut", id="interrupted"
        ),
        pytest.param(
            {},
            {**tool_result("no", is_error=True), "tool_result_meta": [{"id": "t1", "non_execution_kind": "x"}]},
            None,
            None,
            id="refused",
        ),
        pytest.param({}, tool_result("of another call", "t2"), None, None, id="never finished"),
    ],
)
def test_a_command_has_the_exit_code_it_is_known_to_have(
    arguments: dict[str, Any], result: dict[str, Any], exit_code: int | None, output: str | None
) -> None:
    report = report_of_records(assistant(tool_use("Bash", command="make", **arguments)), result, ANSWER)

    (command,) = events(report, CommandEvent)
    assert (command.exit_code, command.output) == (exit_code, output)


def test_reads_and_writes_have_whole_paths() -> None:
    report = recorded("files")

    assert report.file_reads == ("notes.txt",)
    assert [(write.path, write.how, write.ok) for write in events(report, FileWriteEvent)] == [
        ("out.txt", "create", True),
        ("notes.txt", "edit", True),
    ]


def test_a_relative_path_begins_where_the_session_does() -> None:
    init = {"type": "system", "subtype": "init", "cwd": "/proj"}

    report = report_of_records(init, assistant(tool_use("Read", file_path="./a/../b.txt")), ANSWER)

    assert events(report, FileReadEvent)[0].path == "b.txt"
    assert events(report, FileReadEvent)[0].ok is None


@pytest.mark.parametrize("tool", ["Edit", "MultiEdit", "NotebookEdit"])
def test_every_editing_tool_writes_its_file(tool: str) -> None:
    report = report_of_records(
        assistant(tool_use(tool, notebook_path="/a.ipynb")), tool_result("no", is_error=True), ANSWER
    )

    (write,) = events(report, FileWriteEvent)
    assert (write.path, write.how, write.ok) == ("/a.ipynb", "edit", False)


def test_writing_over_a_file_edits_it() -> None:
    result = {**tool_result("ok"), "tool_use_result": {"type": "update"}}

    report = report_of_records(assistant(tool_use("Write", file_path="/a")), result, ANSWER)

    assert events(report, FileWriteEvent)[0].how == "edit"


def test_a_tool_without_its_arguments_is_a_call_and_nothing_more() -> None:
    report = report_of_records(
        assistant(*(tool_use(name, name) for name in ("Bash", "Read", "Write", "Skill"))), ANSWER
    )

    assert {event.kind for event in report.events} == {"tool_call"}


# Skills


def test_the_skill_tool_is_explicit() -> None:
    assert recorded("skill").skills == (DetectedSkill(skill="demo-skill", confidence="explicit", evidence=SKILL_TOOL),)


def test_reading_a_skill_file_is_strong() -> None:
    report = report_of_records(
        assistant(tool_use("Read", file_path="/w/skills/pdf/SKILL.md")), tool_result("text"), ANSWER
    )

    assert report.skills == (
        DetectedSkill(skill="pdf", confidence="strong", evidence=("read /w/skills/pdf/SKILL.md",)),
    )


def test_several_signs_of_one_skill_are_one_skill() -> None:
    report = report_of_records(
        assistant(tool_use("Read", "t1", file_path="/w/skills/pdf/SKILL.md")),
        assistant(tool_use("Skill", "t2", skill="pdf")),
        ANSWER,
    )

    assert [(skill.skill, skill.confidence, len(skill.evidence)) for skill in report.skills] == [("pdf", "explicit", 2)]


def test_a_skill_that_failed_to_load_was_tried_and_not_used() -> None:
    report = report_of_records(
        assistant(tool_use("Skill", skill="pdf")), tool_result("unknown skill", is_error=True), ANSWER
    )

    assert [(event.skill, event.ok) for event in events(report, SkillEvent)] == [("pdf", False)]
    assert report.skills == ()


def test_a_skill_file_in_the_working_folder_itself_names_no_skill() -> None:
    init = {"type": "system", "subtype": "init", "cwd": "/proj"}

    report = report_of_records(init, assistant(tool_use("Read", file_path="SKILL.md")), ANSWER)

    assert report.skills == ()


SKILL_TOOL = ("called the skill tool",)


# Whose words


@pytest.mark.parametrize(
    ("record", "injected"),
    [
        pytest.param({"isSynthetic": True}, True, id="synthetic"),
        pytest.param({"isMeta": True}, True, id="meta"),
        pytest.param({"parent_tool_use_id": "t1"}, True, id="asked of a subagent"),
        pytest.param({}, False, id="the user's own"),
    ],
)
def test_text_in_the_users_role_is_the_users_unless_the_cli_put_it_there(
    record: dict[str, Any], injected: bool
) -> None:
    report = report_of_records({"type": "user", "message": {"role": "user", "content": "go on"}, **record}, ANSWER)

    assert [(event.text, event.injected) for event in events(report, MessageEvent)] == [("go on", injected)]


def test_an_interruption_is_reported_by_the_cli() -> None:
    report = report_of_records({"type": "user", "message": {"content": [text_block("[Request interrupted by user]")]}})

    assert events(report, MessageEvent)[0].injected


def test_what_a_subagent_does_is_kept_and_its_text_is_not_the_answer() -> None:
    report = report_of_records(
        assistant(text_block("done")),
        assistant(text_block("from below"), tool_use("Bash", command="ls"), parent_tool_use_id="t0"),
        ANSWER,
    )

    assert [(event.text, event.phase) for event in events(report, MessageEvent)] == [
        ("done", "final"),
        ("from below", "commentary"),
    ]
    assert report.commands == ("ls",)


# Shapes nobody promised


def test_what_is_unknown_is_counted_and_nothing_fails() -> None:
    report = report_of_records(
        {"type": "system", "subtype": "brand_new"},
        {"type": "hologram"},
        {"no": "type"},
        {"type": "stream_event", "event": {}},
        assistant({"type": "hologram"}),
        ANSWER,
    )

    assert report.unknown_events == {"system/brand_new": 1, "hologram": 1, "no type": 1, "assistant/hologram": 1}
    assert report.final_output == "done"


def test_lines_that_cannot_be_read_are_counted() -> None:
    stdout = "warning: hello\n\n[1, 2]\n" + lines(ANSWER) + '{"type": "assi'

    report = report_of("claude-code", stdout=stdout)

    assert (report.unparsed_lines, report.final_output) == (3, "done")


def test_half_a_character_does_not_cost_the_line() -> None:
    stdout = '{"type":"result","is_error":false,"result":"cut \\ud83d"}'

    report = report_of("claude-code", stdout=stdout)

    assert (report.final_output or "").startswith("cut ")
    check_storable(report)


def test_a_record_printed_twice_is_reported_once() -> None:
    report = report_of_records(assistant(text_block("done"), uuid="u"), assistant(text_block("done"), uuid="u"), ANSWER)

    assert len(report.events) == 1


@pytest.mark.parametrize(
    ("content", "output"),
    [
        pytest.param("text", "text", id="text"),
        pytest.param([text_block("a"), text_block("b")], "a\nb", id="parts"),
        pytest.param([{"type": "image", "source": {"data": "…"}}], "[image]", id="image"),
        pytest.param([{"type": "reference", "name": "x"}], '{"type":"reference","name":"x"}', id="another part"),
        pytest.param({"a": 1}, '{"a":1}', id="object"),
        pytest.param(None, "", id="nothing"),
    ],
)
def test_any_content_of_a_result_is_text(content: Any, output: str) -> None:
    (result,) = events(report_of_records(tool_result(content), ANSWER), ToolResultEvent)

    assert (result.output, result.tool) == (output, None)


@settings(deadline=None)
@given(st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))))
def test_no_text_makes_normalizing_fail(stdout: str) -> None:
    check_storable(report_of("claude-code", stdout=stdout, session=stdout))


@settings(deadline=None)
@given(
    mutated(printed("claude", "files"))
    | mutated(printed("claude", "maxtok"))
    | mutated(printed("claude", "err500_once"))
    | mutated(printed("claude", "skill"))
)
def test_no_change_of_a_recording_makes_normalizing_fail(stdout: str) -> None:
    check_storable(report_of("claude-code", stdout=stdout))
