"""Graders at work: which runner grades, how it is asked, and that equal questions are asked once.

Any runner can grade: the question is a case of its own, carried out on demand with the runner's adapter, retries and
concurrency, and its session report's final output is the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.model import Plan, Runner
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.executions.planning import pair_cases, runner_revision
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.scores.evaluate import EVALUATORS, AnyEvaluator, BoundEvaluator, EvaluatorSet, build, evaluate_with
from eval_pipeline.scores.grader_client import GraderFailure, GraderReply
from eval_pipeline.scores.model import NOTHING, Score, Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, Suite
from eval_pipeline.warehouse.replies import Replies

GRADING = "(grading)"
_KEPT = 1_000
SELF_GRADING = frozenset({"chat"})
"""Adapters whose runner grades its own answers where no grader is named, as AgentV has it; an agent never does."""


@dataclass(slots=True)
class Graders:
    """The runners that grade. `named` finds one by name; `forced` grades everything, `default` where nothing is said.
    `secrets` are those of every runner in play: any program may print what it was started with.

    Open while a sweep runs; `close` lets the adapters go.
    """

    named: Callable[[str], Runner]
    replies: Replies
    folder: Path
    forced: str | None = None
    default: str | None = None
    secrets: set[str] = field(default_factory=set, repr=False)
    _open: dict[str, OnDemand] = field(default_factory=dict)
    _revisions: dict[str, str] = field(default_factory=dict)
    _members: dict[int, tuple[EvaluatorSpec, AnyEvaluator]] = field(default_factory=dict)
    _asked: dict[str, asyncio.Task[GraderReply]] = field(default_factory=dict)

    def choose(self, runner: Runner, asked: str | None) -> Runner:
        """The runner that grades answers of `runner`: forced, asked for, the runner's own, the default, itself.

        Raises InputError when there is none.
        """
        name = self.forced or asked or runner.grader or self.default
        if name is not None:
            chosen = self._named(name)
            self.secrets.update(chosen.secrets)
            return chosen
        if runner.adapter in SELF_GRADING:
            return runner
        raise InputError(
            f"needs a grader for the answers of '{runner.name}': name a runner with --grader, as `grader` of the "
            "runner, as `target` of the evaluator, or under `defaults` in eval-pipeline.yaml"
        )

    def revision(self, runner: Runner, asked: str | None) -> str:
        """The identity of that grader: part of a score's identity. Raises InputError."""
        grader = self.choose(runner, asked)
        if grader.name not in self._revisions:
            self._revisions[grader.name] = runner_revision(grader)
        return self._revisions[grader.name]

    def client(self, runner: Runner) -> SweepGraderClient:
        """What the evaluators of one execution of `runner` may ask; it counts what they spend."""
        return SweepGraderClient(self, runner)

    async def reply(
        self, grader: Runner, messages: Sequence[Message], settings: Mapping[str, Any], sample: int
    ) -> GraderReply:
        """The reply to a question: kept from before, being asked right now, or asked. Raises GraderFailure."""
        key = fingerprint([self.revision(grader, grader.name), [_seen(one) for one in messages], settings, sample])
        kept = _from_kept(self.replies.get(key))
        if kept is not None:
            return kept
        under_way = self._asked.get(key)
        if under_way is not None:
            return replace(await asyncio.shield(under_way), cached=True)
        task = self._asked[key] = asyncio.create_task(self._ask(key, grader, messages, settings, sample))
        task.add_done_callback(lambda done: self._answered(key, done))
        return await asyncio.shield(task)  # whoever asks may give up; the reply is paid for, and others wait for it

    def _answered(self, key: str, done: asyncio.Task[GraderReply]) -> None:
        self._asked.pop(key, None)
        if not done.cancelled():
            done.exception()  # looked at, so that one nobody waits for any more is no warning

    def member(self, spec: EvaluatorSpec) -> AnyEvaluator:
        """The evaluator of a member, built once for all cases: its spec is part of an evaluator that is kept."""
        kept = self._members.get(id(spec))
        if kept is None or kept[0] is not spec:
            if len(self._members) >= _KEPT:
                self._members.clear()
            kept = self._members[id(spec)] = (spec, build(spec))
        return kept[1]

    async def close(self) -> None:
        """Lets every grader go, and gives up what is still being asked."""
        left = list(self._asked.values())
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        for grader in self._open.values():
            await grader.close()
        self._open.clear()

    def _named(self, name: str) -> Runner:
        try:
            return self.named(name)
        except UnknownName as error:
            raise InputError(f"cannot be graded: {error.problem}") from None

    async def _ask(
        self, key: str, grader: Runner, messages: Sequence[Message], settings: Mapping[str, Any], sample: int
    ) -> GraderReply:
        known = ADAPTERS.get(grader.adapter).settings
        used = {name: value for name, value in settings.items() if name in known}
        runner = replace(grader, settings={**grader.settings, **used}) if used else grader
        case = Case(id=f"grade-{key[:12]}", input=tuple(messages))
        plan = Plan(suite=GRADING, case=case, runner=runner, repetition=sample + 1, key=key)
        report = await self._carry_out(plan, used)
        reply = GraderReply(
            text=_said(report, grader),
            grader=grader.name,
            model=report.model,
            settings={**grader.public_settings, **used},
            usage=report.usage,
            duration_ms=report.duration_ms,
        )
        self.replies.put(key, _to_keep(reply))
        return reply

    async def _carry_out(self, plan: Plan, used: Mapping[str, Any]) -> SessionReport:
        name = f"{plan.runner.name} {fingerprint(used)[:12]}"
        if name not in self._open:
            adapter = ADAPTERS.get(plan.runner.adapter)(plan.runner)
            self._open[name] = OnDemand(plan.runner, adapter, AttemptEnvironment(folder_of=self._folder_of))
        execution = await self._open[name].execute(plan)
        execution = without_secrets(execution, tuple(self.secrets), lambda: self._folder_of(plan))
        return normalize(execution, plan.case, plan.runner)

    def _folder_of(self, plan: Plan) -> Path:
        return self.folder / plan.runner.name / plan.key[:24]


