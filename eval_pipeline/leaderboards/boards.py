"""Counts of pairs by case → a board: who is compared with whom, on which cases, and who is listed apart and why.

The board of a suite has one identity: suite revision, panel revision (evaluators, graders, thresholds) and set of
cases. Pairs of another identity are listed apart, and so are those with too little graded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.case_totals import CaseTotals, stored_totals, totals_of
from eval_pipeline.leaderboards.show import counted, percent

_NARROWED = 10
"""Of how many sets of suites of runners the overall board tries parts."""


@dataclass(frozen=True)
class PairStatistics:
    """What a board needs of a pair; some fields of a row of `pair_statistics` in `row`, lists in the order of `cases`:
    numbers as NumPy arrays, texts as Polars series. Texts are None where no pair of the suite has other ones, or
    clusters; numbers are None where `totals` and `outcomes` tell all that the board needs of them.

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
        return {case: place for place, case in enumerate(self.row["cases"].to_list())}

    @cached_property
    def totals(self) -> CaseTotals:
        """The counts over all its cases, with its own weights and clusters."""
        stored = self.row.get("totals")
        return Listed(pair=self).count_lists() if stored is None else stored_totals(stored)

    @property
    def plans(self) -> int:
        """All plans, those of broken cases included."""
        return self.totals.planned + int(self.row["broken"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A pair on the board of its suite. `places` are those of the cases that its numbers are of in its lists, in the
    order of the board; None: all of them, as they are. `apart` is why it is not ranked. `board` is the pair whose cases
    and weights the board has, None where the pair's numbers are of its own."""

    pair: PairStatistics
    places: list[int] | None = None
    apart: str | None = None
    board: PairStatistics | None = None

    def values(self, name: str) -> Any:
        """Return a list of the pair for the cases that its numbers are of."""
        values = self.pair.row[name]
        return values if self.places is None else values[self.places]

    @property
    def weights(self) -> Any:
        """How much each of these cases counts; None where all count the same. A board has one weight of each case."""
        return (self.board or self.pair).row.get("weights")

    @property
    def clusters(self) -> list[str] | None:
        """The clusters of these cases; None where each is its own."""
        row = self.pair.row
        return None if _are_equal(row["clusters"], row["cases"]) else self.values("clusters").to_list()

    @property
    def totals(self) -> CaseTotals:
        """The counts over these cases."""
        return self.pair.totals if self._is_plain else self.count_lists()

    @property
    def outcomes(self) -> bytes | None:
        """A bit for each of these cases: whether it is graded; then one: whether it passed. None where bits do not tell
        all: cases are weighted or clustered, or one passed in part."""
        return self.pair.row.get("outcomes") if self._is_plain else None

    @property
    def _is_plain(self) -> bool:
        """Whether what was stored of the pair as a whole is of these cases, with the weights of the board."""
        return self.places is None and self.weights is self.pair.row.get("weights")

    def count_lists(self) -> CaseTotals:
        """Return the totals of the lists."""
        return totals_of({name: self.values(name) for name in _COUNTED}, self.clusters, self.weights)


def list_suite(pairs: Sequence[PairStatistics], floor: float) -> list[Listed]:
    """Return the pairs of one suite, each compared or apart.

    The newest complete pair sets the suite revision. Of the sets of cases that complete pairs of that revision have,
    the board's is the one with the most results (pairs that have all of it × cases), and the newest pair with it sets
    evaluators, graders and thresholds. A runner that has more cases is compared on those of the board.
    """
    reference = _reference(pairs)
    return [_listed(pair, reference, floor) for pair in pairs]


def _reference(pairs: Sequence[PairStatistics]) -> PairStatistics | None:
    complete = sorted((pair for pair in pairs if pair.complete), key=lambda pair: (pair.finished_at, pair.runner))
    if not complete:
        return None
    same = [pair for pair in complete if pair.row["suite_revision"] == complete[-1].row["suite_revision"]]
    by_set = {pair.row["cases_revision"]: (place, pair) for place, pair in enumerate(same)}
    if len(by_set) == 1:
        return same[-1]
    sets = Counter(pair.row["cases_revision"] for pair in same)
    distinct = [(pair, sets[revision]) for revision, (_, pair) in by_set.items()]
    return max(by_set.values(), key=lambda each: (*_results(each[1], distinct), each[0]))[1]


def _results(pair: PairStatistics, distinct: Sequence[tuple[PairStatistics, int]]) -> tuple[int, int]:
    """Return how many results a board of this pair's cases has, and of how many cases; `distinct` has one pair of each
    set of cases, and how many have it."""
    having = sum(count for other, count in distinct if pair.places.keys() <= other.places.keys())
    return having * len(pair.places), len(pair.places)


def _listed(pair: PairStatistics, reference: PairStatistics | None, floor: float) -> Listed:
    if not pair.complete or reference is None:
        done = pair.plans - int(pair.row["missing"]) - int(pair.row["broken"])
        return Listed(pair=pair, apart=f"unfinished: {done} of {counted(pair.plans, 'plan')} carried out")
    if pair.row["suite_revision"] != reference.row["suite_revision"]:
        return Listed(pair=pair, apart="another revision of the suite")
    if _are_equal(pair.row["cases"], reference.row["cases"]):
        return _with_cases(pair, reference, None, floor)
    places = [pair.places[case] for case in reference.places if case in pair.places]
    if len(places) < len(reference.places):
        return Listed(pair=pair, apart=f"other cases: has {len(places)} of {len(reference.places)}")
    return _with_cases(pair, reference, places, floor)


def _with_cases(pair: PairStatistics, reference: PairStatistics, places: list[int] | None, floor: float) -> Listed:
    """Return a pair that has all cases of the board, at these places."""
    listed = Listed(pair=pair, places=places, board=reference)
    if not _are_equal(listed.values("decision_keys"), reference.row["decision_keys"]):
        return Listed(pair=pair, apart="other evaluators, graders, thresholds or simulators")
    apart = _too_little(listed, floor)
    return listed if apart is None else replace(listed, apart=apart)


def _too_little(listed: Listed, floor: float) -> str | None:
    graded, planned = (_count(listed, name) for name in ("graded", "planned"))
    if not graded:
        return "nothing graded"
    coverage = graded / (planned + int(listed.pair.row["broken"]))
    return f"{percent(coverage)} graded, below {percent(floor)}" if coverage < floor - 1e-9 else None


def _count(listed: Listed, name: str) -> int:
    lists = listed.pair.row.get(name)
    return int(getattr(listed.totals, name) if lists is None else listed.values(name).sum())


def common_suites(ranked: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return the suites of the overall board and the runners that are compared on it, from each runner's suites.

    The suites are those with the most results (runners that are ranked on all of them × suites); of as many, those that
    compare at least two runners, then the most suites. Tried are the suites of each runner, and what is left of the
    most promising as the runner that leaves the most results is added, one after another.
    """
    names = sorted({suite for suites in ranked.values() for suite in suites}, reverse=True)
    bits = {suite: 1 << place for place, suite in enumerate(names)}  # the first in the alphabet is the greatest
    own = {runner: sum(bits[suite] for suite in suites) for runner, suites in sorted(ranked.items()) if suites}
    starts = sorted(set(own.values()), key=lambda suites: _worth(suites, own.values()), reverse=True)
    tried = {*starts, *(suites for start in starts[:_NARROWED] for suites in _narrowed(start, own.values()))}
    best = max(tried, key=lambda suites: _worth(suites, own.values()), default=0)
    runners = [runner for runner, suites in own.items() if best & suites == best]
    return [suite for suite in reversed(names) if bits[suite] & best], runners


def _narrowed(suites: int, own: Collection[int]) -> Iterator[int]:
    """Yield what is left of a set of suites as one runner after another is added."""
    while left := {suites & other for other in own} - {suites, 0}:
        suites = max(left, key=lambda each: _worth(each, own))
        yield suites


def _worth(suites: int, own: Collection[int]) -> tuple[int, bool, int, int]:
    runners, count = sum(suites & other == suites for other in own), suites.bit_count()
    return runners * count, runners > 1, count, suites


def missing_suites(suites: Sequence[str], own: Sequence[str]) -> str:
    """Return why a runner is not compared over these suites."""
    lacking = [suite for suite in suites if suite not in own]
    shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
    return f"no rank on {shown}"


_COUNTED = ("planned", "graded", "answers", "passed", "score_sums")
_NUMBERS = (*_COUNTED, "weights")
_TEXTS = ("cases", "clusters", "decision_keys")
_READ = (
    "suite", "runner", "finished_at", "complete", "missing", "broken", "errored", "suite_revision", "cases_revision",
    "totals", "outcomes", "later_carried_out", "later_plans",
)  # fmt: skip


def pairs_of(frame: pl.DataFrame) -> Iterator[tuple[str, list[PairStatistics]]]:
    """Yield each suite with its pairs, from a frame that is sorted by suite and runner; `place` is a pair's row.

    Rows of a suite with the same `texts_id`, where the frame has one, have the same lists of texts, once, or none.
    """
    lists = {name: frame[name] for name in (*_NUMBERS, *_TEXTS) if name in frame.columns}
    ids = frame["texts_id"].to_list() if "texts_id" in frame.columns else range(len(frame))
    keys = list(zip(frame["suite"].to_list(), ids, strict=True))
    columns = {
        "place": range(len(frame)),
        **{name: frame[name].to_list() for name in _READ if name in frame.columns},
        **{name: list(map(_array, lists[name])) for name in _NUMBERS if name in lists},
        **{name: _texts(keys, name, lists) for name in _TEXTS},
    }
    by_suite: dict[str, list[PairStatistics]] = {}
    for row in zip(*columns.values(), strict=True):
        pair = PairStatistics(dict(zip(columns, row, strict=True)))
        by_suite.setdefault(pair.row["suite"], []).append(pair)
    yield from by_suite.items()


def _texts(keys: Sequence[tuple[str, Any]], name: str, lists: Mapping[str, pl.Series]) -> list[pl.Series | None]:
    """Return a list of texts of each row: its own, or that of another row of its suite with the same id."""
    stored = lists[name].is_not_null().arg_true().to_list() if name in lists else ()
    known = {keys[place]: lists[name][place] for place in stored}
    return [known.get(key) for key in keys]


def _array(values: Any) -> Any:
    return values.to_numpy() if isinstance(values, pl.Series) else values


def _are_equal(first: pl.Series | None, second: pl.Series | None) -> bool:
    """Return whether two lists of texts are the same. None is the one that all pairs of the suite have."""
    return first is second or (first is not None and second is not None and first.equals(second))
