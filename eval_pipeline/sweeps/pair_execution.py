"""One suite × runner while it is carried out: what is known of it, what has to be executed, and what becomes of each
execution: durable, normalized, scored, decided."""

from __future__ import annotations

import asyncio
import logging
import tarfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from eval_pipeline.executions.engine import SinkResult
from eval_pipeline.executions.model import Execution, Plan, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.redaction import redact, without_secrets
from eval_pipeline.executions.workspaces.archive import TooLarge, restore, save
from eval_pipeline.failures import BUDGET_EXCEEDED, DEPENDENCY, DEPENDENCY_FAILED, STOPPED
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize, normalizer_version
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.evaluate import BoundEvaluator, EvaluatorSet, bind, evaluate, evaluate_with, suite_folder
from eval_pipeline.scores.model import Finding, Score, Status, Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec
from eval_pipeline.sweeps.grading import Graders
from eval_pipeline.sweeps.outcomes import PairOutcome, SweepCounts, SweepObserver
from eval_pipeline.sweeps.pairs import (
    EVALUATE,
    EXECUTE,
    NORMALIZE,
    Pair,
    SweepOptions,
    budget_of,
    count_plans,
    decision_key,
    ends_early,
    is_open,
    is_stale,
    judges,
    needs_execution,
    one_by_one,
    pair_plans,
    repeat_budget_of,
    repetitions_of,
    strategy_of,
    threshold_of,
    wanted_decision,
)
from eval_pipeline.sweeps.plan_queue import PlanOutcome, PlanQueue
from eval_pipeline.warehouse import journal as journals
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import Journal, journal_folder, keep_artifacts
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import (
    BATCH,
    StoredExecution,
    displaced_by_later,
    load_stored,
    rebind,
    select_again,
    stored_executions,
)

_LOG = logging.getLogger(__name__)
ARCHIVE = "workspace.tar.gz"
"""A packed workspace among an execution's files."""
RESCORED_AT_ONCE = 16


@dataclass(slots=True)
class _Rescore:
    """A plan whose stored execution is valid but was judged otherwise."""

    plan: Plan
    known: StoredExecution


_Stored = tuple[_Rescore, Execution, SessionReport | None, Mapping[str, Score]]


@dataclass(slots=True)
class Budget:
    """What a sweep has spent, as far as it is known: on targets and graders, altogether and by suite."""

    limit_usd: float | None = None
    spent_usd: float = 0.0
    by_suite: dict[str, float] = field(default_factory=dict)

    def spend(self, suite: str, cost_usd: float | None) -> None:
        self.spent_usd += cost_usd or 0.0
        self.by_suite[suite] = self.by_suite.get(suite, 0.0) + (cost_usd or 0.0)

    def is_empty(self, suite: str, limit_usd: float | None) -> bool:
        """Whether nothing is left: of the sweep's budget, or of the suite's."""
        over = self.limit_usd is not None and self.spent_usd >= self.limit_usd
        return over or (limit_usd is not None and self.by_suite.get(suite, 0.0) >= limit_usd)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepContext:
    """What the cells of a sweep have in common."""

    options: SweepOptions
    warehouse: Warehouse
    sweep_id: str
    observer: SweepObserver
    graders: Graders
    runner_named: Callable[[str], Runner]
    budget: Budget


