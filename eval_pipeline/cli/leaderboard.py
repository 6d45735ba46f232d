"""`eval-pipeline leaderboard`: the latest or a past leaderboard."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import polars as pl

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.result_sources import as_of_option, board_of
from eval_pipeline.cli.tables import Layout, print_boards, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import UnknownName
from eval_pipeline.leaderboards.board_svg import board_svg
from eval_pipeline.leaderboards.repetitions import Reliability, reliability
from eval_pipeline.leaderboards.show import UNKNOWN, amount, drift_line, interval, percent
from eval_pipeline.scores.model import DEFAULT_THRESHOLD
from eval_pipeline.statistics.repetitions import REDUCERS
from eval_pipeline.warehouse.anchors import drift_rows, flagged
from eval_pipeline.warehouse.queries import published_boards, published_standings
from eval_pipeline.warehouse.selections import read_attempts, read_scores, select
from eval_pipeline.warehouse.store import Connection

_REPEATING = (
    "95 % of repeating: how far asking these cases again moves the rate, – where no answers to a case differ; "
    "how far other cases would move it is on the board",
    "k: tries of a case, or answers to a plan where failed ones were asked again; cases: those with so many",
)
"""What the columns of `--repetitions` are."""


@click.command(name="leaderboard")
@project_options
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--board", help="A past board by its id; see --list.")
@as_of_option
@click.option("--list", "list_boards", is_flag=True, help="List all boards.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the pass rates: SVG for a .svg file, else PNG.",
)
@click.option("--repetitions", is_flag=True, help="Show pass@k, pass^k and the error of repeating, of current results.")
@click.option("--by-evaluator", is_flag=True, help="With --repetitions: of each evaluator alone (which one is flaky?).")
@click.option("--k", "tries", type=click.IntRange(1), help="Tries of pass@k (default: the fewest graded repetitions).")
@click.option(
    "--reducer", type=click.Choice(list(REDUCERS)), default="mean", help="How repetitions become one score of a case."
)
@click.option("--json", "as_json", is_flag=True, help="Print the standings (or the list) as JSON on stdout.")
@click.option(
    "--mark", type=click.FloatRange(0, 1), default=DEFAULT_THRESHOLD,
    help="Lowest score that passes, for reducers that count passes (at_least, pass_at, pass_k; default 0.8).",
)  # fmt: skip
def leaderboard_command(
    project: Path | None,
    data: Path | None,
    suites: tuple[str, ...],
    board: str | None,
    as_of: datetime | None,
    list_boards: bool,
    plot: Path | None,
    repetitions: bool,
    by_evaluator: bool,
    tries: int | None,
    reducer: str,
    mark: float,
    as_json: bool,
) -> None:
    """Show the standings: pass rate with its 95 % interval, mean score, coverage, latency, tokens, cost."""
    with open_published(open_project(project, data), is_own=data is None) as connection:
        if repetitions or by_evaluator:
            read = read_scores if by_evaluator else read_attempts
            results = read(connection, select(connection, "standing", suites=suites))
            _show_reliability(reliability(results, k=tries, reducer=reducer, mark=mark), as_json)
            return
        boards = published_boards(connection)
        if list_boards:
            _show_boards(boards, as_json)
            return
        newest = board is None and as_of is None
        flags = flagged(drift_rows(connection)) if newest else []
        board = board_of(connection, board, as_of)
        standings = _standings(connection, board, [str(row[0]) for row in boards])
    if suites:
        standings = _of_suites(standings, suites)
    if plot is not None:
        _write_chart(plot, standings)
    if as_json:
        echo_json(standings.to_dicts())
    elif standings.is_empty():
        echo("no standings yet: eval-pipeline run", err=True)
        sys.exit(3)
    else:
        print_boards(table_console(), standings)
        for row in flags:
            if not suites or row["suite"] in suites:
                print_line(table_console(), drift_line(row), mark="judge drift:", style="yellow")


def _show_boards(boards: Sequence[tuple[Any, ...]], as_json: bool) -> None:
    if as_json:
        names = ("board_id", "computed_at", "standings")
        echo_json([dict(zip(names, board, strict=True)) for board in boards])
        return
    rows = [(board_id, standings, f"{at:%Y-%m-%d %H:%M:%S}") for board_id, at, standings in boards]
    print_rows(table_console(), ("board", "standings", "computed at (UTC)"), rows)


def _show_reliability(rows: Sequence[Reliability], as_json: bool) -> None:
    if as_json:
        echo_json(rows)
        return
    has_evaluators = any(row.evaluator is not None for row in rows)
    lines = [
        (row.suite, row.runner, *([row.evaluator] if has_evaluators else []), percent(row.pass_rate),
         UNKNOWN if row.low == row.high else interval(row.low, row.high),
         percent(row.pass_at_k), percent(row.pass_all_k), row.k, row.cases,
         row.repetitions, amount(row.score, 3))
        for row in rows
    ]  # fmt: skip
    reducer = rows[0].reducer if rows else "mean"
    head = (
        "suite",
        "runner",
        *(["evaluator"] if has_evaluators else []),
        "pass rate",
        "95 % of repeating",
        "pass@k",
        "pass^k",
        "k",
        "cases",
        "repetitions",
        f"score ({reducer})",
    )
    print_rows(table_console(), head, lines, Layout(keep=2))
    for line in _REPEATING:
        print_line(table_console(), line, style="dim")


def _standings(connection: Connection, board: str | None, known: list[str]) -> pl.DataFrame:
    if board is not None and board not in known:
        raise UnknownName("board", board, known)
    return published_standings(connection, board or (known[0] if known else ""))


def _of_suites(standings: pl.DataFrame, suites: tuple[str, ...]) -> pl.DataFrame:
    known = standings.filter(pl.col("scope") == "suite")["suite"].unique().to_list()
    for name in suites:
        if name not in known:
            raise UnknownName("suite", name, known)
    return standings.filter(pl.col("suite").is_in(list(suites)))


def _write_chart(path: Path, standings: pl.DataFrame) -> None:
    per_suite = standings.filter(pl.col("scope") == "suite")
    if path.suffix == ".svg":
        path.write_text(board_svg(per_suite), encoding="utf-8")
    else:
        from eval_pipeline.leaderboards.plots import plot_board  # noqa: PLC0415 — matplotlib is heavy

        path.write_bytes(plot_board(per_suite))
    echo(f"wrote {path}", err=True)
