"""`eval-pipeline cases generate`: drafts of test cases, by a model or from a stored conversation."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.options import comma_separated, open_project
from eval_pipeline.cli.tables import message_console, print_line
from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runners import require_environment, select_runners
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_formats import CASE_FORMATS, CaseFormat
from eval_pipeline.suites.case_store import new_file, stored_cases
from eval_pipeline.sweeps.drafting import Drafts, ask_runner, brief_for, write_drafts
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.conversation_lines import stored_conversation

MOST_DRAFTS = 200


@click.command(name="generate")
@click.option("--runner", "agent", help="The agent that the cases are for: its prompt and tools are read.")
@click.option("--with", "writer", help="The runner that writes them.")
@click.option("--count", type=click.IntRange(1, MOST_DRAFTS), default=10, help="How many (default 10).")
@click.option("--focus", multiple=True, callback=comma_separated, help="Labels that every case has, such as red-team.")
@click.option("--from", "execution", metavar="EXECUTION", help="Instead: a draft that repeats this conversation.")
@click.option("--into", required=True, type=click.Path(path_type=Path), help="The file to write or to add to.")
def generate_command(
    agent: str | None, writer: str | None, count: int, focus: tuple[str, ...], execution: str | None, into: Path
) -> None:
    """Write drafts of test cases: a person makes them active (`cases archive --to active`).

    Cases are checked against their format and the agent's tools; wrong ones are asked for once more, alone. No name is
    given twice, those of the file included. Exit codes: 0 done; 1 some cases stayed wrong and are left out; 2 invalid
    input, or no usable answer.
    """
    _, format_ = next(iter(CASE_FORMATS))
    project, target = open_project(None, None), into.absolute()
    known = [str(case.raw.get("name")) for case in stored_cases([target] if target.exists() else [])]
    if execution is not None:
        drafts = Drafts(cases=[_of_conversation(project, format_, execution)])
    else:
        drafts = _by_model(project, format_, (agent, writer, count, focus), known)
    _add(target, format_, drafts.cases)
    print_line(message_console(), f"{counted(len(drafts.cases), 'draft')} → {show_path(target)}")
    for place, problem in drafts.problems.items():
        print_line(message_console(), f"case {place + 1}: {problem}", mark="left out:", style="yellow")
    sys.exit(1 if drafts.problems else 0)


def _of_conversation(project: Project, format_: CaseFormat, execution: str) -> Mapping[str, Any]:
    with project.open_warehouse().published() as connection:
        return format_.of_conversation(stored_conversation(connection, execution))


def _by_model(
    project: Project, format_: CaseFormat, request: tuple[str | None, str | None, int, Sequence[str]],
    known: Sequence[str],
) -> Drafts:  # fmt: skip
    agent, writer, count, focus = request
    if agent is None or writer is None:
        raise InputError("name the agent and the runner that writes: --runner AGENT --with MODEL; or --from EXECUTION")
    runners = ProjectSession(project).load_runners()
    chosen = _runner(runners, writer)
    require_environment([chosen])
    return write_drafts(ask_runner(chosen), format_, brief_for(_runner(runners, agent), count, focus, known))


def _runner(runners: Sequence[Runner], name: str) -> Runner:
    (runner,) = select_runners(runners, [name])
    return runner


def _add(target: Path, format_: CaseFormat, cases: Sequence[Mapping[str, Any]]) -> None:
    """Write cases into a file, after those that it has; nothing without cases."""
    if not cases:
        return
    if not target.exists():
        written = new_file(target, list(cases))
    else:
        file = format_.open(target)
        written = new_file(target, format_.with_cases(file, [*file.cases, *cases]))
    write_files([FileText(written.path, written.text)])