class PairExecution:
    """One cell while it is carried out."""

    def __init__(self, pair: Pair, context: SweepContext) -> None:
        self.pair = pair
        self.counts = SweepCounts()
        self.under_way = 0
        self.fault: Exception | None = None
        self._context = context
        self._options = context.options
        self._warehouse = context.warehouse
        self._sweep_id = context.sweep_id
        self._threshold = threshold_of(pair, context.options)
        self._panel = EvaluatorSet(pair.ready.suite, partial(context.graders.revision, pair.runner))
        self._folder = suite_folder(pair.ready.suite)
        self._artifacts = context.warehouse.storage.artifacts
        self._journal = Journal(
            journal_folder(context.warehouse.storage, context.sweep_id, pair.name), context.warehouse
        )
        self._rescores: list[_Rescore] = []
        self._rebinds: list[str] = []
        self._reused: list[str] = []
        self._known: dict[str, StoredExecution] = {}
        self._stopped = False
        self._queue: PlanQueue | None = None

    def folder_of(self, plan: Plan) -> Path:
        return self._artifacts / plan.runner.name / plan.suite / plan.key[:24] / self._sweep_id

    # What has to be executed.

    def next_plan(self) -> Plan | None:
        """The next plan that needs the target; None when there is none now. What needs less is noted on the way."""
        if self.fault is not None:
            return None
        if self._queue is None:
            self._queue = self._open_queue()
        return self._queue.next()

    @property
    def over(self) -> bool:
        """Whether every plan is settled."""
        done = self.fault is not None or (self._queue is not None and self._queue.over)
        return done and not self.under_way

    def refuse(self, plan: Plan) -> TargetFailure | None:
        """Why a plan is not to be executed any more."""
        if self._is_spent():
            return TargetFailure(BUDGET_EXCEEDED, "not executed: the budget is spent")
        if self._stopped:
            return TargetFailure(STOPPED, "not executed: the suite stops at the first error")
        if plan.case.on_dependency_failure != "run" and self._queue is not None and self._queue.lacks(plan):
            failure = DEPENDENCY_FAILED if plan.case.on_dependency_failure == "skip" else DEPENDENCY
            return TargetFailure(failure, f"not executed: depends on {', '.join(plan.case.depends_on)}")
        return None

    def _is_spent(self) -> bool:
        return self._context.budget.is_empty(self.pair.name.suite, budget_of(self.pair, self._options))

    def _open_queue(self) -> PlanQueue:
        journals.recover(self._warehouse, self.pair.name, self._sweep_id)
        self._known = stored_executions(self._warehouse, self.pair.name)
        planned = count_plans(self.pair, self._options, self._options.cases)
        self._context.observer.pair_planned(self.pair, planned)
        return PlanQueue(
            plans=pair_plans(self.pair, self._options),
            reuse=self._reuse,
            one_by_one=one_by_one(self.pair),
            is_enough=self._is_enough,
            skip=self._skip,
            dependent=any(case.depends_on for case in self.pair.ready.suite.cases),
        )

    def _is_enough(self, plan: Plan, settled: list[PlanOutcome]) -> bool:
        limit = repeat_budget_of(self.pair, plan.case)
        spent = sum(one.cost_usd or 0.0 for one in settled)
        passed = any(one.completed and one.passed for one in settled)
        return (limit is not None and spent >= limit) or (ends_early(self.pair, plan.case) and passed)

    def _skip(self, plan: Plan) -> None:
        self.counts.skipped += 1

    def _reuse(self, plan: Plan) -> PlanOutcome | None:
        """What is known of a plan, when that is good enough."""
        known = self._known.get(plan.key)
        if known is None or needs_execution(known, self.pair, plan.case, self._options, self._panel):
            if EXECUTE in self._options.stages:
                return None
            self.counts.planned += 1
            return PlanOutcome(completed=False, passed=False)
        self.counts.planned += 1
        status = Status(known.status) if known.status is not None else None
        if judges(self._options) and self._is_to_be_scored(plan, known):
            self._rescores.append(_Rescore(plan, known))
        else:
            self._stands(known, status)
        return PlanOutcome(known.valid, status is not None and status.as_expected, known.cost_usd)

    def _is_to_be_scored(self, plan: Plan, known: StoredExecution) -> bool:
        wanted = wanted_decision(plan.case, self._panel, self._threshold)
        return is_stale(known, wanted) or is_open(known, plan.case, self._panel)

    def _stands(self, known: StoredExecution, status: Status | None) -> None:
        self.counts.reused += 1
        if judges(self._options):
            self._reused.append(known.execution_id)
            if known.suite_revision != self.pair.ready.suite.revision:
                self._rebinds.append(known.execution_id)
            if status is not None:
                self.counts.count(status)
        self._context.observer.plan_reused(self.pair, status)

    # What becomes of an execution.

    async def take(self, plan: Plan, execution: Execution) -> SinkResult:
        """Makes an execution durable, then normalizes, scores and decides it."""
        self.counts.planned += 1
        if execution.attempts:
            self.counts.executed += 1
        else:
            self.counts.refused += 1
        folder = partial(self.folder_of, plan)
        execution = without_secrets(execution, self._secrets(), folder)
        artifacts, inline = keep_artifacts(execution, self._artifacts, folder)
        row = rows.execution_row(execution, artifacts, inline, self._sweep_id, self.pair.revision)
        self._journal.append("target_executions", row)  # before anything that takes time: it has cost money
        await self._archive(execution, folder() / ARCHIVE)
        report = self._report(execution, plan.case) if NORMALIZE in self._options.stages else None
        status, cost = None, None
        if report is not None:
            self.counts.add_usage(report)
            cost = report.usage.cost_usd
        if report is not None and EVALUATE in self._options.stages:
            status, grading_usd = await self._judge(plan.case, execution, report, {}, self._sweep_id)
            cost = cost if not grading_usd else (cost or 0.0) + grading_usd
        self._settle(plan, execution, report, status, cost)
        self._context.observer.plan_finished(self.pair, status, report)
        self._journal.ingest_when_large()
        return SinkResult(cost, passed=status is None or status.as_expected)

    def _secrets(self) -> tuple[str, ...]:
        """What must not be stored, of every runner in play: any program may print what it was started with."""
        return tuple(self._context.graders.secrets)

    async def _archive(self, execution: Execution, archive: Path) -> None:
        """Packs the workspace for evaluators that are added later."""
        left = execution.workspace.path if execution.workspace is not None else None
        most_bytes = int(self._options.defaults.workspace_archive_mb * 1_000_000)
        if left is None or not most_bytes:
            return
        try:
            await asyncio.to_thread(save, left, archive, most_bytes=most_bytes, secrets=self._secrets())
        except (TooLarge, OSError) as error:
            _LOG.warning("workspace of case '%s' is not kept: %s", execution.case_id, error)

    def _archive_of(self, execution: Execution, sweep_id: str) -> Path:
        """Where the workspace of an execution was packed, by the sweep that executed it."""
        folder = self._artifacts / self.pair.runner.name / self.pair.name.suite / execution.key[:24] / sweep_id
        return folder / ARCHIVE

    def _settle(
        self, plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None, cost: float | None
    ) -> None:
        completed = execution.completed and (report is None or report.failure_class is None)
        passed = status is not None and status.as_expected
        if self._queue is not None:
            self._queue.settle(plan, PlanOutcome(completed, passed, cost))
        self._context.budget.spend(plan.suite, cost)
        errored = not completed or status is Status.ERROR
        self._stopped = self._stopped or (errored and self.pair.ready.suite.settings.stop_on_error)

    def _report(self, execution: Execution, case: Case) -> SessionReport:
        report = self.read(execution, case)
        now = datetime.now(UTC)
        self._journal.append("session_reports", rows.report_row(report, execution, _normalizer(execution), now))
        for row in rows.event_rows(report, execution):
            self._journal.append("session_events", row)
        return report

    def read(self, execution: Execution, case: Case) -> SessionReport:
        """The session report of an execution, priced as whoever answered it is."""
        runner = self.pair.runner
        if execution.answered_by is not None:
            runner = self._context.runner_named(execution.answered_by)
        return normalize(execution, case, runner)

    async def _judge(
        self, case: Case, execution: Execution, report: SessionReport, known: Mapping[str, Score], sweep_id: str
    ) -> tuple[Status, float]:
        """The verdict, written down, and what asking for it cost in USD; `sweep_id` is of the execution."""
        asked = self._panel.of(case)
        fresh = _fresh(asked, report, known)
        if not any(one.requires_client for one in fresh):
            return self._judge_at_once(case, execution, report, known), 0.0
        client = self._context.graders.client(self.pair.runner)
        live = execution.workspace.path if execution.workspace is not None else None
        async with _looked_at(live, self._archive_of(execution, sweep_id)) as workspace:
            new = await evaluate_with(client, Subject(case, report, self._folder, workspace), fresh)
        new = [_without_secrets(score, self._secrets()) for score in new]
        return self._decide(case, execution, report, asked, new, known), client.cost_usd

    def _judge_at_once(
        self, case: Case, execution: Execution, report: SessionReport, known: Mapping[str, Score]
    ) -> Status:
        asked = self._panel.of(case)
        new = evaluate(Subject(case, report, self._folder), _fresh(asked, report, known))
        return self._decide(case, execution, report, asked, new, known)

    def _decide(
        self,
        case: Case,
        execution: Execution,
        report: SessionReport,
        asked: Sequence[BoundEvaluator],
        new: Iterable[Score],
        known: Mapping[str, Score],
    ) -> Status:
        """Writes down the new scores and the verdict that all scores give."""
        now = datetime.now(UTC)
        by_key = dict(known)
        for score in new:
            by_key[score.spec_key] = score
            self._journal.append("evaluator_scores", rows.score_row(score, execution, self._sweep_id, now))
            for row in rows.member_rows(score, execution, self._sweep_id, now):
                self._journal.append("member_scores", row)
        scores = [by_key[one.key] for one in asked] if report.failure_class is None else []
        verdict = decide(case, report, scores, self._threshold)
        row = rows.verdict_row(
            verdict,
            execution,
            report,
            suite_revision=self.pair.ready.suite.revision,
            runner_revision=self.pair.revision,
            tags=case.tags,
            decision_key=decision_key(case, [one.key for one in asked], self._threshold),
            normalizer=_normalizer(execution),
            score_keys=[score.spec_key for score in scores],
            sweep_id=self._sweep_id,
            now=now,
        )
        self._journal.append("verdicts", row)
        self.counts.count(verdict.status)
        return verdict.status

    # Live conversations.

    def answer(self, plan: Plan, raw: RawExecution) -> str:
        """What the target said to the user in one turn."""
        return self.read(_unfinished(plan, raw), plan.case).final_output or ""

    async def should_continue(self, plan: Plan, so_far: RawExecution) -> bool:
        """Whether the latest turn of a conversation passed."""
        spec = _turn_spec(plan.case, len(so_far.payload["turns"]))
        if spec is None:
            return True
        client = self._context.graders.client(self.pair.runner)
        try:
            report = self.read(_unfinished(plan, so_far), plan.case)
            asked = bind(spec, plan.case, self._folder, client.revision_of)
            (score,) = await evaluate_with(client, Subject(plan.case, report, self._folder), [asked])
        except Exception as error:  # noqa: BLE001 — an evaluator that cannot be used is this cell's fault, no other's
            self.fault = self.fault or error
            return False
        self._context.budget.spend(plan.suite, client.cost_usd)
        return score.passed(self._threshold) is not False

    # When everything is settled.

    async def finish(self) -> PairOutcome:
        """Scores anew what has to be, and takes everything into the warehouse."""
        try:
            if self.fault is not None:
                self._journal.close()
                raise self.fault
            for start in range(0, len(self._rescores), BATCH):
                await self._rescore_batch(self._rescores[start : start + BATCH])
            await asyncio.to_thread(self._store)
        except Exception as error:  # noqa: BLE001 — one cell's storage failing must not take the other cells along
            return PairOutcome(pair=self.pair, counts=self.counts, error=f"{type(error).__name__}: {error}")
        return PairOutcome(pair=self.pair, counts=self.counts)

    def close(self) -> None:
        self._journal.close()

    async def _rescore_batch(self, batch: Sequence[_Rescore]) -> None:
        """In a thread when nothing but the stored report is needed, so that calls under way are not held up."""
        stored: list[_Stored] = await asyncio.to_thread(
            lambda: list(load_stored(self._warehouse, batch, lambda one: one.known))
        )
        asking = [one for one in stored if any(asked.requires_client for asked in self._panel.of(one[0].plan.case))]
        at_once = [one for one in stored if not any(one is other for other in asking)] if asking else stored
        await asyncio.to_thread(self._rescore_all, at_once)
        places = asyncio.Semaphore(RESCORED_AT_ONCE)  # each may hold an unpacked workspace, and run a program
        async with asyncio.TaskGroup() as group:
            for one in asking:
                group.create_task(self._rescore_in(places, *one))

    def _rescore_all(self, stored: Iterable[_Stored]) -> None:
        for one in stored:
            self._rescore_at_once(*one)

    def _rescore_at_once(
        self, rescore: _Rescore, execution: Execution, report: SessionReport | None, scores: Mapping[str, Score]
    ) -> None:
        current, known = self._current(rescore, execution, report, scores)
        judged = EVALUATE in self._options.stages
        status = self._judge_at_once(rescore.plan.case, execution, current, known) if judged else None
        self._rescored(rescore, status)

    async def _rescore_in(
        self,
        places: asyncio.Semaphore,
        rescore: _Rescore,
        execution: Execution,
        report: SessionReport | None,
        scores: Mapping[str, Score],
    ) -> None:
        """Scores anew where something has to be asked, unless there is no money left for it."""
        async with places:
            if self._is_spent():
                self._stands(rescore.known, Status(rescore.known.status) if rescore.known.status else None)
                return
            current, known = self._current(rescore, execution, report, scores)
            status = None
            if EVALUATE in self._options.stages:
                case, sweep_id = rescore.plan.case, rescore.known.sweep_id
                status, cost = await self._judge(case, execution, current, known, sweep_id)
                self._context.budget.spend(rescore.plan.suite, cost)
            self._rescored(rescore, status)

    def _current(
        self, rescore: _Rescore, execution: Execution, report: SessionReport | None, scores: Mapping[str, Score]
    ) -> tuple[SessionReport, Mapping[str, Score]]:
        """The report as today's normalizer gives it, and the scores that still hold for it."""
        normalizer = _normalizer(execution)
        stale = report is None or rescore.known.report_normalizer != normalizer
        current = self._report(execution, rescore.plan.case) if stale or report is None else report
        return current, {} if stale or rescore.known.normalizer != normalizer else scores

    def _rescored(self, rescore: _Rescore, status: Status | None) -> None:
        self.counts.rescored += 1
        self._reused.append(rescore.known.execution_id)
        self._context.observer.plan_reused(self.pair, status)

    def _store(self) -> None:
        self._journal.ingest()
        self._rebind()
        if self.counts.planned:
            self._warehouse.write("sweep_pairs", [self._pair_row()])

    def _rebind(self) -> None:
        """What is unchanged in a changed suite belongs to the new revision, too."""
        now = datetime.now(UTC)
        if self._rebinds:
            rebind(self._warehouse, self._rebinds, self.pair.ready.suite.revision, self._sweep_id, now)
        if self._reused:
            select_again(self._warehouse, self._reused, now)
        displaced = displaced_by_later(self._warehouse, self._reused) if self._reused else []
        self.counts.moved = len(self._rebinds) + len(displaced)
        if displaced:
            rebind(self._warehouse, displaced, self.pair.ready.suite.revision, self._sweep_id, now)

    def _pair_row(self) -> Row:
        suite, counts = self.pair.ready.suite, self.counts
        counted = ("planned", "reused", "rescored", "executed", "skipped", "passed", "failed", "errored")
        return {name: getattr(counts, name) for name in counted} | {
            "sweep_id": self._sweep_id,
            "suite": suite.name,
            "runner": self.pair.runner.name,
            "suite_revision": suite.revision,
            "runner_revision": self.pair.revision,
            "suite_plans": count_plans(self.pair, self._options) - counts.skipped,
            "repetitions": repetitions_of(self.pair, self._options),
            "strategy": strategy_of(self.pair),
            "threshold": self._threshold,
            "invalid_cases": len(self.pair.ready.errors),
            "finished_at": datetime.now(UTC),
        }


