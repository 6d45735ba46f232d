"""Standings as an SVG drawing, written without a plotting library, so that every materialization can afford it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

import polars as pl

from eval_pipeline.leaderboards.show import percent, short_name
from eval_pipeline.parsing.visible import escape_controls

_WIDTH = 760
_LEFT = 270
_RIGHT = 30
_ROW = 26
_TITLE = 30
_AXIS = 44
_SPAN = _WIDTH - _LEFT - _RIGHT
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
    'font-family="sans-serif" font-size="12">'
)


def board_svg(standings: pl.DataFrame) -> str:
    """Return the pass rates of each suite with 95 % intervals, best first; runners without a pass rate are left out."""
    known = standings.filter(pl.col("pass_rate").is_not_null())
    suites = known["suite"].unique(maintain_order=True).to_list()
    panels = [known.filter(pl.col("suite") == suite).sort("pass_rate", "runner", descending=[True, False])
              for suite in suites]  # fmt: skip
    height = sum(_TITLE + _ROW * panel.height for panel in panels) + _AXIS
    parts = [_HEAD.format(width=_WIDTH, height=height), f'<rect width="{_WIDTH}" height="{height}" fill="white"/>']
    top = 0
    for suite, panel in zip(suites, panels, strict=True):
        parts += _panel(suite, list(panel.iter_rows(named=True)), top)
        top += _TITLE + _ROW * panel.height
    return "".join([*parts, *_axis(top), "</svg>"])


def _panel(suite: str, rows: list[dict[str, Any]], top: int) -> Iterator[str]:
    yield _text(8, top + 20, suite, 'font-weight="bold"')
    bottom = top + _TITLE + _ROW * len(rows)
    for tick in _TICKS:
        yield _line(_across(tick), top + _TITLE, _across(tick), bottom, 'stroke="#dddddd"')
    for number, row in enumerate(rows):
        yield from _row(row, top + _TITLE + _ROW * number + _ROW // 2)


def _row(row: dict[str, Any], middle: int) -> Iterator[str]:
    rate, low, high = row["pass_rate"], row["pass_rate_low"], row["pass_rate_high"]
    yield _text(_LEFT - 14, middle + 4, short_name(row["runner"]), 'text-anchor="end"')
    if low is not None and high is not None:
        yield _line(_across(low), middle, _across(high), middle, 'stroke="#9dbfd6" stroke-width="4"')
    yield f'<circle cx="{_across(rate)}" cy="{middle}" r="4.5" fill="#2f6f9f"/>'
    yield _text(_across(rate), middle - 7, percent(rate), 'text-anchor="middle" font-size="10"')


def _axis(top: int) -> Iterable[str]:
    labels = [_text(_across(tick), top + 16, f"{tick:.0%}", 'text-anchor="middle" font-size="10"') for tick in _TICKS]
    return [*labels, _text(_LEFT + _SPAN // 2, top + 34, "pass rate, with 95 % interval", 'text-anchor="middle"')]


def _across(share: float) -> float:
    return round(_LEFT + _SPAN * share, 1)


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" {style}/>'


def _text(x: float, y: float, text: str, style: str) -> str:
    return f'<text x="{x}" y="{y}" fill="#333333" {style}>{escape(escape_controls(text))}</text>'
