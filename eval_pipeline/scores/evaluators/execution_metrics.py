"""`execution-metrics`: the work of an execution (calls, tokens, cost, time) against limits.

A quantity that was not measured leaves the score unknown, with the reason; `on_missing: fail` counts it as exceeded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from pydantic import ConfigDict

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.tool_kinds import EXPLORING_KINDS
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL, Limit
from eval_pipeline.scores.evaluators.budgets import OnMissing, milliseconds
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session

LIMITS = (
    "max_tool_calls", "max_llm_calls", "max_tokens", "max_cost_usd", "max_duration_ms", "target_exploration_ratio",
)  # fmt: skip


@EVALUATORS.register("execution-metrics")
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionMetrics:
    """The share of the given limits that hold.

    `max_tokens` counts input and output without what came from a cache, as AgentV does. `target_exploration_ratio` is
    the share of tool calls that only look (read, search, list), give or take `exploration_tolerance`.
    """

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ()
    max_tool_calls: Limit | None = None
    max_llm_calls: Limit | None = None
    max_tokens: Limit | None = None
    max_cost_usd: Limit | None = None
    max_duration_ms: Limit | None = None
    target_exploration_ratio: Limit | None = None
    exploration_tolerance: Limit = 0.2
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in LIMITS):
            raise ValueError(f"needs at least one of {', '.join(LIMITS)}")

    def evaluate(self, subject: Subject) -> Outcome:
        report = subject.report
        checks = dict(self._checks(report))
        missing = [f"{what} not measured" for what, finding in checks.items() if finding is None]
        measured = tuple(finding for finding in checks.values() if finding is not None)
        if missing and self.on_missing == "unscored":
            return Outcome(None, "; ".join(missing), measured)
        missing = [f"unknown: {text}" for text in missing]
        if self._needs_session and not shows_session(report) and not report.events:
            return Outcome(0.0, "; ".join(missing), tuple(Finding(text, False) for text in missing))
        findings = (*measured, *(Finding(text, False) for text in missing))
        failed = [finding.text for finding in findings if not finding.passed]
        value = 1.0 - len(failed) / len(findings)
        return Outcome(value, "; ".join(failed or (finding.text for finding in findings)), findings)

    @property
    def _needs_session(self) -> bool:
        return any(
            limit is not None for limit in (self.max_tool_calls, self.max_llm_calls, self.target_exploration_ratio)
        )

    def _checks(self, report: SessionReport) -> Iterator[tuple[str, Finding | None]]:
        """Yield a finding for each given limit by its quantity; None when the quantity was not measured.

        With `on_missing: fail` an answer alone is one model call without tools, as in AgentV.
        """
        alone = self.on_missing == "fail" and not shows_session(report) and bool(report.events)
        calls = len(report.tool_uses) if alone or shows_session(report) else None
        measured = (
            ("tool calls", calls, self.max_tool_calls, ""),
            ("model calls", 1 if alone else report.model_calls, self.max_llm_calls, ""),
            ("tokens", report.usage.uncached_tokens, self.max_tokens, ""),
            ("cost", report.usage.cost_usd, self.max_cost_usd, "USD"),
            ("duration", report.duration_ms, self.max_duration_ms, "ms"),
        )
        for what, amount, limit, unit in measured:
            if limit is not None:
                yield what, _within(what, amount, limit, unit) if amount is not None else None
        if self.target_exploration_ratio is not None:
            yield (
                "exploration ratio",
                self._exploration(report, self.target_exploration_ratio) if calls is not None else None,
            )

    def _exploration(self, report: SessionReport, target: float) -> Finding:
        uses = report.tool_uses
        if not uses:
            return Finding("no tool call: there is no exploration ratio", False)
        ratio = sum(use.kind in EXPLORING_KINDS for use in uses) / len(uses)
        kept = abs(ratio - target) <= self.exploration_tolerance + 1e-9
        compared = "is within" if kept else "is not within"
        return Finding(
            f"exploration ratio {ratio:.3g} {compared} {target:.3g} ± {self.exploration_tolerance:.3g}", kept
        )


def _within(what: str, amount: float, limit: float, unit: str) -> Finding:
    compared = "is within" if amount <= limit else "exceeds"
    shown = milliseconds(amount, limit) if unit == "ms" else f"{amount:.12g} {unit}"
    return Finding(" ".join(f"{what} {shown} {compared} {limit:.12g} {unit}".split()), amount <= limit)
