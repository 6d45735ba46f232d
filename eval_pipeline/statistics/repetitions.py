"""Repetitions of a case → one result: reducers, the probability of passing in k tries, and its error.

Missing values (None or NaN: could not be graded) are left out; where too few are left, the answer is None.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from eval_pipeline.statistics.clusters import clustered_interval
from eval_pipeline.statistics.intervals import Z95
from eval_pipeline.statistics.summaries import mean


def pass_at_k(count: int, passed: int, k: int) -> float:
    """Return the probability that at least one of k tries passes, from `passed` of `count`.

    Chen et al. 2021, arXiv 2107.03374.
    """
    _check_counts(count, passed, k)
    return 1 - math.comb(count - passed, k) / math.comb(count, k)


def pass_all_k(count: int, passed: int, k: int) -> float:
    """Return the probability that all of k tries pass (pass^k of Yao et al. 2024, arXiv 2406.12045)."""
    _check_counts(count, passed, k)
    return math.comb(passed, k) / math.comb(count, k)


def _check_counts(count: int, passed: int, k: int) -> None:
    if not 0 <= passed <= count:
        raise ValueError(f"passed must be in 0 to {count}, got {passed}")
    if not 1 <= k <= count:
        raise ValueError(f"repetitions must be >= k >= 1, got {count} repetitions and k = {k}")


def mean_pass_at_k(cases: Sequence[tuple[int, int]], k: int) -> float | None:
    """Return the mean of pass@k over cases, each (repetitions, passed); None without cases."""
    return mean([pass_at_k(count, passed, k) for count, passed in cases])


def mean_pass_within_k(cases: Iterable[Sequence[tuple[int, int | None]]], k: int) -> tuple[int, float | None]:
    """Return the number of cases, and the mean over them of the share of plans that passed within k tries, where a plan
    is tried again until it passes.

    Each plan is (tries, the first that passed); a case with a plan that neither passed nor was tried k times is left
    out. The estimator of pass@k from `passed` of `count` (Chen et al. 2021) takes tries as a number fixed beforehand.
    """
    known = [plans for plans in cases if all(first is not None or count >= k for count, first in plans)]
    shares = [sum(first is not None and first <= k for _, first in plans) / len(plans) for plans in known]
    return len(known), mean(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepetitionError:
    """A pass rate over fixed cases with the error that comes from repetitions that differ."""

    mean: float
    error: float
    low: float
    high: float


def repetition_error(cases: Sequence[tuple[int, int]]) -> RepetitionError | None:
    """Return a pass rate over fixed cases and the 95 % interval (normal) of its error from repetitions that differ.

    Each case is (repetitions, passed). The variance of each case's mean is added up (Miller 2024, arXiv 2411.00640,
    the within-question part). None without cases or with a case of fewer than two repetitions.
    """
    rates = [passed / count for count, passed in cases if count]
    middle = mean(rates)
    if middle is None or any(count < 2 for count, _ in cases):
        return None
    spread = math.fsum(rate * (1 - rate) / (count - 1) for (count, _), rate in zip(cases, rates, strict=True))
    error = math.sqrt(spread) / len(cases)
    return RepetitionError(
        mean=middle, error=error, low=max(0.0, middle - Z95 * error), high=min(1.0, middle + Z95 * error)
    )


Reducer = Callable[[Sequence[float], int, float], float | None]


def _at_least(values: Sequence[float], k: int, mark: float) -> float:
    return float(sum(value >= mark for value in values) >= k)


def _pass_at(values: Sequence[float], k: int, mark: float) -> float | None:
    return pass_at_k(len(values), _passed(values, mark), k) if len(values) >= k else None


def _pass_all(values: Sequence[float], k: int, mark: float) -> float | None:
    return pass_all_k(len(values), _passed(values, mark), k) if len(values) >= k else None


def _lower_bound(values: Sequence[float], _k: int, _mark: float) -> float:
    """The low end of the mean's 95 % interval by Student's t, in [0, 1]; of a single value, the value."""
    interval = clustered_interval(values)
    return max(0.0, min(1.0, interval[0] if interval is not None else values[0]))


def _passed(values: Sequence[float], mark: float) -> int:
    return sum(value >= mark for value in values)


REDUCERS: Mapping[str, Reducer] = {
    "mean": lambda values, _k, _mark: math.fsum(values) / len(values),
    "median": lambda values, _k, _mark: statistics.median(values),
    "mode": lambda values, _k, _mark: statistics.mode(values),
    "max": lambda values, _k, _mark: max(values),
    "min": lambda values, _k, _mark: min(values),
    "at_least": _at_least,
    "pass_at": _pass_at,
    "pass_k": _pass_all,
    "lower_bound": _lower_bound,
}
"""How repetitions become one value: (values, k, mark). `mode` returns the first of equally frequent values."""


def reduce_repetitions(values: Sequence[float | None], reducer: str, *, k: int = 1, mark: float = 1.0) -> float | None:
    """Return one value for several repetitions.

    `mark` is the lowest value that passes (`at_least`, `pass_at`, `pass_k`). None when no repetition has a value, or
    fewer than `k` have for `pass_at` and `pass_k`.
    """
    present = [value for value in values if value is not None and not math.isnan(value)]
    return REDUCERS[reducer](present, k, mark) if present else None
