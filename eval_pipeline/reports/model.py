"""The session report: the normalized record of one execution, whatever kind of runner it came from.

Everything a report holds can be imported from here. Facts that a source does not give are None, never 0 or empty.
Events keep the order in which they were first seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from eval_pipeline.reports.events import (
    EVENT_KINDS,
    CommandEvent,
    ErrorEvent,
    Event,
    FileReadEvent,
    FileWriteEvent,
    JsonMap,
    MessageEvent,
    RecordedScoreEvent,
    RetryEvent,
    SkillEvent,
    Strength,
    ToolCallEvent,
    ToolResultEvent,
    event_from_json,
    is_spoken,
)
from eval_pipeline.reports.tool_uses import ToolUse, pair_tool_uses
from eval_pipeline.reports.turns import (
    Turn,
    TurnStart,
    split_turns,
    turn_positions,
    turn_start_from_json,
)
from eval_pipeline.reports.usage import Usage, costs_of

__all__ = [
    "EVENT_KINDS", "CommandEvent", "DetectedSkill", "ErrorEvent", "Event", "FileReadEvent", "FileWriteEvent",
    "JsonMap", "MessageEvent", "RecordedScoreEvent", "RetryEvent", "SessionReport", "SkillEvent", "Strength",
    "ToolCallEvent", "ToolResultEvent", "ToolUse", "Turn", "TurnStart", "Usage", "event_from_json", "is_spoken",
    "turn_positions", "turn_start_from_json",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedSkill:
    """A skill that the session used, with the strength of its strongest sign and the evidence in words."""

    skill: str
    confidence: Strength
    evidence: tuple[str, ...]


class _Derived:
    """Values that a report computes once, when they are first read. They are no fields: not compared, not stored."""

    __slots__ = ("_tool_uses", "_turns")
    _tool_uses: tuple[ToolUse, ...]
    _turns: tuple[Turn, ...]


RETRIES_COST_UNKNOWN = "the cost of a failed attempt, or of a turn given up, is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionReport(_Derived):
    """One execution, normalized.

    `final_output` is the target's last message to the user; None without one. `failure_class` and `error` are the
    reason of an incomplete session (an agent that ended on an API error); None for a complete one.
    `file_changes` is the unified diff of the session's changes in its workspace, None without a workspace.
    `unknown_events` counts record types unknown to the normalizer; `unparsed_lines` counts lines it could not parse.
    `turn_starts` delimits the turns of a live conversation; empty where the source does not. `ended_by` is the side or
    the limit that ended it (`user`, `agent`, `script`, `max-turns`, …), None for one without an end.

    `usage` is that of the answer alone. `retries_cost_usd` is what is known to be paid beside it (None: nothing is):
    for failed attempts and for turns that were `given_up`, since the conversation began anew: of each the `runner`,
    `usage`, `model_calls`, and the `speech` of the simulator.
    """

    execution_id: str
    final_output: str | None = None
    prompt: str | None = None
    session_id: str | None = None
    model: str | None = None
    agent_version: str | None = None
    exit_code: int | None = None
    usage: Usage = field(default_factory=Usage)
    events: tuple[Event, ...] = ()
    skills: tuple[DetectedSkill, ...] = ()
    failure_class: str | None = None
    error: str | None = None
    started_at: str | None = None
    ended_at: str | None = None
    duration_ms: float | None = None
    ttft_ms: float | None = None
    model_calls: int | None = None
    unknown_events: JsonMap = field(default_factory=dict)
    unparsed_lines: int = 0
    file_changes: str | None = None
    turn_starts: tuple[TurnStart, ...] = ()
    ended_by: str | None = None
    given_up: tuple[JsonMap, ...] = ()
    retries_cost_usd: float | None = 0.0

    @property
    def cost_usd(self) -> float | None:
        """What is known to be paid to targets, for the answer and beside it; None: nothing is."""
        answer, retries = self.usage.cost_usd, self.retries_cost_usd or 0.0
        if answer is None:
            return retries if any(costs_of(self.given_up)) else None
        return answer + retries

    @property
    def answer_cost_usd(self) -> float | None:
        """The cost of the answer alone; None where nothing was paid beside it, or where it is unknown."""
        return None if self.retries_cost_usd == 0 else self.usage.cost_usd

    @property
    def retries_cost_note(self) -> str | None:
        """Why it is not known what was paid beside the answer; None where it is, or where nothing was."""
        return RETRIES_COST_UNKNOWN if self.retries_cost_usd is None else None

    @property
    def turns(self) -> tuple[Turn, ...]:
        """Turns in order: as the source delimits them, else by the messages of the user.

        The only turn of a session has all measures of the session. A report without messages and events has no turns.
        """
        try:
            return self._turns
        except AttributeError:
            object.__setattr__(self, "_turns", self._split())
            return self._turns

    def _split(self) -> tuple[Turn, ...]:
        if not self.events and not self.turn_starts and self.final_output is None:
            return ()
        turns = split_turns(self.events, self.turn_starts)
        if len(turns) > 1:
            return turns
        (turn,) = turns
        return (
            replace(
                turn,
                usage=self.usage,
                duration_ms=self.duration_ms,
                ttft_ms=self.ttft_ms,
                model_calls=self.model_calls,
            ),
        )

    @property
    def tool_uses(self) -> tuple[ToolUse, ...]:
        """Tool calls in order, each paired with its result."""
        try:
            return self._tool_uses
        except AttributeError:
            object.__setattr__(self, "_tool_uses", pair_tool_uses(self.events))
            return self._tool_uses

    @property
    def file_reads(self) -> tuple[str, ...]:
        """Paths of the files requested to be read, in order, each once."""
        return tuple(dict.fromkeys(event.path for event in self.events if isinstance(event, FileReadEvent)))

    @property
    def skill_reads(self) -> tuple[str, ...]:
        """Paths of the files of skills (SKILL.md) among them that were read, in order, each once."""
        reads = (event for event in self.events if isinstance(event, FileReadEvent) and event.ok is not False)
        return tuple(dict.fromkeys(event.path for event in reads if event.path.endswith("SKILL.md")))

    @property
    def commands(self) -> tuple[str, ...]:
        """Shell commands, in order."""
        return tuple(event.command for event in self.events if isinstance(event, CommandEvent))

    @property
    def tool_calls(self) -> tuple[ToolCallEvent, ...]:
        """Tool calls, in order."""
        return tuple(event for event in self.events if isinstance(event, ToolCallEvent))

    @property
    def thinking_chars(self) -> int:
        """Characters of thinking in the session."""
        return sum(
            len(event.text) for event in self.events if isinstance(event, MessageEvent) and event.phase == "thinking"
        )
