"""What a session did, in numbers and as messages."""

from __future__ import annotations

from eval_pipeline.reports.messages import output_messages
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent, Usage
from eval_pipeline.scores.trace import summarize_trace, trace_json
from eval_pipeline_tests.exports.sample_rows import a_report


def test_calls_are_counted_under_the_tools_own_names() -> None:
    report = SessionReport(execution_id="e", events=(ToolCallEvent(tool="readFile"), ToolCallEvent(tool="Read-File")))

    trace = summarize_trace(report)

    assert trace is not None
    assert trace_json(trace) == {
        "event_count": 2, "tool_calls": {"readFile": 1, "Read-File": 1}, "error_count": 0, "exploration_ratio": 1.0
    }  # fmt: skip


def test_an_answer_alone_says_nothing_of_what_was_done() -> None:
    answer = MessageEvent(role="assistant", phase="final", text="4")

    assert summarize_trace(SessionReport(execution_id="e", events=(answer,))) is None


def test_a_duration_is_what_the_session_says_else_from_call_to_answer() -> None:
    report = SessionReport(
        execution_id="e",
        events=(
            ToolCallEvent(tool="a", at="2026-03-01T12:00:00Z"),
            ToolResultEvent(tool="a", duration_ms=7.0, at="2026-03-01T12:00:09Z"),
            ToolCallEvent(tool="a", at="2026-03-01T12:00:10Z"),
            ToolResultEvent(tool="a", at="2026-03-01T12:00:12Z", is_error=True),
            ToolCallEvent(tool="b"),
        ),
    )

    trace = summarize_trace(report)

    assert trace is not None
    assert trace.tool_durations == {"a": [7.0, 2000.0]}
    assert (trace.mean_tool_ms, trace.error_count) == (1003.5, 1)


def test_ratios_without_calls_or_tokens_are_unknown() -> None:
    trace = summarize_trace(SessionReport(execution_id="e", model_calls=1, usage=Usage(input_tokens=5)))

    assert trace is not None
    assert (trace.exploration_ratio, trace.tokens_per_tool, trace.mean_tool_ms) == (None, None, None)


def test_looking_is_told_from_doing() -> None:
    calls = tuple(ToolCallEvent(tool=tool) for tool in ("Read", "Grep", "Edit", "Bash"))
    trace = summarize_trace(SessionReport(execution_id="e", events=calls))

    assert trace is not None
    assert trace.exploration_ratio == 0.5


def test_tokens_from_a_cache_are_not_counted_for_tools() -> None:
    trace = summarize_trace(a_report())

    assert trace is not None
    assert trace.tokens_per_tool == 105


def test_tokens_without_cache_reads_are_unknown_where_the_tokens_are() -> None:
    counted, uncounted = Usage(input_tokens=9, cached_input_tokens=4, output_tokens=2), Usage(cached_input_tokens=4)

    assert (counted.uncached_input_tokens, counted.uncached_tokens) == (5, 7)
    assert (uncounted.uncached_input_tokens, uncounted.uncached_tokens) == (None, None)


def test_messages_hold_their_calls_with_answers() -> None:
    messages = output_messages(a_report())

    assert [(message["role"], message["content"]) for message in messages] == [
        ("assistant", "let me look"), ("assistant", "4")
    ]  # fmt: skip
    (call,) = messages[0]["tool_calls"]
    assert call == {
        "tool": "Read", "id": "1", "input": {"path": "a.txt"}, "output": "four", "duration_ms": 250.0,
        "start_time": "2026-03-01T12:00:00.200Z", "end_time": "2026-03-01T12:00:00.450Z",
    }  # fmt: skip


def test_what_came_before_the_targets_first_word_and_its_thinking_are_left_out() -> None:
    events = (
        MessageEvent(role="user", text="asked"),
        MessageEvent(role="assistant", text="hm", phase="thinking"),
        MessageEvent(role="assistant", text="yes?"),
        MessageEvent(role="user", text="a reminder", injected=True),
        MessageEvent(role="user", text="and now"),
        MessageEvent(role="assistant", text="no"),
    )

    assert [one["content"] for one in output_messages(SessionReport(execution_id="e", events=events))] == [
        "yes?", "and now", "no"
    ]  # fmt: skip


def test_a_call_before_any_word_has_a_message_of_its_own() -> None:
    report = SessionReport(execution_id="e", events=(ToolCallEvent(tool="look"),))

    assert output_messages(report) == [{"role": "assistant", "content": "", "tool_calls": [{"tool": "look"}]}]


def test_an_answer_without_events_is_the_message() -> None:
    assert output_messages(SessionReport(execution_id="e", final_output="4")) == [{"role": "assistant", "content": "4"}]
