"""The pass rate of a finished pair against the least one that is required: decided by its interval, as other gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.show import interval, percent
from eval_pipeline.statistics.clusters import CaseSums, case_sums, rate_interval, score_interval
from eval_pipeline.statistics.gates import Decision, decide
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import CaseCounts, case_counts
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import case_results


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """A pass rate with its 95 % interval, of first answers as on boards, or of cases that a `strategy` makes one result
    of; all None where nothing is graded."""

    rate: float | None
    low: float | None
    high: float | None
    strategy: str | None = None

    def decision(self, least: float) -> Decision:
        """Return NO-GO if the whole interval is below the least rate, GO if none of it is, else INCONCLUSIVE."""
        if self.low is None or self.high is None:
            return "INCONCLUSIVE"
        return decide((self.low - least, self.high - least), 1e-9)

    def __str__(self) -> str:
        how = "" if self.strategy is None else f"; cases by {self.strategy}"
        return f"{percent(self.rate)} ({interval(self.low, self.high)}{how})"


def pass_rate(warehouse: Warehouse, pair: Pair, selected: CaseFilter | None) -> PassRate:
    """Return the pass rate of the selected cases of a finished pair: of their results where the suite says how
    repetitions become one result of a case, else the mean over cases of the share of their plans."""
    strategy = pair.ready.suite.settings.strategy
    sums = _of_cases(warehouse, pair, selected) if strategy is None else _of_results(warehouse, pair.name)
    low, high = rate_interval(sums) or (None, None)
    return PassRate(rate=sums.mean, low=low, high=high, strategy=strategy)


def mean_score(warehouse: Warehouse, pair: Pair, selected: CaseFilter | None) -> PassRate:
    """Return the mean score of the selected cases of a finished pair, with its interval."""
    graded = _graded(warehouse, pair, selected)
    sums = _sums(graded, [each.score_sum / each.graded for each in graded])
    low, high = score_interval(sums) or (None, None)
    return PassRate(rate=sums.mean, low=low, high=high)


def _of_results(warehouse: Warehouse, pair: PairKey) -> CaseSums:
    results = case_results(warehouse, pair)
    passed, failed = results.get("passed", 0), results.get("failed", 0)
    return case_sums([1.0] * passed + [0.0] * failed, [1] * (passed + failed))


def _of_cases(warehouse: Warehouse, pair: Pair, selected: CaseFilter | None) -> CaseSums:
    graded = _graded(warehouse, pair, selected)
    return _sums(graded, [each.passed / each.graded for each in graded])


def _graded(warehouse: Warehouse, pair: Pair, selected: CaseFilter | None) -> list[CaseCounts]:
    graded = [each for each in case_counts(warehouse, pair.name) if each.graded]
    if not selected:
        return graded
    own = selected.on(pair.ready.suite)
    chosen = {case.id for case in pair.ready.suite.cases if own(case)}
    return [each for each in graded if each.case_id in chosen]


def _sums(graded: Sequence[CaseCounts], means: Sequence[float]) -> CaseSums:
    return case_sums(
        means,
        [each.graded for each in graded],
        [each.cluster for each in graded],
        None if any(each.weight is None for each in graded) else [each.weight or 1.0 for each in graded],
    )
