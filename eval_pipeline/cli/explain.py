"""`eval-pipeline explain`: ask kept sessions of coding agents why checks failed."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from eval_pipeline.cli.options import comma_separated, open_project, project_options
from eval_pipeline.cli.show import find_case
from eval_pipeline.cli.tables import message_console, print_line, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.explaining import TIME_LIMIT_S, explain
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.case_details import stored_case_names
from eval_pipeline.warehouse.explanations import AskedExecution, asked_executions
from eval_pipeline.warehouse.selections import select

NOTHING = 3


@click.command(name="explain")
@click.argument("name", metavar="[SUITE[/CASE]]", required=False)
@project_options
@click.option("--runner", "runners", multiple=True, callback=comma_separated, help="Only these runners (repeatable).")
@click.option("--repetition", type=click.IntRange(1), help="Only this repetition.")
@click.option("--rerun", is_flag=True, help="Ask again what was answered before.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1), default=TIME_LIMIT_S, help="Seconds for an answer.")
@click.option("--json", "as_json", is_flag=True, help="Print questions and answers as a JSON list on stdout.")
def explain_command(
    *,
    name: str | None,
    project: Path | None,
    data: Path | None,
    runners: tuple[str, ...],
    repetition: int | None,
    rerun: bool,
    timeout_s: float,
    as_json: bool,
) -> None:
    """Ask the sessions behind failed checks why they did what they did, and keep the answers (table explanations).

    The agent goes on with its own session, may only read, and works in a copy of the kept workspace. The runner needs
    `keep_session: true`. Exit codes: 0 all answered; 1 some not; 2 bad input; 3 no question to ask.
    """
    session = ProjectSession(open_project(project, data))
    with session.warehouse.published() as connection:
        suite, case_id = find_case(name, stored_case_names(connection)) if name is not None else (None, None)
        selection = select(connection, "current", suites=[suite] if suite else (), runners=runners)
        asked = asked_executions(connection, selection, case_id)
    asked = [each for each in asked if repetition in (None, each.repetition)]
    if not asked:
        _nothing(as_json)
    answers = {each.name: _explained(session, each, message_console(), rerun, timeout_s) for each in asked}
    if as_json:
        echo_json([_document(each, answer) for each in asked for answer in answers[each.name]])
    else:
        _show(table_console(), answers)
    sys.exit(int(any(answer["answer"] is None for of_one in answers.values() for answer in of_one)))


def _nothing(as_json: bool) -> None:
    if as_json:
        echo_json([])
    echo("no failed check has a question", err=True)
    sys.exit(NOTHING)


def _explained(
    session: ProjectSession, asked: AskedExecution, console: Console, rerun: bool, timeout_s: float
) -> Sequence[Mapping[str, Any]]:
    print_line(console, f"{asked.name}: {counted(len(asked.questions), 'question')}", style="dim")
    return explain(session, asked, anew=rerun, timeout_s=timeout_s)


def _document(asked: AskedExecution, answer: Mapping[str, Any]) -> dict[str, Any]:
    place = {name: getattr(asked, name) for name in ("suite", "case_id", "runner", "repetition", "execution_id")}
    return {**place, **{key: value for key, value in answer.items() if key != "asked_at"}}


def _show(console: Console, answers: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    for name, of_one in answers.items():
        print_line(console, name, style="bold")
        for answer in of_one:
            print_line(console, f"Q {answer['question']}" + (f"  ({answer['source']})" if answer["source"] else ""))
            text = answer["answer"] if answer["answer"] is not None else f"no answer: {answer['error']}"
            print_line(console, f"A {text}", style="" if answer["answer"] is not None else "yellow")
