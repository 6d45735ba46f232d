"""`eval-pipeline cases`: list, show, import, export and archive test cases. The files are edited; there is no copy."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click

from eval_pipeline.cli.case_drafts import generate_command
from eval_pipeline.cli.file_writing import FileText, write_files
from eval_pipeline.cli.options import comma_separated, open_project
from eval_pipeline.cli.tables import Layout, message_console, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo_file, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.case_store import (
    SUFFIXES,
    CaseQuery,
    OnConflict,
    StoredCase,
    case_named,
    imported,
    items_of,
    stored_cases,
    with_status,
)
from eval_pipeline.suites.conversion import NewFile, pretty_json
from eval_pipeline.suites.load import mentioned_files
from eval_pipeline.suites.simulation_fields import DIFFICULTIES, STATUSES
from eval_pipeline.sweeps.project import Project

Command = TypeVar("Command", bound=Callable[..., Any])
EXPORT_NAME = "test-cases-export.json"
MOST_LISTED = 1000
_NAME = 36
"""The most characters of a name in a terminal."""
SORT_KEYS = ("name", "difficulty", "status", "created_at", "updated_at")
_FOUND = click.Path(path_type=Path, exists=True)


def case_options(command: Command) -> Command:
    """Add the options that choose cases."""
    options = (
        click.option("--tag", "tags", multiple=True, callback=comma_separated, help="With any of these tags."),
        click.option("--all-tags", "all_tags", multiple=True, callback=comma_separated, help="With all of them."),
        click.option("--difficulty", "difficulties", multiple=True, type=click.Choice(DIFFICULTIES), help="Of these."),
        click.option("--status", "statuses", multiple=True, type=click.Choice(STATUSES), help="Of these."),
        click.option("--search", help="With this text in name or description, in any case."),
        click.option("--agent", help="Written for this agent (`agent_id`)."),
        click.option("--in", "paths", multiple=True, type=_FOUND, help="Files or folders (default: the project's)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(name="cases")
def cases_command() -> None:
    """List, show, import, export, archive and draft test cases with simulated users.

    Cases are in files: one case, a list, or an object with `test_cases`. Commands that change cases write these files.
    """


cases_command.add_command(generate_command)


@cases_command.command(name="list")
@case_options
@click.option("--sort-by", type=click.Choice(SORT_KEYS), help="Order (default: that of the files).")
@click.option("--order", type=click.Choice(("asc", "desc")), default="desc", help="With --sort-by (default: desc).")
@click.option("--skip", type=click.IntRange(0), default=0, help="Leave out the first ones.")
@click.option("--limit", type=click.IntRange(1, MOST_LISTED), default=100, help="The most to list (default 100).")
@click.option("--tags-only", is_flag=True, help="List the tags of the cases instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def list_command(
    paths: tuple[Path, ...], sort_by: str | None, order: str, skip: int, limit: int, tags_only: bool, as_json: bool,
    **query: Any,
) -> None:  # fmt: skip
    """List test cases, each with its file. Cases that cannot be read are listed with what is wrong."""
    unreadable: list[InputError] = []
    stored = _stored(paths, unreadable)
    cases = [case for case in stored if CaseQuery(**query)(case)]
    if tags_only:
        _show_tags(cases, as_json=as_json)
        return
    if sort_by is not None:
        cases.sort(key=lambda case: str(_value(case, sort_by) or ""), reverse=order == "desc")
    shown = cases[skip : skip + limit]
    if as_json:
        problems = {"unreadable": [str(error) for error in unreadable]} if unreadable else {}
        echo_json({"count": len(cases), "cases": [_document(case) for case in shown], **problems})
        return
    for error in unreadable:
        print_line(message_console(), str(error), mark="unreadable:", style="yellow")
    if not shown:
        print_line(message_console(), _why_none(stored, cases))
        return
    console = table_console()
    most = _NAME if console.is_terminal else None
    rows = [
        (case.id, _short(case.raw.get("name") or "", most), case.status, case.difficulty, ", ".join(case.tags),
         _place(case))
        for case in shown
    ]  # fmt: skip
    print_rows(console, ("id", "name", "status", "difficulty", "tags", "file"), rows, Layout(keep=2))
    if len(shown) < len(cases):
        print_line(table_console(), f"{len(shown)} of {len(cases)} cases: --skip, --limit", style="dim")
    for case in shown:
        problem = case.problem()
        if problem is not None:
            print_line(message_console(), str(problem), mark="unusable:", style="yellow")


def _why_none(stored: Sequence[StoredCase], cases: Sequence[StoredCase]) -> str:
    """Return why nothing is listed."""
    if cases:
        return f"there are only {counted(len(cases), 'case')}: --skip less"
    if stored:
        return f"none of {counted(len(stored), 'test case')} matches these options"
    return (
        "no files of test cases here: simulated users of other suites run, but cases lists and edits only files with a "
        "test case each, lists of them, and exports; eval-pipeline cases import FILE --into suites/cases.json adds some"
    )


def _short(name: Any, most: int | None) -> str:
    text = str(name)
    return text if most is None or len(text) <= most else f"{text[: most - 1]}…"


def _value(case: StoredCase, key: str) -> Any:
    own = {"difficulty": case.difficulty, "status": case.status}
    return own.get(key, case.raw.get(key))


def _show_tags(cases: Sequence[StoredCase], *, as_json: bool) -> None:
    tags = sorted({tag for case in cases for tag in case.tags})
    if as_json:
        echo_json({"tags": tags})
        return
    rows = [(tag, str(sum(tag in case.tags for case in cases))) for tag in tags]
    print_rows(table_console(), ("tag", "cases"), rows)


def _place(case: StoredCase) -> str:
    return f"{show_path(case.file.path)}:{case.line}" if case.line is not None else show_path(case.file.path)


def _document(case: StoredCase) -> dict[str, Any]:
    problem = case.problem()
    return {
        "id": case.id,
        "name": case.raw.get("name"),
        "status": case.status,
        "difficulty": case.difficulty,
        "tags": list(case.tags),
        "file": show_path(case.file.path),
        "line": case.line,
        "error": None if problem is None else str(problem),
    }


@cases_command.command(name="show")
@click.argument("case_id", metavar="CASE")
@click.option("--in", "paths", multiple=True, type=_FOUND, help="Files or folders (default: the project's).")
def show_command(case_id: str, paths: tuple[Path, ...]) -> None:
    """Show one test case as JSON, as it is written."""
    case = case_named(_stored(paths), case_id)
    print_line(message_console(), _place(case), style="dim")
    problem = case.problem()
    if problem is not None:
        print_line(message_console(), str(problem), mark="unusable:", style="yellow")
    echo_file(pretty_json(case.raw))


@cases_command.command(name="import")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--into", required=True, type=click.Path(path_type=Path), help="A file, or a folder: a file each.")
@click.option(
    "--on-conflict", type=click.Choice(("skip", "overwrite")), default="skip",
    help="A case whose id exists: leave it (default), or change the fields that the new one has.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
def import_command(source: Path, into: Path, on_conflict: OnConflict, dry_run: bool, as_json: bool) -> None:
    """Import test cases of a list, or of an object with `test_cases`, into files.

    A case without an id gets one; `created_at` and `updated_at` are set. Exit codes: 0 done; 1 some items were wrong,
    and the others are imported; 2 invalid input.
    """
    outcome = imported(items_of(source.absolute()), into.absolute(), on_conflict, _now(), lambda: str(uuid.uuid4()))
    _write([] if dry_run else outcome.files)
    if as_json:
        echo_json(outcome.as_json)
    else:
        counts = f"{outcome.created} created, {outcome.overwritten} overwritten, {outcome.skipped} skipped"
        print_line(message_console(), f"{counts}, {len(outcome.errors)} wrong, of {outcome.total}")
        for error in outcome.errors:
            print_line(message_console(), error, mark="not imported:", style="yellow")
        for warning in outcome.warnings:
            print_line(message_console(), warning, mark="warning", style="yellow")
    sys.exit(1 if outcome.errors else 0)


@cases_command.command(name="export")
@case_options
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path(EXPORT_NAME),
    help=f"File to write, a folder for {EXPORT_NAME}, or - for stdout (default: {EXPORT_NAME}).",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
def export_command(paths: tuple[Path, ...], output: Path, force: bool, **query: Any) -> None:
    """Write test cases into one file: `exported_at`, `count`, `test_cases`."""
    cases = [case for case in _stored(paths) if CaseQuery(**query)(case)]
    if not cases:
        raise InputError("no test case matches the selection")
    text = pretty_json(cases[0].format.export([case.raw for case in cases], _now()))
    if str(output) == "-":
        echo_file(text)
        return
    target = output / EXPORT_NAME if output.is_dir() else output
    if target.exists() and not force:
        raise InputError(f"{show_path(target)} exists; --force overwrites it, --output names another")
    _write([NewFile(target, [text])])
    print_line(message_console(), f"{counted(len(cases), 'case')} → {show_path(target)}")


@cases_command.command(name="archive")
@click.argument("case_ids", metavar="CASE...", nargs=-1, required=True)
@click.option("--in", "paths", multiple=True, type=_FOUND, help="Files or folders (default: the project's).")
@click.option("--to", "status", type=click.Choice(STATUSES), default="archived", help="The new status.")
def archive_command(case_ids: tuple[str, ...], paths: tuple[Path, ...], status: str) -> None:
    """Archive test cases: they stay in their files and are carried out only with --status archived."""
    stored = _stored(paths)
    cases = [case_named(stored, id_) for id_ in dict.fromkeys(case_ids)]
    _write(with_status(cases, status, _now()))
    for case in cases:
        print_line(message_console(), f"{case.id}: {case.status} → {status}")


def _stored(paths: Sequence[Path], unreadable: list[InputError] | None = None) -> list[StoredCase]:
    """Return the cases of some files and folders, else those of the project's suites, and of files that these name."""
    if paths:
        return stored_cases([path.absolute() for path in paths], unreadable)
    project, errors = open_project(None, None), [] if unreadable is None else unreadable
    chosen = _of_project(project)
    cases = stored_cases(chosen, errors)
    for file in _elsewhere(project, chosen):
        try:
            cases += stored_cases([file])
        except InputError as error:
            errors.append(error)
    return cases


def _elsewhere(project: Project, chosen: Sequence[Path]) -> list[Path]:
    """Return the files that suites take cases from and that are in none of these folders."""
    named = (file for file in mentioned_files(project.suites, project.root) if file.suffix.lower() in SUFFIXES)
    return [file for file in named if not any(file.is_relative_to(path.absolute()) for path in chosen)]


def _of_project(project: Project) -> list[Path]:
    """Return the folders and files of the project's suites; of a glob the folder that it begins with."""
    found = []
    for pattern in project.suites:
        parts = Path(pattern).parts
        plain = [part for index, part in enumerate(parts) if not any("*" in each for each in parts[: index + 1])]
        path = project.root.joinpath(*plain)
        if path.is_dir() or path.suffix == ".json":
            found.append(path)
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _write(files: Sequence[NewFile]) -> None:
    write_files(FileText(file.path, file.text) for file in files)
