"""Standings as text: the numbers of a leaderboard formatted for people, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    """Return a number with thousands separated, `–` when unknown. A half is rounded up where no digits are shown."""
    if value is None:
        return UNKNOWN
    whole = not digits and math.isfinite(value)
    return f"{math.floor(value + 0.5) if whole else value:,.{digits}f}{unit}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, which is in the plural (by default with `s`) where the number is not 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def milliseconds(value: float | None) -> str:
    """Return a duration: `3.2 ms`, `850 ms`, `12.4 s`; `–` when unknown."""
    if value is None:
        return UNKNOWN
    return f"{value / 1000:.1f} s" if value >= 10_000 else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def duration(seconds: float | None) -> str:
    """Return a duration in its largest units: `12 s`, `3 min`, `2 h 05 min`; `–` when unknown."""
    if seconds is None:
        return UNKNOWN
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s" if seconds >= 1 else "<1 s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def money(value: float | None) -> str:
    """Return US dollars, with four decimals below one; `–` when unknown. Amounts that round to zero are `<$0.0001`."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value >= 1 else "<$0.0001" if 0 < value < 0.00005 else f"${value:.4f}"


def drift_line(row: Mapping[str, Any]) -> str:
    """Return in words that a judge is beyond its control limits, or has none, from a row of `judge_drift`."""
    grader = f" by {row['grader']}" if row["grader"] else ""
    if row["beyond"] is None:
        of_all = f"{row['anchors']} of {counted(row['anchors'] + row['left_out'], 'anchor')}"
        return f"{row['suite']}, {row['evaluator']}{grader}: not measured, {of_all} graded and with base grades"
    limits = f"{amount(row['low'], 3)} to {amount(row['high'], 3)}"
    return (
        f"{row['suite']}, {row['evaluator']}{grader}: the mean grade of {counted(row['anchors'], 'anchor')} is"
        f" {amount(row['mean_score'], 3)}, expected {limits}"
    )


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


RANKS_LEGEND = "#: the ranks that the cases leave open (paired tests of all pairs of runners, Holm's adjustment)"
PICTURE_LEGEND = "pass rate, with 95 % interval; before a name the ranks that it may have; gray: not ranked"
NAMED = 4
"""How many runners a remark names."""
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
    """Return standings as texts, one tuple per row under BOARD_HEAD, with the ranks that each may have."""
    return [
        (
            shown_ranks(row),
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
    """Return who is not ranked on a board and why, and what unfinished later runs reached: a line for each reason."""
    rows = standings.to_dicts()
    ranked = [row for row in rows if row["rank"] is not None]
    lines: list[str] = []
    if len(ranked) == 1 < len(rows):
        lines.append(f"only {ranked[0]['runner']} is ranked: there is nobody to compare it with")
    lines += [
        f"{row['runner']}: of {row['graded']} graded, {row['incomplete']} had not ended by itself: a time or step limit"
        for row in rows
        if row.get("incomplete")
    ]
    weighed = [row["effective_cases"] for row in ranked or rows if row.get("effective_cases") is not None]
    if weighed:
        lines.append(f"cases are weighted by difficulty: they count as {max(weighed):.1f} of one weight")
    lines += [f"users played by {names}: {runners}" for names, runners in _grouped(rows, "simulators").items()]
    lines += [f"not ranked: {names}: {reason}" for reason, names in _grouped(rows, "apart").items()]
    lines += [
        f"{plans}: {names}"
        for plans, names in _grouped([{**row, "broken": _broken(row)} for row in rows], "broken").items()
    ]
    lines += [
        f"{again}; rates are of first answers: {names}"
        for again, names in _grouped([{**row, "again": _again(row)} for row in rows], "again").items()
    ]
    return lines + [
        f"{names}: {note}; the last complete standing is shown" for note, names in _grouped(rows, "note").items()
    ]


def _again(row: dict[str, Any]) -> str | None:
    """Return how many answers are to plans that were tried again because they did not pass; None without any."""
    more = (row.get("answers") or 0) - row["graded"]
    return f"{counted(more, 'further answer')} to what did not pass" if more > 0 else None


def _broken(row: dict[str, Any]) -> str | None:
    """Return what is planned of cases that cannot be loaded; None where that is nothing, or not told apart."""
    broken = row["planned"] - row["graded"] - row["errored"]
    if broken <= 0 or row.get("scope") != "suite" or (row.get("apart") or "").startswith("unfinished"):
        return None
    return f"{broken} of {counted(row['planned'], 'plan')} of cases that cannot be loaded (eval-pipeline validate)"


def suites_left_out(standings: pl.DataFrame) -> list[str]:
    """Return which suites the overall board is not about, and the runners it compares that are not ranked there."""
    compared = standings.filter(pl.col("scope") == "overall").drop_nulls("rank")["runner"].to_list()
    suites = standings.filter(pl.col("scope") == "suite").partition_by("suite", maintain_order=True)
    missing = [
        {"suite": board["suite"][0], "runner": runner}
        for board in suites
        for runner in compared
        if runner not in board.drop_nulls("rank")["runner"]
    ]
    return [f"without {suite}: no rank there: {names}" for suite, names in _grouped(missing, "suite").items()]


def ranks_legend(standings: pl.DataFrame) -> list[str]:
    """Return what a rank such as `2–4` is, where a standing has one."""
    ranked = (row for row in standings.iter_rows(named=True) if row["rank"] is not None)
    return [RANKS_LEGEND] if any(_first(row) != _last(row) for row in ranked) else []


def _grouped(rows: Sequence[dict[str, Any]], name: str) -> dict[str, str]:
    """Return each text of a column with the runners that have it: the first few, and how many more."""
    runners: dict[str, list[str]] = {}
    for row in rows:
        if row.get(name) is not None:
            runners.setdefault(row[name], []).append(row["runner"])
    return {
        text: ", ".join(each[:NAMED]) + (f" and {len(each) - NAMED} more" if len(each) > NAMED else "")
        for text, each in runners.items()
    }


def shown_ranks(row: dict[str, Any]) -> str:
    """Return the ranks that a standing may have, `–` where it is not ranked."""
    return UNKNOWN if row["rank"] is None else rank_text(_first(row), _last(row))


def _first(row: dict[str, Any]) -> int:
    return int(row["rank"] if row.get("rank_best") is None else row["rank_best"])


def _last(row: dict[str, Any]) -> int:
    return int(row["rank"] if row.get("rank_worst") is None else row["rank_worst"])


def _total(input_tokens: int | None, output_tokens: int | None) -> int | None:
    return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; `|` in texts is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def label(row: dict[str, Any], longest: int) -> str:
    """Return how a picture names a standing: its ranks, its runner, and its rate."""
    rate = "no rate" if row["pass_rate"] is None else percent(row["pass_rate"])
    return f"{shown_ranks(row)}  {short_name(row['runner'], longest)} · {rate}"


def short_name(name: str, longest: int = 40) -> str:
    """Return a name, shortened to fit a label."""
    return name if len(name) <= longest else f"{name[: longest - 1]}…"
