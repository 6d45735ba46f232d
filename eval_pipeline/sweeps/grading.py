"""Grader calls of a sweep: which runner grades, how it is called, and the replies that are reused.

Any runner can grade: a request is a case of its own, carried out on demand with the runner's adapter, retries and
concurrency, and the final output of its session report is the reply. Equal requests are made once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from eval_pipeline.errors import InputError, SourceLocation, UnknownName
from eval_pipeline.executions.adapters import ADAPTERS, Adapter
from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import Plan, Runner, RunnerAddress, RunnerNamed
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.executions.pauses import NO_PAUSES, Pauses
from eval_pipeline.executions.planning import CaseFilter, pair_cases
from eval_pipeline.executions.provider_limits import NO_GATES, ProviderGates
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.failures import BAD_REQUEST
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.llm.reading import mapping
from eval_pipeline.reports.model import SessionReport, ToolResultEvent, Usage
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.scores.evaluate import EVALUATORS, AnyEvaluator, BoundEvaluator, build, evaluate_with
from eval_pipeline.scores.grader_client import GraderFailure, GraderReply
from eval_pipeline.scores.model import NOTHING, Score, Subject
from eval_pipeline.suites.case_list import case_list, traits_of
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, Suite
from eval_pipeline.sweeps.budget import NO_SPENDING, Spending
from eval_pipeline.sweeps.costs import of_reply, together
from eval_pipeline.sweeps.grader_settings import accepted_settings
from eval_pipeline.warehouse.replies import Replies

_LOG = logging.getLogger(__name__)
GRADING = "(grading)"
RESPONSE_FORMAT = "response_format"
_NO_GRADER = "(no grader)"
_KEPT = 1_000
SELF_GRADING = frozenset({"chat"})
"""Adapters whose runner grades its own answers where no grader is named; an agent never does."""


class MissingGrader(InputError):
    """No runner is there that could grade: what needs one is not executed, and has no score."""

    def at(self, place: SourceLocation) -> MissingGrader:
        """Return the same problem at another location."""
        return MissingGrader(self.problem, place)


class SchemaRefused(Exception):
    """A grader's model, or its wire, has no schema of replies. The message is its reason."""


