"""A live conversation: the user's turns are sent one after the other, each with what the target really answered.

Every turn is a call of its own; what they brought back together is one raw execution of format `conversation`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import Plan, RawExecution, TargetFailure
from eval_pipeline.suites.model import Case, Conversation, Message

FORMAT = "conversation"
Execute = Callable[[Call], Awaitable[RawExecution | TargetFailure]]


class Conversations(Protocol):
    """What a conversation needs to know of answers, which rooms to the right of this one can tell."""

    def answer(self, plan: Plan, raw: RawExecution) -> str:
        """What the target said to the user in a turn."""

    async def should_continue(self, plan: Plan, so_far: RawExecution) -> bool:
        """Whether the conversation goes on after its latest turn (asked only where a failed turn ends it)."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """One turn as it went: what was asked, what came back, and the answer in it."""

    messages: tuple[Message, ...]
    raw: RawExecution
    answer: str


async def converse(call: Call, execute: Execute, conversations: Conversations) -> RawExecution | TargetFailure:
    """Carries out the conversation of a case. A turn that fails ends it: what was said until then is kept in `raw`."""
    conversation = call.plan.case.conversation
    if conversation is None:
        return await execute(call)
    done: list[_Turn] = []
    for number, messages in enumerate(conversation.turns, start=1):
        turn_call = _turn_call(call, number, messages, done, conversation)
        result = await execute(turn_call)
        if isinstance(result, TargetFailure):
            result.raw = _together(done, result.raw, messages)
            return result
        done.append(_Turn(messages, result, conversations.answer(turn_call.plan, result)))
        may_stop = conversation.on_failure == "stop" and number < len(conversation.turns)
        if may_stop and not await conversations.should_continue(call.plan, _together(done)):
            break
    return _together(done)


def _turn_call(
    call: Call, number: int, messages: tuple[Message, ...], done: list[_Turn], conversation: Conversation
) -> Call:
    case = replace(call.plan.case, input=_history(call.plan.case, done, conversation) + messages, conversation=None)
    files = call.files
    return replace(call, plan=replace(call.plan, case=case), files=lambda: files() / f"turn-{number}")


def _history(case: Case, done: list[_Turn], conversation: Conversation) -> tuple[Message, ...]:
    """What was said so far; of the exchanges only the latest `window`."""
    kept = done if conversation.window is None else done[max(0, len(done) - conversation.window) :]
    said = (message for turn in kept for message in (*turn.messages, Message(role="assistant", content=turn.answer)))
    return (*case.input, *said)


def _together(
    done: list[_Turn], failed: RawExecution | None = None, messages: tuple[Message, ...] = ()
) -> RawExecution:
    """All turns as one raw execution; of a failed last turn what there is."""
    turns = [_payload(turn.messages, turn.raw) for turn in done]
    raws = [turn.raw for turn in done]
    if failed is not None:
        turns.append(_payload(messages, failed) | {"failed": True})
        raws.append(failed)
    known = [raw.duration_ms for raw in raws]
    duration_ms = sum(time for time in known if time is not None) if known and None not in known else None
    files: dict[str, Path] = {
        f"turn-{number}/{role}": path for number, raw in enumerate(raws, start=1) for role, path in raw.files.items()
    }
    exit_code = raws[-1].exit_code if raws else None
    payload: dict[str, Any] = {"turns": turns}
    elapsed = [raw.payload["elapsed_ms"] for raw in raws if "elapsed_ms" in raw.payload]
    if elapsed:  # an adapter that knows better than the clock how long its target took
        payload["elapsed_ms"] = None if None in elapsed else sum(elapsed)
    return RawExecution(format=FORMAT, payload=payload, files=files, exit_code=exit_code, duration_ms=duration_ms)


def _payload(messages: tuple[Message, ...], raw: RawExecution) -> dict[str, Any]:
    return {
        "messages": [{"role": message.role, "text": message.text} for message in messages],
        "format": raw.format,
        "payload": raw.payload,
        "exit_code": raw.exit_code,
        "duration_ms": raw.duration_ms,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTurn:
    """One turn of a stored conversation: what was said to the target, and what it brought back.

    `messages` have `role` and `text`. `elapsed_ms` is the time of the turn as seen from outside.
    """

    messages: Sequence[Mapping[str, Any]]
    raw: RawExecution
    speaker: str = "user"
    elapsed_ms: float | None = None


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
    return RawTurn(
        messages=turn["messages"],
        raw=inner,
        speaker=turn.get("speaker", "user"),
        elapsed_ms=turn.get("elapsed_ms"),
    )
