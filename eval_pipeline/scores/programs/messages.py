"""What grading programs receive beside the messages of a session, in the shape of AgentV's grader protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval_pipeline.reports.messages import JsonMap, known, token_counts
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.scores.trace import trace_json, trace_of
from eval_pipeline.suites.model import Message

_OF_THE_PROTOCOL = ("event_count", "tool_calls", "error_count", "llm_call_count", "tool_durations")


def trace_summary(report: SessionReport, messages: Sequence[Mapping[str, Any]]) -> JsonMap | None:
    """Return AgentV's summary of a session: calls by tool, durations, errors; None without messages.

    Calls that the report does not show are not counted: an answer alone has none. Where the target does not report its
    model calls, they are its messages.
    """
    if not messages:
        return None
    trace = trace_json(trace_of(report))
    answers = sum(message["role"] == "assistant" for message in messages)
    return {"llm_call_count": answers} | {name: trace[name] for name in _OF_THE_PROTOCOL if name in trace}


def token_usage(usage: Usage) -> JsonMap | None:
    """Return tokens by AgentV's names, `input` without cache reads; None when the target reports none."""
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return {"input": None, "output": None} | token_counts(usage)


def with_prompt(prompt: list[JsonMap], messages: list[JsonMap]) -> list[JsonMap]:
    """Return a whole conversation: the prompt and the target's messages, or these alone if they contain a prompt."""
    return messages if any(message["role"] in ("user", "system") for message in messages) else [*prompt, *messages]


def authored(messages: Iterable[Message]) -> list[JsonMap]:
    """Return messages of a suite as JSON."""
    return [
        {"role": message.role}
        | known({"content": message.content, "name": message.name, "tool_calls": list(message.tool_calls) or None})
        for message in messages
    ]
