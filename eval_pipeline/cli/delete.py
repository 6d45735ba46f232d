"""`eval-pipeline delete`: sweeps, suites, runners, and files; says what it would delete, and deletes with --yes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from eval_pipeline.cli.options import open_project, past_moment, project_options
from eval_pipeline.cli.tables import Layout, print_line, print_rows, table_console
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.errors import InputError
from eval_pipeline.sweeps.dagster_databases import prepare_databases
from eval_pipeline.sweeps.dagster_files import dagster_home
from eval_pipeline.sweeps.deletion import (
    NO_FILES,
    FileCount,
    FileFinder,
    delete_files,
    delete_stored,
    old_artifacts,
    old_conversations,
    old_replies,
    old_workspaces,
    stored_sizes,
)
from eval_pipeline.sweeps.month_budgets import counted_this_month
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.retention import Age
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.deletion import (
    Owner,
    expired_sweeps,
    full_names,
    stored_names,
    stored_summaries,
)
from eval_pipeline.warehouse.journal import PairKey

_OWNERS: dict[str, Owner] = {"sweeps": "sweep", "suites": "suite", "runners": "runner"}
_FILES: dict[str, FileFinder] = {
    "artifacts": old_artifacts,
    "workspaces": old_workspaces,
    "grader-replies": old_replies,
    "conversations": old_conversations,
}
_RUNS = "dagster-runs"
_OF_NO_SWEEP = ("grader-replies", "conversations", _RUNS)
_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    """What was deleted, or would be."""

    what: str
    dry_run: bool
    rows: Mapping[str, int] = field(default_factory=dict)
    files: FileCount = NO_FILES
    sweeps: Sequence[str] = ()
    runs: int = 0
    pairs: Sequence[PairKey] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.rows or self.files.files or self.runs)

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "dry_run": self.dry_run,
            "rows": dict(self.rows),
            "files": self.files.files,
            "bytes": self.files.bytes,
            "sweeps": list(self.sweeps),
            "dagster_runs": self.runs,
            "changed_pairs": [{"suite": pair.suite, "runner": pair.runner} for pair in self.pairs],
        }


@click.command(name="delete")
@click.argument("kind", type=click.Choice([*_OWNERS, *_FILES, _RUNS]), required=False)
@click.argument("names", nargs=-1)
@project_options
@click.option(
    "--older-than", callback=past_moment, metavar="AGE",
    help="Sweeps that started, and files of executions that finished, longer ago (30d, 12h) or before a date.",
)  # fmt: skip
@click.option("--keep-last", type=click.IntRange(0), metavar="N", help="Keep the newest N sweeps, or their files.")
@click.option(
    "--retention", "by_retention", is_flag=True, help="Everything that is old by `retention` of the project file."
)
@click.option("--yes", is_flag=True, help="Delete. Without it, only show what would be deleted.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON on stdout.")
def delete_command(
    kind: str | None,
    names: tuple[str, ...],
    project: Path | None,
    data: Path | None,
    older_than: datetime | None,
    keep_last: int | None,
    by_retention: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete what is stored of sweeps, suites or runners by NAMES, or files: artifacts, workspaces, grader-replies,
    conversations that a killed process left, or runs that Dagster shows: dagster-runs. Without KIND, list what is
    stored; with --retention, delete what is old by the project file. Nothing is deleted without --yes.

    With --older-than or --keep-last, sweeps need no names; those that hold current results stay, and those that count
    in the month_budget_usd of a sweep. A sweep takes along its boards and what no other sweep or board uses. Exit
    codes: 0; 2 for bad input.
    """
    opened = open_project(project, data)
    store = SweepStore(opened.open_warehouse())
    age = Age(before=older_than, keep_last=keep_last)
    if by_retention:
        if kind is not None or age != Age():
            raise InputError("--retention takes kinds and ages from the project file")
        _delete_old(opened, store, dry_run=not yes, as_json=as_json)
    elif kind is None:
        _list(store, as_json)
    else:
        report = _delete(opened, store, kind, names, age, dry_run=not yes)
        _print([report], report.as_json() if as_json else None)


def _delete_old(project: Project, store: SweepStore, *, dry_run: bool, as_json: bool) -> None:
    """Delete what is old by the project's retention. Raises InputError for a project without one."""
    ages = list(project.retention.ages(datetime.now(UTC)))
    if not ages:
        raise InputError(
            "eval-pipeline.yaml limits nothing: set `retention`, such as `sweeps: {older_than: 90d, keep_last: 20}`"
        )
    reports = [_delete(project, store, kind, (), age, dry_run=dry_run) for kind, age in ages]
    _print(reports, [report.as_json() for report in reports] if as_json else None)


def _delete(
    project: Project, store: SweepStore, kind: str, names: Sequence[str], age: Age, *, dry_run: bool
) -> _Report:
    if kind in _OWNERS:
        owner = _OWNERS[kind]
        return _delete_rows(project, store, owner, _chosen(project, store, owner, names, age), dry_run=dry_run)
    if names:
        raise InputError(f"{kind} have no names; narrow them down with --older-than or --keep-last")
    if kind in _OF_NO_SWEEP and age.keep_last is not None:
        raise InputError(f"{kind} belong to no sweep: --older-than chooses them, --keep-last does not")
    if kind == _RUNS:
        return _delete_runs(project, store, age, dry_run=dry_run)
    return _delete_files(store, kind, age, dry_run=dry_run)


def _print(reports: Sequence[_Report], document: object) -> None:
    """Print a document as JSON, or without one the reports."""
    if document is not None:
        echo_json(document)
        return
    for report in reports:
        _show(report)
    if any(report.dry_run and not report.is_empty for report in reports):
        print_line(table_console(), "nothing is deleted yet: add --yes", style="yellow")


