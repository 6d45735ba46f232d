"""The turns of a conversation that took place, and one raw execution of them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.executions.tool_rounds import STATE
from eval_pipeline.llm.reading import mapping
from eval_pipeline.suites.model import Message

FORMAT = "conversation"
GIVEN_UP = "given_up"
"""The entry of a payload with what was used in the turns of a conversation that began anew: `usage` and `model_calls`
of the `runner` that was called, and `speech` of the simulator. It is paid for, and the turns do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A turn that took place: what the speaker said, what the target brought back, and its answer in words.

    `said` are the target's messages, its tool calls and their results among them. `tokens` and `cost_usd` are those of
    both sides, `usage` and `model_calls` are the target's alone. `elapsed_ms` is the time of the call as seen from
    outside, `speech_ms` that of the speaker; `speech` describes a simulator that made the messages, `ends` is whether
    the conversation ends with them.
    """

    messages: tuple[Message, ...]
    raw: RawExecution
    answer: str = ""
    said: tuple[Message, ...] | None = None
    usage: Mapping[str, Any] | None = None
    model_calls: int | None = None
    tokens: float | None = None
    cost_usd: float | None = None
    elapsed_ms: float | None = None
    speech_ms: float = 0.0
    failed: bool = False
    speech: Mapping[str, Any] | None = None
    ends: bool = False

    @property
    def seconds(self) -> float:
        """The time of both sides, in seconds."""
        return ((self.elapsed_ms or 0.0) + self.speech_ms) / 1000

    @property
    def replies(self) -> tuple[Message, ...]:
        """The target's messages as they are sent to it in later turns."""
        return self.said if self.said is not None else (Message(role="assistant", content=self.answer),)

    def used(self, runner: str | None) -> dict[str, Any]:
        """Return what the turn used with a runner; no `usage` where the target was not called."""
        target = {"runner": runner, "usage": self.usage, "model_calls": self.model_calls}
        used = {**(target if self.usage is not None else {}), "speech": self.speech}
        return {name: value for name, value in used.items() if value is not None}


def latest_state(so_far: Sequence[Exchange], initial: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the state as the turns left it."""
    for turn in reversed(so_far):
        for left in (turn.raw.payload.get(STATE), mapping(turn.speech).get(STATE)):
            if isinstance(left, Mapping):
                return left
    return initial


def together(exchanges: Sequence[Exchange], ended_by: str | None = None, *, timed: bool = False) -> RawExecution:
    """Return the turns as one raw execution, with what ended them.

    `timed`: the time of an attempt is not that of the conversation, since another attempt began it.
    """
    raws = [exchange.raw for exchange in exchanges]
    payload: dict[str, Any] = {"turns": [_payload(exchange) for exchange in exchanges]}
    if ended_by is not None:
        payload["ended_by"] = ended_by
    elapsed = [raw.payload["elapsed_ms"] for raw in raws if "elapsed_ms" in raw.payload]
    if elapsed:  # the adapter knows better than the clock how long its target took
        payload["elapsed_ms"] = known_sum(elapsed)
    elif timed:
        payload["elapsed_ms"] = known_sum([exchange.elapsed_ms for exchange in exchanges])
    return RawExecution(
        format=FORMAT,
        payload=payload,
        files={f"turn-{at}/{role}": path for at, raw in enumerate(raws, 1) for role, path in raw.files.items()},
        exit_code=raws[-1].exit_code if raws else None,
        duration_ms=known_sum([raw.duration_ms for raw in raws]),
    )


def known_sum(times: Sequence[float | None]) -> float | None:
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
