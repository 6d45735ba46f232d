"""A project at work: its suites and runners loaded, its warehouse open, its sweeps and boards written down.

Everything here is plain Python over the other rooms; Dagster's assets and the command line both stand on it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import polars as pl
from filelock import Timeout

from eval_pipeline.errors import EvalPipelineError, InputError, InputErrors, UnknownName
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.planning import runner_revision
from eval_pipeline.executions.runners import load_runners, require_environment
from eval_pipeline.leaderboards.standings import CELL_COLUMNS, VERDICT_COLUMNS, rank
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.load import LoadOptions, find_suite_files, load_suite, read_suites
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.pairs import Pair, SweepOptions, ValidatedSuite, validate_suite
from eval_pipeline.sweeps.project import Project
from eval_pipeline.warehouse import queries, rows
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse


@dataclass
class ProjectSession:
    """A project with what has been loaded of it. `broken` are files that should be suites and are none; `listener` is
    told how sweeps go on."""

    project: Project
    suites: dict[str, ValidatedSuite] = field(default_factory=dict)
    runners: dict[str, Runner] = field(default_factory=dict)
    broken: list[InputError] = field(default_factory=list)
    observer: SweepObserver = field(default_factory=SweepObserver)

    def __post_init__(self) -> None:
        self.warehouse: Warehouse = self.project.open_warehouse()

    @property
    def load_options(self) -> LoadOptions:
        return LoadOptions(self.project.environment, EVALUATORS)

    def load_suites(self, patterns: Sequence[str] | None = None) -> list[ValidatedSuite]:
        """The suites of these patterns (of the project's without any); a file that is none joins `broken`.

        Raises InputErrors when there is no suite at all.
        """
        chosen = list(patterns if patterns is not None else self.project.suites)
        if not chosen:
            raise InputError("no suites: name files, folders or globs, or put 'suites:' into eval-pipeline.yaml")
        suites, self.broken = read_suites(chosen, self.project.root, self.load_options)
        if not suites:
            raise InputErrors(self.broken or [InputError(f"no suite found in: {', '.join(chosen)}")])
        loaded = [self.validate_suite(suite) for suite in suites]
        self.suites.update((ready.suite.name, ready) for ready in loaded)
        return loaded

    def validate_suite(self, suite: Suite) -> ValidatedSuite:
        """The suite with its evaluators checked. One that names no runner gets the project's, if that names some, else
        the runner `default`, if there is one (as AgentV has it), else every runner."""
        chosen = suite.settings.runners or self.project.defaults.runners
        if not chosen and "default" in self._runner_names():
            chosen = ("default",)
        return validate_suite(replace(suite, settings=replace(suite.settings, runners=tuple(chosen))))

    def _runner_names(self) -> Iterable[str]:
        with suppress(EvalPipelineError):  # whoever needs the runners is told why there are none
            return self.runners or [runner.name for runner in self.load_runners()]
        return ()

    def load_runners(self) -> list[Runner]:
        """The runners of the project's runners file. Raises InputErrors."""
        if self.project.runners is None:
            raise InputError("no runners: put runners.yaml beside the suites, or name it in eval-pipeline.yaml")
        self.runners = {runner.name: runner for runner in load_runners(self.project.runners, self.project.environment)}
        return list(self.runners.values())

    def suite(self, name: str) -> ValidatedSuite:
        """A suite by name, loaded if it is not yet. Raises UnknownName."""
        if name not in self.suites:
            self._load_one(name)
        if name not in self.suites:
            raise UnknownName("suite", name, self.suites)
        return self.suites[name]

    def _load_one(self, name: str) -> None:
        """Loads suite files until one has this name and keeps them all; a broken file not wanted is passed over."""
        errors: list[InputError] = []
        loaded = {ready.suite.path for ready in self.suites.values()}
        for path in find_suite_files(self.project.suites, self.project.root):
            if path in loaded:
                continue
            try:
                suite = load_suite(path, self.load_options)
            except InputError as error:
                errors.append(error)
                continue
            self.suites.setdefault(suite.name, self.validate_suite(suite))
            if suite.name == name:
                return
        if errors:
            raise InputErrors(errors)

    def runner(self, name: str) -> Runner:
        """A runner by name. Raises UnknownName."""
        if not self.runners:
            self.load_runners()
        if name not in self.runners:
            raise UnknownName("runner", name, self.runners)
        return self.runners[name]

    def pairs(self, names: Iterable[PairKey]) -> list[Pair]:
        """The cells of these names, ready to be carried out. Raises InputErrors for runners that cannot be used."""
        wanted = list(names)
        chosen = {name.runner: self.runner(name.runner) for name in wanted}
        helpers = {name for runner in chosen.values() for name in (*runner.fallbacks, runner.grader) if name}
        require_environment([*chosen.values(), *(self.runner(name) for name in helpers - set(chosen))])
        revisions = {name: runner_revision(runner) for name, runner in chosen.items()}
        return [
            Pair(ready=self.suite(name.suite), runner=chosen[name.runner], revision=revisions[name.runner])
            for name in wanted
        ]

    def usable_pairs(self, names: Sequence[PairKey]) -> tuple[list[Pair], dict[PairKey, str]]:
        """The cells of these names that can be carried out, and why the others cannot: they take nobody along."""
        try:
            return self.pairs(names), {}
        except EvalPipelineError:
            pairs: list[Pair] = []
            unusable: dict[PairKey, str] = {}
        for name in names:
            try:
                pairs += self.pairs([name])
            except EvalPipelineError as error:
                unusable[name] = str(error)
        return pairs, unusable

    def store_suite(self, ready: ValidatedSuite) -> None:
        """Writes a suite and its cases down, at their revision."""
        now = datetime.now(UTC)
        self.warehouse.write("suites", [rows.suite_row(ready.suite, list(ready.errors), now)])
        self.warehouse.write("cases", rows.case_rows(ready.suite))

    def stored_revisions(self) -> dict[str, str]:
        """The newest stored revision of each suite."""
        return queries.stored_revisions(self.warehouse)

    @contextmanager
    def alone(self, say: Callable[[str], object] = lambda text: None) -> Iterator[list[str]]:
        """One sweep at a time in a data folder: waits for the one under way; a killed process holds nothing.

        Yields the Dagster runs of sweeps that were killed; they are written down as interrupted.
        """
        lock = self.warehouse.storage.lock("sweep")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say("another sweep of this data folder is under way: waiting for it")
            lock.acquire()
        try:
            yield queries.interrupt_running_sweeps(self.warehouse)
        finally:
            lock.release()

    def begin_sweep(self, pairs: Sequence[Pair], options: SweepOptions, dagster_run_id: str | None) -> str:
        """Writes down that a sweep begins, and its runners; returns the sweep's id (sortable by time)."""
        now = datetime.now(UTC)
        sweep_id = new_id(now)
        used = {pair.runner.name: pair for pair in pairs}
        self.warehouse.write("runners", [rows.runner_row(pair.runner, pair.revision, now) for pair in used.values()])
        row = {
            "sweep_id": sweep_id,
            "started_at": now,
            "status": "running",
            "dagster_run_id": dagster_run_id,
            "refresh": options.refresh,
            "selection": _selection(pairs, options),
        }
        self.warehouse.write("sweeps", [row])
        return sweep_id

    def end_sweep(self, sweep_id: str, status: str) -> None:
        """Writes down how a sweep ended: finished or interrupted."""
        queries.end_sweep(self.warehouse, sweep_id, status)

    def interrupted_sweep(self) -> str | None:
        """The newest sweep that did not finish, None when the last one did."""
        return queries.interrupted_sweep(self.warehouse)

    def update_leaderboards(self, sweep_id: str | None = None) -> pl.DataFrame:
        """Computes all standings from what is current, stores them as a new board, and returns them."""
        now = datetime.now(UTC)
        pairs = queries.pair_sizes(self.warehouse)
        verdicts = queries.newest_verdicts(self.warehouse, VERDICT_COLUMNS).cast(VERDICT_COLUMNS)  # type: ignore[arg-type]
        standings = rank(verdicts, pairs.cast(CELL_COLUMNS)).with_columns(  # type: ignore[arg-type]
            board_id=pl.lit(new_id(now)), computed_at=pl.lit(now.replace(tzinfo=None)), sweep_id=pl.lit(sweep_id)
        )
        return queries.append_standings(self.warehouse, standings)


def new_id(now: datetime) -> str:
    """A name that sorts by time: `20261121T222501.123456-ab12`."""
    return f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(2)}"


def _selection(pairs: Sequence[Pair], options: SweepOptions) -> dict[str, Any]:
    return {
        "suites": sorted({pair.name.suite for pair in pairs}),
        "runners": sorted({pair.name.runner for pair in pairs}),
        "cases": sorted(options.cases.ids),
        "tags": sorted(options.cases.tags),
        "repetitions": options.repetitions,
        "threshold": options.threshold,
        "stages": options.stages,
    }
