"""The turns in the raw execution of a conversation that is over, each with what its own normalizer reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.executions.model import RawExecution


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTurn:
    """One turn of a stored conversation: what was said to the target, and what it brought back.

    `messages` have `role` and `text`. `elapsed_ms` is the time of the call as seen from outside; `failed` is whether it
    brought back no answer, only what there was of one; `speech` is of the simulator that made the messages.
    """

    messages: Sequence[Mapping[str, Any]]
    raw: RawExecution
    elapsed_ms: float | None = None
    failed: bool = False
    speech: Mapping[str, Any] | None = None

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
    failed = turn.get("failed") is True
    speech = turn.get("speech")
    return RawTurn(
        messages=turn["messages"], raw=inner, elapsed_ms=turn.get("elapsed_ms"), failed=failed, speech=speech
    )
