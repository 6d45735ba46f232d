"""Many tests at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted so that below 5 % in all tests together one is wrong in at most 5 % of cases.

    Holm's step-down adjustment (Holm 1979, Scandinavian Journal of Statistics 6), in the order given.
    """
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted, greatest = [0.0] * len(p_values), 0.0
    for step, place in enumerate(order):
        greatest = max(greatest, min(1.0, (len(order) - step) * p_values[place]))
        adjusted[place] = greatest
    return adjusted
