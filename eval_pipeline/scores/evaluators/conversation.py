"""`turn` and `conversation`: scores of a live conversation, turn by turn and as a whole.

A suite format makes their arguments from the turns of a case; the session report delimits the turns that took place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import SessionReport, is_spoken
from eval_pipeline.reports.model import Turn as SessionTurn
from eval_pipeline.scores.concurrently import concurrently
from eval_pipeline.scores.decide import counts, weighted_mean
from eval_pipeline.scores.evaluate import EVALUATORS, GraderUse, build
from eval_pipeline.scores.evaluators import AnyText
from eval_pipeline.scores.evaluators.composite import apply_gate
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.members import CompositeEvaluator, with_members
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject, SubScore
from eval_pipeline.suites.model import EvaluatorSpec, Message, content_text

Number = Annotated[int, Field(strict=True, ge=1)]


@EVALUATORS.register("turn")
@dataclass(frozen=True, kw_only=True)
class Turn(CompositeEvaluator):
    """The weighted mean of `assertions` about the n-th turn of a conversation (`turn`, from 1).

    Their input is the conversation up to that turn, their output the answer to it; `expected_output`, `criteria`,
    tokens, cost and times are those of the turn. 1 without assertions; 0 when the conversation ended before.
    """

    turn: Number
    criteria: AnyText | None = None
    expected_output: Annotated[tuple[dict[str, Any], ...], Strict(False)] = ()

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        turn = turn_subject(subject, self.turn)
        if turn is None:
            return Outcome(0.0, f"the conversation ended before turn {self.turn}")
        if not self.members:
            return Outcome(1.0, f"turn {self.turn} was answered; there is nothing to check in it")
        case = replace(turn.case, criteria=self.criteria, expected_output=_messages(self.expected_output))
        return _mean(await self.member_scores(replace(turn, case=case), client))


@EVALUATORS.register("conversation")
@dataclass(frozen=True, kw_only=True)
class WholeConversation(CompositeEvaluator):
    """The weighted mean of `assertions` about a whole conversation, or the `aggregation` of it and `turns` (min, max).

    Their output is the transcript: every message as `role: text`, from the input of the case to the last answer.
    Without `aggregation`, evaluators of their own score the turns.
    """

    version: ClassVar[str] = "2"

    assertions: Any = field(default_factory=list)
    aggregation: Literal["min", "max"] | None = None
    turns: Annotated[tuple[Any, ...], Strict(False)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregation is None and (self.turns or not self.members):
            raise ValueError("needs assertions, or an aggregation (min or max) of turns")
        _ = self.turn_evaluators

    @cached_property
    def turn_evaluators(self) -> tuple[Turn, ...]:
        """The evaluators of the turns. Raises ValueError."""
        return tuple(_turn_evaluator(config) for config in self.turns)

    @property
    def graders(self) -> tuple[str | None, ...]:
        of_turns = (name for turn in self.turn_evaluators for name in turn.graders)
        return tuple(dict.fromkeys((*super().graders, *of_turns)))

    @property
    def grader_calls(self) -> Sequence[GraderUse]:
        return (*super().grader_calls, *(use for turn in self.turn_evaluators for use in turn.grader_calls))

    @property
    def sees_workspace(self) -> bool:
        return super().sees_workspace or any(turn.sees_workspace for turn in self.turn_evaluators)

    def content(self, folder: Path) -> Mapping[str, str]:
        """Return what the members' scores depend on, those of the turns included."""
        content = dict(super().content(folder))
        for turn in self.turn_evaluators:
            content |= {f"turn-{turn.turn}: {name}": value for name, value in turn.content(folder).items()}
        return content

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        whole = _mean(await self.member_scores(whole_subject(subject), client)) if self.members else None
        if self.aggregation is None:
            assert whole is not None  # __post_init__ refuses the other case
            return whole
        outcomes = await concurrently(
            self.turn_evaluators,
            lambda turn: turn.grade(subject, client),
            in_order=lambda turn: subject.workspace is not None and turn.sees_workspace,
        )
        turns = zip(self.turn_evaluators, outcomes, strict=True)
        named = [(f"turn-{turn.turn}", "turn", outcome) for turn, outcome in turns]
        return _extreme(self.aggregation, [*named, *([("conversation", "conversation", whole)] if whole else [])])


def whole_subject(subject: Subject) -> Subject:
    """Return the whole conversation as a subject: its messages are the input, its transcript is the output."""
    turns = subject.report.turns
    if not turns:
        return subject
    messages = [*subject.case.input, *(message for turn in turns for message in _history(turn))]
    if turns[-1].answer is None and subject.report.final_output is not None:
        messages.append(Message(role="assistant", content=subject.report.final_output))
    transcript = "\n\n".join(f"{message.role}: {content_text(message.content)}" for message in messages)
    case = replace(subject.case, input=tuple(messages), conversation=None)
    return replace(subject, case=case, report=replace(subject.report, final_output=transcript))


