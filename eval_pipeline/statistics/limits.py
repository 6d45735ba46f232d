"""Limits on regressions."""

from __future__ import annotations


def drop_breach(
    baseline: float, candidate: float, *, max_drop: float | None = None, max_relative_drop: float | None = None
) -> str | None:
    """Return which limit a drop from `baseline` to `candidate` breaks: `absolute`, `relative`, or None.

    `max_drop` is in the unit of the values, `max_relative_drop` a share of the baseline. A baseline of 0 has no share.
    """
    drop = baseline - candidate
    if max_drop is not None and drop > max_drop + 1e-9:
        return "absolute"
    if max_relative_drop is not None and baseline and drop / abs(baseline) > max_relative_drop + 1e-9:
        return "relative"
    return None
