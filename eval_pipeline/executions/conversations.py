"""A live conversation: a speaker and the target take turns, each turn is sent with the target's real answers so far.

Every turn is a call of its own; the turns together are one raw execution of format `conversation`. Who speaks is a
seam of one method (`Speaker`); the turns of a suite are one implementation.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.conversation_log import (
    SPEECH,
    SPENT,
    TURN,
    UNFINISHED,
    NoLog,
    TurnLog,
    messages_entry,
    messages_of,
    raw_entry,
    raw_of,
)
from eval_pipeline.executions.exchanges import (
    FORMAT,
    GIVEN_UP,
    Exchange,
    known_sum,
    latest_state,
    together,
)
from eval_pipeline.executions.model import Plan, RawExecution, TargetFailure
from eval_pipeline.executions.tool_rounds import STATE, raw_of_kept, remaining
from eval_pipeline.failures import (
    CONVERSATION_COST,
    CONVERSATION_TIME,
    CONVERSATION_TOKENS,
    CONVERSATION_TURNS,
    TIMEOUT,
)
from eval_pipeline.llm.reading import mapping
from eval_pipeline.suites.model import Case, Conversation, Message
from eval_pipeline.suites.simulation import ToolMock

_LOG = logging.getLogger(__name__)
SCRIPT = "script"
FAILED_TURN = "failed-turn"
AGENT = "agent"
BEGUN_ANEW = "begun_anew_after"
"""The entry of a payload with how many turns a killed process held that began anew."""
_NOTHING = RawExecution(format=FORMAT, payload={"turns": []})
"""What a target brought back that was not called, or did not answer."""
Execute = Callable[[Call], Awaitable[RawExecution | TargetFailure]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A turn's answer in words, the messages of the target with its tool calls, and what the turn used: `usage` has
    every measure, `model_calls` is None where it is not known."""

    text: str
    messages: tuple[Message, ...] | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)
    model_calls: int | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """What a speaker says next. `made_by` are facts about the simulator that made it, stored with the turn; `ends` is
    whether the speaker ends the conversation with it, once it is answered."""

    messages: tuple[Message, ...]
    made_by: Mapping[str, Any] | None = None
    ends: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The end of a conversation, and which side or limit ended it."""

    by: str


class SpeechFailure(TargetFailure):
    """A speaker that has nothing usable to say. `speech` are facts about its replies, stored as a turn of their own."""

    def __init__(self, failure: TargetFailure, speech: Mapping[str, Any]) -> None:
        super().__init__(
            failure.failure, str(failure), retryable=failure.retryable, status=failure.status,
            retry_after_s=failure.retry_after_s, raw=failure.raw, closes_runner=failure.closes_runner,
        )  # fmt: skip
        self.speech = speech


class Speaker(Protocol):
    """The side of a conversation that talks to the target. One speaker holds one conversation."""

    async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
        """Return what is said to the target next, or the end of the conversation.

        A TargetFailure ends it, too, as the failure of the execution; the turns so far are kept.
        """


@dataclass(frozen=True, slots=True)
class ScriptedSpeaker:
    """Says the turns of a conversation in order.

    `passed` returns whether the latest turn passed. It is called only where a failed turn ends the conversation and
    another turn would follow.
    """

    conversation: Conversation
    passed: Callable[[RawExecution], Awaitable[bool]]

    async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
        turns = self.conversation.turns
        if len(so_far) >= len(turns):
            return End(SCRIPT)
        if so_far and self.conversation.on_failure == "stop" and not await self.passed(together(so_far)):
            return End(FAILED_TURN)
        return Speech(turns[len(so_far)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversations:
    """Dependencies of live conversations: the speaker of a call, the answer in a turn's raw execution by the runner of
    a name, the log of what finished, and who is told that a turn begins."""

    speaker: Callable[[Call], Speaker]
    answer: Callable[[Plan, RawExecution, str | None], Answer]
    log: Callable[[Call], TurnLog] = lambda call: NoLog()
    turn_started: Callable[[Plan, int], None] = lambda plan, turn: None


@dataclass(slots=True)
class Talk:
    """A conversation while it is held: its speaker, the turns so far, and what waits to be said again after a failure.

    A retried turn is that turn alone: the turns before it are neither repeated nor paid for twice. `given_up` is what
    was used in the conversations before this one, where it had to begin anew. `runner` names the target; `others_log`
    is the log of the runner that it is a fallback of.
    """

    speaker: Speaker
    runner: str | None = None
    so_far: list[Exchange] = field(default_factory=list)
    unanswered: Speech | None = None
    speech_ms: float = 0.0
    interrupted: bool = False
    unfinished: dict[str, Any] = field(default_factory=dict)
    log: TurnLog = field(default_factory=NoLog)
    others_log: TurnLog = field(default_factory=NoLog)
    begun_anew: int | None = None
    unwritten: list[dict[str, Any]] = field(default_factory=list)
    given_up: list[Mapping[str, Any]] = field(default_factory=list)

    @classmethod
    def open(
        cls, call: Call, conversations: Conversations, runner: str, *, keeps_state: bool, before: Talk | None = None
    ) -> Talk:
        """Return the conversation of a call: the one that a killed process held, as far as it got, else a new one.

        A target with a state of its own (`keeps_state`) begins anew; `begun_anew` is how many turns it had. `before` is
        the conversation that an earlier attempt held, and that this one begins anew, with that runner or another one.
        """
        speaker = conversations.speaker(call)
        if before is None:
            before = cls(speaker, runner, log=conversations.log(call))
            before.restore(before.log.entries(), lambda raw: conversations.answer(call.plan, raw, runner))
            if not keeps_state:
                return before
            if before.so_far:
                before.begun_anew = len(before.so_far)
                _LOG.warning(
                    "case '%s' with runner '%s' was interrupted after %d turns and begins anew: the agent keeps a "
                    "state", call.plan.case.id, call.plan.runner.name, before.begun_anew,
                )  # fmt: skip
        talk = cls(speaker, runner)
        talk.begin_anew(before, lambda raw: conversations.answer(call.plan, raw, before.runner))
        return talk

    def begin_anew(self, before: Talk, answer: Callable[[RawExecution], Answer]) -> None:
        """Take over what another conversation used. Its first line is said again where nobody has answered it.

        After a kill, the first runner goes on with its own turns; of those of a fallback it knows what they used.
        """
        again = before.unanswered if not before.so_far else None
        self.given_up = before.used(answer, but=again)
        if before.runner == self.runner:
            self.log, self.begun_anew = before.log, before.begun_anew
        if before.interrupted or before.so_far:
            self._write({GIVEN_UP: self.given_up, BEGUN_ANEW: self.begun_anew})
        if again is not None:
            self._say(again, before.speech_ms)
        if before.runner != self.runner:
            self.others_log = before.others_log if isinstance(before.log, NoLog) else before.log

    def restore(self, entries: Iterable[Mapping[str, Any]], answer: Callable[[RawExecution], Answer]) -> None:
        """Take in what an earlier process wrote."""
        for entry in entries:
            self.interrupted = True
            if GIVEN_UP in entry:
                self.given_up, self.begun_anew = list(entry[GIVEN_UP]), entry[BEGUN_ANEW]
                self.so_far, self.unanswered, self.unfinished = [], None, {}
            elif SPENT in entry:
                self.given_up.append(entry[SPENT])
            elif SPEECH in entry:
                said = entry[SPEECH]
                self.unanswered = Speech(messages_of(said["messages"]), said["made_by"], said["ends"])
                self.speech_ms = said["ms"]
            elif UNFINISHED in entry:
                self.unfinished = dict(entry[UNFINISHED])
            elif TURN in entry and self.unanswered is not None:
                raw = raw_of(entry[TURN]["raw"])
                self._take(self.unanswered, raw, answer(raw), entry[TURN]["elapsed_ms"])

    def used(self, answer: Callable[[RawExecution], Answer], but: Speech | None = None) -> list[Mapping[str, Any]]:
        """Return what was used in turns, in those given up before, in rounds of a turn that has no end, and for a line
        that was not answered (`but`: is not counted)."""
        turns = list(self.so_far)
        rounds = raw_of_kept(self.unfinished)
        if rounds is not None:
            turns.append(_exchange(Speech(()), rounds, answer(rounds), 0.0, 0.0))
        said = self.unanswered.made_by if self.unanswered is not None and self.unanswered is not but else None
        turns += [_unspoken(said)] if said is not None else []
        return [*self.given_up, *(used for turn in turns if (used := turn.used(self.runner)))]

    def end_turn(self, raw: RawExecution, answer: Answer, elapsed_ms: float) -> None:
        """Add the turn in which the target answered."""
        assert self.unanswered is not None  # the target answers what was said
        self._write({TURN: {"raw": raw_entry(raw), "elapsed_ms": elapsed_ms}})
        self._take(self.unanswered, raw, answer, elapsed_ms)
        self.others_log.append({SPENT: replace(self.so_far[-1], speech=None).used(self.runner)})

    def save(self) -> None:
        """Write what the target keeps of the unfinished turn."""
        self._write({UNFINISHED: self.unfinished})

    def _write(self, entry: dict[str, Any]) -> None:
        self.log.append(*self.unwritten, entry)
        self.unwritten.clear()

    def _take(self, said: Speech, raw: RawExecution, answer: Answer, elapsed_ms: float) -> None:
        self.so_far.append(_exchange(said, raw, answer, elapsed_ms, self.speech_ms))
        self.unanswered, self.speech_ms, self.unfinished = None, 0.0, {}

    async def speak(self, clock: Callable[[], float]) -> Speech | End:
        """Return what is said next: what the target has not answered yet, else what the speaker says."""
        if self.unanswered is None:
            begun = clock()
            said = await self.speaker.next(tuple(self.so_far))
            if isinstance(said, End):
                return said
            self._say(said, (clock() - begun) * 1000)
            return said
        return self.unanswered

    def _say(self, said: Speech, speech_ms: float) -> None:
        self.unanswered, self.speech_ms = said, speech_ms
        speech = {"messages": messages_entry(said.messages), "made_by": said.made_by, "ends": said.ends}
        self.unwritten.append({SPEECH: {**speech, "ms": speech_ms}})
        if said.made_by is not None:  # words that cost nothing wait for the next entry
            self._write(self.unwritten.pop())
            self.others_log.append({SPENT: {"speech": said.made_by}})

    def together(self, end: End | None = None, *more: Exchange) -> RawExecution:
        """Return the turns as one raw execution, `more` after those so far."""
        turns = [*self.so_far, *more]
        return self.marked(together(turns, end.by if end is not None else None, timed=self.interrupted))

    def marked(self, whole: RawExecution) -> RawExecution:
        """Return the raw execution of the turns with what was given up before them."""
        anew = {} if self.begun_anew is None else {BEGUN_ANEW: self.begun_anew}
        lost = {GIVEN_UP: self.given_up} if self.given_up else {}
        return replace(whole, payload={**whole.payload, **anew, **lost}) if anew or lost else whole


async def converse(
    call: Call,
    execute: Execute,
    conversations: Conversations,
    clock: Callable[[], float],
    talk: Talk | None = None,
) -> RawExecution | TargetFailure:
    """Carry out the conversation of a case, or go on with `talk`. A failure ends it; `raw` of the failure keeps the
    turns so far. `clock` returns seconds."""
    talk = talk or Talk(conversations.speaker(call), call.plan.runner.name)
    while True:
        try:
            said = End(AGENT) if talk.so_far and _ends(talk.so_far[-1].raw) else await talk.speak(clock)
            if isinstance(said, End):
                return talk.together(said)
            _check_limits(call.plan.case, talk)
        except SpeechFailure as failure:
            failure.raw = talk.together(None, _unspoken(failure.speech))
            return failure
        except TargetFailure as failure:
            failure.raw = talk.together()
            return failure
        conversations.turn_started(call.plan, len(talk.so_far) + 1)
        turn, begun = _turn_call(call, said.messages, talk), clock()
        result = _of_limit(await execute(turn), call, turn)
        elapsed_ms = (clock() - begun) * 1000
        if isinstance(result, TargetFailure):
            talk.interrupted = True
            return _failed(result, said, talk, elapsed_ms)
        talk.end_turn(result, conversations.answer(turn.plan, result, talk.runner), elapsed_ms)


def _exchange(said: Speech, raw: RawExecution, answer: Answer, elapsed_ms: float, speech_ms: float) -> Exchange:
    return Exchange(
        messages=said.messages,
        raw=raw,
        answer=answer.text,
        said=answer.messages,
        usage=answer.usage,
        model_calls=answer.model_calls,
        tokens=known_sum([answer.tokens, *_of_speech(said, "input_tokens", "output_tokens")]),
        cost_usd=known_sum([answer.cost_usd, *_of_speech(said, "cost_usd")]),
        elapsed_ms=elapsed_ms,
        speech_ms=speech_ms,
        speech=said.made_by,
        ends=said.ends,
    )


def _unspoken(speech: Mapping[str, Any]) -> Exchange:
    """Return the turn of a speaker that said nothing usable: the target was not called for it."""
    return Exchange(messages=(), raw=_NOTHING, failed=True, speech=speech)


def _of_speech(said: Speech, *names: str) -> list[float | None]:
    """What a simulator used for its line, and its reviewer where there is one; nothing for words that are written."""
    made_by = mapping(said.made_by)
    sides = [made_by, *([mapping(made_by["review"])] if "review" in made_by else [])] if made_by else []
    return [mapping(side.get("usage")).get(name) for side in sides for name in names]


def _check_limits(case: Case, talk: Talk) -> None:
    """Raise TargetFailure for a conversation that reached a limit of its case, or whose use of it is not known."""
    limits, so_far = case.user.limits if case.user is not None else None, talk.so_far
    if limits is None or not so_far:
        return
    for most, failure, unit, values in (
        (limits.turns, CONVERSATION_TURNS, "turns", [1.0] * len(so_far)),
        (limits.seconds, CONVERSATION_TIME, "s", [talk.speech_ms / 1000, *(turn.seconds for turn in so_far)]),
        (limits.tokens, CONVERSATION_TOKENS, "tokens", [exchange.tokens for exchange in so_far]),
        (limits.usd, CONVERSATION_COST, "USD", [exchange.cost_usd for exchange in so_far]),
    ):
        if most is None:
            continue
        used = known_sum(values)
        if used is None:
            raise TargetFailure(failure, f"the limit of {most:g} {unit} cannot be held: a turn's {unit} are not known")
        if used >= most:
            raise TargetFailure(failure, f"the conversation has no end after {used:g} {unit} (limit: {most:g})")


def _ends(raw: RawExecution) -> bool:
    """Return whether the target ends the conversation: it says so by a field of its answer, never by a word."""
    return mapping(raw.payload.get("metadata")).get("end") is True


def _failed(failure: TargetFailure, said: Speech, talk: Talk, elapsed_ms: float) -> TargetFailure:
    """Return the failure of a turn, its `raw` the whole conversation with what there is of the failed turn.

    Its target was called, so the turn counts; a simulator's line is paid for, answered or not.
    """
    turn = Exchange(
        messages=said.messages, raw=_brought(failure, talk), elapsed_ms=elapsed_ms, failed=True, speech=said.made_by
    )
    failure.raw = talk.together(None, turn)
    return failure


def _brought(failure: TargetFailure, talk: Talk) -> RawExecution:
    """Return what there is of a failed turn: what the failure brought, else the rounds that are kept of it."""
    raw = failure.raw if failure.raw is not None else _NOTHING
    rounds = raw_of_kept(talk.unfinished, str(failure))
    return raw if rounds is None or "rounds" in raw.payload else replace(rounds, files=raw.files)


def _turn_call(call: Call, messages: tuple[Message, ...], talk: Talk) -> Call:
    so_far = talk.so_far
    case, number, files = call.plan.case, len(so_far) + 1, call.files
    window = case.conversation.window if case.conversation is not None else None
    timeout_s = min(call.timeout_s, _seconds_left(case, talk))
    said, mocks = (*case.input, *_history(so_far, window), *messages), _mocks_left(case.mocks, so_far)
    turn = replace(case, input=said, conversation=None, user=None, mocks=mocks, state=_state(case, talk))
    return replace(
        call,
        plan=replace(call.plan, case=turn),
        files=lambda: files() / f"turn-{number}",
        turn=number,
        said=messages,
        timeout_s=timeout_s,
        unfinished=talk.unfinished,
        save=talk.save,
        context=case.user.context if case.user is not None else None,
    )


def _state(case: Case, talk: Talk) -> Mapping[str, Any] | None:
    """Return the state as the tools of both sides left it, the simulator's for this turn among them."""
    left = mapping(talk.unanswered.made_by).get(STATE) if talk.unanswered is not None else None
    return left if isinstance(left, Mapping) else latest_state(talk.so_far, case.state)


