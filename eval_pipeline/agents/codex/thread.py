"""A thread of Codex during reading: messages and calls in order of their first record.

A call is merged from all records that describe it. How records become steps is in `steps.py`, how a thread
becomes a report in `normalizer.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from eval_pipeline.agents.codex.steps import Step, call_id_of
from eval_pipeline.reports.model import Event, MessageEvent, RetryEvent

How = Literal["create", "edit", "delete"]


@dataclass(slots=True)
class Call:
    """One action of the agent, merged from every record that describes it.

    `tool` is None for an action of a tool's own script (code mode); `is_error` is None while no record reports it.
    """

    id: str | None
    at: str | None
    line: int
    folder: str | None = None
    tool: str | None = None
    arguments: Any = None
    command: str | None = None
    writes: dict[str, How] = field(default_factory=dict)
    exit_code: int | None = None
    output: str | None = None
    is_error: bool | None = None
    duration_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a call: its text and its position."""

    call: Call
    output: str
    at: str | None
    line: int


@dataclass(slots=True)
class Thread:
    """The messages and calls read so far. `ending` is None while no record reports how the run ended.

    `last_words` is the text of the answer so far, `final_message` the entry that holds it.
    """

    folder: str | None
    entries: list[Event | Call | Answer] = field(default_factory=list)
    calls: dict[str, Call] = field(default_factory=dict)
    last_words: str | None = None
    final_message: MessageEvent | None = None
    ending: Literal["completed", "failed"] | None = None
    error: str | None = None
    error_kind: Any = None
    retried: bool = False
    ttft_ms: float | None = None
    unknown: Counter[str] = field(default_factory=Counter)

    def knows(self, step: Step) -> bool:
        """Return whether an earlier step describes the same call."""
        return call_id_of(step) in self.calls

    def call(self, step: Step) -> Call:
        """Return the call that a step describes; a new one is added."""
        id_ = call_id_of(step)
        if id_ is not None and id_ in self.calls:
            return self.calls[id_]
        call = Call(id_, step.at, step.line, folder=self.folder)
        self.entries.append(call)
        if id_ is not None:
            self.calls[id_] = call
        return call

    def answer(self, call: Call, output: str, step: Step) -> None:
        self.entries.append(Answer(call, output, step.at, step.line))

    def add_message(self, message: MessageEvent) -> MessageEvent | None:
        """Add a message, unless it repeats the last one (rollouts hold each twice, retries repeat reasoning).

        Returns the entry that holds it; None for a message without text.
        """
        last = next((event for event in reversed(self.entries) if not isinstance(event, RetryEvent)), None)
        if isinstance(last, MessageEvent) and (last.role, last.text) == (message.role, message.text):
            return last
        if not message.text:
            return None
        self.entries.append(message)
        return message
