"""Raw answers → session reports: chat, replay, python and command; what is known of tokens, money and time."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.executions.model import Execution, RawExecution
from eval_pipeline.reports.model import (
    DetectedSkill,
    FileReadEvent,
    MessageEvent,
    SessionReport,
    ToolCallEvent,
    ToolResultEvent,
    Usage,
)
from eval_pipeline.reports.normalize import normalize, normalizer_version
from eval_pipeline.reports.retries import with_cost
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import NOON, a_case, a_plan, a_runner, an_execution


def report_of(format_: str, payload: Any = None, *, runner: Any = None, case: Any = None, **raw: Any) -> SessionReport:
    """The report of an execution that brought back this raw answer."""
    execution = an_execution(raw=RawExecution(format=format_, payload=payload or {}, **raw))
    return normalize(execution, case or a_case(), runner or a_runner())


def chat(message: dict[str, Any], finish: str = "stop", **response: Any) -> SessionReport:
    choice = {"message": {"role": "assistant", **message}, "finish_reason": finish}
    return report_of("chat", {"response": {"choices": [choice], **response}})


# Chat.


@pytest.mark.parametrize(
    ("message", "output"),
    [
        pytest.param({"content": "4"}, "4", id="text"),
        pytest.param({"content": [{"type": "text", "text": "4"}, {"type": "text", "text": "!"}]}, "4\n!", id="parts"),
        pytest.param({"content": None, "refusal": "I will not"}, "I will not", id="refusal"),
        pytest.param({"content": None}, "", id="nothing"),
        pytest.param({}, "", id="no-content-at-all"),
    ],
)
def test_the_text_of_a_chat_response_is_the_final_output(message: dict[str, Any], output: str) -> None:
    report = chat(message)

    assert report.final_output == output
    assert report.failure_class is None


def test_a_chat_response_names_its_session_and_model() -> None:
    report = chat({"content": "4"}, id="chat-7", model="m-2026")

    assert (report.session_id, report.model, report.model_calls) == ("chat-7", "m-2026", 1)


def test_tool_calls_of_a_chat_response_are_events_with_their_arguments() -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}},
        {"id": "2", "type": "function", "function": {"name": "say", "arguments": "not json"}},
    ]

    report = chat({"content": "Let me see", "tool_calls": calls}, finish="tool_calls")

    assert report.events == (
        MessageEvent(role="assistant", text="Let me see", phase="commentary"),
        ToolCallEvent(tool="add", call_id="1", arguments={"a": 2}),
        ToolCallEvent(tool="say", call_id="2", arguments="not json"),
    )


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_what_a_model_thought_is_no_part_of_its_answer(key: str) -> None:
    report = chat({"content": "4", key: "two and two"})

    assert report.final_output == "4"
    assert report.thinking_chars == len("two and two")


@pytest.mark.parametrize(
    ("content", "finish", "failure_class"),
    [("", "length", "truncated"), ("half an ans", "length", None), ("", "stop", None)],
)
def test_a_response_cut_before_any_answer_did_not_complete(
    content: str, finish: str, failure_class: str | None
) -> None:
    assert chat({"content": content}, finish=finish).failure_class == failure_class


@pytest.mark.parametrize(
    ("wire", "response", "error"),
    [
        pytest.param("openai", {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]},
                     "the provider's content filter held the answer back", id="openai"),
        pytest.param("anthropic", {"content": [], "stop_reason": "refusal", "stop_details": {"explanation": "Unsafe"}},
                     "the provider's content filter held the answer back: Unsafe", id="anthropic"),
        pytest.param("gemini", {"candidates": [{"finishReason": "SAFETY"}]},
                     "the provider's content filter held the answer back", id="gemini: the answer"),
        pytest.param("gemini", {"promptFeedback": {"blockReason": "SAFETY"}},
                     "the provider's content filter held the answer back", id="gemini: the question"),
        pytest.param("gemini", {"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]},
                     "the model ended with 'MALFORMED_FUNCTION_CALL' and without an answer", id="gemini: its own word"),
    ],
)  # fmt: skip
def test_an_answer_that_was_held_back_is_no_wrong_answer(wire: str, response: dict[str, Any], error: str) -> None:
    report = report_of("chat", {"response": response, "wire": wire})

    assert (report.failure_class, report.error) == ("target-error", error)


def test_what_was_said_before_the_filter_stepped_in_is_the_answer() -> None:
    report = chat({"content": "half an ans"}, finish="content_filter")

    assert (report.final_output, report.failure_class) == ("half an ans", None)


def test_a_response_that_was_not_kept_is_a_failed_report() -> None:
    report = report_of("chat", {})

    assert (report.failure_class, report.error) == ("normalization", "chat: ValueError: the response was not kept")


def test_a_refused_request_has_no_answer_to_report() -> None:
    execution = an_execution(raw=RawExecution(format="chat", payload={"error": "slow down"}), failure_class="timeout")

    report = normalize(execution, a_case(), a_runner())

    assert (report.final_output, report.failure_class, report.model_calls) == (None, "timeout", None)


def test_a_response_of_a_wire_that_is_not_installed_is_a_failed_report() -> None:
    report = report_of("chat", {"response": {"text": "4"}, "wire": "telegraph"})

    assert report.failure_class == "normalization"
    assert "no wire 'telegraph'; there are: anthropic, azure, " in str(report.error)


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        pytest.param(None, Usage(), id="none"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input_tokens=9, output_tokens=4), id="counts"),
        pytest.param(
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 5},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            Usage(input_tokens=9, cached_input_tokens=5, output_tokens=4, reasoning_tokens=3),
            id="details",
        ),
        pytest.param({"prompt_tokens": 0}, Usage(input_tokens=0), id="a-zero-is-known"),
        pytest.param({"prompt_tokens": None, "completion_tokens": "4"}, Usage(), id="no-numbers"),
        pytest.param({"prompt_tokens": -1, "completion_tokens": True}, Usage(), id="no-counts"),
        pytest.param({"prompt_tokens": 2**63, "completion_tokens": 10**30}, Usage(), id="no-count-fits-so-many"),
        pytest.param({"prompt_tokens_details": [1], "prompt_tokens": 2}, Usage(input_tokens=2), id="odd-details"),
        pytest.param({"cost": 0.25}, Usage(cost_usd=0.25, cost_source="reported"), id="cost"),
        pytest.param({"cost": 0}, Usage(cost_usd=0.0, cost_source="reported"), id="no-cost-is-known"),
        pytest.param({"cost": -1}, Usage(), id="cost-below-zero"),
        pytest.param({"cost": True}, Usage(), id="cost-that-is-a-truth-value"),
    ],
)
def test_usage_of_a_chat_response_is_what_it_counts(raw: Any, usage: Usage) -> None:
    assert chat({"content": "4"}, usage=raw).usage == usage


def test_the_time_to_the_first_token_of_a_stream_is_kept() -> None:
    response = {"choices": [{"message": {"content": "4"}}]}

    assert report_of("chat", {"response": response, "ttft_ms": 12.5}).ttft_ms == 12.5


@pytest.mark.parametrize("response", [{}, {"choices": []}, {"choices": [{"text": "4"}]}])
def test_a_response_that_is_none_is_a_failed_report_not_an_answer(response: dict[str, Any]) -> None:
    report = report_of("chat", {"response": response})

    assert report.failure_class == "normalization"
    assert report.final_output is None
    assert report.error is not None
    assert report.error.startswith("chat: ")


# Answers: replay and python.


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        pytest.param({"output": "4"}, "4", id="text"),
        pytest.param({"output": ""}, "", id="empty-text"),
        pytest.param({"output": 4}, "4", id="number"),
        pytest.param({"output": {"a": [1, None]}}, '{"a":[1,null]}', id="value"),
        pytest.param({"output": False}, "false", id="truth-value"),
        pytest.param({"output": None}, None, id="nothing"),
        pytest.param({"text": "4"}, "4", id="text-key"),
        pytest.param({"output": "4", "text": "5"}, "4", id="output-before-text"),
        pytest.param({"output": [1, 2]}, "[1,2]", id="list-that-is-no-conversation"),
        pytest.param({"output": [{"role": "assistant", "content": "4"}]}, "4", id="conversation"),
        pytest.param({"messages": [{"role": "assistant", "content": "4"}]}, "4", id="messages"),
        pytest.param(
            {"output_messages": [{"role": "assistant", "content": "4"}], "text": "5"}, "4", id="agentv-messages"
        ),
        pytest.param(
            {"output": "5", "messages": [{"role": "assistant", "content": "4"}]}, "5", id="output-beside-messages"
        ),
        pytest.param(
            {"output": {"a": 1}, "messages": [{"role": "assistant", "content": "4"}]}, '{"a":1}', id="value-beside"
        ),
        pytest.param({"messages": [{"role": "user", "content": "hm?"}]}, None, id="nobody-answered"),
        pytest.param(
            {"messages": [{"role": "assistant", "content": "4"}, {"role": "user", "content": "sure?"}]},
            "4",
            id="last-word",
        ),
        pytest.param(
            {"output": [{"role": "assistant", "content": [{"type": "text", "text": "4"}, {"type": "image"}]}]},
            "4",
            id="parts",
        ),
    ],
)
@pytest.mark.parametrize("format_", ["replay", "python", "mock"])
def test_an_answer_may_be_a_text_a_value_or_a_conversation(
    format_: str, answer: dict[str, Any], output: str | None
) -> None:
    assert report_of(format_, answer).final_output == output


def test_messages_and_their_tool_calls_become_events_in_order() -> None:
    call = {
        "tool": "search",
        "id": "t1",
        "input": {"q": "x"},
        "output": {"hits": 2},
        "duration_ms": 7,
        "start_time": "T1",
    }
    messages = [
        {"role": "user", "content": "find x"},
        {"role": "assistant", "content": "searching", "tool_calls": [call, {"name": "read", "args": ["f"]}]},
        {"role": "assistant", "content": "found", "start_time": "T2"},
    ]

    report = report_of("replay", {"messages": messages})

    assert report.events == (
        MessageEvent(role="user", text="find x"),
        MessageEvent(role="assistant", text="searching", phase="commentary"),
        ToolCallEvent(tool="search", call_id="t1", arguments={"q": "x"}, at="T1"),
        ToolResultEvent(tool="search", call_id="t1", output='{"hits":2}', value={"hits": 2}, duration_ms=7),
        ToolCallEvent(tool="read", arguments=["f"]),
        MessageEvent(role="assistant", text="found", phase="final", at="T2"),
    )


@pytest.mark.parametrize(
    ("call", "results"),
    [
        pytest.param({}, [], id="nothing-known"),
        pytest.param({"duration_ms": 7}, [("", None, 7)], id="duration"),
        pytest.param({"duration_ms": -7}, [], id="negative-duration"),
        pytest.param({"duration_ms": "long", "output": 4}, [("4", None, None)], id="duration-that-is-none"),
        pytest.param({"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01.500Z"},
                     [("", None, 1500)], id="from-begin-to-end"),
        pytest.param({"start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:09Z", "duration_ms": 7},
                     [("", None, 7)], id="duration-before-begin-and-end"),
        pytest.param({"start_time": "2026-01-01T00:00:01Z", "end_time": "2026-01-01T00:00:00Z"}, [], id="backwards"),
        pytest.param({"start_time": "2026-01-01T00:00:01Z", "end_time": "2026-01-01T00:00:02"}, [], id="odd-zones"),
        pytest.param({"start_time": "then", "end_time": 3}, [], id="no-times"),
        pytest.param({"status": "ok"}, [("", False, None)], id="ok"),
        pytest.param({"status": "error", "output": "no"}, [("no", True, None)], id="error"),
        pytest.param({"status": "timeout"}, [("", True, None)], id="timeout"),
        pytest.param({"status": "unknown"}, [], id="unknown-status"),
    ],
)  # fmt: skip
def test_what_a_tool_answered_is_what_its_call_says_of_it(
    call: dict[str, Any], results: list[tuple[str, bool | None, float | None]]
) -> None:
    report = report_of("replay", {"messages": [{"role": "assistant", "tool_calls": [{"tool": "add", **call}]}]})

    tool_results = [event for event in report.events if isinstance(event, ToolResultEvent)]
    assert [(event.output, event.is_error, event.duration_ms) for event in tool_results] == results


@pytest.mark.parametrize("calls", ["add", {"tool": "add"}, [None, "add", 3], None])
def test_tool_calls_that_are_none_are_left_out(calls: Any) -> None:
    report = report_of("replay", {"messages": [{"role": "assistant", "content": "4", "tool_calls": calls}]})

    assert (report.final_output, report.tool_calls, report.failure_class) == ("4", (), None)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        pytest.param("it broke", "it broke", id="text"),
        pytest.param({"message": "it broke", "code": 3}, "it broke", id="message"),
        pytest.param({"code": 3}, '{"code":3}', id="mapping"),
    ],
)
def test_an_answer_that_says_it_failed_did_not_complete(error: Any, answer: str) -> None:
    report = report_of("python", {"output": "half", "error": error})

    assert (report.failure_class, report.error, report.final_output) == ("target-error", answer, "half")


@pytest.mark.parametrize("error", [None, "", False, 0])
def test_no_error_is_none(error: Any) -> None:
    assert report_of("python", {"output": "4", "error": error}).failure_class is None


def test_an_answer_without_messages_is_one_message() -> None:
    assert report_of("python", {"output": "4"}).events == (MessageEvent(role="assistant", phase="final", text="4"),)


def test_no_answer_has_no_message() -> None:
    assert report_of("python", {"output": None}).events == ()


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        pytest.param({}, Usage(), id="none"),
        pytest.param({"input_tokens": 9, "output_tokens": 4}, Usage(input_tokens=9, output_tokens=4), id="ours"),
        pytest.param({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input_tokens=9, output_tokens=4), id="openai"),
        pytest.param(
            {"input": 9, "output": 4, "cached": 5, "reasoning": 1},
            Usage(input_tokens=14, cached_input_tokens=5, output_tokens=4, reasoning_tokens=1),
            id="agentv-counts-input-without-the-cache",
        ),
        pytest.param({"input": 9}, Usage(input_tokens=9), id="agentv-without-cache"),
        pytest.param(
            {"input_tokens": 9, "cached_input_tokens": 5, "cache_write_tokens": 2, "reasoning_tokens": 0},
            Usage(input_tokens=9, cached_input_tokens=5, cache_write_tokens=2, reasoning_tokens=0),
            id="gross-input-holds-the-cache",
        ),
        pytest.param({"input_tokens": "9", "output_tokens": 4.5}, Usage(), id="no-counts"),
        pytest.param("many", Usage(), id="no-mapping"),
    ],
)
@pytest.mark.parametrize("key", ["usage", "token_usage"])
def test_usage_is_read_by_the_names_of_several_sources(key: str, answer: Any, usage: Usage) -> None:
    assert report_of("replay", {"output": "4", key: answer}).usage == usage


@pytest.mark.parametrize(
    ("cost", "known"), [(0.5, 0.5), (0, 0.0), (-0.5, None), ("0.5", None), (None, None), (True, None)]
)
def test_a_cost_is_known_only_when_it_is_an_amount(cost: Any, known: float | None) -> None:
    usage = report_of("replay", {"output": "4", "cost_usd": cost}).usage

    assert usage.cost_usd == known
    assert usage.cost_source == (None if known is None else "reported")


STORED = SessionReport(
    execution_id="old",
    final_output="done",
    session_id="s-1",
    model="m-1",
    exit_code=3,
    usage=Usage(input_tokens=9, output_tokens=4, cost_usd=0.5, cost_source="reported"),
    events=(FileReadEvent(path="/w/a.py", ok=True, line=2), MessageEvent(role="assistant", text="done", phase="final")),
    skills=(DetectedSkill(skill="tidy", confidence="strong", evidence=("read /w/SKILL.md",)),),
    started_at="2026-01-01T00:00:00Z",
    ended_at="2026-01-01T00:00:09Z",
    duration_ms=9_000.0,
    prompt="tidy up",
    model_calls=2,
    unknown_events={"odd": 1},
    unparsed_lines=1,
)


def test_a_stored_report_comes_back_as_it_was_under_its_new_execution() -> None:
    stored = orjson.loads(orjson.dumps(STORED))

    report = report_of("replay", {"report": stored})

    assert report == SessionReport(**{**fields_of(STORED), "execution_id": report.execution_id})
    assert report.execution_id != "old"


def test_a_stored_report_may_say_more_or_less_than_ours() -> None:
    stored = {"final_output": "done", "usage": {"input_tokens": 9, "total_tokens": 9}, "extra": True}

    report = report_of("replay", {"report": stored})

    assert (report.final_output, report.usage) == ("done", Usage(input_tokens=9))


def test_what_a_stored_report_counts_is_known_only_when_it_is_a_number() -> None:
    stored = {"usage": {"input_tokens": "many", "output_tokens": 4, "cost_usd": "dear"}, "model_calls": "few"}

    report = report_of("replay", {"report": {**stored, "duration_ms": "long", "ttft_ms": -1}})

    assert report.usage == Usage(output_tokens=4)
    assert (report.model_calls, report.ttft_ms, report.duration_ms) == (None, None, 1_000)


def test_a_stored_report_with_an_unknown_event_is_a_failed_report() -> None:
    report = report_of("replay", {"report": {"events": [{"kind": "dance"}]}})

    assert (report.failure_class, report.error) == ("normalization", "replay: KeyError: 'dance'")


def fields_of(report: SessionReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in SessionReport.__dataclass_fields__}


# Commands.


@pytest.mark.parametrize(
    ("stdout", "output"),
    [
        pytest.param(b"4\n", "4", id="one-line-break-is-not-the-answers"),
        pytest.param(b"4\n\n", "4\n", id="only-one"),
        pytest.param(b"", "", id="nothing"),
        pytest.param(b'{"output": "4"}\n', "4", id="the-protocols-json"),
        pytest.param(b'{"text": "4", "cost_usd": 1}', "4", id="text-key"),
        pytest.param(b'{"error": "not found"}', '{"error": "not found"}', id="an-error-alone-may-be-the-answer"),
        pytest.param(b'{"answer": 4}\n', '{"answer": 4}', id="json-that-is-the-answer"),
        pytest.param(b'{"output": "4"} trailing', '{"output": "4"} trailing', id="json-and-more"),
        pytest.param(b'["output"]', '["output"]', id="list"),
        pytest.param(b"caf\xe9", "caf\ufffd", id="odd-bytes"),
    ],
)
def test_a_commands_standard_output_is_its_answer(tmp_path: Path, stdout: bytes, output: str) -> None:
    (tmp_path / "stdout").write_bytes(stdout)

    assert report_of("command", files={"stdout": tmp_path / "stdout"}).final_output == output


def test_a_commands_output_file_goes_before_what_it_printed(tmp_path: Path) -> None:
    for name in ("stdout", "output"):
        (tmp_path / name).write_text(f"from {name}", encoding="utf-8")

    report = report_of("command", files={"stdout": tmp_path / "stdout", "output": tmp_path / "output"}, exit_code=0)

    assert (report.final_output, report.exit_code) == ("from output", 0)


def test_a_commands_json_may_tell_tokens_money_and_time(tmp_path: Path) -> None:
    answer = {"text": "4", "token_usage": {"input": 9, "output": 4}, "cost_usd": 0.5, "duration_ms": 70}
    (tmp_path / "stdout").write_bytes(orjson.dumps(answer))

    report = report_of("command", files={"stdout": tmp_path / "stdout"})

    assert report.usage == Usage(input_tokens=9, output_tokens=4, cost_usd=0.5, cost_source="reported")
    assert report.duration_ms == 70


# What every format has in common.


@pytest.mark.parametrize(
    ("raw_ms", "answer", "duration_ms"),
    [
        pytest.param(40.0, {"duration_ms": 70}, 40, id="as-the-adapter-says"),
        pytest.param(None, {"duration_ms": 70}, 70, id="else-as-the-answer-says"),
        pytest.param(None, {"latency_ms": 80.5}, 80.5, id="by-its-other-name"),
        pytest.param(0.0, {}, 0, id="no-time-at-all-is-known"),
        pytest.param(None, {"duration_ms": -1}, 1_000, id="a-negative-time-is-none"),
        pytest.param(None, {}, 1_000, id="else-as-the-attempt-took"),
        pytest.param(None, {"elapsed_ms": 20}, 20, id="or-as-the-adapter-measured"),
        pytest.param(None, {"elapsed_ms": None}, None, id="or-unknown-when-the-adapter-cannot-know"),
        pytest.param(None, {"elapsed_ms": 20, "duration_ms": 70}, 70, id="the-answers-own-before-what-was-measured"),
    ],
)
def test_the_targets_own_time_goes_before_the_attempts(
    raw_ms: float | None, answer: dict[str, Any], duration_ms: float | None
) -> None:
    assert report_of("python", {"output": "4", **answer}, duration_ms=raw_ms).duration_ms == duration_ms


PRICES = {"input_per_million": 1, "output_per_million": 1}


@pytest.mark.parametrize(
    ("usage", "prices", "cost", "source"),
    [
        pytest.param(Usage(input_tokens=2_000_000, output_tokens=1_000_000),
                     {"input_per_million": 1, "output_per_million": 2}, 4.0, "computed", id="input-and-output"),
        pytest.param(Usage(input_tokens=1_000_000, output_tokens=0, cached_input_tokens=400_000),
                     {**PRICES, "cached_input_per_million": 0.5}, 0.8, "computed", id="cached-apart"),
        pytest.param(Usage(input_tokens=1_000_000, output_tokens=0, cached_input_tokens=400_000),
                     PRICES, 1.0, "computed", id="cached-as-input-without-a-price"),
        pytest.param(Usage(input_tokens=1_000_000, output_tokens=0, cache_write_tokens=500_000),
                     {**PRICES, "cache_write_per_million": 2}, 1.5, "computed", id="cache-writes-apart"),
        pytest.param(Usage(input_tokens=0, output_tokens=0), {"per_call": 0.25}, 0.75, "computed", id="per-call"),
        pytest.param(Usage(input_tokens=1, output_tokens=1, cost_usd=9.0, cost_source="reported"),
                     {"input_per_million": 1}, 9.0, "reported", id="what-is-reported-stays"),
        pytest.param(Usage(input_tokens=1, output_tokens=1, cost_usd=0.0, cost_source="reported"),
                     {"input_per_million": 1}, 0.0, "reported", id="a-reported-zero-stays"),
        pytest.param(Usage(input_tokens=1, output_tokens=1), {}, None, None, id="no-prices"),
        pytest.param(Usage(input_tokens=1), PRICES, None, None, id="output-unknown"),
        pytest.param(Usage(), {"per_call": 1}, 3.0, "computed", id="a-price-per-call-needs-no-tokens"),
    ],
)  # fmt: skip
def test_a_cost_that_is_not_reported_is_computed_by_the_runners_prices(
    usage: Usage, prices: dict[str, float], cost: float | None, source: str | None
) -> None:
    costed = with_cost(usage, prices, 3)

    assert costed.cost_usd == pytest.approx(cost)
    assert costed.cost_source == source


def test_a_report_says_when_it_was_and_what_was_asked() -> None:
    case = a_case(input=(Message(role="system", content="Be brief."), Message(role="user", content="2 + 2?")))

    report = report_of("python", {"output": "4"}, case=case, runner=a_runner(settings={"model": "m-1"}))

    assert report.prompt == "@[System]:\nBe brief.\n\n@[User]:\n2 + 2?"
    assert (report.started_at, report.ended_at) == ("2026-01-15T12:00:00Z", "2026-01-15T12:00:01Z")
    assert report.model == "m-1"


@pytest.mark.parametrize(
    ("raw", "output"),
    [
        pytest.param(None, None, id="nothing-came-back"),
        pytest.param(RawExecution(format="python", payload={"output": "half"}), "half", id="something-did"),
    ],
)
def test_a_failed_execution_says_why_and_keeps_what_there_is(raw: RawExecution | None, output: str | None) -> None:
    execution = an_execution(raw=raw, failure_class="timeout", error="took 30 s")

    report = normalize(execution, a_case(), a_runner())

    assert (report.failure_class, report.error, report.final_output) == ("timeout", "took 30 s", output)


def test_what_an_execution_failed_of_goes_before_what_could_not_be_read() -> None:
    raw = RawExecution(format="chat", payload={"response": {}})
    execution = an_execution(raw=raw, failure_class="rate-limited", error="429")

    report = normalize(execution, a_case(), a_runner())

    assert (report.failure_class, report.error) == ("rate-limited", "429")


def test_a_format_without_a_normalizer_is_a_failed_report_that_lists_the_known() -> None:
    report = report_of("telepathy", {"output": "4"})

    assert report.failure_class == "normalization"
    assert "no normalizer 'telepathy'; there are " in str(report.error)
    assert normalizer_version("telepathy") == "telepathy/none"


def test_normalizing_again_gives_the_same_report() -> None:
    execution: Execution = an_execution(a_plan(), finished_at=NOON + timedelta(minutes=1))

    assert normalize(execution, a_case(), a_runner()) == normalize(execution, a_case(), a_runner())


def test_messages_in_the_form_of_openai_have_their_tool_calls_and_results() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"id": 7}'}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "Ulm"},
        {"role": "assistant", "content": "It is in Ulm."},
    ]

    report = report_of("python", {"messages": messages})

    assert report.events == (
        ToolCallEvent(tool="find", call_id="c1", arguments={"id": 7}),
        ToolResultEvent(tool="find", call_id="c1", output="Ulm"),
        MessageEvent(role="assistant", phase="final", text="It is in Ulm."),
    )