def _seconds_left(case: Case, talk: Talk) -> float:
    limits = case.user.limits if case.user is not None else None
    if limits is None or limits.seconds is None:
        return math.inf
    used = talk.speech_ms / 1000 + sum(exchange.seconds for exchange in talk.so_far)
    return max(0.001, limits.seconds - used)


def _of_limit(result: RawExecution | TargetFailure, call: Call, turn: Call) -> RawExecution | TargetFailure:
    """Return the result of a turn; a time-out by the limit of the conversation is a failure of that class."""
    if not isinstance(result, TargetFailure) or result.failure is not TIMEOUT or turn.timeout_s >= call.timeout_s:
        return result
    problem = f"the conversation has no end within its seconds; turn {turn.turn} had {turn.timeout_s:.3g} s left"
    return TargetFailure(CONVERSATION_TIME, problem, raw=result.raw)


def _mocks_left(mocks: tuple[ToolMock, ...], so_far: Sequence[Exchange]) -> tuple[ToolMock, ...]:
    for exchange in so_far if mocks else ():
        mocks = remaining(mocks, exchange.raw)
    return mocks


def _history(so_far: Sequence[Exchange], window: int | None) -> tuple[Message, ...]:
    """The messages of both sides in the latest `window` exchanges (None: in all)."""
    kept = so_far if window is None else so_far[max(0, len(so_far) - window) :]
    return tuple(message for exchange in kept for message in (*exchange.messages, *exchange.replies))
