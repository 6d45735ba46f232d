"""`turn` and `conversation`: what a live conversation is worth, turn by turn and as a whole.

The loader makes their arguments of a test's `turns`; what a turn is in a session report is said here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, Strict
from typing_extensions import TypeIs

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import Event, MessageEvent, SessionReport, Usage
from eval_pipeline.scores.decide import counts, weighted_mean
from eval_pipeline.scores.evaluate import EVALUATORS, build
from eval_pipeline.scores.evaluators import AnyText
from eval_pipeline.scores.evaluators.composite import gated
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure
from eval_pipeline.scores.members import CompositeEvaluator, with_members
from eval_pipeline.scores.model import Finding, Outcome, Score, Subject, SubScore
from eval_pipeline.suites.model import EvaluatorSpec, Message

Number = Annotated[int, Field(strict=True, ge=1)]


@EVALUATORS.register("turn")
@dataclass(frozen=True, kw_only=True)
class Turn(CompositeEvaluator):
    """The weighted mean of what `assertions` say of the n-th turn of a conversation (`turn`, from 1).

    They see what was said up to that turn as the input, the answer to it as the output, and the turn's own
    `expected_output` and `criteria`. 1 when there is nothing to check; 0 when the conversation ended before.
    """

    turn: Number
    criteria: AnyText | None = None
    expected_output: Annotated[tuple[dict[str, Any], ...], Strict(False)] = ()

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        found = turn_subject(subject, self.turn)
        if found is None:
            return Outcome(0.0, f"the conversation ended before turn {self.turn}")
        if not self.members:
            return Outcome(1.0, f"turn {self.turn} was answered; there is nothing to check in it")
        case = replace(found.case, criteria=self.criteria, expected_output=_messages(self.expected_output))
        return _mean(await self.member_scores(replace(found, case=case), client))


@EVALUATORS.register("conversation")
@dataclass(frozen=True, kw_only=True)
class WholeConversation(CompositeEvaluator):
    """What `assertions` say of a conversation as a whole; with an `aggregation` the worst or best of it and `turns`.

    They see the whole session. Without `aggregation` the turns are scored by evaluators of their own.
    """

    assertions: Any = field(default_factory=list)
    aggregation: Literal["min", "max"] | None = None
    turns: Annotated[tuple[Any, ...], Strict(False)] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aggregation is None and (self.turns or not self.members):
            raise ValueError("needs assertions, or an aggregation (min or max) of turns")
        _ = self.turn_parts

    @cached_property
    def turn_parts(self) -> tuple[Turn, ...]:
        """The evaluators of the turns. Raises ValueError."""
        return tuple(_turn(config) for config in self.turns)

    @property
    def graders(self) -> tuple[str | None, ...]:
        asked = (name for part in self.turn_parts for name in part.graders)
        return tuple(dict.fromkeys((*super().graders, *asked)))

    def content(self, folder: Path) -> Mapping[str, str]:
        """What the members' scores depend on, those of the turns included."""
        found = dict(super().content(folder))
        for part in self.turn_parts:
            found |= {f"turn-{part.turn}: {name}": value for name, value in part.content(folder).items()}
        return found

    async def grade(self, subject: Subject, client: GraderClient) -> Outcome:
        whole = _mean(await self.member_scores(subject, client)) if self.members else None
        if self.aggregation is None:
            assert whole is not None  # refused when it was built
            return whole
        turns = await asyncio.gather(*(part.grade(subject, client) for part in self.turn_parts))
        named = [(f"turn-{part.turn}", "turn", found) for part, found in zip(self.turn_parts, turns, strict=True)]
        return _extreme(self.aggregation, [*named, *([("conversation", "conversation", whole)] if whole else [])])


def turn_subject(subject: Subject, number: int) -> Subject | None:
    """The n-th turn as a subject of its own; None when it was never answered. Raises GraderFailure without such a turn.

    Its input is everything that was said before the answer.
    """
    conversation = subject.case.conversation
    if conversation is None or not 0 < number <= len(conversation.turns):
        turns = len(conversation.turns) if conversation is not None else 0
        raise GraderFailure(f"the case has {turns} turns; there is no turn {number}")
    scenes = list(_scenes(subject.report.events, conversation.turns))
    if number > len(scenes):
        return None
    said = conversation.turns[number - 1]
    events = scenes[number - 1][len(said) :]
    answer = _answer(events, subject.report.final_output if number == len(scenes) else "")
    if answer is None:
        return None
    before = tuple(_history(event for scene in scenes[: number - 1] for event in scene))
    case = replace(subject.case, input=(*subject.case.input, *before, *said), conversation=None)
    return replace(subject, case=case, report=_turn_report(subject.report, events, answer, len(scenes)))


