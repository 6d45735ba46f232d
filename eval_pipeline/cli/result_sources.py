"""Names of result sets (a runner, `sweep:ID`, `board:ID`, a file) → their results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

import click
import polars as pl

from eval_pipeline.cli.options import open_project, past_moment
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.errors import InputError, NoResults, UnknownName
from eval_pipeline.exports.result_files import read_result_file
from eval_pipeline.leaderboards.differences import Setup
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.totals import Measured
from eval_pipeline.warehouse.comparable_sweeps import (
    PLACES,
    comparable_sweep,
    comparable_sweeps,
    sweep_of_name,
    sweeps_named,
)
from eval_pipeline.warehouse.queries import published_boards
from eval_pipeline.warehouse.result_measures import read_measured, read_reasons, without_measures
from eval_pipeline.warehouse.selections import (
    Selection,
    current_runners,
    read_results,
    runner_names,
    select,
    sweep_ids,
)
from eval_pipeline.warehouse.setups import read_setups
from eval_pipeline.warehouse.store import Connection

KINDS = ("current", "baseline", "sweep", "board")
FORMS = "a runner, sweep:ID, board:ID, current, baseline, an AgentV run folder or a results file"

cluster_by_option = click.option(
    "--cluster-by", metavar="KEY",
    help="Cases of one value of this key of their metadata count as alike (default: `cluster_by` of the project).",
)  # fmt: skip


def selector_of(sweep: str, board: str | None) -> str:
    """Return the selector of --sweep (an id or `current`) and --board. Raises InputError for both."""
    if board is not None and sweep != "current":
        raise InputError("name a sweep or a board, not both")
    if board is not None:
        return f"board:{board}"
    return sweep if sweep == "current" or sweep.startswith("sweep:") else f"sweep:{sweep}"


as_of_option = click.option(
    "--as-of", callback=past_moment, metavar="TIME",
    help="As it was then: by the newest board at a date, a time, or an age (7d, 12h).",
)  # fmt: skip


def board_of(connection: Connection, board: str | None, as_of: datetime | None) -> str | None:
    """Return the board that is named, or the newest one at a time; None without both.

    Raises InputError for both, and for a time before the first board.
    """
    if as_of is None:
        return board
    if board is not None:
        raise InputError("--as-of: name a board or a time, not both")
    boards = published_boards(connection)
    found = next((str(id_) for id_, at, _ in boards if at <= as_of), None)
    if found is None:
        first = f"the first is of {boards[-1][1]:%Y-%m-%d %H:%M:%S} UTC" if boards else "there is none"
        raise InputError(f"--as-of: no board at {as_of:%Y-%m-%d %H:%M:%S} UTC or before; {first}")
    return found


@dataclass
class ResultSources:
    """Finds results by name; the project's warehouse is opened only when a name requires it.

    `suites` and `runners` filter every set (empty: all); `cluster_by` is a key of the metadata of cases (default: that
    of the project).
    """

    project: Path | None
    data: Path | None
    suites: Sequence[str] = ()
    runners: Sequence[str] = ()
    cluster_by: str | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _opened: Connection | None = None
    _selections: dict[str, Selection] = field(default_factory=dict)

    def __enter__(self) -> ResultSources:
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()

    @property
    def connection(self) -> Connection:
        if self._opened is None:
            project = open_project(self.project, self.data)
            self.cluster_by = self.cluster_by or project.defaults.cluster_by
            self._opened = self._stack.enter_context(open_published(project, is_own=self.data is None))
        return self._opened

    def find(self, name: str) -> Results:
        """Return the results of a name; a runner after `@` filters them. Raises InputError for an unknown name."""
        if name.partition(":")[0] in KINDS or name.startswith(("current@", "baseline@")):
            selector, _, runner = name.partition("@")
            selector = "standing" if selector == "current" else selector
            return self._stored(selector, [runner] if runner else self.runners, name)
        sweep, _, place = name.rpartition("@")
        if sweep and place in PLACES:
            return self._stored(f"sweep:{sweep_of_name(self.connection, sweep, place)}", self.runners, name)
        path = Path(name)
        if path.exists() and ("/" in name or path.suffix in (".json", ".jsonl")):
            return self._filtered(read_result_file(path, name))
        known = self._runners()
        if name in known:
            return self._standing(name)
        if path.exists():
            return self._filtered(read_result_file(path, name))
        if "/" in name:
            raise InputError(f"no file {name}")
        if name in PLACES:
            raise InputError(f"no runner '{name}'; the sweep is sweep:{name}")
        raise UnknownName("runner", name, known) if known else InputError(f"'{name}' is not {FORMS}")

    def _standing(self, runner: str) -> Results:
        """Return the results of a runner on boards. Raises InputError with where those of one are that has none."""
        try:
            return self._stored("standing", [runner], runner)
        except UnknownName:
            ids = sweep_ids(self.connection, self.suites, [runner])
            if not ids or runner in current_runners(self.connection):
                raise
            where = f"those of its newest sweep are sweep:{ids[0]}@{runner}"
            raise InputError(
                f"runner '{runner}' has no current results: it, or its suite, was removed; {where}"
            ) from None

    def newest(self, count: int, sweep: str | None = None) -> list[Results]:
        """Return the newest comparable sweeps of the selected suites and runners, or of one name, oldest first."""
        if sweep is None:
            ids = comparable_sweeps(self.connection, self.suites, self.runners)
            names = ", ".join([*self.suites, *self.runners]) or "anything"
            problem = f"no finished sweep has results of {names}; run a sweep first (eval-pipeline run)"
        else:
            ids = sweeps_named(self.connection, sweep)
            problem = f"no sweep '{sweep}' has finished; run it first (eval-pipeline run --sweep {sweep})"
        if not ids:
            raise InputError(problem)
        return [self._stored(f"sweep:{id_}", self.runners, id_) for id_ in reversed(ids[:count])]

    def _runners(self) -> list[str]:
        try:
            return runner_names(self.connection)
        except NoResults:
            return []

    def _stored(self, selector: str, runners: Sequence[str], name: str) -> Results:
        kind, _, requested = selector.partition(":")
        if kind == "sweep" and requested in PLACES:
            selector = f"sweep:{comparable_sweep(self.connection, requested, self.suites, runners)}"
        selection = select(self.connection, selector, suites=self.suites, runners=runners)
        self._selections[name] = selection
        return read_results(self.connection, selection, name, self.cluster_by)

    def measured(self, results: Results) -> Measured:
        """Return results that were found with what they measured; those of a file measured nothing."""
        selection = self._selection_of(results)
        if selection is None:
            return without_measures(results)
        return read_measured(self.connection, selection, results.name, self.cluster_by)

    def setups(self, results: Results) -> list[Setup]:
        """Return what the runners of results that were found were; nothing for those of a file."""
        selection = self._selection_of(results)
        return read_setups(self.connection, selection) if selection is not None else []

    def reasons(self, results: Results) -> dict[tuple[str, str], str]:
        """Return why cases of results that were found did not reach the full score; nothing for those of a file."""
        selection = self._selection_of(results)
        return read_reasons(self.connection, selection) if selection is not None else {}

    def _selection_of(self, results: Results) -> Selection | None:
        """Return the stored results that a side is, or is a runner of."""
        if results.name in self._selections:
            return self._selections[results.name]
        only = next(iter(self._selections.values()), None)
        return (
            replace(only, runners=(results.name,)) if only is not None and results.runners == [results.name] else None
        )

    def _filtered(self, results: Results) -> Results:
        frame = results.frame
        for kind, names in (("suite", self.suites), ("runner", self.runners)):
            known = frame[kind].unique().to_list()
            for name in names:
                if name not in known:
                    raise UnknownName(kind, name, known)
            frame = frame.filter(pl.col(kind).is_in(list(names))) if names else frame
        return Results(results.name, frame, results.at)
