"""Rows of plans → counts and rates of each suite × runner, for exports that hold no board."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import fsum

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.statistics.clusters import case_sums, rate_interval, score_interval
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.summaries import mean


@dataclass(slots=True)
class PairRates:
    """The plans of a suite × runner: how many of each kind, and for each case its graded answers."""

    suite: str
    runner: str
    passed: int = 0
    graded: int = 0
    planned: int = 0
    costs: list[float | None] = field(default_factory=list)
    _passed: dict[str, list[bool]] = field(default_factory=dict)
    _scores: dict[str, list[float]] = field(default_factory=dict)
    _clusters: dict[str, str] = field(default_factory=dict)
    _weights: dict[str, float] = field(default_factory=dict)

    def add(self, record: ResultRow) -> None:
        """Count a plan."""
        status, score = record.counted or (record.verdict.status, record.verdict.score)
        self.planned += 1
        self.costs.append(record.report.cost_usd if record.report is not None else None)
        if not status.graded:
            return
        self.graded += 1
        self.passed += status.as_expected
        self._passed.setdefault(record.case_id, []).append(status.as_expected)
        if score is not None:
            self._scores.setdefault(record.case_id, []).append(score)
        self._clusters[record.case_id] = record.conversation_id or record.case_id
        self._weights[record.case_id] = record.weight if record.weight is not None else 1.0

    @property
    def pass_rate(self) -> float | None:
        """The mean over cases of the share of graded answers that passed; None without any."""
        return self._mean(self._passed)

    @property
    def mean_score(self) -> float | None:
        """The mean over cases of their mean score; None without any."""
        return self._mean(self._scores)

    @property
    def pass_interval(self) -> Interval | None:
        """The 95 % interval of the pass rate, by cases."""
        return rate_interval(case_sums(*self._cases(self._passed))) if self._passed else None

    @property
    def score_interval(self) -> Interval | None:
        """The 95 % interval of the mean score, by cases."""
        return score_interval(case_sums(*self._cases(self._scores))) if self._scores else None

    @property
    def cases(self) -> int:
        """The number of cases with a graded answer."""
        return len(self._passed)

    @property
    def cost_usd(self) -> float | None:
        """What the plans with a known cost took, as on boards; None without any."""
        known = [cost for cost in self.costs if cost is not None]
        return fsum(known) if known else None

    @property
    def without_cost(self) -> int:
        """The number of plans without a known cost: of an unpriced answer, or without any (a budget was spent)."""
        return self.costs.count(None)

    def _mean(self, answers: dict[str, list[float]] | dict[str, list[bool]]) -> float | None:
        means, _, _, weights = self._cases(answers)
        return mean(means, weights) if means else None

    def _cases(
        self, answers: dict[str, list[float]] | dict[str, list[bool]]
    ) -> tuple[list[float], list[int], list[str], list[float] | None]:
        weights = [self._weights[case] for case in answers]
        means = [fsum(values) / len(values) for values in answers.values()]
        clusters = [self._clusters[case] for case in answers]
        return means, [len(values) for values in answers.values()], clusters, weights if len(set(weights)) > 1 else None
