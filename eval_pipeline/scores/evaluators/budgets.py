"""`latency`, `cost`, `token-usage`: whether a measured quantity is within a limit.

A quantity that was not measured leaves the score unknown, with the reason; `on_missing: fail` counts it as exceeded,
as AgentV does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import ConfigDict

from eval_pipeline.reports.model import Usage
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS, Limit
from eval_pipeline.scores.model import Finding, Outcome, Subject

OnMissing = Literal["unscored", "fail"]


def missing(on_missing: OnMissing, reason: str, value: float = 0.0) -> Outcome:
    """Return the outcome of a session that lacks the facts: no value, or `value` where the policy is `fail`."""
    return Outcome(value, f"unknown: {reason}") if on_missing == "fail" else Outcome(None, reason)


@EVALUATORS.register("latency")
@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """1 when the target took at most `threshold` milliseconds."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    threshold: Limit
    on_missing: OnMissing = "unscored"

    def evaluate(self, subject: Subject) -> Outcome:
        return _within(subject.report.duration_ms, self.threshold, "duration", "ms", self.on_missing)


@EVALUATORS.register("cost")
@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """1 when the execution cost at most `budget` USD."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    budget: Limit
    on_missing: OnMissing = "unscored"

    def evaluate(self, subject: Subject) -> Outcome:
        return _within(subject.report.usage.cost_usd, self.budget, "cost", "USD", self.on_missing)


@EVALUATORS.register("token-usage")
@dataclass(frozen=True, slots=True, kw_only=True)
class TokenUsage:
    """1 when all given limits hold: `max_total` (gross input and output), `max_input` (input read anew, without what
    came from a cache, as AgentV counts), `max_output`."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    max_total: Limit | None = None
    max_input: Limit | None = None
    max_output: Limit | None = None
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        if self.max_total is None and self.max_input is None and self.max_output is None:
            raise ValueError("needs at least one of max_total, max_input, max_output")

    def evaluate(self, subject: Subject) -> Outcome:
        parts = list(self._parts(subject.report.usage))
        unknown = next((part for part in parts if part.value is None), None)
        broken = next((part for part in parts if part.value == 0.0), None)
        findings = tuple(Finding(part.reason, part.value == 1.0) for part in parts)
        decisive = broken or unknown
        if decisive is not None:
            return Outcome(decisive.value, decisive.reason, findings)
        return Outcome(1.0, "; ".join(part.reason for part in parts), findings)

    def _parts(self, usage: Usage) -> Iterator[Outcome]:
        measured = (
            (usage.total_tokens, self.max_total, "total"),
            (usage.uncached_input_tokens, self.max_input, "input"),
            (usage.output_tokens, self.max_output, "output"),
        )
        for amount, limit, name in measured:
            if limit is not None:
                yield _within(amount, limit, f"{name} tokens", "", self.on_missing)


def milliseconds(amount: float, limit: float) -> str:
    """Return a duration as a reason shows it: in tenths, with more digits where it is so near a limit, or so short,
    that only they show on which side it is, or that it took time at all."""
    sides = (round(amount, digits) for digits in range(1, 12))
    right = (short for short in sides if (short > limit) is (amount > limit) and bool(short) is bool(amount))
    shown = next(right, amount)
    return f"{shown:.12g} ms"


def _within(amount: float | None, limit: float, what: str, unit: str, on_missing: OnMissing) -> Outcome:
    if amount is None:
        return missing(on_missing, f"{what} was not measured")
    shown = milliseconds(amount, limit) if unit == "ms" else f"{amount:.12g} {unit}"
    compared = f"{what} {shown}".rstrip(), f"{limit:.12g} {unit}".rstrip()
    if amount <= limit:
        return Outcome(1.0, f"{compared[0]} is within {compared[1]}")
    return Outcome(0.0, f"{compared[0]} exceeds {compared[1]}")
