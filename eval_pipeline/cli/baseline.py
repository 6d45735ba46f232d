"""`eval-pipeline baseline`: which sweeps later results are compared with."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click

from eval_pipeline.cli.options import comma_separated, open_project, project_options
from eval_pipeline.cli.tables import message_console, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo_json
from eval_pipeline.leaderboards.show import UNKNOWN, counted
from eval_pipeline.warehouse.baselines import baselines, clear_baselines, set_baseline

NONE_SET = 3
_SUITES = click.option("--suite", "suites", multiple=True, callback=comma_separated, help="Only of these suites.")
_RUNNERS = click.option("--runner", "runners", multiple=True, callback=comma_separated, help="Only of these runners.")


@click.group(name="baseline")
def baseline_command() -> None:
    """Set, show and clear baselines: `eval-pipeline compare baseline sweep:latest` compares with them.

    Each suite and runner has one. A runner whose settings changed keeps the baseline of its older settings, until one
    is set for the new ones.
    """


@baseline_command.command(name="set")
@click.argument("sweep", default="latest")
@_SUITES
@_RUNNERS
@click.option("--note", help="Why.")
@project_options
def set_command(
    sweep: str, suites: tuple[str, ...], runners: tuple[str, ...], note: str | None, project: Path | None,
    data: Path | None,
) -> None:  # fmt: skip
    """Make a finished SWEEP (an id or its start, `latest`, `previous`) the baseline of its suites and runners."""
    warehouse = open_project(project, data).open_warehouse()
    name = sweep.removeprefix("sweep:")
    pairs = set_baseline(warehouse, name, datetime.now(UTC), suites=suites, runners=runners, note=note)
    for suite, runner in pairs:
        print_line(message_console(), f"baseline of {suite} with {runner}: {name}")


@baseline_command.command(name="show")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
@project_options
def show_command(as_json: bool, project: Path | None, data: Path | None) -> None:
    """Show the baseline of each suite and runner. Exit code 3 where none is set."""
    with open_project(project, data).open_warehouse().published() as connection:
        found = baselines(connection)
    if as_json:
        echo_json({"baselines": [asdict(each) for each in found]})
    elif found:
        rows = [
            (
                each.suite,
                each.runner,
                each.sweep_id,
                f"{each.set_at:%Y-%m-%d %H:%M}" if each.set_at else UNKNOWN,
                each.note or UNKNOWN,
            )
            for each in found
        ]
        print_rows(table_console(), ("suite", "runner", "sweep", "set", "note"), rows)
    else:
        print_line(message_console(), "no baseline is set: eval-pipeline baseline set SWEEP")
    sys.exit(0 if found else NONE_SET)


@baseline_command.command(name="clear")
@_SUITES
@_RUNNERS
@project_options
def clear_command(suites: tuple[str, ...], runners: tuple[str, ...], project: Path | None, data: Path | None) -> None:
    """Remove baselines: all, or those of some suites and runners."""
    removed = clear_baselines(open_project(project, data).open_warehouse(), suites=suites, runners=runners)
    print_line(message_console(), f"{counted(removed, 'baseline')} removed")
