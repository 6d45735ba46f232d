"""Tokens of a Codex run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from eval_pipeline.agents.codex.steps import Step
from eval_pipeline.reports.jsonl_records import JsonMap, count, mapping
from eval_pipeline.reports.model import Usage


def usage_of(kept: Sequence[Step], current: Sequence[Step], printed: Sequence[Step]) -> Usage:
    """Usage of this run: of its turns in the rollout, else the thread's total less earlier turns, else as printed."""
    turns = {
        str(step.body.get("turn_id")): _tokens(mapping(step.body.get("turn_token_usage")))
        for step in current
        if step.kind == "token_usage_record" and step.body.get("turn_token_usage")
    }
    if turns:
        return _combined(list(turns.values()), sum)
    total, earlier = _counted(current), _counted(kept[: len(kept) - len(current)])
    if total is None:
        return _tokens(_printed_usage(printed))
    return _tokens(total) if earlier is None else _combined([_tokens(total), _tokens(earlier)], _difference)


def _printed_usage(printed: Sequence[Step]) -> JsonMap:
    reported = [mapping(step.body.get("usage")) for step in printed if step.kind == "turn.completed"]
    return reported[-1] if reported else _counted(printed) or {}


def _counted(steps: Sequence[Step]) -> JsonMap | None:
    """Return the thread's newest total; the oldest records have the counts at their top level."""
    for step in reversed(steps):
        if step.kind == "event/token_count":
            total = mapping(mapping(step.body.get("info")).get("total_token_usage"))
            total = total or (step.body if "input_tokens" in step.body else {})
            if total:
                return total
    return None


def _tokens(raw: JsonMap) -> Usage:
    """Return usage in our convention, which Codex shares: input includes cached, output includes reasoning tokens."""
    return Usage(
        input_tokens=count(raw.get("input_tokens")),
        cached_input_tokens=count(raw.get("cached_input_tokens")),
        cache_write_tokens=count(raw.get("cache_write_input_tokens")),
        output_tokens=count(raw.get("output_tokens")),
        reasoning_tokens=count(raw.get("reasoning_output_tokens")),
    )


def _combined(parts: Sequence[Usage], combine: Callable[[Sequence[int]], int]) -> Usage:
    """Each field of several usages combined; unknown when it is unknown in one of them."""

    def field(name: str) -> int | None:
        values = [getattr(part, name) for part in parts]
        return None if None in values else combine(values)

    return Usage(
        input_tokens=field("input_tokens"),
        cached_input_tokens=field("cached_input_tokens"),
        cache_write_tokens=field("cache_write_tokens"),
        output_tokens=field("output_tokens"),
        reasoning_tokens=field("reasoning_tokens"),
    )


def _difference(values: Sequence[int]) -> int:
    return max(0, values[0] - values[1])
