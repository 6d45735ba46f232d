"""How far graders agree beyond chance: Cohen's kappa of two, Krippendorff's alpha of any number.

Pure functions of ratings. The same numbers over stored scores are in the warehouse's view `grader_agreement`. Both are
1 for full agreement, 0 for what chance alone would bring, and None when nothing can be said (no pair of ratings).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from itertools import combinations
from typing import Any, Literal

Level = Literal["nominal", "ordinal", "interval"]


def cohens_kappa(first: Sequence[Hashable], second: Sequence[Hashable]) -> float | None:
    """Cohen's kappa (Cohen 1960, Educational and Psychological Measurement 20) of two graders' ratings of the same
    units, in order; units that one of them did not rate (None) are left out.

    κ = (p_o - p_e) / (1 - p_e), where p_o is the share of units that they rate alike and p_e the share that they would
    by chance, each with its own frequencies. 1 when both rate everything the same one way.
    """
    pairs = [(one, other) for one, other in zip(first, second, strict=True) if one is not None and other is not None]
    if not pairs:
        return None
    units = len(pairs)
    observed = sum(one == other for one, other in pairs) / units
    of_first, of_second = Counter(one for one, _ in pairs), Counter(other for _, other in pairs)
    by_chance = sum(count * of_second[rating] for rating, count in of_first.items()) / units**2
    return 1.0 if by_chance == 1 else (observed - by_chance) / (1 - by_chance)


def krippendorffs_alpha(units: Sequence[Sequence[Hashable]], level: Level = "nominal") -> float | None:
    """Krippendorff's alpha (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability) of any number of graders.

    `units` holds the ratings of each unit, in any order; None stands for a rating that is missing, and units with fewer
    than two ratings say nothing. α = 1 - D_o / D_e, the disagreement within units over that of all ratings: for
    `nominal` ratings whether they differ, for `interval` ones the square of their difference, for `ordinal` ones the
    square of the number of ratings between them. 1 when there is no disagreement at all. Raises ValueError for ratings
    that are no numbers, unless they are nominal, and for an unknown level.
    """
    rated = [present for unit in units if len(present := [one for one in unit if one is not None]) > 1]
    together = Counter(rating for unit in rated for rating in unit)
    total = sum(together.values())
    difference = _difference(level, together)
    if total < 2:
        return None
    observed = sum(_pairwise(Counter(unit), difference) / (len(unit) - 1) for unit in rated)
    expected = _pairwise(together, difference) / (total - 1)
    return 1.0 if expected == 0 else 1 - observed / expected


def _pairwise(ratings: Counter[Any], difference: Callable[[Any, Any], float]) -> float:
    """The sum of the differences of all ordered pairs."""
    return 2 * math.fsum(
        ratings[one] * ratings[other] * difference(one, other) for one, other in combinations(ratings, 2)
    )


def _difference(level: Level, ratings: Counter[Any]) -> Callable[[Any, Any], float]:
    if level == "nominal":
        return _differ
    if level not in ("ordinal", "interval"):
        raise ValueError(f"no level '{level}'; there are: nominal, ordinal, interval")
    wrong = next((one for one in ratings if isinstance(one, bool) or not isinstance(one, (int, float))), None)
    if wrong is not None:
        raise ValueError(f"{level} ratings are numbers, got {wrong!r}")
    places = _places(ratings) if level == "ordinal" else {one: float(one) for one in ratings}
    return lambda one, other: (places[one] - places[other]) ** 2


def _differ(one: object, other: object) -> float:
    return float(one != other)


def _places(ratings: Counter[Any]) -> dict[Any, float]:
    """The place of each rating in the order of all: half of its own number after those that are lower."""
    places: dict[Any, float] = {}
    below = 0
    for rating in sorted(ratings):
        places[rating] = below + ratings[rating] / 2
        below += ratings[rating]
    return places
