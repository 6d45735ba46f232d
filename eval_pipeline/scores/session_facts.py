"""Facts about a session that several evaluators need: what it shows, its steps, the skills it used.

Evaluators know kinds of tools (`reports/tool_kinds.py`), not the names that an agent gives them. How a suite names the
steps it expects is in `steps.py`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.reports.model import (
    CommandEvent,
    DetectedSkill,
    Event,
    FileReadEvent,
    MessageEvent,
    SessionReport,
    SkillEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from eval_pipeline.reports.tool_kinds import SHELLS, ToolKind

_PATHS = ("path", "file_path", "filePath", "absolute_path")
_NAMES_OF_SKILLS: Mapping[ToolKind, tuple[str, ...]] = {"skill": ("skill", "name")}
_NAMES_AND_READS: Mapping[ToolKind, tuple[str, ...]] = {**_NAMES_OF_SKILLS, "read": _PATHS}
_COMMANDS: Mapping[ToolKind, tuple[str, ...]] = {"command": ("command", *_PATHS)}
"""By the kind of a tool, the arguments that name a skill, a file and a command."""

_SKILL_IN_TOOL_NAME = ("Using skill: ", "Viewing ", "mcp:")
_SEARCHING = re.compile(r"(^|[\s._:/-])(search|find|lookup|retriev(e|al))($|[\s._:/-])", re.IGNORECASE)


def shows_session(report: SessionReport) -> bool:
    """Return whether the report would show tool calls if there were any; an answer alone does not."""
    return report.model_calls is not None or any(
        not (isinstance(event, MessageEvent) and event.phase == "final") for event in report.events
    )


def failed(event: Event) -> bool:
    """Return whether the event reports a failure of a tool, of loading a skill or of reading a file."""
    if isinstance(event, ToolResultEvent):
        return event.is_error is True
    return isinstance(event, (SkillEvent, FileReadEvent)) and event.ok is False


def tool_errors(report: SessionReport) -> int:
    """Return the number of errors that tools reported."""
    return sum(isinstance(event, ToolResultEvent) and event.is_error is True for event in report.events)


def failures_of(report: SessionReport) -> Callable[[Event], bool]:
    """Return a function that returns whether an event of the session failed: by itself, or a call or the loading of a
    skill by the result of the call."""
    doings = (event for event in report.events if isinstance(event, (ToolResultEvent, SkillEvent, FileReadEvent)))
    ids = {event.call_id for event in doings if failed(event)} - {None}
    calls = {id(use.call) for use in report.tool_uses if use.is_error is True}

    def is_failed(event: Event) -> bool:
        of_call = isinstance(event, (ToolCallEvent, SkillEvent)) and event.call_id in ids
        return failed(event) or of_call or id(event) in calls

    return is_failed


# Steps.


@dataclass(frozen=True, slots=True)
class Step:
    """One action of an agent: its types and the names that match it. `arguments` is None when they are unknown.

    A tool call has the kind of its tool among its types.
    """

    types: frozenset[str]
    names: tuple[str, ...]
    arguments: Any = None

    @property
    def shown(self) -> str:
        """Name of the step in messages, at most 80 characters."""
        return self.names[0] if len(self.names[0]) <= 80 else self.names[0][:79] + "…"


def steps_of(report: SessionReport) -> Iterator[Step]:
    """Yield the steps of a session in order. Running a command is one step, however many events show it."""
    calls = {use.call.call_id for use in report.tool_uses} - {None}
    commands = {event.call_id: event.command for event in report.events if isinstance(event, CommandEvent)}
    for event in report.events:
        if isinstance(event, ToolCallEvent):
            yield _call_step(event, commands.get(event.call_id) if event.call_id is not None else None)
        elif isinstance(event, CommandEvent) and event.call_id not in calls:
            yield Step(frozenset({"command"}), _command_names(event.command))
        elif isinstance(event, MessageEvent) and event.role == "assistant":
            kind = "reasoning" if event.phase == "thinking" else "message"
            yield Step(frozenset({kind}), (kind,))


def _call_step(event: ToolCallEvent, command: str | None) -> Step:
    """A tool call; a call of the shell itself is a command and no tool."""
    arguments = _parsed(event.arguments)
    if event.tool.lower() in SHELLS:
        command = _command_in(arguments) or command
        if command is not None:
            return Step(frozenset({"command"}), (*_command_names(command), event.tool), arguments)
    types: set[str] = {"tool", event.does} - {"other", "command"}
    if _SEARCHING.search(event.tool):
        types.add("search")
    if command is None and event.does == "command":
        command = _command_in(arguments)
    if command is not None:
        return Step(frozenset(types | {"command"}), (event.tool, *_command_names(command)), arguments)
    return Step(frozenset(types), (event.tool,), arguments)


def _command_names(command: str) -> tuple[str, ...]:
    """The names of a command: its whole line and its program."""
    return (command, *command.split()[:1])


def _command_in(arguments: Any) -> str | None:
    given = arguments if isinstance(arguments, Mapping) else {}
    command = next((given[name] for name in ("cmd", "command", "commands") if given.get(name)), None)
    if isinstance(command, list):
        return " ".join(map(str, command))
    return command if isinstance(command, str) else None


def _parsed(arguments: Any) -> Any:
    """Arguments, parsed where a source gives them as JSON text."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments.strip() or None


