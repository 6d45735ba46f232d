"""Standings as an SVG drawing, written without a plotting library, which takes half a second to import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.show import PICTURE_LEGEND, label
from eval_pipeline.parsing.visible import escape_controls

_WIDTH = 760
_LEFT = 310
_LONGEST = 28
_RIGHT = 30
_ROW = 26
_TITLE = 30
_AXIS = 44
_SPAN = _WIDTH - _LEFT - _RIGHT
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_COLORS = {True: ("#9dbfd6", "#2f6f9f"), False: ("#dddddd", "#aaaaaa")}
"""Of intervals and dots, by whether they are ranked."""
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'font-family="sans-serif" font-size="12">'
)


def board_svg(standings: pl.DataFrame) -> str:
    """Return the pass rates of each suite with 95 % intervals, in the order of its board; those not ranked in gray."""
    suites = standings["suite"].unique(maintain_order=True).to_list()
    panels = [standings.filter(pl.col("suite") == suite) for suite in suites]
    height = sum(_TITLE + _ROW * panel.height for panel in panels) + _AXIS
    parts = [_HEAD.format(width=_WIDTH, height=height), f'<rect width="{_WIDTH}" height="{height}" fill="white"/>']
    top = 0
    for suite, panel in zip(suites, panels, strict=True):
        parts += _panel(suite, list(panel.iter_rows(named=True)), top)
        top += _TITLE + _ROW * panel.height
    return "".join([*parts, *_axis(top), "</svg>"])


def _panel(suite: str, rows: list[dict[str, Any]], top: int) -> Iterator[str]:
    """Yield the drawing of a suite: intervals and dots are one path each, which keeps large boards small."""
    yield _text(8, top + 20, suite, 'font-weight="bold"')
    bottom = top + _TITLE + _ROW * len(rows)
    grid = "".join(f"M{_number(_across(tick))} {top + _TITLE}V{bottom}" for tick in _TICKS)
    yield _path(grid, 'stroke="#dddddd"')
    middles = [top + _TITLE + _ROW * number + _ROW // 2 for number in range(len(rows))]
    placed = list(zip(rows, middles, strict=True))
    names = (label(row, _LONGEST) for row in rows)
    yield f'<g fill="#333333" text-anchor="end" transform="translate({_LEFT - 14} 4)">'
    yield from (f'<text y="{y}">{escape(escape_controls(name))}</text>' for name, y in zip(names, middles, strict=True))
    yield "</g>"
    known = [(row, y) for row, y in placed if row["pass_rate"] is not None]
    for is_ranked, (light, dark) in _COLORS.items():
        yield from _marks([(row, y) for row, y in known if (row["rank"] is not None) == is_ranked], light, dark)


def _marks(placed: list[tuple[dict[str, Any], int]], light: str, dark: str) -> Iterator[str]:
    """Yield the intervals and dots of standings at their heights, where there are any."""
    if placed:
        yield _path("".join(_interval(row, y) for row, y in placed), f'stroke="{light}" stroke-width="4"')
        dots = "".join(f"M{_number(_across(row['pass_rate']))} {y}h0" for row, y in placed)
        yield _path(dots, f'stroke="{dark}" stroke-width="9" stroke-linecap="round"')


def _interval(row: dict[str, Any], middle: int) -> str:
    low, high = row["pass_rate_low"], row["pass_rate_high"]
    if low is None or high is None:
        return ""
    return f"M{_number(_across(low))} {middle}H{_number(_across(high))}"


def _path(data: str, style: str) -> str:
    return f'<path d="{data}" fill="none" {style}/>'


def _number(value: float) -> str:
    return f"{value:g}"


def _axis(top: int) -> Iterable[str]:
    labels = [_text(_across(tick), top + 16, f"{tick:.0%}", 'text-anchor="middle" font-size="10"') for tick in _TICKS]
    return [*labels, _text(_WIDTH // 2, top + 34, PICTURE_LEGEND, 'text-anchor="middle"')]


def _across(share: float) -> float:
    return round(_LEFT + _SPAN * share, 1)


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#333333" {style}>{escape(escape_controls(text))}</text>'
