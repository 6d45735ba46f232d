"""Sums of differences over several suites, many pairs of sides at once: one addition for each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eval_pipeline.statistics.pair_sums import MOST_CHANGES, Array, PairSums
from eval_pipeline.statistics.sign_flips import GRID

_POWERS = {
    "shared": 0, "clusters": 0, "ups": 0, "downs": 0, "total": 1, "squares": 2, "products": 1, "sizes": 0,
}  # fmt: skip
"""The power of its weight that each sum is multiplied with."""
_COUNTS = ("shared", "clusters", "ups", "downs")


def added(
    parts: Mapping[str, Any], groups: NDArray[np.intp], count: int, weights: Array | None = None
) -> list[PairSums]:
    """Return the sums of each of `count` groups over its parts, whose clusters are disjoint.

    Args:
        parts: the fields of `PairSums` by name, each with a value for every part.
        groups: the number of each part's group, from 0.
        count: how many groups there are.
        weights: what the differences of each part are multiplied with; by default 1.
    """
    weights = np.ones(len(groups)) if weights is None else weights
    sums = {
        name: np.bincount(groups, np.asarray(parts[name], dtype=np.float64) * weights**power, minlength=count)
        for name, power in _POWERS.items()
    }
    counts = {name: sums.pop(name).astype(np.int64).tolist() for name in _COUNTS}
    columns = {**counts, **{name: values.tolist() for name, values in sums.items()}}
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    steps = _common_steps(parts, groups, count, weights)
    changes = _all_changes(parts, groups, weights, [step is None for step in steps])
    return [PairSums(**row, step=steps[place], changes=changes.get(place)) for place, row in enumerate(rows)]


def _common_steps(parts: Mapping[str, Any], groups: NDArray[np.intp], count: int, weights: Array) -> list[float | None]:
    """Return the size of every change of each group, 0 without any; None where they differ."""
    steps = np.array([np.nan if step is None else step for step in parts["step"]], dtype=np.float64) * weights
    changed = np.asarray(parts["ups"]) + np.asarray(parts["downs"]) > 0
    common: list[float | None] = [0.0] * count
    known: dict[int, float] = {}
    for group, step, place in zip(
        groups[changed].tolist(), steps[changed].tolist(), np.rint(steps[changed] * GRID).tolist(), strict=True
    ):
        if known.setdefault(group, place) != place:  # one that is not a number differs from itself
            common[group] = None
        elif common[group] == 0.0:
            common[group] = step
    return common


def _all_changes(
    parts: Mapping[str, Any], groups: NDArray[np.intp], weights: Array, wanted: Sequence[bool]
) -> dict[int, list[float] | None]:
    """Return the changes of the wanted groups, unless they are too many or not known one by one."""
    ups, downs = np.asarray(parts["ups"]), np.asarray(parts["downs"])
    totals = np.bincount(groups, ups + downs, minlength=len(wanted))
    few = np.array(wanted, dtype=bool) & (totals <= MOST_CHANGES)
    changes: dict[int, list[float] | None] = {}
    for part in np.flatnonzero(few[groups] & (ups + downs > 0)).tolist():
        changes.setdefault(int(groups[part]), []).extend(_changes(parts, part, float(weights[part])))  # type: ignore[union-attr]
    return changes


def _changes(parts: Mapping[str, Any], part: int, weight: float) -> Iterator[float]:
    step = parts["step"][part]
    each = parts["changes"][part]
    if step is not None and not np.isnan(step):
        each = [step] * int(parts["ups"][part]) + [-step] * int(parts["downs"][part])
    return (change * weight for change in (() if each is None else each))
