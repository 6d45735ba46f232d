"""What a project stores of its sweeps: suites, sweeps from begin to end, and boards; and one sweep at a time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.executions.session_folders import remove_abandoned
from eval_pipeline.executions.started_programs import end_orphans, marked
from eval_pipeline.leaderboards.board_columns import COVERAGE_FLOOR
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules
from eval_pipeline.stopping import StopRequest
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.pairs import Pair, ValidatedSuite
from eval_pipeline.sweeps.slots import all_slots, free_slot, if_alone
from eval_pipeline.warehouse import queries, rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey, remove_empty_journals
from eval_pipeline.warehouse.project_pairs import retire_pairs
from eval_pipeline.warehouse.retired_cases import retire_cases
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class SweepStore:
    """The sweeps and boards in a warehouse; `clock` orders what is stored, boards rank from `coverage_floor` on, and
    `secret_rules` are what the project lists as secret. `runners_file` is the one that an option names."""

    warehouse: Warehouse
    clock: OrderClock = field(default_factory=OrderClock)
    coverage_floor: float = COVERAGE_FLOOR
    secret_rules: SecretRules = NO_RULES
    runners_file: Path | None = None

    def store_suites(self, suites: Sequence[ValidatedSuite]) -> None:
        """Store suites and their cases, each at its revision."""
        if not suites:
            return
        secret = self.secret_rules

        def store(connection: object) -> None:
            now = self._now()
            suite_rows = [rows.suite_row(each.suite, list(each.errors), now, secret) for each in suites]
            self.warehouse.write("suites", suite_rows)
            self.warehouse.write("cases", (row for each in suites for row in rows.case_rows(each.suite, secret)))

        self.warehouse.run(store)

    def store_new_suites(self, suites: Sequence[ValidatedSuite], known: Container[str]) -> list[ValidatedSuite]:
        """Store and return the suites that are not `known` by name, or whose revision is not stored."""
        stored = queries.stored_revisions(self.warehouse)
        new = [
            ready
            for ready in suites
            if stored.get(ready.suite.name) != ready.suite.revision or ready.suite.name not in known
        ]
        self.store_suites(new)
        return new

    @contextmanager
    def exclusive(
        self,
        report: Callable[[str], object] = lambda text: None,
        stop: StopRequest | None = None,
        goes_on: Callable[[str], bool] = lambda run_id: False,
    ) -> Iterator[list[str]]:
        """Let nobody else work in the data folder: wait for who does. A killed process holds no lock.

        Programs that killed sweeps left are ended; those that are started inside the block are marked, to end with this
        process. Yields the Dagster run ids of sweeps whose process was killed; they are marked as interrupted, unless
        the run `goes_on`: one that several processes carry out in turn. Raises Stopped after a `stop` while waiting.
        """
        storage = self.warehouse.storage
        with private_files(), all_slots(storage, _in_words(report), stop or StopRequest()):
            try:
                with self._left_by_killed(goes_on) as killed:
                    yield killed
            finally:
                remove_empty_journals(storage)

    @contextmanager
    def sweeping(
        self,
        report: Callable[[str], object] = lambda text: None,
        stop: StopRequest | None = None,
        goes_on: Callable[[str], bool] = lambda run_id: False,
    ) -> Iterator[list[str]]:
        """Let a sweep run in the data folder, as `exclusive` does; beside others where leases keep them apart.

        Journals, artifacts and workspaces are common: who has a pair's lease also has what a killed process left of it.
        """
        if self.warehouse.leases is None:
            with self.exclusive(report, stop, goes_on) as killed:
                yield killed
            return
        storage = self.warehouse.storage
        with private_files(), free_slot(storage, _in_words(report), stop or StopRequest()) as own:
            self.warehouse.storage = own
            try:
                with self._left_by_killed(goes_on) as killed:
                    yield killed
            finally:
                self.warehouse.storage = storage
        if_alone(storage, lambda: remove_empty_journals(storage))

    @contextmanager
    def _left_by_killed(self, goes_on: Callable[[str], bool]) -> Iterator[list[str]]:
        """End what killed sweeps left in the folder, and mark what is started inside the block."""
        folder = self.warehouse.storage.workspaces
        end_orphans(folder)
        remove_abandoned()
        with marked(folder):
            yield queries.interrupt_running_sweeps(self.warehouse, goes_on)

    @contextmanager
    def recorded(self, pairs: Sequence[Pair], options: SweepOptions, dagster_run_id: str | None) -> Iterator[str]:
        """Record a sweep from begin to end; yield its id. What it stored is published even when it breaks off."""
        sweep_id = self.begin(pairs, options, dagster_run_id)
        status = "interrupted"
        with nullcontext() if self.warehouse.leases is None else self.warehouse.leases.held(sweep_id):
            try:
                yield sweep_id
                status = "finished"
            finally:
                self.end(sweep_id, status)
                self.warehouse.publish()

    @contextmanager
    def joined(self, sweep_id: str) -> Iterator[str]:
        """Let this process take part in a sweep that another one began and ends; yield its id."""
        with nullcontext() if self.warehouse.leases is None else self.warehouse.leases.held(sweep_id):
            try:
                yield sweep_id
            finally:
                self.warehouse.publish()

    def begin(self, pairs: Sequence[Pair], options: SweepOptions, dagster_run_id: str | None) -> str:
        """Record that a sweep begins, and its runners; return its id (sortable by time)."""
        used = {(pair.runner.name, pair.revision): pair for pair in pairs}
        sweep_id: str | None = None

        def store(connection: object) -> str:
            nonlocal sweep_id
            now = self._now()
            sweep_id = sweep_id or new_id(now)  # the same when the transaction is run again
            row = {
                "sweep_id": sweep_id,
                "started_at": now,
                "status": "running",
                "dagster_run_id": dagster_run_id,
                "refresh": options.refresh,
                "name": options.sweep,
                "selection": _selection(pairs, options) | self._other_runners(),
            }
            if options.abandon_refresh:
                queries.abandon_refreshes(self.warehouse)
            self.warehouse.write("runners", [_runner_row(pair, now) for pair in used.values()])
            self.warehouse.write("sweeps", [row])
            return sweep_id

        return self.warehouse.run(store)

    def _other_runners(self) -> dict[str, str]:
        return {} if self.runners_file is None else {"runners_file": str(self.runners_file)}

    def end(self, sweep_id: str, status: str) -> None:
        """Record how a sweep ended: finished or interrupted."""
        queries.end_sweep(self.warehouse, sweep_id, status, self.clock.now())

    def interrupted_sweep(self, name: str | None = None, *, narrowed: bool = False) -> str | None:
        """Return the newest sweep of a name (None: of those without one) if it did not finish, else None; `narrowed`:
        for a part of the named sweep, which is stored without the name."""
        return queries.interrupted_sweep(self.warehouse, name, narrowed=narrowed)

    def update_leaderboards(self) -> pl.DataFrame:
        """Compute all standings from the counted answers of pairs, store them as a new board, and return them."""
        from eval_pipeline.sweeps.boards import current_standings  # noqa: PLC0415 — imports numpy, which most commands do not need

        def store(connection: object) -> pl.DataFrame:
            now = self._now()
            standings = current_standings(self.warehouse, self.coverage_floor)
            queries.clear_unranked(self.warehouse)
            return queries.append_standings(self.warehouse, standings, new_id(now), now)

        return self.warehouse.run(store)

    def retire(self, pairs: Sequence[PairKey]) -> None:
        """Take pairs out of what is current; the next board is without them."""
        self.warehouse.run(lambda connection: retire_pairs(self.warehouse, pairs, self._now()))

    def retire_cases(self, cases: Mapping[str, Collection[str]]) -> None:
        """Take cases, by suite, out of what is current; the next board is without them."""
        from eval_pipeline.sweeps.storing import update_failure_classes  # noqa: PLC0415 — imports this module

        def store(connection: object) -> None:
            now = self._now()
            pairs = retire_cases(self.warehouse, cases, now)
            update_failure_classes(self.warehouse, pairs, now)

        self.warehouse.run(store)

    def _now(self) -> datetime:
        """Return a moment after everything that is stored, by this process or by others."""
        self.clock.follow(self.warehouse)
        return self.clock.now()


def _in_words(report: Callable[[str], object]) -> Callable[[str], object]:
    return lambda what: report(f"another sweep of this data folder is under way: {what}")


def new_id(now: datetime) -> str:
    """Return a name that sorts by time: `20261121T222501.123456-ab12`."""
    return f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(2)}"


def _runner_row(pair: Pair, now: datetime) -> Row:
    return rows.runner_row(pair.runner, pair.revision, now, pair.runner_identity.content)


def _selection(pairs: Sequence[Pair], options: SweepOptions) -> dict[str, Any]:
    return {
        "suites": sorted({pair.name.suite for pair in pairs}),
        "runners": sorted({pair.name.runner for pair in pairs}),
        "cases": sorted(_case_ids(pairs, options.cases)),
        "tags": sorted(options.cases.tags),
        "difficulties": sorted(options.cases.difficulties),
        "statuses": sorted(options.cases.statuses),
        **_narrowed(options.cases),
        "repetitions": options.repetitions,
        "threshold": options.threshold,
        "stages": options.stages,
    }


def _narrowed(cases: CaseFilter) -> dict[str, Any]:
    """Return what else narrows a sweep down, where it is set."""
    sample = cases.sample
    drawn = {} if sample is None else {"sample": sample.size, "mix": dict(sample.mix), "seed": sample.seed}
    lists = {"all_tags": sorted(cases.all_tags), "names": sorted(cases.names)}
    return {name: values for name, values in lists.items() if values} | drawn


def _case_ids(pairs: Sequence[Pair], cases: CaseFilter) -> Collection[str]:
    """Return the ids that a sweep is narrowed down to: those named, or those drawn for its sample."""
    if cases.sample is None:
        return cases.ids
    suites = {pair.name.suite: pair.ready.suite for pair in pairs}
    return frozenset().union(*(cases.on(suite).ids for suite in suites.values()))
