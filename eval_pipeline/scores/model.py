"""Outcome, score and verdict. Values only.

Outcomes and scores are named tuples rather than frozen dataclasses: every evaluator of every case makes one of each,
and constructing a frozen dataclass of this many fields takes two and a half times as long (measured).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from eval_pipeline.executions.agent_setup import UNKNOWN_SETUP, AgentSetup
from eval_pipeline.executions.model import Isolation
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.suites.model import Case

NOTHING: Mapping[str, Any] = MappingProxyType({})
DEFAULT_THRESHOLD = 0.8
"""The least score that passes where nothing sets another one."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of an evaluator: the case, the session report, and the folder of the suite's file.

    `workspace` is the target's working directory as the target left it; None without a workspace or after its removal.
    `threshold` is the least score that passes where the case sets none, `isolation` where functions of the user run
    whose evaluator does not say. `setup` is what the agent was told and given, as far as it is known.
    """

    case: Case
    report: SessionReport
    folder: Path = Path()
    workspace: Path | None = None
    threshold: float = DEFAULT_THRESHOLD
    isolation: Isolation = "process"
    setup: AgentSetup = UNKNOWN_SETUP

    @property
    def pass_mark(self) -> float:
        """The least score that passes: by the case, else by its suite."""
        return self.case.threshold if self.case.threshold is not None else self.threshold

    @property
    def output(self) -> str:
        """The final output; the empty text for a target that finished without output."""
        return self.report.final_output or ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that an evaluator checked."""

    text: str
    passed: bool
    evidence: str | None = None


class SubScore(NamedTuple):
    """The share of one grader or evaluator in a composite score."""

    name: str
    type: str
    value: float | None
    reason: str
    weight: float = 1.0
    grader: str | None = None
    details: Mapping[str, Any] = NOTHING

    def passed(self, mark: float) -> bool | None:
        """Return whether it passes: by its own decision, else by reaching `mark`; None without a value."""
        own = self.details.get("passes")
        return None if self.value is None else own if isinstance(own, bool) else at_least(self.value, mark)


class Outcome(NamedTuple):
    """The result of an evaluator: a value in [0, 1], or None without a result, and the reason.

    `members` are the sub-scores of a composite value; they are stored as separate rows. `passes` overrides the gate
    decision (for example: a checklist with a failed required point); None: the value decides. `failure_class` and
    `failure_label` name the cause of this failure; whose fault it was does not depend on them.
    """

    value: float | None
    reason: str
    findings: tuple[Finding, ...] = ()
    details: Mapping[str, Any] = NOTHING
    members: tuple[SubScore, ...] = ()
    passes: bool | None = None
    failure_class: str | None = None
    failure_label: str | None = None


class Score(NamedTuple):
    """One evaluator's number for one execution.

    `value` is in [0, 1], or None when the evaluator returned no result; `reason` explains either case. `spec_key`
    identifies the evaluator and its inputs (see `scores.evaluate.spec_key`), `score_key` only what its value depends on
    (None: stored by an older version). `minimum` is the gate, None without one. `grading_cost_usd` is what its grader
    calls cost: 0 without calls, None where the cost of one is unknown. `failure_label` is set where the outcome itself
    has a failure class.
    """

    execution_id: str
    spec_key: str
    evaluator: str
    type: str
    value: float | None
    reason: str
    weight: float = 1.0
    minimum: float | None = None
    failure_class: str | None = None
    findings: tuple[Finding, ...] = ()
    details: Mapping[str, Any] = NOTHING
    duration_ms: float | None = None
    members: tuple[SubScore, ...] = ()
    passes: bool | None = None
    score_key: str | None = None
    grading_cost_usd: float | None = None
    failure_label: str | None = None

    @property
    def passes_gate(self) -> bool | None:
        """Whether a required score reached its minimum; None without a gate or value."""
        if self.minimum is None or self.value is None:
            return None
        return at_least(self.value, self.minimum)

    def passed(self, mark: float) -> bool | None:
        """Return whether the score passes: by its own `passes`, else by reaching `mark`; None without a value."""
        if self.value is None:
            return None
        return self.passes if self.passes is not None else at_least(self.value, mark)


class Status(StrEnum):
    """The result of an execution."""

    PASSED = "passed"
    FAILED = "failed"
    EXPECTED_FAILED = "expected-failed"
    UNEXPECTED_PASSED = "unexpected-passed"
    ERROR = "error"

    @property
    def graded(self) -> bool:
        """Whether the target's answer was graded."""
        return self is not Status.ERROR

    @property
    def as_expected(self) -> bool:
        """Whether it counts as passed: an expected failure does, an unexpected pass does not (seed 004)."""
        return self in (Status.PASSED, Status.EXPECTED_FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of an execution with its score.

    `score` is the weighted mean of its scores in [0, 1], 0 after a failed gate, None when ungraded. `ungated_score` is
    the mean before gates. `failure_class` is None only for `passed`. `failure_label` is the class in words,
    `failure_origin` who has to act on it: a class that a suite gives changes the label, never the origin.
    `incomplete` is the limit that ended the session, where it was graded all the same.
    """

    status: Status
    score: float | None
    ungated_score: float | None
    threshold: float
    failure_class: str | None
    reason: str
    failure_label: str | None = None
    failure_origin: str | None = None
    incomplete: str | None = None


def at_least(value: float, minimum: float) -> bool:
    """Return `value ≥ minimum` with a tolerance for rounding errors of a mean."""
    return value >= minimum - 1e-9
