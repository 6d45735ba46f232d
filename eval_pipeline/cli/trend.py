"""`eval-pipeline trend`: whether the mean score rises or falls over sweeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import project_options
from eval_pipeline.cli.result_sources import ResultSources, cluster_by_option
from eval_pipeline.cli.tables import print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.comparisons import check_names
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.show import UNKNOWN, counted, percent
from eval_pipeline.leaderboards.trends import SLOPE_THRESHOLD, Trend, in_order, trend
from eval_pipeline.reports.moments import iso

LAST = 10
NOT_SHOWN = 4
_STYLES = {"improving": "green", "degrading": "red", "stable": "bold"}


@click.command(name="trend")
@click.argument("sweeps", nargs=-1)
@project_options
@click.option("--last", type=click.IntRange(2), help=f"The newest N sweeps (default {LAST}, unless sweeps are named).")
@click.option("--sweep", "name", help="The finished sweeps of this name in the project file.")
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--runner", "runners", multiple=True, help="Only these runners (repeatable).")
@click.option(
    "--slope-threshold", type=click.FloatRange(0, 1), default=SLOPE_THRESHOLD,
    help="Minimum slope per sweep that counts as a trend (default 0.01).",
)  # fmt: skip
@click.option("--fail-on-degrading", is_flag=True, help="Exit 1 when the trend is degrading.")
@cluster_by_option
@click.option("--require-go", is_flag=True, help=f"Exit {NOT_SHOWN} while the cases do not exclude a degrading trend.")
@click.option("--allow-missing", is_flag=True, help="Also count cases that not every sweep graded.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write a chart (PNG).")
@click.option("--json", "as_json", is_flag=True, help="Print the trend as JSON on stdout.")
def trend_command(
    sweeps: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    last: int | None,
    name: str | None,
    suites: tuple[str, ...],
    runners: tuple[str, ...],
    slope_threshold: float,
    fail_on_degrading: bool,
    cluster_by: str | None,
    require_go: bool,
    allow_missing: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Fit a line through the mean scores of SWEEPS: ids (or the start of one), AgentV run folders, results files.

    Only cases (of a suite and runner) that every sweep graded count, unless --allow-missing; a case with changed
    content is a different case. The trend is degrading or improving when the slope is beyond --slope-threshold and the
    interval of the cases' slopes shows its direction; else it is stable.

    Exit codes: 0; 1 with --fail-on-degrading for a degrading trend; 4 with --require-go while the interval does not
    exclude a fall by more than the threshold per sweep.
    """
    if sweeps and (last is not None or name is not None):
        raise InputError("name sweeps or give --last or --sweep, not both")
    with ResultSources(project, data, suites, runners, cluster_by) as sources:
        result = _find_results(sources, sweeps, last or LAST, name)
    check_names(result)
    line = trend(in_order(result), slope_threshold=slope_threshold, allow_missing=allow_missing)
    triggered = fail_on_degrading and line.direction == "degrading"
    if plot is not None:
        _write_chart(plot, line)
    if as_json:
        filters = {"suites": list(suites), "runners": list(runners), "allow_missing": allow_missing}
        echo_json(_document(line, filters, fail_on_degrading, triggered))
    else:
        _show(line)
    sys.exit(1 if triggered else NOT_SHOWN if require_go and line.decision != "GO" else 0)


def _find_results(sources: ResultSources, sweeps: tuple[str, ...], last: int, name: str | None) -> list[Results]:
    """Return the results of the named sweeps; a plain id is a sweep's."""
    if not sweeps:
        return sources.newest(last, name)
    return [sources.find(name if _is_qualified(name) else f"sweep:{name}") for name in sweeps]


def _is_qualified(name: str) -> bool:
    return name == "current" or ":" in name or "/" in name or "@" in name or Path(name).exists()


def _show(result: Trend) -> None:
    console = table_console()
    rows = [
        (point.name, UNKNOWN if point.at is None else f"{point.at:%Y-%m-%d %H:%M}", point.cases, point.left_out,
         f"{point.mean_score:.3f}", percent(point.pass_rate))
        for point in result.points
    ]  # fmt: skip
    print_rows(console, ("sweep", "started (UTC)", "cases", "left out", "mean", "pass rate"), rows)
    line, shown = result.line, _interval_text(result)
    fit = "" if line.r_squared is None else f", r² {line.r_squared:.3f}"
    print_line(
        console,
        f"{line.slope:+.4f} per sweep{shown}{fit}; {counted(result.matched, 'case')} graded in every sweep"
        f" (threshold {result.slope_threshold:g})",
        mark=result.direction,
        style=_STYLES[result.direction],
    )


def _interval_text(result: Trend) -> str:
    if result.interval is None:
        return " (fewer than two cases show no trend)"
    return f" (95 % {result.interval[0]:+.4f} to {result.interval[1]:+.4f})"


def _document(result: Trend, filters: dict[str, Any], fail_on_degrading: bool, triggered: bool) -> dict[str, Any]:
    times = [point.at for point in result.points if point.at is not None]
    return {
        "runs": [
            {"label": point.name, "timestamp": iso(point.at), "matched_test_count": point.cases,
             "left_out": point.left_out, "mean_score": point.mean_score, "pass_rate": point.pass_rate}
            for point in result.points
        ],
        "filters": filters,
        "summary": {
            "run_count": len(result.points),
            "matched_test_count": result.matched,
            "date_range": {"start": iso(min(times, default=None)), "end": iso(max(times, default=None))},
            "slope": result.line.slope,
            "intercept": result.line.intercept,
            "r_squared": result.line.r_squared,
            "interval": result.interval,
            "direction": result.direction,
            "decision": result.decision,
        },
        "regression": {
            "slope_threshold": result.slope_threshold,
            "fail_on_degrading": fail_on_degrading,
            "triggered": triggered,
        },
    }  # fmt: skip


def _write_chart(path: Path, trend: Trend) -> None:
    from eval_pipeline.leaderboards.plots import plot_trend  # noqa: PLC0415 — matplotlib is heavy

    path.write_bytes(plot_trend(trend))
    echo(f"wrote {path}", err=True)
