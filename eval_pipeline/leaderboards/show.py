"""Standings for people: a Markdown table and a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence

import polars as pl

UNKNOWN = "–"
_LONGEST_LABEL = 40


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal, `–` when unknown."""
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def interval(low: float | None, high: float | None) -> str:
    """An interval of shares, `–` when unknown."""
    return UNKNOWN if low is None or high is None else f"{100 * low:.1f}–{100 * high:.1f}"


def amount(value: float | None, digits: int = 0, unit: str = "") -> str:
    """A number with thousands separated, `–` when unknown."""
    return UNKNOWN if value is None else f"{value:,.{digits}f}{unit}"


def milliseconds(value: float | None) -> str:
    """A time: `3.2 ms`, `850 ms`, `12.4 s`; `–` when unknown."""
    if value is None:
        return UNKNOWN
    return f"{value / 1000:.1f} s" if value >= 10_000 else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"


def money(value: float | None) -> str:
    """US dollars, with four decimals below one; `–` when unknown. What would round to nothing is `<$0.0001`."""
    if value is None:
        return UNKNOWN
    return f"${value:,.2f}" if value >= 1 else "<$0.0001" if 0 < value < 0.00005 else f"${value:.4f}"


BOARD_HEAD = ("#", "runner", "pass rate", "95 %", "mean", "graded", "errors", "p50", "p95", "tokens", "cost")


def board_rows(standings: pl.DataFrame) -> list[tuple[str, ...]]:
    """Standings as texts, one tuple per row under BOARD_HEAD; `=` marks those that tie with the best."""
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
        )
        for row in standings.iter_rows(named=True)
    ]


def _total(input_tokens: int | None, output_tokens: int | None) -> int | None:
    return None if input_tokens is None or output_tokens is None else input_tokens + output_tokens


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; `|` inside a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    )


def board_picture(standings: pl.DataFrame) -> bytes:
    """A PNG of pass rates with their 95 % intervals: one panel per suite, one dot per runner."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 — heavy, and only pictures need it
    from matplotlib.figure import Figure  # noqa: PLC0415

    known = standings.filter(pl.col("pass_rate").is_not_null())
    suites = known["suite"].unique(maintain_order=True).to_list()
    sizes = [max(1, known.filter(pl.col("suite") == suite).height) for suite in suites] or [1]
    figure = Figure(figsize=(7.5, 0.9 * max(1, len(suites)) + 0.32 * sum(sizes)), layout="constrained")
    axes = figure.subplots(max(1, len(suites)), 1, sharex=True, squeeze=False, height_ratios=sizes)[:, 0]
    for axis, suite in zip(axes, suites, strict=False):
        _panel(axis, suite, known.filter(pl.col("suite") == suite).sort("pass_rate", "runner"))
    axes[-1].set_xlabel("pass rate, with 95 % interval")
    axes[-1].set_xlim(-0.02, 1.02)
    out = io.BytesIO()
    FigureCanvasAgg(figure).print_png(out)  # type: ignore[no-untyped-call]
    return out.getvalue()


def _short(name: str) -> str:
    """A name that leaves room for the picture beside it."""
    return name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…"


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
    axis.set_yticks(range(rows.height), [_short(name) for name in rows["runner"]])
    axis.set_ylim(-0.6, rows.height - 0.2)
    axis.set_title(suite, loc="left", fontsize=10, fontweight="bold")
    axis.grid(axis="x", color="#dddddd", linewidth=0.6)
    axis.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.tick_params(axis="y", length=0)
