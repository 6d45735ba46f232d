"""OpenTelemetry traces: one per cell, by the conventions for generative AI."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from eval_pipeline.exports.otel import OpenTelemetry, provider
from eval_pipeline.reports.model import MessageEvent, ToolCallEvent, ToolResultEvent, TurnStart, Usage
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.exports.sample_rows import NOON, a_record, a_report, a_score, exported, spans


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: _plain(entry["value"]) for entry in span["attributes"]}


def _plain(value: dict[str, Any]) -> Any:
    ((kind, plain),) = value.items()
    return (
        [_plain(entry) for entry in plain["values"]]
        if kind == "arrayValue"
        else int(plain)
        if kind == "intValue"
        else plain
    )


def test_a_cell_is_a_root_with_its_answers_and_tool_calls_below() -> None:
    root, *children = spans(a_record())

    assert root["name"] == "invoke_agent solver"
    assert [child["name"] for child in children] == ["chat gpt-5", "execute_tool Read", "chat gpt-5"]
    assert {child["parentSpanId"] for child in children} == {root["spanId"]}
    assert {span["traceId"] for span in (root, *children)} == {root["traceId"]}
    assert "parentSpanId" not in root


def test_the_root_tells_case_verdict_and_usage() -> None:
    values = attributes(spans(a_record(tags=("a",)))[0])

    expected = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.provider.name": "openai", "gen_ai.agent.name": "solver",
        "gen_ai.request.model": "gpt-5", "gen_ai.usage.input_tokens": 110, "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 10, "eval_pipeline.case_id": "sum", "eval_pipeline.runner": "solver",
        "eval_pipeline.suite": "maths", "eval_pipeline.score": 1.0, "eval_pipeline.duration_ms": 1000.0,
        "eval_pipeline.cost_usd": 0.002, "eval_pipeline.tool_calls": 1, "eval_pipeline.tools": ["Read"],
        "eval_pipeline.model_calls": 2, "eval_pipeline.status": "passed", "eval_pipeline.tags": ["a"],
    }  # fmt: skip
    assert {name: values[name] for name in expected} == expected


def test_every_evaluator_is_an_evaluation_result() -> None:
    root = spans(a_record(scores=(a_score("polite", 0.4), a_score("lost", None, reason="no reply"))))[0]

    events = [attributes(event) for event in root["events"]]
    assert {event["name"] for event in root["events"]} == {"gen_ai.evaluation.result"}
    assert [
        {name.removeprefix("gen_ai.evaluation."): value for name, value in event.items() if name.startswith("gen_ai")}
        for event in events
    ] == [
        {"name": "polite", "score.value": 0.4, "score.label": "fail", "explanation": "polite was looked at"},
        {"name": "lost", "explanation": "no reply"},
    ]
    assert events[1]["error.type"] == "evaluator"


def test_ids_are_hexadecimal_of_the_right_length_different_and_the_same_again() -> None:
    all_spans = spans(a_record("a"), a_record("b"))

    assert all(re.fullmatch("[0-9a-f]{32}", span["traceId"]) for span in all_spans)
    assert all(re.fullmatch("[0-9a-f]{16}", span["spanId"]) for span in all_spans)
    assert len({span["spanId"] for span in all_spans}) == len(all_spans)
    assert len({span["traceId"] for span in all_spans}) == 2
    assert all_spans == spans(a_record("a"), a_record("b"))


def test_times_are_nanoseconds_as_texts_and_stay_within_the_execution() -> None:
    root, *children = spans(a_record())

    begin = str(int(NOON.timestamp()) * 10**9)
    assert (root["startTimeUnixNano"], int(root["endTimeUnixNano"]) - int(begin)) == (begin, 10**9)
    offsets = [(int(c["startTimeUnixNano"]) - int(begin), int(c["endTimeUnixNano"]) - int(begin)) for c in children]
    assert offsets == [(100_000_000, 100_000_000), (200_000_000, 450_000_000), (900_000_000, 900_000_000)]


@pytest.mark.parametrize("at", [None, "long ago", "1999-01-01T00:00:00Z", "2999-01-01T00:00:00Z"])
def test_times_that_cannot_be_leave_spans_inside_their_parent(at: str | None) -> None:
    events = (ToolCallEvent(tool="a", at=at), ToolResultEvent(tool="a", duration_ms=10**9), ToolCallEvent(tool="b"))

    root, *children = spans(a_record(report=a_report(events=events)))

    for child in children:
        assert root["startTimeUnixNano"] <= child["startTimeUnixNano"] <= child["endTimeUnixNano"]
        assert child["endTimeUnixNano"] <= root["endTimeUnixNano"]


def test_the_only_answer_has_the_tokens_and_several_do_not_share_them() -> None:
    alone = (MessageEvent(role="assistant", text="4", phase="final"),)

    entry = attributes(spans(a_record(report=a_report(events=alone)))[1])
    several = attributes(spans(a_record())[1])

    assert entry["gen_ai.usage.input_tokens"] == 110
    assert "gen_ai.usage.input_tokens" not in several


def test_each_turn_of_a_conversation_has_its_tokens_and_its_time() -> None:
    def answers(text: str) -> tuple[MessageEvent, MessageEvent]:
        return MessageEvent(role="user", text="again"), MessageEvent(role="assistant", text=text)

    starts = (
        TurnStart(position=0, messages=1, usage=Usage(output_tokens=3), duration_ms=200.0),
        TurnStart(position=2, messages=1, usage=Usage(output_tokens=4), duration_ms=300.0),
    )
    report = a_report(events=(*answers("a"), *answers("b")), turn_starts=starts)

    _, *chats = spans(a_record(report=report))

    assert [attributes(span)["gen_ai.usage.output_tokens"] for span in chats] == [3, 4]
    begin = int(NOON.timestamp()) * 10**9
    times = [(int(span["startTimeUnixNano"]) - begin, int(span["endTimeUnixNano"]) - begin) for span in chats]
    assert times == [(0, 200_000_000), (200_000_000, 500_000_000)]


def test_what_was_said_is_only_there_when_asked_for() -> None:
    secret = "What is 2 + 2?"

    without = exported("otel", a_record())[""].decode()
    root, chat, tool, _ = (attributes(span) for span in spans(a_record(), content=True))

    assert secret not in without
    assert "let me look" not in without
    assert "a.txt" not in without
    assert json.loads(root["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": secret}]}
    ]
    assert json.loads(chat["gen_ai.output.messages"])[0]["parts"][0]["content"] == "let me look"
    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"]) == ('{"path":"a.txt"}', "four")


def test_only_what_could_not_be_graded_is_an_error() -> None:
    failed = spans(a_record(status=Status.FAILED))[0]
    broken = spans(a_record(status=Status.ERROR, report=None, error="no answer"))[0]

    assert failed["status"] == {}
    assert broken["status"] == {"code": 2, "message": "no answer"}
    assert attributes(broken)["error.type"] == "timeout"


def test_a_tool_that_reported_an_error_is_an_error() -> None:
    events = (ToolCallEvent(tool="a"), ToolResultEvent(tool="a", is_error=True))

    tool = spans(a_record(report=a_report(events=events)))[1]

    assert (tool["status"], attributes(tool)["error.type"]) == ({"code": 2}, "tool_error")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"adapter": "claude-code"}, "anthropic"), ({"adapter": "codex"}, "openai"),
        ({"adapter": "agent", "runner_settings": {"agent": "claude"}, "report": a_report(model="stub")}, "anthropic"),
        ({"report": a_report(model="anthropic/claude-sonnet")}, "anthropic"),
        ({"report": a_report(model="gemini-2.5")}, "gcp.gemini"), ({"report": a_report(model="stub")}, "chat"),
        ({"report": None, "adapter": None}, "unknown"),
    ],
)  # fmt: skip
def test_the_provider_is_known_by_adapter_or_model(fields: dict[str, Any], expected: str) -> None:
    assert provider(a_record(**fields)) == expected


def test_requests_hold_whole_traces_and_not_too_many_spans() -> None:
    bodies = [
        json.loads(body)
        for body in OpenTelemetry().requests([a_record(str(n)) for n in range(5)], content=False, most_spans=8)
    ]

    actual = [body["resourceSpans"][0]["scopeSpans"][0]["spans"] for body in bodies]
    assert [len(part) for part in actual] == [8, 8, 4]
    assert [span for part in actual for span in part] == spans(*(a_record(str(n)) for n in range(5)))


def test_nothing_is_an_empty_document() -> None:
    assert spans() == []
    assert list(OpenTelemetry().requests([], content=False)) == []
