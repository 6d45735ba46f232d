"""Comparison → gate: whether a candidate may replace the baseline, by the interval of its change and a policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from eval_pipeline.leaderboards.comparisons import Comparison, change_interval
from eval_pipeline.statistics.gates import Decision, decide, level_for
from eval_pipeline.statistics.intervals import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The greatest drops of the mean score that are tolerated: in score, and as a share of the baseline's mean."""

    max_drop: float = 0.0
    max_relative_drop: float | None = None

    @property
    def rules(self) -> int:
        return 1 if self.max_relative_drop is None else 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRule:
    """One rule of a policy: the interval of the change (of the mean; relative: as a share of the baseline's mean)
    against its margin. `low` and `high` are None below two cases."""

    rule: Literal["max-drop", "max-relative-drop"]
    margin: float
    low: float | None
    high: float | None
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The decision about a candidate: NO-GO if a rule decides so, GO if all do, else INCONCLUSIVE. Without a case in
    common with the baseline it has no rules."""

    candidate: str
    decision: Decision
    rules: tuple[GateRule, ...]


def gates(comparisons: Sequence[Comparison], policy: Policy) -> list[Gate]:
    """Return the gate of each candidate. All intervals hold together at 95 %: more candidates, wider intervals.

    A candidate without a paired case is INCONCLUSIVE; where there is none at all, nothing is decided.
    """
    paired = sum(comparison.summary.paired > 0 for comparison in comparisons)
    level = level_for(paired * policy.rules)
    return [_gate(comparison, policy, level) for comparison in comparisons] if paired else []


def worst(decisions: Sequence[Decision]) -> Decision:
    """Return the decision of several rules or candidates together."""
    order: tuple[Decision, ...] = ("NO-GO", "INCONCLUSIVE")
    return next((decision for decision in order if decision in decisions), "GO")


def details_of(gates: Sequence[Gate]) -> dict[str, Any]:
    """Return gates as JSON values, with the decision of all together."""
    return {"decision": worst([gate.decision for gate in gates]), "candidates": [asdict(gate) for gate in gates]}


def _gate(comparison: Comparison, policy: Policy, level: float) -> Gate:
    rules = tuple(_rules(comparison, policy, level)) if comparison.summary.paired else ()
    decision = worst([rule.decision for rule in rules]) if rules else "INCONCLUSIVE"
    return Gate(candidate=comparison.candidate, decision=decision, rules=rules)


def _rules(comparison: Comparison, policy: Policy, level: float) -> Iterator[GateRule]:
    paired = comparison.paired
    yield _rule("max-drop", policy.max_drop, change_interval(paired, 0.0, level), 0.0, 1.0)
    share, middle = policy.max_relative_drop, comparison.summary.mean_baseline
    if share is not None and middle:
        yield _rule("max-relative-drop", share, change_interval(paired, share, level), share, middle)


def _rule(
    rule: Literal["max-drop", "max-relative-drop"],
    margin: float,
    interval: Interval | None,
    lost: float,
    unit: float,
) -> GateRule:
    """Decide by what the candidate has more than the baseline without a share `lost`, shown in units of `unit`."""
    change = None if interval is None else (interval[0] / unit - lost, interval[1] / unit - lost)
    low, high = (None, None) if change is None else (max(-1.0, change[0]), min(1 / unit, change[1]))
    return GateRule(rule=rule, margin=margin, low=low, high=high, decision=decide(change, margin + 1e-9))
