"""Turns of a session: messages to the target, and the events until the next turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eval_pipeline.reports.events import Event, JsonMap, MessageEvent, is_spoken
from eval_pipeline.reports.moments import milliseconds_between
from eval_pipeline.reports.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStart:
    """The start of a turn of a live conversation, with the measures of its source.

    `position` is the index of its first event; the first `messages` events from there are the messages to the target.
    `speaker` is the role of their author; None without messages. `model` answered. `speech` has what is known of the
    simulator that made the messages: `simulator` (its name), `model`, `usage`, `duration_ms`, `discarded` lines.
    `failed` is whether the target was called and did not answer.
    """

    position: int
    messages: int
    speaker: str | None = "user"
    usage: Usage = field(default_factory=Usage)
    duration_ms: float | None = None
    ttft_ms: float | None = None
    model_calls: int | None = None
    model: str | None = None
    speech: JsonMap | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn of a session: the messages to the target, and the events that follow until the next turn.

    `number` counts from 1. `speaker` is the role of the messages' author; None when the session has no messages.
    Measures missing from the source are None.
    """

    number: int
    speaker: str | None = None
    messages: tuple[MessageEvent, ...] = ()
    events: tuple[Event, ...] = ()
    usage: Usage = field(default_factory=Usage)
    duration_ms: float | None = None
    ttft_ms: float | None = None
    model_calls: int | None = None

    @property
    def cost_usd(self) -> float | None:
        """Cost of the turn."""
        return self.usage.cost_usd

    @property
    def answer(self) -> str | None:
        """The target's last message in the turn; None without one."""
        return next((event.text for event in reversed(self.events) if is_spoken(event, "assistant")), None)


def turn_positions(events: Sequence[Event], starts: Sequence[TurnStart] = ()) -> list[int]:
    """Return the index of each turn's first event; without `starts`, messages of the user begin turns.

    Messages of the user with no activity of the target between them belong to one turn.
    """
    if starts:
        return [0, *(start.position for start in starts[1:])]
    positions, active = [0], False
    for position, event in enumerate(events):
        if not is_spoken(event, "user"):
            active = active or not (isinstance(event, MessageEvent) and (event.injected or event.role == "system"))
        elif active:
            positions.append(position)
            active = False
    return positions


def _started_turn(number: int, start: TurnStart, events: Sequence[Event], begin: int, end: int) -> Turn:
    """Return a turn with a known start; it includes events before its messages."""
    first_event = start.position + start.messages
    return Turn(
        number=number,
        speaker=start.speaker,
        messages=tuple(event for event in events[start.position : first_event] if isinstance(event, MessageEvent)),
        events=(*events[begin : start.position], *events[first_event:end]),
        usage=start.usage,
        duration_ms=start.duration_ms,
        ttft_ms=start.ttft_ms,
        model_calls=start.model_calls,
    )


def _shown_turn(number: int, events: Sequence[Event]) -> Turn:
    """Return a turn derived from its events; it lasts from its first message to its last event, if both have times."""
    messages = tuple(event for event in events if is_spoken(event, "user"))
    others = tuple(event for event in events if not is_spoken(event, "user"))
    return Turn(
        number=number,
        speaker=messages[0].role if messages else None,
        messages=messages,
        events=others,
        duration_ms=milliseconds_between(messages[0].at, others[-1].at) if messages and others else None,
    )


def split_turns(events: Sequence[Event], starts: Sequence[TurnStart] = ()) -> tuple[Turn, ...]:
    """Return the turns in order; without `starts`, messages of the user begin them (see `turn_positions`)."""
    positions = turn_positions(events, starts)
    bounds = list(zip(positions, [*positions[1:], len(events)], strict=True))
    if starts:
        return tuple(
            _started_turn(number, start, events, *bound)
            for number, (start, bound) in enumerate(zip(starts, bounds, strict=True), start=1)
        )
    return tuple(_shown_turn(number, events[begin:end]) for number, (begin, end) in enumerate(bounds, start=1))


def turn_start_from_json(value: JsonMap) -> TurnStart:
    """Return a turn's start from its JSON form. Raises TypeError for any other value."""
    return TurnStart(**{**value, "usage": Usage(**value.get("usage") or {})})
