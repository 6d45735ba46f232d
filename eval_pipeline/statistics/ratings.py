"""Pairwise wins → strengths of all sides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

_ROUNDS = 10_000
_SETTLED = 1e-12


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