@dataclass(slots=True)
class Graders:
    """The runners that grade. `named` returns one by name; `forced` grades everything, `default` whatever has no other
    grader. `secrets` are those of every runner in use: any program may print what it was started with. `concurrency` is
    that of the sweep, for graders without one of their own. Where `always_new`, no reply is reused, and none is kept.

    Open while a sweep runs; `close` releases the adapters.
    """

    named: RunnerNamed
    replies: Replies
    folder: Path
    forced: str | None = None
    default: str | None = None
    secrets: set[str] = field(default_factory=set, repr=False)
    pauses: Pauses = NO_PAUSES
    gates: ProviderGates = NO_GATES
    concurrency: int | None = None
    always_new: bool = False
    _open: dict[str, OnDemand] = field(default_factory=dict)
    _revisions: dict[RunnerAddress, str] = field(default_factory=dict)
    _members: dict[int, tuple[EvaluatorSpec, AnyEvaluator]] = field(default_factory=dict)
    _under_way: dict[str, asyncio.Task[GraderReply]] = field(default_factory=dict)
    _without_schema: set[RunnerAddress] = field(default_factory=set)

    def choose(self, runner: Runner, requested: str | None) -> Runner:
        """Return the runner that grades answers of `runner`: forced, requested, the runner's own, the default, itself.

        Raises MissingGrader when no runner applies.
        """
        name = self.forced or requested or runner.grader or self.default
        if not (self.forced or requested) and runner.missing_grader is not None:
            raise MissingGrader(f"cannot be graded: {runner.missing_grader}")
        if name is not None:
            chosen = self._named(name, runner.place)
            self.secrets.update(chosen.secrets)
            return chosen
        if runner.adapter in SELF_GRADING:
            return runner
        raise MissingGrader(
            f"needs a grader for the answers of '{runner.name}': name a runner with --grader, as `grader` of the "
            "runner, as `target` of the evaluator, or under `defaults` in eval-pipeline.yaml"
        )

    def revision(self, runner: Runner, requested: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
        """Return the identity of that grader, part of a score's identity; a missing one has an identity, too.

        Raises InputError when it does not have one of the settings. The command line's grader grades without the
        settings that it does not have: it is put in place of all others.
        """
        try:
            grader = self.choose(runner, requested)
        except MissingGrader:
            return _NO_GRADER
        if settings and self.forced is None:
            accepted_settings(grader, settings).check()
        if grader.address not in self._revisions:
            self._revisions[grader.address] = runner_revision(grader)
        return self._revisions[grader.address]

    def client(self, runner: Runner) -> SweepGraderClient:
        """Return the client for the evaluators of one execution of `runner`; it counts what they spend."""
        return SweepGraderClient(self, runner)

    async def reply(
        self, grader: Runner, messages: Sequence[Message], settings: Mapping[str, Any], sample: int
    ) -> GraderReply:
        """Return the reply to a request: a stored one, or of an equal call under way, or of a new call.

        Its text may be empty. Raises GraderFailure.
        """
        if self.always_new:
            return await self.ask(grader, messages, settings, f"grade-{uuid4().hex[:12]}")
        key = fingerprint(
            [self.revision(grader, grader.name), [_identity(message) for message in messages], settings, sample]
        )
        stored = _from_stored(await self.replies.get(key))
        if stored is not None:
            return stored
        under_way = self._under_way.get(key)
        if under_way is not None:
            return replace(await asyncio.shield(under_way), cached=True)
        task = self._under_way[key] = asyncio.create_task(self._call(key, grader, messages, settings, sample))
        task.add_done_callback(lambda done: self._forget(key, done))
        # A cancelled caller must not cancel the call: it is paid for, and others may wait for it.
        return await asyncio.shield(task)

    def _forget(self, key: str, done: asyncio.Task[GraderReply]) -> None:
        self._under_way.pop(key, None)
        if not done.cancelled():
            done.exception()  # retrieved, so that asyncio does not warn of one that nobody waits for

    def member(self, spec: EvaluatorSpec) -> AnyEvaluator:
        """Return the evaluator of a sub-score, built once for all cases; its spec outlives it."""
        kept = self._members.get(id(spec))
        if kept is None or kept[0] is not spec:
            if len(self._members) >= _KEPT:
                self._members.clear()
            kept = self._members[id(spec)] = (spec, build(spec))
        return kept[1]

    async def close(self) -> None:
        """Release every grader, and cancel the calls under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for grader in self._open.values():
            await grader.close()
        self._open.clear()

    def _named(self, name: str, place: Path | None) -> Runner:
        try:
            return self.named(name, place)
        except UnknownName as error:
            raise MissingGrader(f"cannot be graded: {error.problem}") from None

    async def _call(
        self, key: str, grader: Runner, messages: Sequence[Message], settings: Mapping[str, Any], sample: int
    ) -> GraderReply:
        reply = await self.ask(grader, messages, settings, f"grade-{key[:12]}", repetition=sample + 1)
        if reply.text.strip():  # nothing is read of another: it is requested anew, in this run or the next
            self.replies.put(key, _stored_fields(reply))
        return reply

    async def ask(
        self,
        runner: Runner,
        messages: Sequence[Message],
        settings: Mapping[str, Any],
        name: str,
        *,
        repetition: int = 1,
        seed: int | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> GraderReply:
        """Return the reply of a runner to a new request, of which `name` is the case id; its tools may change `state`.

        Its text may be empty. Raises GraderFailure.
        """
        try:
            return await self._ask(runner, messages, self._used(runner, settings), name, repetition, seed, state)
        except SchemaRefused as refused:
            plain = {key: value for key, value in settings.items() if key != RESPONSE_FORMAT}
            reply = await self._ask(runner, messages, self._used(runner, plain), name, repetition, seed, state)
            if runner.address not in self._without_schema:
                self._without_schema.add(runner.address)
                _LOG.warning("grader '%s' holds to no schema of its replies: %s", runner.name, refused)
            return reply

    def _used(self, runner: Runner, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a runner takes of the settings; a format of replies that is its own goes before a schema."""
        used = accepted_settings(runner, settings).used if settings else NOTHING
        if RESPONSE_FORMAT not in used:
            return used
        plain = RESPONSE_FORMAT in runner.settings or runner.address in self._without_schema
        return {key: value for key, value in used.items() if key != RESPONSE_FORMAT} if plain else used

    async def _ask(
        self,
        runner: Runner,
        messages: Sequence[Message],
        used: Mapping[str, Any],
        name: str,
        repetition: int,
        seed: int | None,
        state: Mapping[str, Any] | None,
    ) -> GraderReply:
        """Return the reply to a request. Raises GraderFailure, and SchemaRefused for a schema that is refused."""
        called = replace(runner, settings={**runner.settings, **used}) if used else runner
        case = Case(id=name, input=tuple(messages), state=state)
        key = fingerprint([name, [_identity(message) for message in messages], dict(used), repetition])
        plan = Plan(suite=GRADING, case=case, runner=called, repetition=repetition, key=key, seed=seed)
        report = await self._carry_out(plan, used)
        if RESPONSE_FORMAT in used and report.failure_class == BAD_REQUEST.id:
            raise SchemaRefused(report.error or BAD_REQUEST.id)
        return GraderReply(
            text=_text_of(report, runner),
            grader=runner.name,
            model=report.model,
            settings={**runner.public_settings, **_shown(used)},
            usage=replace(report.usage, cost_usd=report.cost_usd),
            duration_ms=report.duration_ms,
            state=_state_of(report),
        )

    async def _carry_out(self, plan: Plan, used: Mapping[str, Any]) -> SessionReport:
        name = f"{plan.runner.address} {fingerprint(dict(used))[:12]}"
        if name not in self._open:
            adapter = _adapter(plan.runner, used)
            environment = AttemptEnvironment(folder_of=self._folder_of, pauses=self.pauses, gates=self.gates)
            self._open[name] = OnDemand(plan.runner, adapter, environment, concurrency=self.concurrency)
        execution = await self._open[name].execute(plan)
        execution = without_secrets(execution, tuple(self.secrets), lambda: self._folder_of(plan))
        return normalize(execution, plan.case, plan.runner)

    def _folder_of(self, plan: Plan) -> Path:
        return self.folder / plan.runner.name / plan.key[:24]


@dataclass(slots=True)
class SweepGraderClient:
    """The grader client of one execution. `spent` is what its evaluators spent, as far as it is known."""

    graders: Graders
    runner: Runner
    spent: Spending = NO_SPENDING
    timeout_s: float | None = None

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        grader: str | None = None,
        settings: Mapping[str, Any] = NOTHING,
        sample: int = 0,
    ) -> GraderReply:
        """See GraderClient."""
        chosen = self.graders.choose(self.runner, grader)
        reply = await self.graders.reply(chosen, messages, settings, sample)
        if not reply.cached:
            self.spent = together(self.spent, of_reply(reply.usage))
        return reply

    async def score(self, spec: EvaluatorSpec, subject: Subject) -> Score:
        """See GraderClient."""
        (score,) = await evaluate_with(self, subject, [BoundEvaluator(spec, self.graders.member(spec), "")])
        return score

    def revision_of(self, name: str | None, settings: Mapping[str, Any] = NOTHING) -> str:
        """Return the identity of a grader for a sub-score."""
        return self.graders.revision(self.runner, name, settings)


