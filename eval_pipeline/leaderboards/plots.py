"""Plots for `--plot`, drawn with matplotlib.

matplotlib takes half a second to import: import this module only to draw a plot.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import polars as pl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from eval_pipeline.leaderboards.show import PICTURE_LEGEND, label, short_name
from eval_pipeline.leaderboards.trends import Trend

_MOST_LABELS = 12
_LONGEST_LABEL = 24
_LONGEST = 40
_COLORS = {True: ("#9dbfd6", "#2f6f9f"), False: ("#dddddd", "#aaaaaa")}
"""Of intervals and dots, by whether they are ranked."""
_MOST_NAMES = 120
_MOST_DOTS = 80
"""With more of them a picture is taller than a screen, and takes long."""


def plot_board(standings: pl.DataFrame) -> bytes:
    """Draw pass rates: a dot with its 95 % interval for each runner of each suite, in the order of its board, in gray
    where it is not ranked; a board with more of them than can be read as a map of suites × runners, colored by pass
    rate. Return a PNG."""
    rows = standings.reverse().sort("suite", descending=True, maintain_order=True)
    return _png(_intervals(rows) if rows.height <= _MOST_DOTS else _map(rows.drop_nulls("pass_rate")))


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


def _intervals(rows: pl.DataFrame) -> Figure:
    """One axis for all suites: an axis of its own for each takes a second of CPU."""
    suites = rows["suite"].unique(maintain_order=True).to_list()
    lines = [line for suite in suites for line in (*rows.filter(pl.col("suite") == suite).iter_rows(named=True), suite)]
    figure = Figure(figsize=(7.5, 0.6 + 0.32 * max(1, len(lines))), layout="constrained")
    axis = figure.subplots()
    placed = [(place, line) for place, line in enumerate(lines) if isinstance(line, dict)]
    known = [(place, line) for place, line in placed if line["pass_rate"] is not None]
    for is_ranked, (light, dark) in _COLORS.items():
        _draw(axis, [(place, line) for place, line in known if (line["rank"] is not None) == is_ranked], light, dark)
    labels = [label(line, _LONGEST) if isinstance(line, dict) else short_name(line) for line in lines]
    for tick, line in zip(axis.set_yticks(range(len(lines)), labels), lines, strict=True):
        tick.label1.set_fontweight("normal" if isinstance(line, dict) else "bold")
    axis.set_ylim(-0.6, len(lines) - 0.4)
    axis.set_xlim(-0.02, 1.02)
    axis.set_xlabel(PICTURE_LEGEND, fontsize=8)
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    _bare(axis)
    return figure


def _draw(axis, placed: list[tuple[int, dict[str, Any]]], light: str, dark: str) -> None:  # type: ignore[no-untyped-def]
    """Draw the dots of standings at their places, each with its interval."""
    rates, low, high = (
        np.array([line[name] for _, line in placed], dtype=np.float64)
        for name in ("pass_rate", "pass_rate_low", "pass_rate_high")
    )
    axis.errorbar(
        rates, [place for place, _ in placed], xerr=[(rates - low).clip(0), (high - rates).clip(0)],
        fmt="o", color=dark, ecolor=light, elinewidth=3, capsize=0, markersize=6,
    )  # fmt: skip


def _map(rows: pl.DataFrame) -> Figure:
    suites, runners = (rows[name].unique().sort().to_list() for name in ("suite", "runner"))
    columns = {runner: place for place, runner in enumerate(runners)}
    rates = np.full((len(suites), len(runners)), np.nan)
    for place, suite in enumerate(suites):
        for runner, rate in rows.filter(pl.col("suite") == suite).select("runner", "pass_rate").iter_rows():
            rates[place, columns[runner]] = rate
    height = 1.6 + 0.16 * min(len(suites), _MOST_NAMES)
    figure = Figure(figsize=(2.5 + 0.3 * len(runners), height), layout="constrained")
    axis = figure.subplots()
    colors = axis.imshow(rates, cmap="viridis", vmin=0.0, vmax=1.0, aspect="auto", interpolation="nearest")
    axis.set_xticks(range(len(runners)), [short_name(name) for name in runners], rotation=90, fontsize=7)
    named = slice(None, None, -(-len(suites) // _MOST_NAMES) or 1)
    axis.set_yticks(range(len(suites))[named], [short_name(name) for name in suites[named]], fontsize=7)
    bar = figure.colorbar(colors, shrink=0.5)
    bar.set_label("pass rate")
    _bare(axis)
    return figure


def _bare(axis) -> None:  # type: ignore[no-untyped-def]
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)  # type: ignore[no-untyped-call]
    return out.getvalue()
