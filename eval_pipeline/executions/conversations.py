"""A live conversation: a speaker and the target take turns, each turn is sent with the target's real answers so far.

Every turn is a call of its own; the turns together are one raw execution of format `conversation`. Who speaks is a
seam of one method (`Speaker`); the turns of a suite are one implementation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import Plan, RawExecution, TargetFailure
from eval_pipeline.executions.tool_rounds import remaining
from eval_pipeline.llm.reading import mapping
from eval_pipeline.suites.model import Conversation, Message
from eval_pipeline.suites.simulation import ToolMock

FORMAT = "conversation"
SCRIPT = "script"
FAILED_TURN = "failed-turn"
AGENT = "agent"
Execute = Callable[[Call], Awaitable[RawExecution | TargetFailure]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A turn that took place: what the speaker said, what the target brought back, and its answer in words.

    `said` are the target's messages, its tool calls and their results among them. `elapsed_ms` is the time of the call
    as seen from outside; `speech` tells of a simulator that made the messages.
    """

    messages: tuple[Message, ...]
    raw: RawExecution
    answer: str = ""
    said: tuple[Message, ...] | None = None
    elapsed_ms: float | None = None
    failed: bool = False
    speech: Mapping[str, Any] | None = None

    @property
    def replies(self) -> tuple[Message, ...]:
        """The target's messages as they are sent to it in later turns."""
        return self.said if self.said is not None else (Message(role="assistant", content=self.answer),)


@dataclass(frozen=True, slots=True)
class Answer:
    """A turn's answer in words, and the messages of the target with its tool calls."""

    text: str
    messages: tuple[Message, ...] | None = None


@dataclass(frozen=True, slots=True)
class Speech:
    """What a speaker says next. `made_by` are facts about the simulator that made it, stored with the turn."""

    messages: tuple[Message, ...]
    made_by: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The end of a conversation, and which side or limit ended it."""

    by: str


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
    """Dependencies of live conversations: the speaker of a call, and the answer in a turn's raw execution."""

    speaker: Callable[[Call], Speaker]
    answer: Callable[[Plan, RawExecution], Answer]


async def converse(
    call: Call, execute: Execute, conversations: Conversations, clock: Callable[[], float]
) -> RawExecution | TargetFailure:
    """Carry out the conversation of a case. A failure ends it; `raw` of the failure keeps the turns so far.

    `clock` returns seconds.
    """
    speaker = conversations.speaker(call)
    so_far: list[Exchange] = []
    while True:
        try:
            said = await speaker.next(tuple(so_far))
        except TargetFailure as failure:
            failure.raw = together(so_far)
            return failure
        if isinstance(said, End):
            return together(so_far, said)
        turn, begun = _turn_call(call, said.messages, so_far), clock()
        result = await execute(turn)
        elapsed_ms = (clock() - begun) * 1000
        if isinstance(result, TargetFailure):
            return _failed(result, said, so_far, elapsed_ms)
        answer = conversations.answer(turn.plan, result)
        so_far.append(
            Exchange(
                messages=said.messages,
                raw=result,
                answer=answer.text,
                said=answer.messages,
                elapsed_ms=elapsed_ms,
                speech=said.made_by,
            )
        )
        if _ends(result):
            return together(so_far, End(AGENT))


def _ends(raw: RawExecution) -> bool:
    """Return whether the target ends the conversation: it says so by a field of its answer, never by a word."""
    return mapping(raw.payload.get("metadata")).get("end") is True


def _failed(failure: TargetFailure, said: Speech, so_far: Sequence[Exchange], elapsed_ms: float) -> TargetFailure:
    """The failure of a turn, its `raw` the whole conversation with what there is of the failed turn."""
    turns = [*so_far]
    if failure.raw is not None:
        last = Exchange(
            messages=said.messages, raw=failure.raw, elapsed_ms=elapsed_ms, failed=True, speech=said.made_by
        )
        turns.append(last)
    failure.raw = together(turns)
    return failure