def _fresh(asked: Sequence[BoundEvaluator], report: SessionReport, known: Mapping[str, Score]) -> list[BoundEvaluator]:
    """The evaluators that have not scored a report yet, and those that asked somebody who could not tell; none for a
    session that did not complete."""
    if report.failure_class is not None:
        return []
    return [one for one in asked if one.key not in known or (one.requires_client and known[one.key].value is None)]


@asynccontextmanager
async def _looked_at(live: Path | None, archive: Path) -> AsyncIterator[Path | None]:
    """The workspace as the target left it: as long as it is there, else unpacked; None when it was not kept."""
    if live is not None or not archive.is_file():
        yield live
        return
    with TemporaryDirectory(prefix="eval-pipeline-workspace-") as folder:
        try:
            await asyncio.to_thread(restore, archive, Path(folder))
        except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
            _LOG.warning("%s cannot be unpacked: %s", archive, error)
            yield None
            return
        yield Path(folder)


def _without_secrets(score: Score, secrets: Sequence[str]) -> Score:
    """A score of an evaluator that ran programs or asked models, which may have said what nobody is to read."""
    if not secrets:
        return score
    findings = redact([[one.text, one.passed, one.evidence] for one in score.findings], secrets)
    members = [
        one._replace(reason=redact(one.reason, secrets), details=redact(dict(one.details), secrets))
        for one in score.members
    ]
    return score._replace(
        reason=redact(score.reason, secrets),
        details=redact(dict(score.details), secrets),
        findings=tuple(Finding(*one) for one in findings),
        members=tuple(members),
    )


def _turn_spec(case: Case, number: int) -> EvaluatorSpec | None:
    """The evaluator of one turn, wherever the case lists it."""
    for spec in case.evaluators:
        if spec.type == "turn" and spec.config.get("turn") == number:
            return spec
        for turn in spec.config.get("turns") or () if spec.type == "conversation" else ():
            if turn.get("turn") == number:
                return replace(spec, type="turn", name=f"turn-{number}", config=turn)
    return None


def _unfinished(plan: Plan, raw: RawExecution) -> Execution:
    """What a turn brought back, as an execution that a report can be made of."""
    now = datetime.now(UTC)
    return Execution(
        execution_id=plan.key,
        key=plan.key,
        suite=plan.suite,
        case_id=plan.case.id,
        runner=plan.runner.name,
        repetition=plan.repetition,
        started_at=now,
        finished_at=now,
        duration_ms=0.0,
        attempts=(),
        raw=raw,
    )


def _normalizer(execution: Execution) -> str:
    return normalizer_version(execution.raw.format if execution.raw is not None else "")
