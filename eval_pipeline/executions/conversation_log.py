"""What of a conversation is on disk while it is held: a process that is killed goes on at the next turn.

An entry is written after every call that finished: a line of the simulator, a round of a model with its tools, a turn.
A line of a script is written with the entry that follows it. A conversation that begins anew writes what the one before
it used; the entries before that one count no more.
Where the entries are kept is a seam of two methods (`TurnLog`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.suites.model import Message

SPEECH, UNFINISHED, TURN = "speech", "unfinished", "turn"
SPENT = "spent"
"""What a turn of a fallback, or a line for it, used: after a kill it is not gone on with."""


class TurnLog(Protocol):
    """The entries of one conversation, in order."""

    def entries(self) -> Sequence[Mapping[str, Any]]:
        """Return the entries that an earlier process wrote; none where there are none."""

    def append(self, *entries: Mapping[str, Any]) -> None:
        """Write entries, all at once."""


class NoLog:
    """Nothing is kept."""

    def entries(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def append(self, *entries: Mapping[str, Any]) -> None:
        return None


def messages_entry(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages as they are written."""
    return [
        {"role": each.role, "content": each.content, "name": each.name, "tool_calls": each.tool_calls}
        for each in messages
    ]


def messages_of(entry: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Return messages that were written."""
    return tuple(Message(**{**each, "tool_calls": tuple(each["tool_calls"])}) for each in entry)


def raw_entry(raw: RawExecution) -> dict[str, Any]:
    """Return a raw execution as it is written."""
    return {
        "format": raw.format,
        "payload": raw.payload,
        "files": {role: str(path) for role, path in raw.files.items()},
        "exit_code": raw.exit_code,
        "duration_ms": raw.duration_ms,
    }


def raw_of(entry: Mapping[str, Any]) -> RawExecution:
    """Return a raw execution that was written."""
    return RawExecution(**{**entry, "files": {role: Path(path) for role, path in entry["files"].items()}})
