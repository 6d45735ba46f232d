"""`eval-pipeline validate`: check suites, runners and configurations without carrying anything out."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from eval_pipeline.cli.checks import Checked, check_files, findings_of, with_solutions_checked
from eval_pipeline.cli.options import EXISTING_FILE, open_project, project_options
from eval_pipeline.cli.tables import print_line, table_console
from eval_pipeline.cli.terminal import echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.project_session import ProjectSession

_STYLES = {"error": "red", "warning": "yellow"}


@click.command(name="validate")
@click.argument("files", nargs=-1)
@project_options
@click.option("--runners", "runners_file", type=EXISTING_FILE, help="Runners file.")
@click.option("--max-warnings", type=click.IntRange(0), help="Fail when there are more warnings than this.")
@click.option("--oracle", is_flag=True, help="Carry out each case's solution: it must solve it, and nothing must not.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as a JSON list on stdout.")
def validate_command(
    files: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    runners_file: Path | None,
    max_warnings: int | None,
    oracle: bool,
    as_json: bool,
) -> None:
    """Check FILES (suites, runners files, eval-pipeline.yaml, .agentv/config.yaml; folders and globs of suites).

    Without FILES: the project's suites. The project's runners file is always checked, and that it has the runners
    that suites request. With --oracle the solutions of cases are carried out in workspaces of their own: a case that
    its solution does not solve is an error, and so is one that is solved by doing nothing (a warning where it has no
    solution). Exit codes: 0 all valid; 1 more warnings than --max-warnings; 2 errors.
    """
    try:
        session = ProjectSession(open_project(project, data, runners_file))
    except InputError as error:
        checked = Checked(findings=list(findings_of(error)), suites={})
    else:
        checked = check_files(session, files, Path.cwd())
        if oracle and not any(finding.severity == "error" for finding in checked.findings):
            checked = with_solutions_checked(checked, session, files)
    if as_json:
        echo_json([finding.as_json() for finding in checked.findings])
    else:
        _show(checked)
    severities = [finding.severity for finding in checked.findings]
    too_many = max_warnings is not None and severities.count("warning") > max_warnings
    sys.exit(2 if "error" in severities else 1 if too_many else 0)


def _show(checked: Checked) -> None:
    console = table_console()
    for severity, style in _STYLES.items():
        for finding in checked.findings:
            if finding.severity == severity:
                print_line(console, str(finding), mark=f"{severity:7}", style=style)
    for suite, cases in checked.suites.items():
        print_line(console, f"{suite}: {counted(cases, 'case')}")
    severities = [str(finding.severity) for finding in checked.findings]
    print_line(console, ", ".join(counted(severities.count(kind), kind) for kind in _STYLES))
