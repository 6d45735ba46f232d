"""Plots for `--plot`, drawn with matplotlib.

matplotlib takes half a second to import: import this module only to draw a plot.
"""

from __future__ import annotations

import io

import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eval_pipeline.leaderboards.show import percent, short_name
from eval_pipeline.leaderboards.trends import Trend

_MOST_LABELS = 12
_LONGEST_LABEL = 24


def plot_board(standings: pl.DataFrame) -> bytes:
    """Draw pass rates with their 95 % intervals: one panel per suite, one dot per runner. Return a PNG."""
    known = standings.filter(pl.col("pass_rate").is_not_null())
    suites = known["suite"].unique(maintain_order=True).to_list()
    sizes = [max(1, known.filter(pl.col("suite") == suite).height) for suite in suites] or [1]
    figure = Figure(figsize=(7.5, 0.9 * max(1, len(suites)) + 0.32 * sum(sizes)), layout="constrained")
    axes = figure.subplots(max(1, len(suites)), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axis, suite in zip(axes, suites, strict=False):
        _panel(axis, suite, known.filter(pl.col("suite") == suite).sort("pass_rate", "runner"))
    axes[-1].set_xlabel("pass rate, with 95 % interval")
    axes[-1].set_xlim(-0.02, 1.02)
    return _png(figure)


def plot_trend(trend: Trend) -> bytes:
    """Draw the mean score of each sweep as a dot, with the least-squares line through them. Return a PNG."""
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axis = figure.subplots()
    positions = range(len(trend.points))
    line = [trend.line.intercept + trend.line.slope * position for position in positions]
    axis.plot(positions, line, color="#9dbfd6", linewidth=2)
    axis.plot(positions, [point.mean_score for point in trend.points], "o", color="#2f6f9f", markersize=6)
    step = max(1, -(-len(trend.points) // _MOST_LABELS))
    labels = [trend.points[position].name[:_LONGEST_LABEL] for position in positions[::step]]
    axis.set_xticks(list(positions[::step]), labels, rotation=30, ha="right", fontsize=7)
    axis.set_ylim(-0.02, 1.02)
    axis.set_ylabel("mean score")
    axis.set_title(f"{trend.direction}: {trend.line.slope:+.4f} a sweep", loc="left", fontsize=10, fontweight="bold")
    axis.grid(axis="y", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return _png(figure)


def _panel(axis, suite: str, rows: pl.DataFrame) -> None:  # type: ignore[no-untyped-def]
    rates, low, high = rows["pass_rate"], rows["pass_rate_low"], rows["pass_rate_high"]
    axis.errorbar(
        rates, range(rows.height), xerr=[(rates - low).clip(0), (high - rates).clip(0)],
        fmt="o", color="#2f6f9f", ecolor="#9dbfd6", elinewidth=3, capsize=0, markersize=6,
    )  # fmt: skip
    for position, rate in enumerate(rates):
        axis.annotate(
            percent(rate), (rate, position), xytext=(0, 5), textcoords="offset points", ha="center", fontsize=8
        )
    axis.set_yticks(range(rows.height), [short_name(name) for name in rows["runner"]])
    axis.set_ylim(-0.6, rows.height - 0.2)
    axis.set_title(suite, loc="left", fontsize=10, fontweight="bold")
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)  # type: ignore[no-untyped-call]
    return out.getvalue()
