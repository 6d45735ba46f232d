"""Least-squares lines through sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.statistics.summaries import mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A least-squares line over 0, 1, 2, …; `r_squared` is None for constant values, which have no variance."""

    slope: float
    intercept: float
    r_squared: float | None


def fit_line(values: Sequence[float]) -> Line | None:
    """Return the line through a sequence of values; None below two."""
    middle = mean(values)
    if middle is None or len(values) < 2:
        return None
    center = (len(values) - 1) / 2
    squares = math.fsum((index - center) ** 2 for index in range(len(values)))
    products = math.fsum((index - center) * (value - middle) for index, value in enumerate(values))
    total = math.fsum((value - middle) ** 2 for value in values)
    slope = products / squares
    level = total <= 1e-18
    return Line(
        slope=slope, intercept=middle - slope * center, r_squared=None if level else products**2 / squares / total
    )