@dataclass(slots=True)
class SweepGraderClient:
    """The desk of one execution: its evaluators ask here. `cost_usd` is what they spent, as far as it is known."""

    graders: Graders
    runner: Runner
    cost_usd: float = 0.0
    timeout_s: float | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        """See Desk."""
        chosen = self.graders.choose(self.runner, grader)
        reply = await self.graders.reply(chosen, messages, settings, sample)
        if not reply.cached:
            self.cost_usd += reply.usage.cost_usd or 0.0
        return reply

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        """See Desk."""
        (score,) = await evaluate_with(self, subject, [BoundEvaluator(spec, self.graders.member(spec), "")])
        return score

    def revision_of(self, name: str | None) -> str:
        """The identity of a grader as a member asks for it."""
        return self.graders.revision(self.runner, name)


def ungradable(suite: Suite, runner: Runner, graders: Graders, *, any_runner: bool = False) -> InputError | None:
    """Why answers of a runner to a suite cannot be graded: the first evaluator whose grader is not there, or None."""
    suite = replace(suite, cases=tuple(pair_cases(suite, runner, any_runner=any_runner)))
    kinds = {spec.type for case in suite.cases for spec in case.evaluators}
    if not any(hasattr(EVALUATORS.find(kind), "grade") for kind in kinds):
        return None
    errors = EvaluatorSet(suite, partial(graders.revision, runner)).check()
    return next(iter(errors.values()), None)


def _said(report: SessionReport, grader: Runner) -> str:
    if report.failure_class is not None:
        raise GraderFailure(f"grader '{grader.name}' failed: {report.error or report.failure_class}")
    if not report.final_output:
        raise GraderFailure(f"grader '{grader.name}' said nothing")
    return report.final_output


def _seen(message: Message) -> object:
    return message.role, message.content


def _to_keep(reply: GraderReply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in ("text", "grader", "model", "settings", "usage", "duration_ms")}


def _from_kept(kept: Mapping[str, Any] | None) -> GraderReply | None:
    """A reply read back; None for one of another version, which is asked for again."""
    if kept is None:
        return None
    try:
        return GraderReply(**{**kept, "usage": Usage(**kept["usage"])}, cached=True)
    except (KeyError, TypeError):
        return None
