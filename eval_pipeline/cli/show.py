"""`eval-pipeline show`: what a runner answered to a case, how it was scored and why."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.case_view import show_case
from eval_pipeline.cli.options import comma_separated, open_project, project_options
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.result_sources import selector_of
from eval_pipeline.cli.tables import Layout, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.exports.rows import row_json
from eval_pipeline.leaderboards.show import amount, counted
from eval_pipeline.warehouse.case_details import (
    CaseDetails,
    PlanSummary,
    case_details,
    plan_summaries,
    stored_case_names,
)
from eval_pipeline.warehouse.selections import Selection, select
from eval_pipeline.warehouse.shared_files import local_artifact
from eval_pipeline.warehouse.store import Connection

NOTHING = 3


@click.command(name="show")
@click.argument("name", metavar="[SUITE[/CASE]]", required=False)
@project_options
@click.option("--runner", "runners", multiple=True, callback=comma_separated, help="Only these runners (repeatable).")
@click.option("--repetition", type=click.IntRange(1), help="Only this repetition.")
@click.option("--sweep", default="current", help="A sweep's id (or its start, latest, previous); default: current.")
@click.option("--board", help="The results of a past board, by its id.")
@click.option("--failed", is_flag=True, help="Only what did not pass.")
@click.option("--full", is_flag=True, help="Everything uncut, with the prompts of graders.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as a JSON list on stdout.")
def show_command(
    name: str | None,
    project: Path | None,
    data: Path | None,
    runners: tuple[str, ...],
    repetition: int | None,
    sweep: str,
    board: str | None,
    failed: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Show a case: input, answer or conversation, tool calls, scores with reasons, the words of graders, tokens, cost,
    attempts, files and workspace. Several runners are shown compactly.

    SUITE alone lists its cases, no name all cases; --failed only those that did not pass. Exit codes: 0; 2 for bad
    input; 3 when there is nothing to show.
    """
    opened = open_project(project, data)
    warehouse = opened.open_warehouse()
    with open_published(opened, warehouse, is_own=data is None) as connection:
        suite, case_id = find_case(name, stored_case_names(connection)) if name is not None else (None, None)
        selection = select(connection, selector_of(sweep, board), suites=[suite] if suite else (), runners=runners)
        if suite is None or case_id is None:
            _list(_summaries(connection, selection, repetition, failed), as_json)
            return
        details = _details(connection, selection, suite, case_id, repetition, failed)
    for file in (file for each in details for file in each.artifacts):
        local_artifact(warehouse.shared_files, warehouse.storage.artifacts / file["path"], file.get("sha256"))
    if not details:
        _nothing(f"{suite}/{case_id}", selection, failed, as_json)
    elif as_json:
        echo_json([_document(each, warehouse.storage.artifacts) for each in details])
    else:
        show_case(table_console(), details, warehouse.storage.artifacts, full=full)


def find_case(name: str, stored: Mapping[str, Sequence[str]]) -> tuple[str, str | None]:
    """Return the suite and the case (None: all) of SUITE or SUITE/CASE; the id of a case may hold a slash."""
    suite, _, case_id = name.partition("/")
    if suite not in stored:
        raise _unknown_suite(name, suite, stored)
    known = stored[suite]
    if case_id and case_id not in known:
        listed = f"eval-pipeline show {suite} lists its {counted(len(known), 'case')}"
        raise InputError(f"no case '{case_id}' in suite '{suite}'; {listed}{did_you_mean(case_id, known)}")
    return suite, case_id or None


def _unknown_suite(name: str, suite: str, stored: Mapping[str, Sequence[str]]) -> InputError:
    full_names = [f"{each}/{case_id}" for each, ids in stored.items() for case_id in ids if case_id == name]
    hint = f"; did you mean '{full_names[0]}'?" if full_names else did_you_mean(suite, stored)
    known = f"there are: {', '.join(sorted(stored))}" if stored else "there are none"
    return InputError(f"no suite '{suite}'; {known}{hint}")


def _summaries(connection: Connection, selection: Selection, repetition: int | None, failed: bool) -> list[PlanSummary]:
    plans = plan_summaries(connection, selection, not_passed=failed)
    return [plan for plan in plans if repetition in (None, plan.repetition)]


def _list(plans: Sequence[PlanSummary], as_json: bool) -> None:
    if as_json:
        echo_json([asdict(plan) for plan in plans])
        return
    if not plans:
        echo("no results to show", err=True)
        sys.exit(NOTHING)
    repeated = any(plan.repetition > 1 for plan in plans)
    head = ["status", "case", "runner", *(["repetition"] if repeated else []), "score", "reason"]
    rows = [
        [plan.status, f"{plan.suite}/{plan.case_id}", plan.runner, *([plan.repetition] if repeated else []),
         amount(plan.score, 2), plan.reason]
        for plan in plans
    ]  # fmt: skip
    print_rows(table_console(), head, rows, Layout(keep=3, prose=True))


def _details(
    connection: Connection, selection: Selection, suite: str, case_id: str, repetition: int | None, failed: bool
) -> list[CaseDetails]:
    return [
        each
        for each in case_details(connection, selection, suite, case_id)
        if repetition in (None, each.row.repetition) and not (failed and each.row.verdict.status.as_expected)
    ]


def _nothing(name: str, selection: Selection, failed: bool, as_json: bool) -> None:
    """Report that a known case has no results in the selection, and exit."""
    if as_json:
        echo_json([])
    which = " that did not pass" if failed else ""
    of = f" of {', '.join(selection.runners)}" if selection.runners else ""
    hint = "" if failed else f"; eval-pipeline run --case {name.partition('/')[2]} evaluates it"
    echo(f"{selection.name}: no results of {name}{of}{which}{hint}", err=True)
    sys.exit(NOTHING)


def _document(details: CaseDetails, artifacts: Path) -> dict[str, Any]:
    files = [{**file, "path": str(artifacts / file["path"])} for file in details.artifacts]
    return {
        **row_json(details.row),
        "exit_code": details.exit_code,
        "attempt_log": list(details.attempts),
        "artifacts": files,
        "workspace": dict(details.workspace) or None,
    }
