"""`eval-pipeline validate`: check suites and runners without carrying anything out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.console import Console

from eval_pipeline.cli.options import EXISTING_FILE, open_project, project_options
from eval_pipeline.cli.tables import say
from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.planning import runner_revision
from eval_pipeline.fingerprints import to_json
from eval_pipeline.orchestration.sweep import ReadySuite, make_ready
from eval_pipeline.orchestration.workbench import Workbench
from eval_pipeline.suites.load import find_suite_files, load_suite


@click.command(name="validate")
@click.argument("suites", nargs=-1)
@project_options
@click.option("--runners", "runners_file", type=EXISTING_FILE, help="Runners file.")
@click.option("--max-warnings", type=click.IntRange(0), help="Fail when there are more warnings than this.")
@click.option("--json", "as_json", is_flag=True, help="Print findings as JSON on stdout.")
def validate_command(
    suites: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    runners_file: Path | None,
    max_warnings: int | None,
    as_json: bool,
) -> None:
    """Check SUITES (default: the project's) and the runners file. Exit codes: 0 all valid, 2 something is not."""
    workbench = Workbench(open_project(project, data, runners_file))
    loaded, errors = _load(workbench, suites)
    errors += [error for ready in loaded for error in ready.errors]
    errors += _runner_errors(workbench)
    warnings = [warning for ready in loaded for warning in ready.suite.warnings]
    if as_json:
        document = {
            "suites": {ready.suite.name: len(ready.suite.cases) for ready in loaded},
            "errors": [_finding(error) for error in errors],
            "warnings": warnings,
        }
        click.echo(to_json(document).decode())
    else:
        _show(loaded, errors, warnings)
    too_many = max_warnings is not None and len(warnings) > max_warnings
    sys.exit(2 if errors or too_many else 0)


def _load(workbench: Workbench, suites: tuple[str, ...]) -> tuple[list[ReadySuite], list[InputError]]:
    patterns = [str(Path.cwd() / name) for name in suites] or list(workbench.project.suites)
    if not patterns:
        raise InputError("no suites: name files, folders or globs, or put 'suites:' into eval-pipeline.yaml")
    loaded: dict[str, ReadySuite] = {}
    errors: list[InputError] = []
    for path in find_suite_files(patterns, workbench.project.root):
        try:
            suite = load_suite(path, workbench.reading)
            if suite.name in loaded:
                raise InputError(f"{path}: suite name '{suite.name}' is taken by {loaded[suite.name].suite.path}")
            loaded[suite.name] = make_ready(suite)
        except InputError as error:
            errors.append(error)
    return list(loaded.values()), errors


def _runner_errors(workbench: Workbench) -> list[InputError]:
    if workbench.project.runners is None:
        return []
    try:
        runners = workbench.load_runners()
    except InputErrors as errors:
        return list(errors.errors)
    except InputError as error:
        return [error]
    return [error for runner in runners if not runner.unset for error in _content_errors(runner)]


def _content_errors(runner: Runner) -> Iterator[InputError]:
    """What is wrong with the files a runner's answers come from (a recording's rows)."""
    try:
        runner_revision(runner)
    except InputError as error:
        yield error


def _finding(error: InputError) -> dict[str, object]:
    place = error.place
    return {"file": place.file, "line": place.line, "field": place.field, "problem": error.problem}


def _show(loaded: list[ReadySuite], errors: list[InputError], warnings: list[str]) -> None:
    console = Console()
    for error in errors:
        say(console, str(error), mark="error  ", style="red")
    for warning in warnings:
        say(console, warning, mark="warning", style="yellow")
    for ready in loaded:
        bad = f", {len(ready.errors)} invalid" if ready.errors else ""
        say(console, f"{ready.suite.name}: {len(ready.suite.cases)} cases{bad}")
    say(console, f"{len(errors)} errors, {len(warnings)} warnings")
