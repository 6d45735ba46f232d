"""One suite × runner while it is carried out: which plan comes next, and what happens to each execution. Coordinates
only; deciding, recording, scoring, rescoring and storing are modules of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.conversations import ScriptedSpeaker, Speaker
from eval_pipeline.executions.engine import SinkResult
from eval_pipeline.executions.model import Execution, Plan, RawExecution, TargetFailure
from eval_pipeline.executions.simulated_user import SimulatedSpeaker
from eval_pipeline.failures import BUDGET_EXCEEDED, DEPENDENCY, DEPENDENCY_FAILED, GRADER_MISSING, STOPPED
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Status
from eval_pipeline.suites.case_list import traits_of
from eval_pipeline.suites.incomplete import LIMITS
from eval_pipeline.suites.model import Case, Conversation
from eval_pipeline.sweeps import costs
from eval_pipeline.sweeps.budget import Spending
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.decisions import (
    Decision,
    decide_plan,
    decides_anew,
    earlier_to_score,
    first_answer,
    is_kept_fallback,
    is_settled,
    keeping_fallbacks,
    pair_rules,
    stored_outcome,
)
from eval_pipeline.sweeps.history import StoredHistory
from eval_pipeline.sweeps.ledger import PairLedger
from eval_pipeline.sweeps.live_turns import LiveTurns
from eval_pipeline.sweeps.options import EVALUATE, NORMALIZE
from eval_pipeline.sweeps.pairs import Pair, count_plans, executes, one_by_one, pair_plans
from eval_pipeline.sweeps.plan_queue import PlanOutcome, PlanQueue
from eval_pipeline.sweeps.recording import PairRecorder
from eval_pipeline.sweeps.rescoring import Rescore, Rescorer, StoredSessions
from eval_pipeline.sweeps.scoring import PairScorer, ScoringInput
from eval_pipeline.sweeps.simulating import ask_simulator, review_line
from eval_pipeline.warehouse.open_conversations import OpenConversation
from eval_pipeline.warehouse.stored_pairs import StoredExecution, find_stored


class PairExecution:
    """One pair while it is carried out. `fault` is our own error that ended it; `under_way` counts its executions, of
    which there are at most `most_under_way` at the same time. `retried` are the plans that were executed again because
    they had not passed, by the id of their first answer."""

    def __init__(self, pair: Pair, context: SweepContext, history: StoredHistory) -> None:
        self.pair = pair
        self.under_way = 0
        self.most_under_way: float = math.inf
        self.fault: Exception | None = None
        self.rules = pair_rules(pair, context.options, context.graders, context.unfinished)
        self.ledger = PairLedger(pair, context.options, context.observer)
        self._context = context
        self._options = context.options
        self._history = history
        self.recorder = PairRecorder(pair, context)
        self._scorer = PairScorer(self.rules, self.recorder, context)
        self.turns = LiveTurns(self.rules, self._scorer, context)
        self.rescorer = Rescorer(context, self._scorer, self.ledger)
        self._stored: Mapping[str, StoredExecution] = {}
        self._stopped = False
        self._fallbacks: dict[str, StoredExecution] = {}
        self.retried: dict[str, Plan] = {}
        self._queue: PlanQueue | None = None

    @property
    def over(self) -> bool:
        """Whether every plan is settled."""
        done = self.fault is not None or (self._queue is not None and self._queue.over)
        return done and not self.under_way

    async def rescore(self, sessions: StoredSessions) -> None:
        """Score again what is pending, once every plan is settled."""
        try:
            if self.fault is None:
                await self.rescorer.run(sessions)
        except Exception as error:  # noqa: BLE001 — one pair's stored sessions must not stop the other pairs
            self.fault = error

    def rescore_earlier(self, answers: Sequence[StoredExecution]) -> None:
        """Note which of the answers to retried plans need a new verdict; they are scored before the current ones."""
        current = {*self.ledger.reused, *self.ledger.retried}
        current.update(rescore.stored.execution_id for rescore in self.rescorer.pending)
        self.rescorer.pending[:0] = [
            Rescore(plan, stored, is_earlier=True, reads_output=self._scorer.reads_output(stored, plan.case))
            for plan, stored in earlier_to_score(answers, current, self.retried, self.rules)
        ]

    def next_plan(self) -> Plan | None:
        """Return the next plan that needs the target, None while there is no such plan; settle those that do not."""
        if self.fault is not None:
            return None
        if self._queue is None:
            self._queue = self._open_queue()
        return self._queue.next()

    def _open_queue(self) -> PlanQueue:
        self._stored = self._history.take(self.pair.name)
        self._context.observer.pair_planned(self.pair, count_plans(self.pair, self._options, self._options.cases))
        return PlanQueue(
            plans=pair_plans(self.pair, self._options),
            reuse=self._reuse,
            one_by_one=one_by_one(self.pair, self._options),
            is_enough=lambda plan, settled: is_settled(self.pair, plan, settled, self._options),
            skip=lambda plan: self.ledger.skip(),
            dependent=traits_of(self.pair.ready.suite.cases).has_dependencies,
        )

    def _reuse(self, plan: Plan) -> PlanOutcome | None:
        """What is stored of a plan; None when the target has to be called."""
        stored = find_stored(self._stored, plan)
        decision = decide_plan(stored, plan, self.rules)
        if stored is not None and decision is not Decision.EXECUTE:
            return self._reuse_stored(plan, stored, decision)
        if executes(self._options):
            if stored is not None and is_kept_fallback(stored, plan, self.rules):
                self._fallbacks[plan.key] = stored
            first = first_answer(stored, plan, self.rules)
            if first is not None:
                self.recorder.first_answers[plan.key] = first
                self.retried[first] = plan
            return None
        self.ledger.plan()
        return PlanOutcome(completed=False, passed=False)

    def _reuse_stored(self, plan: Plan, stored: StoredExecution, decision: Decision) -> PlanOutcome:
        self.ledger.plan()
        if stored.retry_of is not None:
            self.retried[stored.retry_of] = plan
        if stored.key != plan.key:
            self.ledger.adopt(plan, stored, self.recorder.parts(plan))
        updates = decision is Decision.UPDATE
        if decision is Decision.RESCORE or (updates and decides_anew(stored, plan.case, self.rules)):
            reads_output = self._scorer.reads_output(stored, plan.case)
            self.rescorer.pending.append(Rescore(plan, stored, updates=updates, reads_output=reads_output))
        else:
            self.ledger.reuse(plan, stored)
        return stored_outcome(stored)

    def falls_back(self, plan: Plan) -> bool:
        """Return whether a fallback is called for a plan whose runner failed: not while its stored answer counts."""
        return plan.key not in self._fallbacks

    def refuse(self, plan: Plan, attempts: int) -> TargetFailure | None:
        """Return why a plan is not to be executed any more, after so many attempts at it; None when it is."""
        budget = self._context.budget
        if attempts and budget.is_limited:
            budget.retry(plan, costs.of_failed_attempts(self.pair.runner, attempts))
        reason = budget.refusal(plan)
        if reason is not None:
            return TargetFailure(BUDGET_EXCEEDED, f"not {'tried again' if attempts else 'executed'}: {reason}")
        if attempts:
            return None
        if (without_grader := self.pair.ungraded.get(plan.case.id)) is not None:
            return TargetFailure(GRADER_MISSING, f"not executed: {without_grader.problem}")
        if self._stopped:
            return TargetFailure(STOPPED, "not executed: the suite stops at the first error")
        if plan.case.on_dependency_failure != "run" and self._queue is not None and self._queue.lacks(plan):
            failure = DEPENDENCY_FAILED if plan.case.on_dependency_failure == "skip" else DEPENDENCY
            return TargetFailure(failure, f"not executed: depends on {', '.join(plan.case.depends_on)}")
        return None

    async def take(self, plan: Plan, execution: Execution) -> SinkResult:
        """Make an execution durable, then normalize, score and decide it."""
        fallback = self._fallbacks.pop(plan.key, None)
        if fallback is not None and not execution.completed:
            return self._keep_fallback(plan, execution, fallback)
        self.ledger.execute(execution)
        execution = await self.recorder.record(plan, execution)
        if plan.case.is_conversation:
            self._context.warehouse.storage.conversations.joinpath(f"{plan.key}.jsonl").unlink(missing_ok=True)
        if plan.key in self.recorder.first_answers:
            self.ledger.retried.append(execution.execution_id)
        self._context.observer.execution_stored(plan)
        status = await self._evaluate(plan, execution)
        self.recorder.journal.ingest_when_large()  # the report of a large answer is not in memory any more
        return SinkResult(passed=status is None or status.as_expected)

    async def _evaluate(self, plan: Plan, execution: Execution) -> Status | None:
        """Normalize, score and settle an execution; return its status, None when it is not scored."""
        stages = self._options.stages
        report = self._scorer.report(execution, plan.case) if NORMALIZE in stages else None
        status, spent = None, costs.of_execution(execution, report, self.pair.runner)
        if report is not None and EVALUATE in stages:
            item = ScoringInput(case=plan.case, execution=execution, report=report, sweep_id=self._context.sweep_id)
            status, grading = await self._scorer.score(item)
            spent = costs.together(spent, grading)
        self._settle(plan, execution, report, status, spent)
        self._context.observer.plan_ended(plan, execution, report, status)
        self.ledger.finish(status, report)
        return status

    def _keep_fallback(self, plan: Plan, execution: Execution, stored: StoredExecution) -> SinkResult:
        """Count the stored answer of a fallback, because the runner is still down."""
        decision = decide_plan(stored, plan, keeping_fallbacks(self.rules))
        outcome = self._reuse_stored(plan, stored, decision)
        if self._queue is not None:
            self._queue.settle(plan, outcome)
        spent = costs.of_execution(execution, None, self.pair.runner)
        self._context.budget.settle(plan, spent, completed=False)
        return SinkResult(passed=outcome.passed)

    def _stops_on_error(self, case: Case) -> bool:
        return self.pair.ready.suite.settings.stop_on_error if case.stop_on_error is None else case.stop_on_error

    def _settle(
        self, plan: Plan, execution: Execution, report: SessionReport | None, status: Status | None, spent: Spending
    ) -> None:
        ending = execution.failure_class or (report.failure_class if report is not None else None)
        completed = ending is None or (ending in LIMITS and self.rules.incomplete_of(plan.case) != "error")
        if self._queue is not None:
            self._queue.settle(plan, PlanOutcome(completed, status is not None and status.as_expected, spent.usd))
        self._context.budget.settle(plan, spent, completed=completed)
        errored = not completed or status is Status.ERROR
        self._stopped = self._stopped or (errored and self._stops_on_error(plan.case))

    def speaker(self, call: Call) -> Speaker:
        """Return the speaker of a plan's live conversation: its simulated user, else the turns of the suite."""
        case = call.plan.case
        if case.user is not None:
            ask = ask_simulator(case.user, call.plan, self.pair, self._context)
            review = review_line(case.user, call.plan, self.pair, self._context)
            return SimulatedSpeaker(case.user, ask, case.input, case.state, review)
        return ScriptedSpeaker(case.conversation or Conversation(), partial(self._turn_passed, call))

    def log(self, call: Call) -> OpenConversation:
        """Return the file of a plan's conversation while it is held."""
        path = self._context.warehouse.storage.conversations / f"{call.plan.key}.jsonl"
        return OpenConversation(path, lambda: self._context.secrets)

    async def _turn_passed(self, call: Call, so_far: RawExecution) -> bool:
        try:
            return await self.turns.passed(call.plan, so_far, call.workspace)
        except Exception as error:  # noqa: BLE001 — an unusable evaluator is this pair's fault, and of no other
            self.fault = self.fault or error
            return False