def turn_subject(subject: Subject, number: int) -> Subject | None:
    """Return the n-th turn as a subject of its own; None when it was never answered.

    Its input is the conversation before the answer. Raises GraderFailure when the case has no such turn.
    """
    conversation = subject.case.conversation
    if conversation is None or not 0 < number <= len(conversation.turns):
        count = len(conversation.turns) if conversation is not None else 0
        raise GraderFailure(f"the case has {count} turns; there is no turn {number}")
    turns = subject.report.turns
    if number > len(turns):
        return None
    turn = turns[number - 1]
    answer = turn.answer
    if answer is None:
        answer = subject.report.final_output if number == len(turns) else ""
    if answer is None:
        return None
    before = (message for earlier in turns[: number - 1] for message in _history(earlier))
    messages = conversation.turns[number - 1]
    case = replace(subject.case, input=(*subject.case.input, *before, *messages), conversation=None)
    return replace(subject, case=case, report=_turn_report(subject.report, turn, answer))


def _history(turn: SessionTurn) -> Iterator[Message]:
    """What user and target said to each other in a turn."""
    events = (*turn.messages, *turn.events)
    return (Message(role=event.role, content=event.text) for event in events if is_spoken(event))


def _turn_report(report: SessionReport, turn: SessionTurn, answer: str) -> SessionReport:
    """The report of one turn. Facts of the whole session are unknown of a turn, unless it is the only one."""
    whole = replace(report, events=turn.events, final_output=answer, turn_starts=())
    if len(report.turns) == 1:
        return whole
    return replace(
        whole,
        usage=turn.usage,
        model_calls=turn.model_calls if turn.model_calls is not None else _answers(report, turn),
        skills=(),
        duration_ms=turn.duration_ms,
        ttft_ms=turn.ttft_ms,
        started_at=None,
        ended_at=None,
        file_changes=None,
    )


def _answers(report: SessionReport, turn: SessionTurn) -> int | None:
    """The messages of the target in a turn, as the number of model calls where the session knows its own."""
    if report.model_calls is None:
        return None
    return sum(is_spoken(event, "assistant") for event in turn.events)


def _mean(scores: Sequence[Score]) -> Outcome:
    """The weighted mean of scores, as of a case: None when one that counts is None, 0 when a required one fails."""
    weights = {score.evaluator: score.weight for score in scores}
    unscored = next((score for score in scores if score.value is None and counts(score)), None)
    if unscored is not None:
        outcome = apply_gate(Outcome(0.0, ""), scores)
        if outcome.passes is not False:
            outcome = Outcome(None, f"{unscored.evaluator} has no score: {unscored.reason}")
        return with_members(outcome, scores, weights)
    value = weighted_mean(scores)
    worst = min(scores, key=lambda score: (score.weight == 0, score.value is None, score.value or 0.0))
    reason = worst.reason if len(scores) == 1 else f"mean of {len(scores)}; {worst.evaluator}: {worst.reason}"
    return with_members(apply_gate(Outcome(value, reason), scores), scores, weights)


def _extreme(aggregation: str, parts: Sequence[tuple[str, str, Outcome]]) -> Outcome:
    """The worst or the best of the parts; None when one of them is None."""
    members = tuple(
        SubScore(name, type_, outcome.value, outcome.reason, details=_details(outcome))
        for name, type_, outcome in parts
    )
    findings = tuple(
        Finding(f"[{name}] {finding.text}", finding.passed, finding.evidence)
        for name, _, outcome in parts
        for finding in outcome.findings
    )
    unscored = next((member for member in members if member.value is None), None)
    if unscored is not None:
        return Outcome(None, f"{unscored.name}: {unscored.reason}", findings, members=members)
    choose = min if aggregation == "min" else max
    chosen = choose(members, key=lambda member: member.value or 0.0)
    reason = f"{aggregation} of {len(members)}: {chosen.name}: {chosen.reason}"
    return Outcome(chosen.value, reason, findings, members=members)


def _details(outcome: Outcome) -> dict[str, Any]:
    members = [dict(zip(SubScore._fields, member, strict=True)) for member in outcome.members]
    return {**outcome.details, **({"members": members} if members else {})}


def _turn_evaluator(config: Any) -> Turn:
    if not isinstance(config, Mapping):
        raise ValueError(f"turns: expected mappings with turn and assertions, got {config!r}")
    try:
        evaluator = build(EvaluatorSpec(type="turn", name="turn", config=config))
    except InputError as error:
        raise ValueError(f"turns: {error}") from None
    assert isinstance(evaluator, Turn)  # no other evaluator has the name
    return evaluator


def _messages(raw: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(
        Message(
            role=str(message.get("role", "assistant")),
            content=message.get("content"),
            name=message.get("name"),
            tool_calls=tuple(message.get("tool_calls") or ()),
        )
        for message in raw
    )
