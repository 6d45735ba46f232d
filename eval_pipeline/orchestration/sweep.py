"""Cells → rows: carrying out suites × runners from plan to verdict. No Dagster here, so that the command line, a
Dagster step and a test call the same code.

Per cell: what is known from earlier sweeps is compared with what is wanted now; what is missing is executed, what was
judged by other evaluators is scored anew from stored reports, and everything is folded into the warehouse in one
transaction when the cell is done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.engine import Engine, Lane
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, Execution, Plan, Runner
from eval_pipeline.executions.planning import CaseFilter, cell_cases, plan_cell
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.orchestration.project import Refresh
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize, normalizer_version
from eval_pipeline.scores.decide import DEFAULT_THRESHOLD, decide
from eval_pipeline.scores.evaluate import Panel, evaluate, suite_folder
from eval_pipeline.scores.model import Score, Status, Subject
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.warehouse import journal as journals
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.cells import Known, displaced_by_later, known_cells, load_stored, rebind, select_again
from eval_pipeline.warehouse.journal import CellName, Journal, journal_folder, keep_artifacts
from eval_pipeline.warehouse.store import Warehouse

STAGES = ("target_executions", "session_reports", "evaluator_scores")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadySuite:
    """A suite whose evaluators are checked: its usable cases, and an error per unusable one."""

    suite: Suite
    errors: tuple[InputError, ...]


def make_ready(suite: Suite) -> ReadySuite:
    """The suite with its evaluators checked; cases that ask for something unusable join `errors`."""
    errors = Panel(suite).check()
    if not errors:
        return ReadySuite(suite=suite, errors=suite.errors)
    usable = tuple(case for case in suite.cases if case.id not in errors)
    return ReadySuite(suite=replace(suite, cases=usable), errors=(*suite.errors, *errors.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What a sweep is asked to do. `concurrency` limits all runners together and each runner that has no limit of its
    own; `threshold` is the least score that passes where a case sets none; `resume` names an interrupted sweep whose
    executions count as done whatever `refresh` says; `any_runner` sets aside which runners suites ask for."""

    refresh: Refresh = "missing"
    cases: CaseFilter = field(default_factory=CaseFilter)
    repetitions: int | None = None
    concurrency: int | None = None
    threshold: float | None = None
    budget_usd: float | None = None
    resume: str | None = None
    any_runner: bool = False
    stages: tuple[str, ...] = STAGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One suite × runner to carry out."""

    ready: ReadySuite
    runner: Runner
    revision: str

    @property
    def name(self) -> CellName:
        return CellName(self.ready.suite.name, self.runner.name)


@dataclass(slots=True)
class Tally:
    """What a sweep did with one cell; also what a plan foresees."""

    planned: int = 0
    reused: int = 0
    rescored: int = 0
    executed: int = 0
    passed: int = 0
    failed: int = 0
    errored: int = 0
    cost_usd: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def count(self, status: Status) -> None:
        """Counts a verdict."""
        if not status.graded:
            self.errored += 1
        elif status.as_expected:
            self.passed += 1
        else:
            self.failed += 1

    def add_usage(self, report: SessionReport) -> None:
        """Adds what a report knows of money and tokens."""
        usage = report.usage
        self.cost_usd = _sum(self.cost_usd, usage.cost_usd)
        self.input_tokens = _sum(self.input_tokens, usage.input_tokens)
        self.output_tokens = _sum(self.output_tokens, usage.output_tokens)

    @property
    def changed(self) -> bool:
        """Whether anything was written."""
        return bool(self.executed or self.rescored)


def _sum(total: Any, more: Any) -> Any:
    return total if more is None else more if total is None else total + more


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """A cell that is done and stored. `error` is our own fault, said in words; then nothing of it counts as done."""

    cell: Cell
    tally: Tally
    error: str | None = None


class Listener:
    """Told what happens during a sweep; does nothing by itself."""

    def cell_planned(self, cell: Cell, cells: int) -> None:
        """A cell is about to be carried out; `cells` plans belong to it."""

    def plan_reused(self, cell: Cell, status: Status | None) -> None:
        """A plan needs no call of the target."""

    def plan_started(self, plan: Plan) -> None:
        """The first attempt of a plan begins."""

    def plan_finished(self, cell: Cell, status: Status | None, report: SessionReport | None) -> None:
        """A plan was executed, and judged if that stage is on."""

    def cell_finished(self, outcome: CellOutcome) -> None:
        """A cell is done and stored."""


def repetitions_of(cell: Cell, options: SweepOptions) -> int:
    """How many repetitions of each case are planned: as asked, else as the suite says, else one."""
    return options.repetitions or cell.ready.suite.settings.repetitions or 1


def threshold_of(cell: Cell, options: SweepOptions) -> float:
    """The least score that passes where a case sets none: as asked, else as the suite says, else 0.8."""
    said = (options.threshold, cell.ready.suite.settings.threshold)
    return next((threshold for threshold in said if threshold is not None), DEFAULT_THRESHOLD)


def carry_out(
    cells: Sequence[Cell],
    options: SweepOptions,
    *,
    warehouse: Warehouse,
    sweep_id: str,
    listener: Listener | None = None,
) -> list[CellOutcome]:
    """Carries out cells and returns what became of them, in the order they finished.

    A target that fails is a row. A cell that we fail to store has an outcome with `error`; the others go on.
    """
    sweep = _Sweep(cells, options, warehouse, sweep_id, listener or Listener())
    try:
        return asyncio.run(sweep.run())
    except BaseExceptionGroup as group:
        first = _first_of(group)
    raise first


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a sweep: its tasks are ours, so the first one tells it all."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first


class _Sweep:
    """One sweep while it runs: a lane per runner, and cells being stored as they finish."""

    def __init__(
        self, cells: Sequence[Cell], options: SweepOptions, warehouse: Warehouse, sweep_id: str, listener: Listener
    ) -> None:
        self._options = options
        self._listener = listener
        self._runs = [_CellRun(cell, options, warehouse, sweep_id, listener) for cell in cells]
        self._by_name = {run.cell.name: run for run in self._runs}
        self._done: asyncio.Queue[_CellRun] = asyncio.Queue()
        self._outcomes: list[CellOutcome] = []

    async def run(self) -> list[CellOutcome]:
        engine = Engine(
            sink=self._sink,
            folder_of=lambda plan: self._by_name[CellName(plan.suite, plan.runner.name)].folder_of(plan),
            concurrency=self._options.concurrency,
            budget_usd=self._budget(),
            on_start=self._listener.plan_started,
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._store_finished())
                group.create_task(engine.carry_out(self._lanes()))
        finally:
            for run in self._runs:
                run.close()
        return self._outcomes

    def _budget(self) -> float | None:
        budgets = [run.cell.ready.suite.settings.budget_usd for run in self._runs]
        suites = min((budget for budget in budgets if budget is not None), default=None)
        return self._options.budget_usd if self._options.budget_usd is not None else suites

    def _lanes(self) -> list[Lane]:
        by_runner: dict[str, list[_CellRun]] = {}
        for run in self._runs:
            by_runner.setdefault(run.cell.runner.name, []).append(run)
        return [self._lane(runs) for runs in by_runner.values()]

    def _lane(self, runs: list[_CellRun]) -> Lane:
        runner = runs[0].cell.runner
        asked = [run.cell.ready.suite.settings.concurrency for run in runs]
        by_suites = min((limit for limit in asked if limit is not None), default=None)
        concurrency = runner.concurrency or self._options.concurrency or by_suites or DEFAULT_CONCURRENCY
        adapter = ADAPTERS.get(runner.adapter)(runner)
        return Lane(runner=runner, adapter=adapter, plans=self._plans(runs), concurrency=concurrency)

    def _plans(self, runs: list[_CellRun]) -> Iterator[Plan]:
        """The plans of a lane that need the target, cell after cell."""
        for run in runs:
            try:
                for plan in run.plans_to_execute():
                    run.under_way += 1
                    yield plan
            except Exception as error:  # noqa: BLE001 — a cell whose past cannot be read must not take the others along
                run.fault = run.fault or error
            run.exhausted = True
            self._finish_if_done(run)

    async def _sink(self, plan: Plan, execution: Execution) -> float | None:
        run = self._by_name[CellName(plan.suite, plan.runner.name)]
        cost = None
        try:
            cost = run.take(plan, execution)
        except Exception as error:  # noqa: BLE001 — a cell that cannot be written must not take the others along
            run.fault = run.fault or error
        run.under_way -= 1
        self._finish_if_done(run)
        return cost

    def _finish_if_done(self, run: _CellRun) -> None:
        if run.exhausted and not run.under_way:
            self._done.put_nowait(run)

    async def _store_finished(self) -> None:
        """Stores each cell as it finishes, in a thread, so that calls under way elsewhere are not held up."""
        for _ in self._runs:
            run = await self._done.get()
            outcome = await asyncio.to_thread(run.store)
            self._outcomes.append(outcome)
            self._listener.cell_finished(outcome)


@dataclass(slots=True)
class _Rescore:
    """A plan whose stored execution is valid but was judged otherwise."""

    plan: Plan
    known: Known
    decision_key: str


class _CellRun:
    """One cell while it is carried out."""

    def __init__(
        self, cell: Cell, options: SweepOptions, warehouse: Warehouse, sweep_id: str, listener: Listener
    ) -> None:
        self.cell = cell
        self.tally = Tally()
        self.under_way = 0
        self.exhausted = False
        self.fault: Exception | None = None
        self._options = options
        self._warehouse = warehouse
        self._sweep_id = sweep_id
        self._listener = listener
        self._threshold = threshold_of(cell, options)
        self._panel = Panel(cell.ready.suite)
        self._folder = suite_folder(cell.ready.suite)
        self._artifacts = warehouse.folder / "artifacts"
        self._journal = Journal(journal_folder(warehouse.folder, sweep_id, cell.name), warehouse)
        self._rescores: list[_Rescore] = []
        self._rebinds: list[str] = []
        self._reused: list[str] = []
        self._known: dict[str, Known] = {}

    def folder_of(self, plan: Plan) -> Path:
        return self._artifacts / plan.runner.name / plan.suite / plan.key[:24] / self._sweep_id

    def plans_to_execute(self) -> Iterator[Plan]:
        """The plans that need the target; what needs only new scores, or nothing, is noted on the way."""
        journals.recover(self._warehouse.folder, self._warehouse, self.cell.name, self._sweep_id)
        self._known = known_cells(self._warehouse, self.cell.name)
        self._listener.cell_planned(self.cell, self._count_plans())
        for plan in planned_cells(self.cell, self._options):
            if self.fault is not None:
                return
            self.tally.planned += 1
            known = self._known.get(plan.key)
            if known is None or needs_execution(known, self._options):
                if STAGES[0] in self._options.stages:
                    yield plan
            else:
                self._reuse(plan, known)

    def _count_plans(self) -> int:
        return count_cells(self.cell, self._options, self._options.cases)

    def _reuse(self, plan: Plan, known: Known) -> None:
        wanted_key = wanted_decision(plan.case, self._panel, self._threshold)
        if not judges(self._options):
            self.tally.reused += 1
        elif is_stale(known, wanted_key):
            self._rescores.append(_Rescore(plan, known, wanted_key))
            return
        else:
            self.tally.reused += 1
            self._reused.append(known.execution_id)
            if known.suite_revision != self.cell.ready.suite.revision:
                self._rebinds.append(known.execution_id)
            if known.status is not None:
                self.tally.count(Status(known.status))
        self._listener.plan_reused(self.cell, Status(known.status) if known.status else None)

    def take(self, plan: Plan, execution: Execution) -> float | None:
        """Makes an execution durable, then normalizes, scores and decides it; returns its cost."""
        folder = partial(self.folder_of, plan)
        execution = without_secrets(execution, plan.runner.secrets, folder)
        artifacts, inline = keep_artifacts(execution, self._artifacts, folder)
        row = rows.execution_row(execution, artifacts, inline, self._sweep_id, self.cell.revision)
        self._journal.append("target_executions", row)
        self.tally.executed += 1
        report = self._report(execution, plan.case) if STAGES[1] in self._options.stages else None
        status = None
        if report is not None and STAGES[2] in self._options.stages:
            status = self._judge(plan.case, execution, report, {})
        if report is not None:
            self.tally.add_usage(report)
        self._listener.plan_finished(self.cell, status, report)
        self._journal.fold_when_large()
        return report.usage.cost_usd if report is not None else None

    def store(self) -> CellOutcome:
        """Scores anew what has to be, and takes everything into the warehouse."""
        try:
            if self.fault is not None:
                self._journal.close()
                raise self.fault
            for rescore, execution, report, scores in load_stored(
                self._warehouse, self._rescores, lambda one: one.known
            ):
                self._rescore(rescore, execution, report, scores)
            self._journal.fold()
            self._rebind()
            if self.tally.planned:
                self._write_cell_row()
        except Exception as error:  # noqa: BLE001 — one cell's storage failing must not take the other cells along
            return CellOutcome(cell=self.cell, tally=self.tally, error=f"{type(error).__name__}: {error}")
        return CellOutcome(cell=self.cell, tally=self.tally)

    def close(self) -> None:
        self._journal.close()

    def _report(self, execution: Execution, case: Case) -> SessionReport:
        report = normalize(execution, case, self.cell.runner)
        now = datetime.now(UTC)
        self._journal.append("session_reports", rows.report_row(report, execution, _normalizer(execution), now))
        for row in rows.event_rows(report, execution):
            self._journal.append("session_events", row)
        return report

    def _judge(
        self, case: Case, execution: Execution, report: SessionReport, known_scores: Mapping[str, Score]
    ) -> Status:
        """Scores a report by every evaluator that has not scored it yet, decides, and writes both down."""
        asked = self._panel.of(case)
        scores: list[Score] = []
        if report.failure_class is None:
            fresh = [one for one in asked if one.key not in known_scores]
            new = {score.spec_key: score for score in evaluate(Subject(case, report, self._folder), fresh)}
            scores = [new.get(one.key) or known_scores[one.key] for one in asked]
            now = datetime.now(UTC)
            for score in new.values():
                self._journal.append("evaluator_scores", rows.score_row(score, execution, self._sweep_id, now))
        verdict = decide(case, report, scores, self._threshold)
        self._journal.append(
            "verdicts",
            rows.verdict_row(
                verdict,
                execution,
                report,
                suite_revision=self.cell.ready.suite.revision,
                runner_revision=self.cell.revision,
                tags=case.tags,
                decision_key=decision_key(case, [one.key for one in asked], self._threshold),
                normalizer=_normalizer(execution),
                score_keys=[score.spec_key for score in scores],
                sweep_id=self._sweep_id,
                now=datetime.now(UTC),
            ),
        )
        self.tally.count(verdict.status)
        return verdict.status

    def _rescore(
        self, rescore: _Rescore, execution: Execution, report: SessionReport | None, scores: Mapping[str, Score]
    ) -> None:
        stale = report is None or rescore.known.report_normalizer != _normalizer(execution)
        case = rescore.plan.case
        current = self._report(execution, case) if stale or report is None else report
        status = None
        if STAGES[2] in self._options.stages:
            outdated = stale or rescore.known.normalizer != _normalizer(execution)
            status = self._judge(case, execution, current, {} if outdated else scores)
        self.tally.rescored += 1
        self._reused.append(rescore.known.execution_id)
        self._listener.plan_reused(self.cell, status)

    def _rebind(self) -> None:
        """What is unchanged in a changed suite belongs to the new revision, too."""
        now = datetime.now(UTC)
        if self._rebinds:
            rebind(self._warehouse, self._rebinds, self.cell.ready.suite.revision, self._sweep_id, now)
        if self._reused:
            select_again(self._warehouse, self._reused, now)
        displaced = displaced_by_later(self._warehouse, self._reused) if self._reused else []
        if displaced:
            rebind(self._warehouse, displaced, self.cell.ready.suite.revision, self._sweep_id, now)

    def _write_cell_row(self) -> None:
        suite, tally = self.cell.ready.suite, self.tally
        cells = count_cells(self.cell, self._options)
        row = {
            "sweep_id": self._sweep_id,
            "suite": suite.name,
            "runner": self.cell.runner.name,
            "suite_revision": suite.revision,
            "runner_revision": self.cell.revision,
            "suite_cells": cells,
            "planned": tally.planned,
            "reused": tally.reused,
            "rescored": tally.rescored,
            "executed": tally.executed,
            "passed": tally.passed,
            "failed": tally.failed,
            "errored": tally.errored,
            "repetitions": repetitions_of(self.cell, self._options),
            "invalid_cases": len(self.cell.ready.errors),
            "finished_at": datetime.now(UTC),
        }
        self._warehouse.write("sweep_cells", [row])


def planned_cells(cell: Cell, options: SweepOptions) -> Iterator[Plan]:
    """The plans of a cell that the options select."""
    return plan_cell(
        cell.ready.suite,
        cell.runner,
        cell.revision,
        repetitions=repetitions_of(cell, options),
        wanted=options.cases,
        any_runner=options.any_runner,
    )


def count_cells(cell: Cell, options: SweepOptions, wanted: CaseFilter | None = None) -> int:
    """How many plans a cell has, of all its cases or of those `wanted`."""
    cases = cell_cases(cell.ready.suite, cell.runner, wanted, any_runner=options.any_runner)
    return sum(1 for _ in cases) * repetitions_of(cell, options)


def is_stale(known: Known, wanted: str) -> bool:
    """Whether a stored verdict was decided from something else than what is asked now."""
    return known.decision_key != wanted or known.normalizer != normalizer_version(known.format or "")


def wanted_decision(case: Case, panel: Panel, threshold: float) -> str:
    """The decision key that a case's verdict has to have now."""
    return decision_key(case, [asked.key for asked in panel.of(case)], threshold)


def decision_key(case: Case, spec_keys: Sequence[str], threshold: float) -> str:
    """The identity of everything a case's verdict is decided from, beside the report."""
    limit = case.threshold if case.threshold is not None else threshold
    return fingerprint([spec_keys, limit, case.expected_fail])[:32]


def needs_execution(known: Known, options: SweepOptions) -> bool:
    """Whether the target has to be called although the cell's content was executed before."""
    if options.resume is not None and known.sweep_id == options.resume and known.valid:
        return False
    if not known.valid or options.refresh == "all":
        return True
    return options.refresh == "failed" and (known.status is None or not Status(known.status).as_expected)


def judges(options: SweepOptions) -> bool:
    """Whether a sweep looks at answers at all, or only executes."""
    return STAGES[1] in options.stages or STAGES[2] in options.stages


def _normalizer(execution: Execution) -> str:
    return normalizer_version(execution.raw.format if execution.raw is not None else "")
