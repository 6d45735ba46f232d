"""Agreement of graders beyond chance: formulas for numbers and for SQL expressions.

Both are 1 for full agreement and 0 for the agreement expected by chance.
"""

from __future__ import annotations

from typing import Any


def kappa(agreement: Any, by_chance: Any) -> Any:
    """Return Cohen's kappa (Cohen 1960, Educational and Psychological Measurement 20) of two graders.

    Args:
        agreement: share of units that both rate alike.
        by_chance: share that they would rate alike by chance, each with its own frequencies; below 1.
    """
    return (agreement - by_chance) / (1 - by_chance)


def alpha(within: Any, overall: Any) -> Any:
    """Return Krippendorff's alpha (Krippendorff 2011, Computing Krippendorff's Alpha-Reliability) of any graders.

    Args:
        within: sum over units of the squared differences of all ordered pairs of ratings, over ratings - 1.
        overall: the same of all ratings together; above 0.
    """
    return 1 - within / overall