def missing_in_order(values: Sequence[Any], wanted: Sequence[Any], matches: Callable[[Any, Any], bool]) -> int | None:
    """Return the place of the first of `wanted` without a value after those of the ones before; None without one."""
    remaining = iter(values)
    return next((at for at, each in enumerate(wanted) if not any(matches(each, value) for value in remaining)), None)


# Skills.


def is_skill(used: str, skill: str) -> bool:
    """Return whether a used skill is `skill`; a plug-in's skill `plugin:skill` also matches its short name."""
    return skill in skill_names(used)


def skill_names(used: str) -> frozenset[str]:
    """Return the names of a used skill: its own, and for a plug-in's skill the short one."""
    return frozenset({used, used.rpartition(":")[2]})


def skill_counts(report: SessionReport) -> Counter[str]:
    """Return how often each skill was used: loads by a tool, else its other signs; failed attempts are left out."""
    is_failed = failures_of(report)
    loads: Counter[str] = Counter()
    for call in report.tool_calls:
        if not is_failed(call):
            loads.update(_texts_of(call, _NAMES_OF_SKILLS))
    shown = Counter({skill: _explicit(events) or len(events) for skill, events in _signs(report).items()})
    detected = Counter({detected.skill: 1 for detected in report.skills})
    return shown | loads | detected


def _signs(report: SessionReport) -> Mapping[str, list[SkillEvent]]:
    """Return the signs of each skill in order; failed attempts are left out."""
    is_failed = failures_of(report)
    signs: dict[str, list[SkillEvent]] = {}
    for event in report.events:
        if isinstance(event, SkillEvent) and not is_failed(event):
            signs.setdefault(event.skill, []).append(event)
    return signs


def _explicit(signs: list[SkillEvent]) -> int:
    return sum(sign.strength == "explicit" for sign in signs)


def detected_skills(report: SessionReport) -> tuple[DetectedSkill, ...]:
    """Return the skills that a session used: those that the normalizer detected, else those that its events show.

    Failed attempts are left out.
    """
    if report.skills:
        return report.skills
    return tuple(
        DetectedSkill(
            skill=skill,
            confidence="explicit" if _explicit(events) else events[0].strength,
            evidence=tuple(f"{event.strength} sign" for event in events),
        )
        for skill, events in _signs(report).items()
    )


def skill_evidence(report: SessionReport, skill: str) -> Iterator[str]:
    """Yield what shows that a skill was used: the normalizer's evidence first, then event by event.

    Reads and results of tools count only where the normalizer detects neither skills nor reads nor commands.
    """
    for detected in report.skills:
        if is_skill(detected.skill, skill):
            yield ", ".join(detected.evidence) or "detected"
    understood = any(isinstance(event, (SkillEvent, FileReadEvent, CommandEvent)) for event in report.events)
    is_failed = failures_of(report)
    for event in report.events:
        if is_failed(event):
            continue
        evidence = _event_evidence(event, skill) or _call_evidence(event, skill, understood)
        if evidence is not None:
            yield evidence


def _event_evidence(event: Event, skill: str) -> str | None:
    if isinstance(event, SkillEvent) and is_skill(event.skill, skill):
        return "it was loaded"
    if isinstance(event, FileReadEvent) and f"/skills/{skill}/" in "/" + event.path.replace("\\", "/"):
        return f"{event.path} was read"
    return None


def _call_evidence(event: Event, skill: str, understood: bool) -> str | None:
    """A call that names the skill or, unless `understood`, touches its folder; a result with a path in its folder."""
    folder, own_file = f"skills/{skill}/", f"/{skill}/SKILL.md"
    if isinstance(event, ToolCallEvent):
        named = re.compile(rf"(?<![\w-]){re.escape(skill)}(?![\w-])")
        texts = [event.tool] if event.tool.startswith(_SKILL_IN_TOOL_NAME) else []
        texts += _texts_of(event, _NAMES_OF_SKILLS if understood else _NAMES_AND_READS)
        commands = () if understood else _texts_of(event, _COMMANDS)
        in_folder = any(folder in command or own_file in command for command in commands)
        return f"{event.tool} was called" if in_folder or any(map(named.search, texts)) else None
    if isinstance(event, ToolResultEvent) and not understood and folder in event.output:
        return f"{event.tool or 'a tool'} answered with {folder}"
    return None


def _texts_of(call: ToolCallEvent, signs: Mapping[ToolKind, tuple[str, ...]]) -> Iterator[str]:
    """The texts among those arguments of a call that `signs` lists for the kind of its tool."""
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
    for name in signs.get(call.does, ()):
        if isinstance(arguments.get(name), str):
            yield arguments[name]
