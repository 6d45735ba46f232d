"""`eval-pipeline trend`: does the mean score rise or fall over sweeps?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import project_options
from eval_pipeline.cli.result_sources import ResultSources
from eval_pipeline.cli.tables import print_rows, say, table_console
from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import to_json
from eval_pipeline.leaderboards.comparisons import check_names
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.show import UNKNOWN, percent
from eval_pipeline.leaderboards.trends import SLOPE_THRESHOLD, Trend, in_order, trend
from eval_pipeline.reports.moments import iso

LAST = 10
_STYLES = {"improving": "green", "degrading": "red", "stable": "bold"}


@click.command(name="trend")
@click.argument("sweeps", nargs=-1)
@project_options
@click.option("--last", type=click.IntRange(2), help=f"The newest N sweeps (default {LAST}, where none is named).")
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--runner", "runners", multiple=True, help="Only these runners (repeatable).")
@click.option(
    "--slope-threshold", type=click.FloatRange(0, 1), default=SLOPE_THRESHOLD,
    help="Least slope a sweep that is a trend (default 0.01).",
)  # fmt: skip
@click.option("--fail-on-degrading", is_flag=True, help="Exit 1 when the trend is degrading.")
@click.option("--allow-missing", is_flag=True, help="Count cases that not every sweep graded, too.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write a picture (PNG).")
@click.option("--json", "as_json", is_flag=True, help="Print the trend as JSON on stdout.")
def trend_command(
    sweeps: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    last: int | None,
    suites: tuple[str, ...],
    runners: tuple[str, ...],
    slope_threshold: float,
    fail_on_degrading: bool,
    allow_missing: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Fit a line through the mean scores of SWEEPS: ids (or the begin of one), AgentV run folders, results files.

    Only cases (of a suite and runner) that every sweep graded count, unless --allow-missing; a case whose content
    changed is another case. Exit codes: 0; 1 with --fail-on-degrading when it is.
    """
    if sweeps and last is not None:
        raise InputError("name sweeps or give --last, not both")
    with ResultSources(project, data, suites, runners) as sources:
        found = _find(sources, sweeps, last or LAST)
    check_names(found)
    line = trend(in_order(found), slope_threshold=slope_threshold, allow_missing=allow_missing)
    triggered = fail_on_degrading and line.direction == "degrading"
    if plot is not None:
        _write_picture(plot, line)
    if as_json:
        filters = {"suites": list(suites), "runners": list(runners), "allow_missing": allow_missing}
        click.echo(to_json(_document(line, filters, fail_on_degrading, triggered)).decode())
    else:
        _show(line)
    sys.exit(int(triggered))


def _find(sources: ResultSources, sweeps: tuple[str, ...], last: int) -> list[Results]:
    """What was named; a plain id is a sweep's."""
    if not sweeps:
        return sources.newest(last)
    return [sources.find(name if _is_whole(name) else f"sweep:{name}") for name in sweeps]


def _is_whole(name: str) -> bool:
    return name == "current" or ":" in name or "/" in name or Path(name).exists()


def _show(found: Trend) -> None:
    console = table_console()
    rows = [
        (point.name, UNKNOWN if point.at is None else f"{point.at:%Y-%m-%d %H:%M}", point.cells, point.left_out,
         f"{point.mean_score:.3f}", percent(point.pass_rate))
        for point in found.points
    ]  # fmt: skip
    print_rows(console, ("sweep", "began (UTC)", "cells", "left out", "mean", "pass rate"), rows)
    line = found.line
    fit = "" if line.r_squared is None else f", r² {line.r_squared:.3f}"
    say(
        console,
        f"{line.slope:+.4f} a sweep{fit}; {found.matched} cells graded in every sweep"
        f" (threshold {found.slope_threshold:g})",
        mark=found.direction,
        style=_STYLES[found.direction],
    )


def _document(found: Trend, filters: dict[str, Any], fail_on_degrading: bool, triggered: bool) -> dict[str, Any]:
    times = [point.at for point in found.points if point.at is not None]
    return {
        "runs": [
            {"label": point.name, "timestamp": iso(point.at), "matched_test_count": point.cells,
             "left_out": point.left_out, "mean_score": point.mean_score, "pass_rate": point.pass_rate}
            for point in found.points
        ],
        "filters": filters,
        "summary": {
            "run_count": len(found.points),
            "matched_test_count": found.matched,
            "date_range": {"start": iso(min(times, default=None)), "end": iso(max(times, default=None))},
            "slope": found.line.slope,
            "intercept": found.line.intercept,
            "r_squared": found.line.r_squared,
            "direction": found.direction,
        },
        "regression": {
            "slope_threshold": found.slope_threshold,
            "fail_on_degrading": fail_on_degrading,
            "triggered": triggered,
        },
    }  # fmt: skip


def _write_picture(path: Path, trend: Trend) -> None:
    from eval_pipeline.leaderboards.plots import plot_trend  # noqa: PLC0415 — matplotlib is heavy

    path.write_bytes(plot_trend(trend))
    click.echo(f"wrote {path}", err=True)
