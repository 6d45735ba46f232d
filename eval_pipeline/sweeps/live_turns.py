"""A live conversation's session so far: what the target answered, and whether the latest turn passed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from eval_pipeline.executions.conversations import Answer
from eval_pipeline.executions.model import Execution, Plan, RawExecution
from eval_pipeline.reports.messages import output_messages
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import bind, evaluate_with, suite_folder
from eval_pipeline.scores.model import Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message
from eval_pipeline.sweeps.context import SweepContext
from eval_pipeline.sweeps.decisions import PairRules
from eval_pipeline.sweeps.scoring import PairScorer


class LiveTurns:
    """The turns of one pair's conversations while they are held."""

    def __init__(self, rules: PairRules, scorer: PairScorer, context: SweepContext) -> None:
        self._rules = rules
        self._scorer = scorer
        self._context = context

    def answer(self, plan: Plan, raw: RawExecution, runner: str | None = None) -> Answer:
        """Return what the runner of a name, the plan's own or a fallback, answered in one turn."""
        report = self._scorer.normalize(_unfinished(plan, raw, runner), plan.case)
        usage = report.usage
        return Answer(
            text=report.final_output or "",
            messages=tuple(_said(report)),
            tokens=usage.total_tokens,
            cost_usd=usage.cost_usd,
            usage=asdict(usage),
            model_calls=report.model_calls,
        )

    async def passed(self, plan: Plan, so_far: RawExecution, workspace: Path | None = None) -> bool:
        """Return whether the latest turn passed; a turn without an evaluator, or without a score, does.

        `workspace` is the target's working directory, as this turn left it.
        """
        spec = _turn_spec(plan.case, len(so_far.payload["turns"]))
        if spec is None:
            return True
        pair = self._rules.pair
        client = self._context.graders.client(pair.runner)
        folder = suite_folder(pair.ready.suite)
        report = self._scorer.normalize(_unfinished(plan, so_far), plan.case)
        bound = bind(spec, plan.case, folder, client.revision_of, self._rules.threshold)
        isolation = self._context.options.defaults.isolation
        subject = Subject(plan.case, report, folder, workspace, self._rules.threshold, isolation)
        (score,) = await evaluate_with(client, subject, [bound])
        self._context.budget.spend(plan, client.spent)
        return score.passed(self._rules.threshold) is not False


def _said(report: SessionReport) -> Iterator[Message]:
    """The target's messages for later turns. A tool call without a result is left out: no model accepts it."""
    for message in output_messages(report):
        calls = tuple(call for call in message.get("tool_calls") or () if "output" in call)
        if message["role"] == "assistant" and (calls or message["content"]):
            yield Message(role="assistant", content=message["content"], tool_calls=calls)


def _turn_spec(case: Case, number: int) -> EvaluatorSpec | None:
    """The evaluator of one turn, wherever the case lists it."""
    for spec in case.evaluators:
        if spec.type == "turn" and spec.config.get("turn") == number:
            return spec
        for turn in spec.config.get("turns") or () if spec.type == "conversation" else ():
            if turn.get("turn") == number:
                return replace(spec, type="turn", name=f"turn-{number}", config=turn)
    return None


def _unfinished(plan: Plan, raw: RawExecution, runner: str | None = None) -> Execution:
    """A session so far as an execution that a report can be made of; `runner` names who answers."""
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
        answered_by=runner if runner != plan.runner.name else None,
    )
