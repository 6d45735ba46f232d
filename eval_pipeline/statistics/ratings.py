"""Pairwise wins → strengths of all sides, and their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.statistics.student import t_quantile

if TYPE_CHECKING:
    import numpy as np

_ROUNDS = 10_000
_SETTLED = 1e-12
_FEWEST_CLUSTERS = 2


def bradley_terry(wins: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    """Return strengths from (winner, loser, count), with geometric mean 1: a beats b with probability a / (a + b).

    The maximum of the likelihood by Zermelo's iteration (Hunter 2004, Annals of Statistics 32). Raises ValueError
    when it has none: a side never won, or never lost, against all others together.
    """
    won: dict[str, dict[str, float]] = {}
    for winner, loser, count in wins:
        won.setdefault(winner, {})
        won.setdefault(loser, {})
        if winner != loser and count > 0:
            won[winner][loser] = won[winner].get(loser, 0.0) + count
    _check_connected(won)
    games = {name: _games(won, name) for name in won}
    strengths = dict.fromkeys(won, 1.0)
    for _ in range(_ROUNDS):
        following = _centered({name: _stronger(won[name], games[name], strengths, name) for name in won})
        moved = max((abs(following[name] - strengths[name]) / strengths[name] for name in won), default=0.0)
        strengths = following
        if moved < _SETTLED:
            break
    return strengths


Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Games:
    """The games of two sides: `won` is the share that `first` won of each (1, 1/2 for a tie, 0), `clusters` what each
    belongs to (a whole number in 64 bits): a case that several pairs of sides played, or cases of one origin."""

    first: str
    second: str
    clusters: Sequence[int] | Array
    won: Sequence[float] | Array


def rating_intervals(strengths: Mapping[str, float], games: Sequence[Games]) -> dict[str, Interval | None]:
    """Return 95 % intervals of strengths that `bradley_terry` gave; None with fewer than two clusters.

    Student's t on the logarithms of the strengths, whose mean is 0. The variance is the larger of the inverse of
    Fisher's information (each game independent; a tie counts as one that either may win) and the sandwich over clusters
    (Huber 1967; White 1982, Econometrica 50): games of one case go together, and with many sides there are more games
    than cases.
    """
    import numpy as np  # noqa: PLC0415 — numpy takes 90 ms, which only ratings need

    places = {name: place for place, name in enumerate(strengths)}
    empty = np.zeros(0, dtype=np.uint64)
    clusters = np.unique(np.concatenate([empty, *(np.asarray(each.clusters, dtype=np.uint64) for each in games)]))
    if clusters.size < _FEWEST_CLUSTERS:
        return dict.fromkeys(strengths)
    information, slopes = np.zeros((len(places),) * 2), np.zeros((clusters.size, len(places)))
    for each in games:
        expected = strengths[each.first] / (strengths[each.first] + strengths[each.second])
        first, second = places[each.first], places[each.second]
        edge = np.zeros(len(places))
        edge[first], edge[second] = 1.0, -1.0
        information += len(each.won) * expected * (1 - expected) * np.outer(edge, edge)
        rows = np.searchsorted(clusters, np.asarray(each.clusters, dtype=np.uint64))
        np.add.at(slopes, rows, np.outer(np.asarray(each.won, dtype=float) - expected, edge))
    errors = _standard_errors(np.linalg.pinv(information, hermitian=True), slopes)
    reach = t_quantile(int(clusters.size) - 1)
    return {
        name: (value * math.exp(-reach * error), value * math.exp(reach * error))
        for (name, value), error in zip(strengths.items(), errors, strict=True)
    }


def _standard_errors(inverse: Any, slopes: Any) -> list[float]:
    clusters = len(slopes)
    spread = slopes @ inverse
    sandwich = (spread * spread).sum(axis=0) * clusters / (clusters - 1)
    return [math.sqrt(max(pair)) for pair in zip(inverse.diagonal().tolist(), sandwich.tolist(), strict=True)]


def _games(won: Mapping[str, Mapping[str, float]], name: str) -> dict[str, float]:
    met = {other: won[name].get(other, 0.0) + won[other].get(name, 0.0) for other in won if other != name}
    return {other: count for other, count in met.items() if count}


def _stronger(
    wins: Mapping[str, float], games: Mapping[str, float], strengths: Mapping[str, float], name: str
) -> float:
    if not games:
        return 1.0
    return sum(wins.values()) / sum(count / (strengths[name] + strengths[other]) for other, count in games.items())


def _centered(strengths: Mapping[str, float]) -> dict[str, float]:
    shift = math.fsum(map(math.log, strengths.values())) / max(1, len(strengths))
    return {name: value / math.exp(shift) for name, value in strengths.items()}


def _check_connected(won: Mapping[str, Mapping[str, float]]) -> None:
    lost = {name: [other for other in won if name in won[other]] for name in won}
    for edges in ({name: list(beaten) for name, beaten in won.items()}, lost):
        reached: set[str] = set()
        waiting = list(won)[:1]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += edges[name]
        if reached != set(won):
            apart = sorted(set(won) - reached)
            raise ValueError(f"strengths are not determined: wins lead only one way to or from {', '.join(apart)}")