def _scenes(events: Sequence[Event], turns: Sequence[Sequence[Message]]) -> Iterator[Sequence[Event]]:
    """The events of each turn that was played, its own messages first."""
    starts: list[int] = []
    position = 0
    for messages in turns:
        found = next((index for index in range(position, len(events)) if _says(events[index], messages[0])), None)
        if found is None:
            break
        starts.append(found)
        position = found + len(messages)
    for start, end in zip(starts, [*starts[1:], len(events)], strict=True):
        yield events[start:end]


def _says(event: Event, message: Message) -> bool:
    return _is_spoken(event) and (event.role, event.text) == (message.role, message.text)


def _is_spoken(event: Event) -> TypeIs[MessageEvent]:
    return isinstance(event, MessageEvent) and event.phase != "thinking" and not event.injected


def _answer(events: Sequence[Event], otherwise: str | None) -> str | None:
    """The last words of the target in a turn."""
    said = [event.text for event in events if _is_spoken(event) and event.role == "assistant"]
    return said[-1] if said else otherwise


def _history(events: Iterable[Event]) -> Iterator[Message]:
    """What user and target said to each other."""
    return (Message(role=event.role, content=event.text) for event in events if _is_spoken(event))


def _turn_report(report: SessionReport, events: Sequence[Event], answer: str, played: int) -> SessionReport:
    """The report of one turn. What is measured only of the whole session is not known of a turn, unless it is all."""
    if played == 1:
        return replace(report, events=tuple(events), final_output=answer)
    calls = sum(_is_spoken(event) and event.role == "assistant" for event in events)
    return replace(
        report,
        events=tuple(events),
        final_output=answer,
        usage=Usage(),
        model_calls=calls if report.model_calls is not None else None,
        skills=(),
        duration_ms=None,
        ttft_ms=None,
        started_at=None,
        ended_at=None,
        file_changes=None,
    )


def _mean(scores: Sequence[Score]) -> Outcome:
    """The weighted mean of evaluators, as a test's: open when one of them is, 0 when a required one fails."""
    weights = {score.evaluator: score.weight for score in scores}
    silent = next((score for score in scores if score.value is None and counts(score)), None)
    if silent is not None:
        outcome = gated(Outcome(0.0, ""), scores)
        if outcome.passes is not False:
            outcome = Outcome(None, f"{silent.evaluator} could not tell: {silent.reason}")
        return with_members(outcome, scores, weights)
    value = weighted_mean(scores)
    worst = min(scores, key=lambda score: (score.weight == 0, score.value is None, score.value or 0.0))
    reason = worst.reason if len(scores) == 1 else f"mean of {len(scores)}; {worst.evaluator}: {worst.reason}"
    return with_members(gated(Outcome(value, reason), scores), scores, weights)


def _extreme(aggregation: str, parts: Sequence[tuple[str, str, Outcome]]) -> Outcome:
    """The worst or the best of the parts; open when one of them is."""
    members = tuple(
        SubScore(name, type_, found.value, found.reason, details=_details(found)) for name, type_, found in parts
    )
    findings = tuple(
        Finding(f"[{name}] {one.text}", one.passed, one.evidence) for name, _, found in parts for one in found.findings
    )
    silent = next((member for member in members if member.value is None), None)
    if silent is not None:
        return Outcome(None, f"{silent.name}: {silent.reason}", findings, members=members)
    choose = min if aggregation == "min" else max
    chosen = choose(members, key=lambda member: member.value or 0.0)
    reason = f"{aggregation} of {len(members)}: {chosen.name}: {chosen.reason}"
    return Outcome(chosen.value, reason, findings, members=members)


def _details(found: Outcome) -> dict[str, Any]:
    own = [dict(zip(SubScore._fields, member, strict=True)) for member in found.members]
    return {**found.details, **({"members": own} if own else {})}


def _turn(config: Any) -> Turn:
    if not isinstance(config, Mapping):
        raise ValueError(f"turns: expected mappings with turn and assertions, got {config!r}")
    try:
        part = build(EvaluatorSpec(type="turn", name="turn", config=config))
    except InputError as error:
        raise ValueError(f"turns: {error}") from None
    assert isinstance(part, Turn)  # nothing else answers to the name
    return part


def _messages(raw: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    return tuple(
        Message(
            role=str(one.get("role", "assistant")),
            content=one.get("content"),
            name=one.get("name"),
            tool_calls=tuple(one.get("tool_calls") or ()),
        )
        for one in raw
    )
