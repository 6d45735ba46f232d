"""`eval-pipeline agreement`: how far graders agree with people, with each other, and simulators with each other; and
how much scores vary between cases, repetitions and graders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.tables import Layout, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import UnknownName
from eval_pipeline.leaderboards.show import UNKNOWN, amount, percent
from eval_pipeline.pages.agreement import AGREEMENTS, agreement_document
from eval_pipeline.warehouse.case_details import stored_case_names

NOTHING = 3
_TITLES = {
    "people_agreement": "graders and people (Cohen's kappa per revision of a grader; newest grade of each person)",
    "grader_agreement": "graders of a panel (Krippendorff's alpha)",
    "grader_pairs": "each two graders of a panel (Cohen's kappa)",
    "simulator_agreement": "simulators of users",
    "variance_components": "variance of scores: between cases, repetitions of a case, graders of an answer",
}
_SHARES = ("agreement", "unanimous", "pass_rate_grader", "pass_rate_people", "pass_rate_a", "pass_rate_b", "case_share")


@click.command(name="agreement")
@project_options
@click.option("--suite", "suites", multiple=True, help="Only these suites (repeatable).")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON on stdout.")
def agreement_command(project: Path | None, data: Path | None, suites: tuple[str, ...], as_json: bool) -> None:
    """Show how far graders agree with the people who graded in `eval-pipeline view`, per revision of the grader, how
    far the graders of a panel agree, and the simulators of users; and how much of the variance of scores is between
    cases, repetitions and graders. Exit codes: 0; 3 when there are no two grades to compare.
    """
    with open_published(open_project(project, data), is_own=data is None) as connection:
        known = stored_case_names(connection)
        views = agreement_document(connection)
    for name in suites:
        if name not in known:
            raise UnknownName("suite", name, known)
    views = {view: [row for row in rows if not suites or row["suite"] in suites] for view, rows in views.items()}
    comparable = any(views[view] for view in AGREEMENTS)
    if as_json:
        echo_json(views)
    else:
        for view, title in _TITLES.items():
            _show(title, views[view])
    if not as_json and not comparable:
        echo("no grades to compare yet: grade scores in eval-pipeline view, or use a panel of graders", err=True)
    sys.exit(0 if comparable else NOTHING)


def _show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    console = table_console()
    print_line(console, title, style="bold")
    head = [name.replace("_", " ") for name in rows[0]]
    print_rows(console, head, [[_text(name, value) for name, value in row.items()] for row in rows], Layout(keep=3))
    console.print()


def _text(name: str, value: Any) -> str:
    if value is None:
        return UNKNOWN
    if name in _SHARES:
        return percent(value)
    return amount(value, 3) if isinstance(value, float) else str(value)
