"""Groups of sides that the data does not tell apart, from the tests of all pairs."""

from __future__ import annotations

from collections.abc import Sequence

from eval_pipeline.statistics.ranks import PairTest


def indistinguishable(count: int, tests: Sequence[PairTest]) -> list[frozenset[int]]:
    """Return the largest groups of `count` sides (by their places) within which no test shows a difference.

    A side may be in several groups. By insertion and absorption (Piepho 2004, Journal of Computational and Graphical
    Statistics 13): each shown difference splits the groups that have both sides, and what another has is left out.
    """
    groups = [frozenset(range(count))] if count else []
    for test in tests:
        if test.better is None:
            continue
        both = {test.first, test.second}
        split = [group - {side} for group in groups if both <= group for side in both]
        groups = _absorbed([group for group in groups if not both <= group] + split)
    return sorted(groups, key=lambda group: (min(group), max(group), sorted(group)))


def _absorbed(groups: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    distinct = list(dict.fromkeys(groups))
    return [group for group in distinct if not any(group < other for other in distinct)]
