"""Counts of pairs by case → a board: who is compared with whom, on which cases, and who is listed apart and why.

The board of a suite has one identity: suite revision, panel revision (evaluators, graders, thresholds) and set of
cases. Pairs of another identity are listed apart, and so are those with too little graded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.show import counted, percent

COVERAGE_FLOOR = 0.9
"""The least share of graded plans with which a runner is ranked, where the project sets none."""


@dataclass(frozen=True)
class PairStatistics:
    """What a board needs of a pair; the fields of a row of `pair_statistics` in `row`, lists in the order of `cases`.

    `later_carried_out` of `later_plans` is what an unfinished later sweep reached.
    """

    row: Mapping[str, Any]

    @property
    def suite(self) -> str:
        return str(self.row["suite"])

    @property
    def runner(self) -> str:
        return str(self.row["runner"])

    @property
    def finished_at(self) -> datetime:
        """When the sweep stored the pair."""
        at: datetime = self.row["finished_at"]
        return at

    @property
    def complete(self) -> bool:
        """Whether everything planned was carried out."""
        return bool(self.row["complete"])

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each case in the lists."""
        return {case: place for place, case in enumerate(self.row["cases"])}

    @cached_property
    def plans(self) -> int:
        """All plans, those of broken cases included."""
        return int(sum(self.row["planned"])) + int(self.row["broken"])

    @property
    def coverage(self) -> float | None:
        """graded / planned."""
        return sum(self.row["graded"]) / self.plans if self.plans else None

    def keys_of(self, cases: Sequence[str]) -> list[str]:
        """Return what decides the verdicts of these cases."""
        return [self.row["decision_keys"][self.places[case]] for case in cases]

    def means(self, name: str, cases: Sequence[str]) -> list[float | None]:
        """Return the mean of `passed` or `score_sums` over the graded plans of each case, None without one."""
        sums, graded, places = self.row[name], self.row["graded"], self.places
        return [
            sums[places[case]] / graded[places[case]] if case in places and graded[places[case]] else None
            for case in cases
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A pair on the board of its suite, with the cases that its numbers are of. `apart` is why it is not ranked."""

    pair: PairStatistics
    cases: tuple[str, ...]
    apart: str | None = None


def list_suite(pairs: Sequence[PairStatistics], floor: float) -> list[Listed]:
    """Return the pairs of one suite, each compared or apart.

    The newest complete pair sets the suite revision; among complete pairs of that revision the most frequent set of
    cases is that of the board, and the newest pair with it sets evaluators, graders and thresholds. A runner that has
    more cases is compared on those of the board.
    """
    reference = _reference(pairs)
    cases = tuple(reference.places) if reference is not None else ()
    return [_listed(pair, reference, cases, floor) for pair in pairs]


def _reference(pairs: Sequence[PairStatistics]) -> PairStatistics | None:
    complete = sorted((pair for pair in pairs if pair.complete), key=lambda pair: (pair.finished_at, pair.runner))
    if not complete:
        return None
    same = [pair for pair in complete if pair.row["suite_revision"] == complete[-1].row["suite_revision"]]
    sets = Counter(pair.row["cases_revision"] for pair in same)
    newest = {pair.row["cases_revision"]: place for place, pair in enumerate(same)}
    chosen = max(sets, key=lambda revision: (sets[revision], len(same[newest[revision]].places), newest[revision]))
    return same[newest[chosen]]


def _listed(pair: PairStatistics, reference: PairStatistics | None, cases: tuple[str, ...], floor: float) -> Listed:
    apart = _why_apart(pair, reference, cases)
    if apart is not None:
        return Listed(pair=pair, cases=tuple(pair.places), apart=apart)
    return Listed(pair=pair, cases=cases, apart=_too_little(pair, floor))


def _why_apart(pair: PairStatistics, reference: PairStatistics | None, cases: tuple[str, ...]) -> str | None:
    if not pair.complete or reference is None:
        done = pair.plans - int(pair.row["missing"]) - int(pair.row["broken"])
        return f"unfinished: {done} of {counted(pair.plans, 'plan')} carried out"
    if pair.row["suite_revision"] != reference.row["suite_revision"]:
        return "another revision of the suite"
    shared = [case for case in cases if case in pair.places]
    if len(shared) < len(cases):
        return f"other cases: has {len(shared)} of {len(cases)}"
    if pair.keys_of(cases) != reference.keys_of(cases):
        return "other evaluators, graders or thresholds"
    return None


def _too_little(pair: PairStatistics, floor: float) -> str | None:
    coverage = pair.coverage
    if coverage is None or coverage < floor - 1e-9:
        return f"{percent(coverage)} graded, below {percent(floor)}"
    return None


def common_suites(ranked: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the suites of the overall board and the runners that are compared on it, from each runner's suites.

    Of all sets of suites that some runner is ranked on, the one with the most results (runners × suites), then the most
    suites. Every runner on the board is ranked on all of its suites.
    """
    best: tuple[int, int, list[str], list[str]] = (0, 0, [], [])
    for suites in sorted({tuple(sorted(suites)) for suites in ranked.values() if suites}):
        runners = sorted(runner for runner, own in ranked.items() if set(suites) <= set(own))
        if (len(runners) * len(suites), len(suites)) > best[:2]:
            best = len(runners) * len(suites), len(suites), list(suites), runners
    return best[2], best[3]


def missing_suites(suites: Sequence[str], own: Sequence[str]) -> str:
    """Return why a runner is not compared over these suites."""
    lacking = [suite for suite in suites if suite not in own]
    shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
    return f"not ranked on {shown}"


def pairs_of(frame: pl.DataFrame) -> Iterator[tuple[str, list[PairStatistics]]]:
    """Yield each suite with its pairs, sorted by suite and runner."""
    by_suite: dict[str, list[PairStatistics]] = {}
    for row in frame.sort("suite", "runner").iter_rows(named=True):
        by_suite.setdefault(row["suite"], []).append(PairStatistics(row))
    yield from by_suite.items()
