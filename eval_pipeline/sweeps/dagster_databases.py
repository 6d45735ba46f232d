"""Dagster's SQLite files of a project: which of them are damaged, and the cure. Read here without Dagster.

They hold what Dagster shows of runs, partitions and schedules; none of the results is in them.
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.dagster_files import dagster_home, runs_folder

_OF_RUNS = "the runs, partitions and events that Dagster shows of before"
_OF_ONE_RUN = "the events that Dagster shows of that run"
_OF_SCHEDULES = "which schedules and sensors are turned on or off, and their ticks"
_WAIT_S = 5.0


class DagsterDamage(EvalPipelineError):
    """A database of Dagster cannot be read."""


def prepare_databases(data: Path, root: Path | None = None) -> None:
    """Raise DagsterDamage when a database that Dagster opens when it starts is damaged, with the cure.

    An empty one, which a killed process left, is removed: Dagster makes it again only where there is none.
    """
    for database, moved, lost in _opened_first(data, root):
        if is_empty(database):
            database.unlink(missing_ok=True)
        if (problem := database_problem(database)) is not None:
            raise DagsterDamage(_message(database, problem, moved, lost))


def find_damage(data: Path, root: Path | None = None) -> DagsterDamage | None:
    """Return the error of the first damaged database, those of single runs included; None when all can be read."""
    for database, moved, lost in (*_opened_first(data, root), *_of_runs(data, root)):
        if (problem := database_problem(database)) is not None:
            return DagsterDamage(_message(database, problem, moved, lost))
    return None


def is_empty(database: Path) -> bool:
    """Return whether nothing is in a file: it is not there, or its process was killed before it wrote."""
    return not database.exists() or (database.is_file() and not database.stat().st_size)


def database_problem(path: Path) -> str | None:
    """Return why a SQLite file cannot be read; None for a sound or empty one, and where there is none."""
    if path.is_dir():
        return "it is a folder"
    if is_empty(path):
        return None
    try:
        address = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_WAIT_S)) as connection:
            (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:  # locked, or not allowed: no damage
        return None
    except sqlite3.DatabaseError as error:
        return str(error)
    return None if found == "ok" else " ".join(str(found).split())


def _base(data: Path, root: Path | None) -> Path:
    """The folder of the databases: the instance's, unless the settings in the project's folder name that of runs."""
    home = dagster_home(data, root)
    return runs_folder(data) if home == root else home


def _opened_first(data: Path, root: Path | None) -> Iterator[tuple[Path, Path, str]]:
    """Yield the databases that every start opens, each with what to move away, and what is lost by it.

    The list of runs and the index of their events belong together.
    """
    history, schedules = _base(data, root) / "history", _base(data, root) / "schedules"
    yield history / "runs.db", history, _OF_RUNS
    yield history / "runs" / "index.db", history, _OF_RUNS
    yield schedules / "schedules.db", schedules, _OF_SCHEDULES


def _of_runs(data: Path, root: Path | None) -> Iterator[tuple[Path, Path, str]]:
    for path in sorted((_base(data, root) / "history" / "runs").glob("*.db")):
        yield path, path, _OF_ONE_RUN


def _message(path: Path, problem: str, moved: Path, lost: str) -> str:
    cure = f"mv {shlex.quote(show_path(moved))} {shlex.quote(show_path(moved.with_name(f'{moved.name}.damaged')))}"
    return (
        f"{show_path(path)} is damaged: {problem}. None of the results is in it. To start anew without it: {cure} "
        f"(lost: {lost})"
    )