def _turn_call(call: Call, messages: tuple[Message, ...], so_far: Sequence[Exchange]) -> Call:
    case, number, files = call.plan.case, len(so_far) + 1, call.files
    window = case.conversation.window if case.conversation is not None else None
    said, mocks = (*case.input, *_history(so_far, window), *messages), _mocks_left(case.mocks, so_far)
    turn = replace(case, input=said, conversation=None, user=None, mocks=mocks)
    return replace(call, plan=replace(call.plan, case=turn), files=lambda: files() / f"turn-{number}", turn=number)


def _mocks_left(mocks: tuple[ToolMock, ...], so_far: Sequence[Exchange]) -> tuple[ToolMock, ...]:
    for exchange in so_far if mocks else ():
        mocks = remaining(mocks, exchange.raw)
    return mocks


def _history(so_far: Sequence[Exchange], window: int | None) -> tuple[Message, ...]:
    """The messages of both sides in the latest `window` exchanges (None: in all)."""
    kept = so_far if window is None else so_far[max(0, len(so_far) - window) :]
    return tuple(message for exchange in kept for message in (*exchange.messages, *exchange.replies))


def together(exchanges: Sequence[Exchange], end: End | None = None) -> RawExecution:
    """Return the turns as one raw execution, with what ended them."""
    raws = [exchange.raw for exchange in exchanges]
    payload: dict[str, Any] = {"turns": [_payload(exchange) for exchange in exchanges]}
    if end is not None:
        payload["ended_by"] = end.by
    elapsed = [raw.payload["elapsed_ms"] for raw in raws if "elapsed_ms" in raw.payload]
    if elapsed:  # the adapter knows better than the clock how long its target took
        payload["elapsed_ms"] = _sum(elapsed)
    return RawExecution(
        format=FORMAT,
        payload=payload,
        files=_files(raws),
        exit_code=raws[-1].exit_code if raws else None,
        duration_ms=_sum([raw.duration_ms for raw in raws]),
    )


def _files(raws: Sequence[RawExecution]) -> dict[str, Path]:
    return {
        f"turn-{number}/{role}": path for number, raw in enumerate(raws, start=1) for role, path in raw.files.items()
    }


def _sum(times: Sequence[float | None]) -> float | None:
    """The sum; None without times, and when one of them is unknown."""
    known = [time for time in times if time is not None]
    return sum(known) if known and len(known) == len(times) else None


def _payload(exchange: Exchange) -> dict[str, Any]:
    raw = exchange.raw
    return {
        "messages": [{"role": message.role, "text": message.text} for message in exchange.messages],
        "format": raw.format,
        "payload": raw.payload,
        "exit_code": raw.exit_code,
        "duration_ms": raw.duration_ms,
        "elapsed_ms": exchange.elapsed_ms,
        **({"failed": True} if exchange.failed else {}),
        **({"speech": exchange.speech} if exchange.speech is not None else {}),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTurn:
    """One turn of a stored conversation: what was said to the target, and what it brought back.

    `messages` have `role` and `text`. `elapsed_ms` is the time of the call as seen from outside.
    """

    messages: Sequence[Mapping[str, Any]]
    raw: RawExecution
    elapsed_ms: float | None = None

    @property
    def speaker(self) -> str | None:
        """Role of who spoke to the target."""
        return str(self.messages[0]["role"]) if self.messages else None


def turns_of(raw: RawExecution) -> list[RawTurn]:
    """Return the turns in the raw execution of a conversation, each with what its own normalizer reads."""
    return [_raw_turn(number, turn, raw) for number, turn in enumerate(raw.payload.get("turns") or (), start=1)]


def _raw_turn(number: int, turn: Mapping[str, Any], raw: RawExecution) -> RawTurn:
    prefix = f"turn-{number}/"
    inner = RawExecution(
        format=str(turn["format"]),
        payload=turn.get("payload") or {},
        files={role.removeprefix(prefix): path for role, path in raw.files.items() if role.startswith(prefix)},
        exit_code=turn.get("exit_code"),
        duration_ms=turn.get("duration_ms"),
    )
    return RawTurn(messages=turn["messages"], raw=inner, elapsed_ms=turn.get("elapsed_ms"))
