"""`eval-pipeline gate`: whether a sweep of the project file is good enough."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from eval_pipeline.cli import github_report
from eval_pipeline.cli.ending import EXIT_NOT_SHOWN
from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.tables import print_line, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.exports.junit import gate_document
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.leaderboards.sweep_gates import GateLine, SweepGate
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep_ends import gate_of

EXIT_CODES = {"GO": 0, "NO-GO": 1, "INCONCLUSIVE": EXIT_NOT_SHOWN}
STYLES = {"GO": "green", "NO-GO": "red", "INCONCLUSIVE": "yellow"}


@click.command(name="gate")
@click.argument("sweep")
@project_options
@click.option("--json", "as_json", is_flag=True, help="Print the decision and every rule as JSON on stdout.")
@click.option("--report", type=click.Choice(["github"]), help="Print annotations for GitHub of rules that do not hold.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Write each rule as JUnit XML.")
def gate_command(
    sweep: str, project: Path | None, data: Path | None, as_json: bool, report: str | None, junit: Path | None
) -> None:
    """Decide whether the newest finished sweep of this name in the project file reaches what its `gate` says.

    Each rule is NO-GO where the interval shows that it is missed, GO where it shows that it holds, else INCONCLUSIVE.
    Exit codes: 0 for GO, 1 for NO-GO, 4 for INCONCLUSIVE.
    """
    gate = gate_of(ProjectSession(open_project(project, data)), sweep)
    if gate is None:
        raise InputError(f"the sweep '{sweep}' has no gate: add one to the project file")
    if junit is not None:
        write_files([FileText(junit, [gate_document(sweep, gate)])])
    for line in github_report.gate_lines(sweep, gate.lines) if report is not None else ():
        echo(line, err=as_json)
    if as_json:
        echo_json({"sweep": sweep, "decision": gate.decision, "rules": [asdict(line) for line in gate.lines]})
    else:
        show_gate(table_console(), sweep, gate)
    sys.exit(EXIT_CODES[gate.decision])


def show_gate(console: Console, sweep: str, gate: SweepGate) -> None:
    """Print what each rule of a gate says, and the decision."""
    show_lines(console, gate.lines)
    show_decision(console, sweep, gate)


def show_lines(console: Console, lines: Sequence[GateLine]) -> None:
    """Print what each rule says."""
    for line in lines:
        print_line(console, str(line), mark=line.decision, style=STYLES[line.decision])


def show_decision(
    console: Console, sweep: str | None, gate: SweepGate | None, of_suites: Sequence[GateLine] = ()
) -> None:
    """Print what suites say of their pairs, and the decision of a gate, where there is one."""
    show_lines(console, of_suites)
    if gate is None:
        return
    count = counted(len(gate.lines), "rule")
    print_line(console, f"gate of sweep {sweep}, {count}", mark=gate.decision, style=STYLES[gate.decision])
