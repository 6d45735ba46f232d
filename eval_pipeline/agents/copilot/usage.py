"""Tokens of a Copilot session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eval_pipeline.agents.copilot.records import data_of
from eval_pipeline.reports.jsonl_records import JsonMap, Record, count, mapping, text
from eval_pipeline.reports.model import Usage

_SPAN = "gen_ai.usage."


def call_usages(rows: Iterable[Record]) -> list[JsonMap]:
    """The usage of each model call that the log holds."""
    return [mapping(data_of(row).get("usage")) for row in rows if row.type == "session.usage_record"]


def usage_of(rows: Sequence[Record]) -> Usage:
    """Usage of the whole session: the sum over its model calls, else the totals of its last shutdown.

    As in a report, cache reads and writes are part of the input and reasoning is part of the output.
    """
    parts = call_usages(rows) or _totals(rows)
    return Usage(
        input_tokens=_sum(parts, "inputTokens"),
        cached_input_tokens=_sum(parts, "cacheReadTokens"),
        cache_write_tokens=_sum(parts, "cacheWriteTokens"),
        output_tokens=_sum(parts, "outputTokens"),
        reasoning_tokens=_sum(parts, "reasoningTokens"),
    )


def _totals(rows: Sequence[Record]) -> list[JsonMap]:
    last = next((data_of(row) for row in reversed(rows) if row.type == "session.shutdown"), {})
    return [mapping(mapping(metrics).get("usage")) for metrics in mapping(last.get("modelMetrics")).values()]


def _sum(parts: Sequence[JsonMap], name: str) -> int | None:
    """The sum of a count; unknown without parts, or when one part lacks it."""
    values = [count(part.get(name)) for part in parts]
    return sum(value for value in values if value is not None) if values and None not in values else None


def telemetry_usage(rows: Sequence[Record]) -> Usage:
    """Usage by the spans of a telemetry file: of the agent's invocation, else the sum over the calls of its models."""
    spans = [(text(row.value.get("name")) or "", mapping(row.value.get("attributes"))) for row in rows]
    known = [(name, values) for name, values in spans if count(values.get(f"{_SPAN}input_tokens")) is not None]
    whole = [values for name, values in known if name.split(" ")[0] == "invoke_agent"]
    parts = whole[:1] or [values for name, values in known if name.startswith("chat ")]
    return Usage(
        input_tokens=_sum(parts, f"{_SPAN}input_tokens"),
        cached_input_tokens=_sum(parts, f"{_SPAN}cache_read_input_tokens"),
        output_tokens=_sum(parts, f"{_SPAN}output_tokens"),
        reasoning_tokens=_sum(parts, f"{_SPAN}reasoning_output_tokens"),
    )
