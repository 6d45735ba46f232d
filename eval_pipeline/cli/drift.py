"""`eval-pipeline drift`: whether graders still grade the same answers as they did."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.tables import Layout, message_console, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import UNKNOWN, amount, counted, drift_line, money, percent
from eval_pipeline.sweeps.judging import Judging, judge_anchors
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep_ends import AnchorsEnd
from eval_pipeline.warehouse.anchors import drift_rows, flagged

BEYOND, NOTHING = 1, 3
_HEAD = ("suite", "evaluator", "judged at", "mean", "limits", "base", "beyond", "flipped", "anchors", "grader", "cost")


@click.command(name="drift")
@click.argument("sweep", required=False)
@project_options
@click.option("--judge", is_flag=True, help="Grade the anchors of the sweep again now.")
@click.option("--choose-anew", is_flag=True, help="With --judge: choose other anchors; their grades begin anew.")
@click.option("--json", "as_json", is_flag=True, help="Print all gradings as a JSON list on stdout.")
def drift_command(
    *, sweep: str | None, project: Path | None, data: Path | None, judge: bool, choose_anew: bool, as_json: bool
) -> None:
    """Show how graders grade the same stored answers (the `anchors` of a sweep of the project file) over time.

    The anchors of a sweep are graded again whenever a run of it has ended, and with --judge. A mean grade beyond three
    standard errors of its first grades is marked: the grader is not what it was. Exit codes: 0 within limits; 1 the
    newest grading of an evaluator is beyond; 3 nothing was graded, or too little for limits.
    """
    session = ProjectSession(open_project(project, data))
    if sweep is not None:
        named_sweep(session.project, sweep)
    graded = _judge(session, sweep, choose_anew) if judge or choose_anew else None
    with session.warehouse.published() as connection:
        rows = drift_rows(connection, sweep)
    if as_json:
        echo_json(rows)
    elif rows:
        _show(table_console(), rows)
    if not rows:
        echo("nothing was graded again yet: set anchors of a sweep in the project file, and run it", err=True)
    for row in flagged(rows):
        print_line(message_console(), drift_line(row), mark="judge drift:", style="yellow")
    sys.exit(NOTHING if graded == 0 else _exit_code([row["beyond"] for row in rows if row["newest"]]))


def _exit_code(beyond: Collection[bool | None]) -> int:
    """Return the exit code of the newest gradings, each of which is beyond its limits, is not, or has none (None)."""
    if any(beyond):
        return BEYOND
    return NOTHING if None in beyond or not beyond else 0


def _judge(session: ProjectSession, sweep: str | None, choose_anew: bool) -> int:
    """Grade the anchors of a sweep again, and return the number of grades."""
    if sweep is None:
        raise InputError("--judge needs the name of a sweep with anchors")
    judging = judge_anchors(session, sweep, choose_anew=choose_anew)
    if judging is None:
        raise InputError(f"the sweep '{sweep}' has no anchors, or nothing is stored: see sweeps.{sweep}.anchors")
    show_judging(message_console(), judging)
    return judging.grades


def show_anchors(console: Console, anchors: AnchorsEnd) -> None:
    """Print what became of the anchors of a sweep at its end."""
    if anchors.judging is not None:
        show_judging(console, anchors.judging)
    if anchors.problem is not None:
        print_line(console, anchors.problem, mark="anchors are not graded:", style="yellow")
    for line in anchors.drift:
        print_line(console, line, mark="judge drift:", style="yellow")


def show_judging(console: Console, judging: Judging) -> None:
    """Print how many grades were made, and which anchors are gone."""
    first = f", {judging.base} of them first ones" if judging.base else ""
    print_line(console, f"anchors: {counted(judging.grades, 'grade')}{first}", style="dim")
    for reason, count in (judging.gone or {}).items():
        print_line(console, f"{counted(count, 'anchor is', 'anchors are')} not graded: {reason}", style="yellow")


def _show(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    for sweep in dict.fromkeys(row["sweep_name"] for row in rows):
        print_line(console, f"anchors of {sweep}", style="bold")
        print_rows(console, _HEAD, [_cells(row) for row in rows if row["sweep_name"] == sweep], Layout(keep=3))


def _cells(row: Mapping[str, Any]) -> list[object]:
    limits = UNKNOWN if row["low"] is None else f"{amount(row['low'], 3)} to {amount(row['high'], 3)}"
    beyond = {None: UNKNOWN, True: "beyond", False: "no"}[row["beyond"]]
    flipped = percent(row["flipped"] / row["anchors"]) if row["anchors"] else UNKNOWN
    return [
        row["suite"], row["evaluator"], f"{row['judged_at']:%Y-%m-%d %H:%M}", amount(row["mean_score"], 3), limits,
        amount(row["center"], 3), beyond, flipped, row["anchors"], row["grader"] or UNKNOWN, money(row["cost_usd"]),
    ]  # fmt: skip
