"""`eval-pipeline prepare`: a case's workspace and prompt, for work outside of a run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import EXISTING_FILE, project_options, select
from eval_pipeline.cli.tables import message_console, print_problems
from eval_pipeline.cli.terminal import echo
from eval_pipeline.errors import InputError
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.pairs import pair_plans
from eval_pipeline.sweeps.prepared import PROMPT_FILE, prepare_case
from eval_pipeline.sweeps.sweep_store import new_id


@click.command(name="prepare")
@click.argument("suite")
@click.option("--case", required=True, help="The id of the case.")
@click.option("--runner", help="The runner whose workspace it is (default: the suite's, if it has one).")
@click.option("--output", "-o", type=click.Path(path_type=Path, file_okay=False), required=True, help="A new folder.")
@click.option("--runners", "runners_file", type=EXISTING_FILE, help="Runners file.")
@project_options
def prepare_command(suite: str, case: str, runner: str | None, output: Path, **given: Any) -> None:
    """Prepare one case for work outside of a run, by a person or an agent: its workspace, hooks included, and prompt.

    The work is done in `workspace/` of the folder, and an answer written to `response.md`; then `eval-pipeline grade`
    grades it. Exit codes: 0; 2 for bad input, and a workspace that cannot be prepared.
    """
    selection = select(suites=(suite,), runners=(runner,) if runner else (), cases=(case,), **given)
    print_problems(message_console(), selection.problems)
    selection.require_cases()
    if len(selection.pairs) != 1:
        names = ", ".join(sorted(f"{pair.suite} × {pair.runner}" for pair in selection.pairs))
        raise InputError(f"one suite and one --runner are prepared at a time; there are: {names}")
    (pair,) = selection.session.pairs(selection.pairs)
    plan = next(pair_plans(pair, selection.options))
    prepared = prepare_case(plan, pair.ready.suite.path, output.absolute(), new_id(datetime.now(UTC)))
    echo(f"prepared {pair.name.suite}/{prepared.case} for {prepared.runner} in {show_path(output)}")
    echo(f"do what {PROMPT_FILE} asks in workspace/, write the answer to response.md, then:")
    echo(f"  eval-pipeline grade {show_path(output)}")
