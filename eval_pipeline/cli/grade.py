"""`eval-pipeline grade`: grade the work on a prepared case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import EXISTING_FILE, open_project, option_of, project_options, select_in
from eval_pipeline.cli.run import carry_out
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.prepared import read_prepared
from eval_pipeline.sweeps.project_session import ProjectSession


@click.command(name="grade")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--response", type=EXISTING_FILE, help="The file with the answer (default: response.md of the folder).")
@click.option("--runners", "runners_file", type=EXISTING_FILE, help="Runners file.")
@option_of(Defaults, "grader")
@option_of(Defaults, "threshold")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON on stdout.")
@project_options
def grade_command(
    folder: Path,
    response: Path | None,
    runners_file: Path | None,
    project: Path | None,
    data: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Grade the work on a case that `eval-pipeline prepare` prepared in FOLDER, without calling a target.

    The workspace of the case is made anew, with its hooks, and gets the files of FOLDER: what they differ in are the
    changes that graders see. An answer is a text, or JSON with messages and tool calls. The results are those of a
    runner of its own, `<runner>-prepared`. Exit codes: as of `run`.
    """
    prepared = read_prepared(folder)
    session = ProjectSession(open_project(project, data, runners_file))
    place = prepared.suite.parent
    session.load_suites([str(prepared.suite)])  # it may name runners of its own
    session.registry.add_runner(place, prepared.as_runner(session.registry.named(prepared.runner, place), response))
    names = (prepared.runner_name,)
    selection = select_in(session, [str(prepared.suite)], runners=names, cases=(prepared.case,), **options)
    carry_out(selection, {"project": project, "data": data}, as_json=as_json, quiet=True)