def graded_part(
    suite: Suite, runner: Runner, selected: CaseFilter | None = None, *, any_runner: bool = False
) -> Suite | None:
    """Return a suite with the selected cases of a runner; None when no evaluator of them may call a grader."""
    if not any(hasattr(EVALUATORS.find(kind), "grade") for kind in traits_of(suite.cases).evaluator_types):
        return None
    return replace(suite, cases=case_list(pair_cases(suite, runner, selected, any_runner=any_runner)))


def _adapter(runner: Runner, used: Mapping[str, Any]) -> Adapter:
    """Return the adapter of a grader. Raises SchemaRefused where only the schema of replies is refused."""
    try:
        return ADAPTERS.get(runner.adapter)(runner)
    except InputError as error:
        if RESPONSE_FORMAT in used and error.place.field == RESPONSE_FORMAT:
            raise SchemaRefused(error.problem) from None
        raise


def _shown(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are stored with a score: of a schema its name, which says that it was sent."""
    if RESPONSE_FORMAT not in used:
        return dict(used)
    format_ = used[RESPONSE_FORMAT]
    schema = mapping(format_.get("json_schema"))
    return {**used, RESPONSE_FORMAT: {"type": format_.get("type"), "name": schema.get("name")} if schema else format_}


def _text_of(report: SessionReport, grader: Runner) -> str:
    if report.failure_class is not None:
        raise GraderFailure(f"grader '{grader.name}' failed: {report.error or report.failure_class}")
    return report.final_output or ""


def _state_of(report: SessionReport) -> Mapping[str, Any] | None:
    results = [event.state for event in report.events if isinstance(event, ToolResultEvent)]
    return next((state for state in reversed(results) if state is not None), None)


def _identity(message: Message) -> object:
    return message.role, message.content


def _stored_fields(reply: GraderReply) -> dict[str, Any]:
    return {name: getattr(reply, name) for name in ("text", "grader", "model", "settings", "usage", "duration_ms")}


def _from_stored(fields: Mapping[str, Any] | None) -> GraderReply | None:
    """A stored reply; None for one of another version, which is requested again."""
    if fields is None:
        return None
    try:
        return GraderReply(**{**fields, "usage": Usage(**fields["usage"])}, cached=True)
    except (KeyError, TypeError):
        return None
