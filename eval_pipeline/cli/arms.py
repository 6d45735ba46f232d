"""`eval-pipeline arms`: what arms of runners differ in, and how often skills are used where they should be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eval_pipeline.cli.options import comma_separated, open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.tables import Layout, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import UnknownName
from eval_pipeline.leaderboards.show import UNKNOWN, amount, percent
from eval_pipeline.warehouse.arms import arm_differences, names_with_arms, skill_activation
from eval_pipeline.warehouse.case_details import stored_case_names

NOTHING = 3
_SHARES = ("precision", "recall", "f1")
_SHOWN: Mapping[str, Callable[[float | None], str]] = {
    "pass_rate": percent,
    "tokens": lambda value: amount(value, 0),
    "cost_usd": lambda value: amount(value, 4),
}


@click.command(name="arms")
@click.argument("suites", metavar="[SUITE]...", nargs=-1)
@project_options
@click.option("--runner", "runners", multiple=True, callback=comma_separated, help="Only these runners (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON on stdout.")
def arms_command(
    suites: tuple[str, ...], project: Path | None, data: Path | None, runners: tuple[str, ...], as_json: bool
) -> None:
    """Compare the arms of runners (`arms:` in the runners file), paired by case: pass rate, tokens and cost; and show
    how often each skill is used by the cases that name it in `should_trigger`.

    Exit codes: 0; 2 for bad input; 3 when there are neither arms nor skills.
    """
    with open_published(open_project(project, data), is_own=data is None) as connection:
        known = stored_case_names(connection)
        for name in suites:
            if name not in known:
                raise UnknownName("suite", name, known)
        with_arms = names_with_arms(connection)
        for name in runners:
            if name not in with_arms:
                raise UnknownName("runner", name, with_arms)
        skills = skill_activation(connection, suites, runners)
        differences = arm_differences(connection, suites, runners)
    if as_json:
        echo_json({"skill_activation": skills, "arm_differences": differences})
    elif skills or differences:
        _show(table_console(), skills, differences)
    if not skills and not differences:
        echo("no runner has arms, and no case names skills (should_trigger)", err=True)
        sys.exit(NOTHING)


def _show(console: Console, skills: Sequence[Mapping[str, Any]], differences: Sequence[Mapping[str, Any]]) -> None:
    if skills:
        head = ["suite", "runner", "skill", *_SHARES, "sessions", "hits", "misses", "false alarms", "unknown"]
        rows = [
            [*(row[name] for name in head[:3]), *(_share(row, name) for name in _SHARES),
             *(row[name.replace(" ", "_")] for name in head[6:])]
            for row in skills
        ]  # fmt: skip
        print_rows(console, head, rows, Layout(keep=3))
    if differences:
        print_rows(console, _HEAD, [_difference(row) for row in differences], Layout(keep=4))
        print_line(
            console, "difference: arm - other arm, mean over the cases of both; 95 %: paired by case", style="dim"
        )


_HEAD = ("suite", "runner", "arms", "measure", "difference", "95 %", "arm", "other arm", "cases")


def _difference(row: Mapping[str, Any]) -> list[object]:
    show = _SHOWN[row["measure"]]
    interval = f"{show(row['low'])} to {show(row['high'])}" if row["low"] is not None else UNKNOWN
    return [
        *(row["suite"], row["runner"], f"{row['arm']} - {row['other_arm']}", row["measure"]),
        *(show(row["difference"]), interval, show(row["mean"]), show(row["other_mean"]), row["cases"]),
    ]


def _share(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return UNKNOWN
    return f"{percent(row[name])} [{percent(row[f'{name}_low'])}, {percent(row[f'{name}_high'])}]"