def _chosen(project: Project, store: SweepStore, owner: Owner, names: Sequence[str], age: Age) -> list[str]:
    """Return the full names to delete; by age no sweep whose cost counts in the budget of the present month, which
    would be spent again. Raises InputError when nothing, or too much, is requested."""
    limited = age.before is not None or age.keep_last is not None
    if limited and (owner != "sweep" or names):
        raise InputError("--older-than and --keep-last choose sweeps or files, without names")
    if limited:
        if not store.warehouse.exists():
            return []
        kept = counted_this_month(project, store.warehouse)
        return [id_ for id_ in expired_sweeps(store.warehouse, age.before, age.keep_last) if id_ not in kept]
    if not names:
        more = ", --older-than or --keep-last" if owner == "sweep" else ""
        raise InputError(f"name {owner}s to delete{more}; eval-pipeline delete lists what is stored")
    return full_names(store.warehouse, owner, names)


def _delete_rows(project: Project, store: SweepStore, owner: Owner, names: Sequence[str], *, dry_run: bool) -> _Report:
    nothing = "no sweep is old enough without holding current results or counting in the budget of this month"
    what = f"{owner} {_names(names)}" if names else nothing
    if dry_run:
        rows, files = delete_stored(store, owner, names, dry_run=True)
        return _Report(
            what=what, dry_run=True, rows=rows.rows, files=files, sweeps=rows.sweeps, runs=len(rows.dagster_runs),
            pairs=rows.pairs,
        )  # fmt: skip
    from eval_pipeline.orchestration.deletion import forget_in_dagster  # noqa: PLC0415 — Dagster takes a second

    prepare_databases(project.data, project.root)  # before anything is deleted
    with store.exclusive(_wait) as killed:
        rows, files = delete_stored(store, owner, names, dry_run=False)
        runs = forget_in_dagster(
            project.data,
            project.root,
            runs=rows.dagster_runs,
            suites=names if owner == "suite" else (),
            runners=names if owner == "runner" else (),
            killed=killed,
        )
    return _Report(
        what=what, dry_run=False, rows=rows.rows, files=files, sweeps=rows.sweeps, runs=runs, pairs=rows.pairs
    )


def _delete_files(store: SweepStore, kind: str, age: Age, *, dry_run: bool) -> _Report:
    sweeps = stored_names(store.warehouse, "sweep")
    if dry_run:
        files = delete_files(store, _FILES[kind], age, sweeps, dry_run=True)
    else:
        with store.exclusive(_wait):
            files = delete_files(store, _FILES[kind], age, sweeps, dry_run=False)
    return _Report(what=kind, dry_run=dry_run, files=files)


def _delete_runs(project: Project, store: SweepStore, age: Age, *, dry_run: bool) -> _Report:
    if age.before is None:
        raise InputError(f"{_RUNS}: --older-than chooses them")
    if not dagster_home(project.data, project.root).is_dir():
        return _Report(what=_RUNS, dry_run=dry_run)
    from eval_pipeline.orchestration.pruning import prune_runs  # noqa: PLC0415 — Dagster takes a second

    prepare_databases(project.data, project.root)
    with store.exclusive(_wait) as killed:
        runs, files = prune_runs(project.data, project.root, age.before, dry_run=dry_run, killed=killed)
    return _Report(what=_RUNS, dry_run=dry_run, files=files, runs=runs)


def _wait(text: str) -> None:
    echo(text, err=True)


def _list(store: SweepStore, as_json: bool) -> None:
    """Print what is stored by name, and the sizes of files."""
    rows: list[tuple[object, ...]] = []
    for kind, owner in _OWNERS.items():
        for each in stored_summaries(store.warehouse, owner):
            newest = f"{each.at:%Y-%m-%d %H:%M}" if each.at is not None else None
            rows.append((kind, each.name, each.executions, newest))
    sizes = stored_sizes(store.warehouse.storage)
    if as_json:
        names = ("kind", "name", "executions", "newest")
        files = {kind: {"files": size.files, "bytes": size.bytes} for kind, size in sizes.items()}
        echo_json({"stored": [dict(zip(names, row, strict=True)) for row in rows], "files": files})
        return
    console = table_console()
    print_rows(console, ("kind", "name", "executions", "newest (UTC)"), rows, Layout(keep=2))
    console.print()
    print_rows(console, ("kind", "files", "size"), [(kind, size.files, _size(size)) for kind, size in sizes.items()])


def _show(report: _Report) -> None:
    console = table_console()
    if report.is_empty:
        print_line(console, f"{report.what}: nothing to delete")
        return
    print_line(console, f"{'would delete' if report.dry_run else 'deleted'} {report.what}", style="bold")
    for name, text in _lines(report):
        print_line(console, f"  {name:<13}{text}")


def _lines(report: _Report) -> Iterator[tuple[str, str]]:
    if report.rows:
        tables = ", ".join(f"{table} {count:,}" for table, count in report.rows.items())
        yield "rows", f"{sum(report.rows.values()):,} ({tables})"
    yield "files", f"{report.files.files:,} ({_size(report.files)})"
    if report.sweeps:
        yield "sweeps", _names(report.sweeps)
    if report.runs:
        yield "Dagster runs", str(report.runs)
    if report.pairs:
        pairs = _names([f"{pair.suite} × {pair.runner}" for pair in report.pairs])
        yield "current", f"results change or go for {pairs}"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {len(names) - _SHOWN} more" if len(names) > _SHOWN else shown


def _size(count: FileCount) -> str:
    return f"{count.bytes / 1_000_000:,.1f} MB" if count.bytes >= 100_000 else f"{count.bytes / 1_000:,.1f} kB"
