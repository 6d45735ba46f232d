"""Sums of the differences between any two ranked runners of a suite: the columns of the table `runner_differences`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from eval_pipeline.leaderboards.board_columns import DIFFERENCE_COLUMNS
from eval_pipeline.statistics.outcome_sums import OutcomeSums
from eval_pipeline.statistics.pair_sums import PairSums
from eval_pipeline.statistics.sums_over_suites import added

Places = NDArray[np.intp]
_RUNNERS = ("runner", "other_runner")
_SUMS = [each.name for each in fields(PairSums)]


@dataclass(frozen=True, slots=True)
class DifferenceColumns:
    """Differences of suites, collected column by column: a hundred suites of 20 runners have 19,000 rows."""

    _parts: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in DIFFERENCE_COLUMNS})
    _texts: dict[str, int] = field(default_factory=dict)

    def add_sums(
        self, suite: str, runners: Sequence[str], cases: int, sums: Sequence[tuple[int, int, PairSums]]
    ) -> None:
        """Add the differences of a suite between runners at these places."""
        columns = {name: [getattr(each, name) for *_, each in sums] for name in _SUMS}
        first, second = (np.array([each[side] for each in sums], dtype=np.intp) for side in (0, 1))
        self._add(suite, runners, cases, (first, second), columns)

    def add_outcomes(self, suite: str, runners: Sequence[str], cases: int, sums: OutcomeSums) -> None:
        """Add the differences of a suite whose cases passed or failed: every difference is 0, 1 or -1."""
        total, changed = sums.ups - sums.downs, sums.ups + sums.downs
        columns = {
            "shared": sums.shared, "clusters": sums.shared, "ups": sums.ups, "downs": sums.downs, "total": total,
            "squares": changed, "products": total, "sizes": sums.shared, "step": np.ones(len(total)),
            "changes": [None] * len(total),
        }  # fmt: skip
        self._add(suite, runners, cases, (sums.first, sums.second), columns)

    def _add(
        self, suite: str, runners: Sequence[str], cases: int, places: tuple[Places, Places], columns: Mapping[str, Any]
    ) -> None:
        numbers = np.array([self._number(runner) for runner in runners], dtype=np.intp)
        sides = {name: numbers[side] for name, side in zip(_RUNNERS, places, strict=True)}
        every = {"suite": self._number(suite), "cases": cases}
        of_suite = {name: np.full(len(places[0]), value) for name, value in every.items()}
        for name, values in {**of_suite, **sides, **columns}.items():
            self._parts[name].append(values)

    def _number(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))

    @property
    def frame(self) -> pl.DataFrame:
        """The rows, in the order in which they were added."""
        texts = pl.Series(list(self._texts), dtype=pl.String)
        return pl.DataFrame(
            [self._column(name, type_, texts) for name, type_ in DIFFERENCE_COLUMNS.items()], schema=DIFFERENCE_COLUMNS
        )

    def _column(self, name: str, type_: Any, texts: pl.Series) -> pl.Series:
        parts = self._parts[name]
        if type_ == pl.List(pl.Float64):
            return pl.Series(name, [each for part in parts for each in part], dtype=type_)
        if type_ == pl.String:
            return texts.gather(np.concatenate([np.empty(0, dtype=np.intp), *parts])).alias(name)
        dtype = np.float64 if type_ == pl.Float64 else np.int64  # None becomes NaN, which no sum is
        values = np.concatenate([np.empty(0, dtype=dtype), *(np.asarray(part, dtype=dtype) for part in parts)])
        return pl.Series(name, values, nan_to_null=True)


def overall_sums(
    differences: pl.DataFrame, suites: Iterable[str], runners: Sequence[str]
) -> list[tuple[int, int, PairSums]]:
    """Return the sums of differences between runners over all suites, weighted so that every suite counts the same."""
    pairs = list(combinations(range(len(runners)), 2))
    number = pl.Enum(runners)
    among = pl.col("runner").is_in(runners) & pl.col("other_runner").is_in(runners)
    chosen = differences.filter(pl.col("suite").is_in(list(suites)) & among).sort("suite", maintain_order=True)
    if chosen.is_empty():
        return []
    sizes = dict(chosen.select("suite", "cases").unique().iter_rows())
    weights = sum(sizes.values()) / len(sizes) / chosen["cases"].to_numpy()
    first, second = (chosen[name].cast(number).to_physical().to_numpy().astype(np.intp) for name in _RUNNERS)
    groups = first * (2 * len(runners) - first - 1) // 2 + second - first - 1  # places among combinations, in order
    parts = {name: chosen[name].to_list() if name in ("step", "changes") else chosen[name].to_numpy() for name in _SUMS}
    sums = added(parts, groups, len(pairs), weights)
    return [(*pair, sums[place]) for place, pair in enumerate(pairs)]
