from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval_pipeline.reports.model import CommandEvent, ErrorEvent, MessageEvent, SessionReport, Usage
from eval_pipeline_tests.agents.recorded_sessions import ANY_JSON, check_storable, lines, mutated, printed, report_of


def recorded(scenario: str) -> SessionReport:
    return report_of("claude-session", session=printed("claude", scenario, "session.jsonl"))


def report_of_records(*records: dict[str, Any]) -> SessionReport:
    return report_of("claude-session", session=lines(*records))


def user(text: str, **record: Any) -> dict[str, Any]:
    return {"type": "user", "message": {"role": "user", "content": text}, **record}


def assistant(text: str, message_id: str = "m1", stop: str = "end_turn", **record: Any) -> dict[str, Any]:
    usage = record.pop("usage", None)
    content = [{"type": "text", "text": text}]
    message = {"id": message_id, "model": "claude-x", "content": content, "stop_reason": stop, "usage": usage}
    return {"type": "assistant", "message": message, **record}


def state(cost: float, *, unknown: bool = False) -> dict[str, Any]:
    return {"type": "cost-state", "totalCostUSD": cost, "hasUnknownModelCost": unknown, "modelUsage": {"x": SPENT}}


SPENT = {"inputTokens": 5, "cacheReadInputTokens": 2, "cacheCreationInputTokens": 1, "outputTokens": 3}


def test_a_transcript_gives_the_report_of_standard_output() -> None:
    printed_report = report_of("claude-code", stdout=printed("claude", "files"))

    report = recorded("files")

    assert report.final_output == printed_report.final_output
    assert report.usage == printed_report.usage
    assert [event.kind for event in report.events[1:]] == [event.kind for event in printed_report.events]
    assert (report.model, report.agent_version, report.model_calls) == ("stub-model", "2.1.330", 5)
    assert (report.failure_class, report.unknown_events, report.unparsed_lines) == (None, {}, 0)


def test_a_session_of_two_turns_has_the_answer_of_the_last_and_the_usage_of_both() -> None:
    report = recorded("resume")

    assert report.final_output == "Done. STUB-FINAL-ANSWER for scenario plain."
    assert (report.usage.input_tokens, report.usage.output_tokens) == (3100, 151)


def test_a_session_lasted_from_its_first_record_to_its_last() -> None:
    report = report_of_records(
        user("do it", timestamp="2026-01-01T00:00:00Z"), assistant("done", timestamp="2026-01-01T00:00:02Z")
    )

    assert (report.started_at, report.duration_ms) == ("2026-01-01T00:00:00Z", 2000.0)


def test_events_have_the_lines_of_the_file() -> None:
    report = report_of_records({"type": "attachment"}, user("do it"), {"type": "mode"}, assistant("done"))

    assert [event.line for event in report.events] == [2, 4]


def test_the_blocks_of_the_last_message_are_one_answer() -> None:
    report = report_of_records(user("do it"), assistant("first"), assistant("second"))

    assert report.final_output == "first\nsecond"


def test_the_work_of_a_subagent_is_left_out() -> None:
    report = report_of_records(user("do it"), assistant("mine"), assistant("a subagent's", "m2", isSidechain=True))

    assert report.final_output == "mine"
    assert [event.text for event in report.events if isinstance(event, MessageEvent)] == ["do it", "mine"]


# How it can end


@pytest.mark.parametrize(
    ("scenario", "failure_class"),
    [("badmodel", "model-rejected"), ("tool_hang", "target-crash"), ("tool_hang_sigint", "cancelled")],
)
def test_a_session_that_failed_has_a_class_and_no_answer(scenario: str, failure_class: str) -> None:
    report = recorded(scenario)

    assert report.failure_class == failure_class
    assert report.final_output is None
    assert report.error


def test_a_session_that_was_interrupted_and_went_on_is_answered() -> None:
    report = report_of_records(user("do it"), user("[Request interrupted by user]"), user("go on"), assistant("done"))

    assert (report.failure_class, report.final_output) == (None, "done")


def test_a_session_that_stops_at_the_question_has_no_result() -> None:
    assert report_of_records(user("do it")).error == "the session ended without a result"


def test_the_end_of_a_failed_session_is_reported_once() -> None:
    errors = [event for event in recorded("badmodel").events if isinstance(event, ErrorEvent)]

    assert [error.terminal for error in errors] == [True]


def test_a_killed_session_keeps_what_it_did_and_what_it_spent() -> None:
    report = recorded("tool_hang")

    assert [event.command for event in report.events if isinstance(event, CommandEvent)] == [
        "echo before-sleep; sleep 987"
    ]
    assert (report.usage.input_tokens, report.usage.output_tokens) == (1000, 50)


def test_standard_output_without_a_result_has_the_usage_of_the_transcript() -> None:
    stdout, transcript = printed("claude", "tool_hang"), printed("claude", "tool_hang", "session.jsonl")

    report, alone = (
        report_of("claude-code", **texts) for texts in ({"stdout": stdout, "session": transcript}, {"stdout": stdout})
    )

    assert (report.usage.input_tokens, report.usage.output_tokens) == (1000, 50)
    assert (report.events, report.failure_class) == (alone.events, alone.failure_class)
    assert alone.usage == Usage()


# What it cost


def test_the_cost_state_has_usage_and_cost() -> None:
    report = report_of_records(user("do it"), assistant("done"), state(0.25))

    assert report.usage == Usage(
        input_tokens=8,
        cached_input_tokens=2,
        cache_write_tokens=1,
        output_tokens=3,
        cost_usd=0.25,
        cost_source="reported",
    )


def test_the_cost_of_a_model_without_a_price_is_unknown() -> None:
    assert report_of_records(user("do it"), assistant("done"), state(0.25, unknown=True)).usage.cost_usd is None


def test_a_cost_state_before_the_last_message_is_not_used() -> None:
    usage = {"input_tokens": 7, "output_tokens": 1}

    report = report_of_records(user("do it"), state(0.25), assistant("done", usage=usage))

    assert (report.usage.input_tokens, report.usage.output_tokens, report.usage.cost_usd) == (7, 1, None)


def test_the_usage_of_a_message_counts_once_by_its_last_record() -> None:
    first, last = {"input_tokens": 7, "output_tokens": 1}, {"input_tokens": 7, "output_tokens": 40}

    report = report_of_records(
        assistant("a", usage=first), assistant("b", usage=last), assistant("c", "m2", usage=last)
    )

    assert (report.usage.input_tokens, report.usage.output_tokens) == (14, 80)


def test_a_transcript_without_usage_leaves_it_unknown() -> None:
    assert report_of_records(user("do it"), assistant("done")).usage == Usage()


# Whatever it holds


def test_lines_that_cannot_be_read_are_counted() -> None:
    report = report_of("claude-session", session=lines(user("do it"), assistant("done")) + '{"type": "assi')

    assert (report.unparsed_lines, report.final_output) == (1, "done")


@settings(deadline=None)
@given(st.text() | st.lists(ANY_JSON, max_size=5).map(lambda values: "\n".join(map(json.dumps, values))))
def test_no_text_makes_normalizing_fail(text: str) -> None:
    check_storable(report_of("claude-session", session=text))


@settings(deadline=None)
@given(mutated(printed("claude", "resume", "session.jsonl")) | mutated(printed("claude", "badmodel", "session.jsonl")))
def test_no_change_of_a_transcript_makes_normalizing_fail(text: str) -> None:
    check_storable(report_of("claude-session", session=text))
