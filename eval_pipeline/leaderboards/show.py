"""Standings as text: the numbers of a leaderboard formatted for people, and Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import polars as pl

UNKNOWN = "–"


def percent(value: float | None) -> str:
    """Return a share as a percentage with one decimal, `–` when unknown."""
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval of shares, `–` when unknown."""
    return UNKNOWN if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def rank_text(low: int, high: int) -> str:
    """Return the ranks that a side may have: `2` or `2–4`."""
    return str(low) if low == high else f"{low}–{high}"


def amount(value: float | None, digits: int = 0, unit: str = "") -> str:
    """Return a number with thousands separated, `–` when unknown."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}{unit}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, which is in the plural (by default with `s`) where the number is not 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def milliseconds(value: float | None) -> str:
    """Return a duration: `3.2 ms`, `850 ms`, `12.4 s`; `–` when unknown."""
    if value is None:
        return UNKNOWN
    return f"{value / 1000:.1f} s" if value >= 10_000 else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def money(value: float | None) -> str:
    """Return US dollars, with four decimals below one; `–` when unknown. Amounts that round to zero are `<$0.0001`."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value >= 1 else "<$0.0001" if 0 < value < 0.00005 else f"${value:.4f}"


def period(first: datetime | None, last: datetime | None) -> str:
    """Return when the first and the last of some answers were given (UTC), to the minute within one day; `–` when
    unknown."""
    if first is None or last is None:
        return UNKNOWN
    if first.date() != last.date():
        return f"{first:%Y-%m-%d} to {last:%Y-%m-%d}"
    minutes = f"{first:%H:%M}", f"{last:%H:%M}"
    return f"{first:%Y-%m-%d} {minutes[0]}" + (f" to {minutes[1]}" if minutes[0] != minutes[1] else "")


def short_period(first: datetime | None, last: datetime | None) -> str:
    """Return the same in fewer characters, without the year: `11-22 14:03`, `11-22 14:03–15:10`, `11-20–11-22`."""
    if first is None or last is None:
        return UNKNOWN
    if first.date() != last.date():
        return f"{first:%m-%d}–{last:%m-%d}"
    minutes = f"{first:%H:%M}", f"{last:%H:%M}"
    return f"{first:%m-%d} {minutes[0]}" + (f"–{minutes[1]}" if minutes[0] != minutes[1] else "")


ONE_AGE = timedelta(hours=1)
"""Answers of a board that were given within this time count as equally old."""


def ages_differ(standings: pl.DataFrame) -> bool:
    """Return whether a board compares answers of different ages."""
    if not {"oldest_answer_at", "newest_answer_at"} <= set(standings.columns):
        return False
    oldest: Any = standings["oldest_answer_at"].min()
    newest: Any = standings["newest_answer_at"].max()
    return oldest is not None and newest is not None and newest - oldest > ONE_AGE


BOARD_HEAD = (
    "#",
    "runner",
    "pass rate",
    "95 %",
    "mean",
    "graded",
    "errors",
    "p50",
    "p95",
    "tokens",
    "cost",
    "answered",
)


def board_rows(standings: pl.DataFrame) -> list[tuple[str, ...]]:
    """Return standings as texts, one tuple per row under BOARD_HEAD; `=` marks a tie with the best."""
    return [
        (
            (UNKNOWN if row["rank"] is None else str(row["rank"]))
            + ("=" if row["tied_with_best"] and row["rank"] != 1 else ""),
            row["runner"],
            percent(row["pass_rate"]),
            interval(row["pass_rate_low"], row["pass_rate_high"]),
            amount(row["mean_score"], 3),
            f"{row['graded']}/{row['planned']}",
            str(row["errored"]),
            milliseconds(row.get("latency_p50_ms")),
            milliseconds(row.get("latency_p95_ms")),
            amount(_total(row["input_tokens"], row["output_tokens"])),
            money(row["cost_usd"]),
            period(row.get("oldest_answer_at"), row.get("newest_answer_at")),
        )
        for row in standings.iter_rows(named=True)
    ]


def board_remarks(standings: pl.DataFrame) -> list[str]:
    """Return why runners are not ranked, what unfinished later runs reached, and what `=` is; one line each."""
    lines: list[str] = []
    for row in standings.iter_rows(named=True):
        if row.get("apart") is not None:
            answered = period(row.get("oldest_answer_at"), row.get("newest_answer_at"))
            lines.append(f"{row['runner']} is not ranked: {row['apart']} (answered {answered})")
        if row.get("note") is not None:
            lines.append(f"{row['runner']}: {row['note']}; its last complete standing is shown")
    if any(row["tied_with_best"] and row["rank"] != 1 for row in standings.iter_rows(named=True)):
        lines.append("=: not shown to be worse than the best (paired tests of all pairs, Holm's adjustment)")
    return lines


def _total(input_tokens: int | None, output_tokens: int | None) -> int | None:
    return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; `|` in texts is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def short_name(name: str, longest: int = 40) -> str:
    """Return a name, shortened to fit a label."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
