"""A session as steps that trajectory checks look for, and how a step is named in a suite."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from eval_pipeline.reports.model import CommandEvent, MessageEvent, SessionReport, ToolCallEvent

STEP_TYPES = ("command", "message", "reasoning", "search", "tool")
_COMMAND_TOOLS = frozenset({"exec_command", "local_shell", "shell"})
_SEARCHING = re.compile(r"(^|[\s._:/-])(search|find|lookup|retriev(e|al))($|[\s._:/-])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that an agent did: what it is, and the names it answers to. `arguments` is None when not told."""

    types: frozenset[str]
    names: tuple[str, ...]
    arguments: Any = None

    @property
    def shown(self) -> str:
        """How messages call it."""
        return self.names[0] if len(self.names[0]) <= 80 else self.names[0][:79] + "…"


def steps_of(report: SessionReport) -> Iterator[Step]:
    """The steps of a session, in order. Running a command is one step, whatever events it left."""
    calls = {event.call_id for event in report.events if isinstance(event, ToolCallEvent)} - {None}
    commands = {event.call_id: event.command for event in report.events if isinstance(event, CommandEvent)}
    for event in report.events:
        if isinstance(event, ToolCallEvent):
            yield _call(event, commands.get(event.call_id) if event.call_id is not None else None)
        elif isinstance(event, CommandEvent) and event.call_id not in calls:
            yield Step(frozenset({"command"}), _command_names(event.command))
        elif isinstance(event, MessageEvent) and event.role == "assistant":
            kind = "reasoning" if event.phase == "thinking" else "message"
            yield Step(frozenset({kind}), (kind,))


def _call(event: ToolCallEvent, command: str | None) -> Step:
    """A tool call; one whose tool is a shell by its name is a command and no tool, as AgentV has it."""
    arguments = _structured(event.arguments)
    if event.tool.lower() in _COMMAND_TOOLS:
        command = _command_in(arguments) or command
        if command is not None:
            return Step(frozenset({"command"}), (*_command_names(command), event.tool), arguments)
    types = {"tool"} | ({"search"} if _SEARCHING.search(event.tool) else set())
    if command is not None:
        return Step(frozenset(types | {"command"}), (event.tool, *_command_names(command)), arguments)
    return Step(frozenset(types), (event.tool,), arguments)


def _command_names(command: str) -> tuple[str, ...]:
    """A command answers to itself and to its program."""
    return (command, *command.split()[:1])


def _command_in(arguments: Any) -> str | None:
    found = arguments if isinstance(arguments, Mapping) else {}
    command = next((found[name] for name in ("cmd", "command", "commands") if found.get(name)), None)
    if isinstance(command, list):
        return " ".join(map(str, command))
    return command if isinstance(command, str) else None


def _structured(arguments: Any) -> Any:
    """Arguments that a source tells as JSON text, read."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments.strip() or None


@dataclass(frozen=True, slots=True)
class Matcher:
    """Steps that a suite names: by a pattern (`*` and `?`, case not regarded), by types, or both."""

    pattern: str | None = None
    types: frozenset[str] = frozenset()

    def matches(self, step: Step) -> bool:
        """Whether a step is meant."""
        if self.types and self.types.isdisjoint(step.types):
            return False
        return self.pattern is None or any(globs(self.pattern, name) for name in step.names)

    @property
    def shown(self) -> str:
        """How messages call it."""
        return self.pattern if self.pattern is not None else " or ".join(sorted(self.types)) or "any step"


def globs(pattern: str, name: str) -> bool:
    """Whether a name is what a pattern with `*` and `?` means, case not regarded."""
    return _glob(pattern).fullmatch(name) is not None


@lru_cache(maxsize=1_000)
def _glob(pattern: str) -> re.Pattern[str]:
    special = {"*": ".*", "?": "."}
    return re.compile("".join(special.get(sign, re.escape(sign)) for sign in pattern), re.IGNORECASE | re.DOTALL)


def read_matcher(raw: Any, *, of_type: str | None = None, named: bool = True, more: tuple[str, ...] = ()) -> Matcher:
    """A matcher as a suite writes it: a text, or a mapping with `name` or `pattern`, and `type`. Raises ValueError.

    `more` are other fields that the mapping may have; `named` says that it has to have a name.
    """
    if isinstance(raw, str) and raw.strip():
        return Matcher(raw.strip(), frozenset({of_type} if of_type else ()))
    if not isinstance(raw, Mapping):
        raise ValueError(f"value: expected a name or a mapping with name or pattern, got {raw!r}")
    unknown = [str(key) for key in raw if key not in ("name", "pattern", "type", *more)]
    if unknown:
        raise ValueError(
            f"value: unknown field '{unknown[0]}'; there are: {', '.join(('name', 'pattern', 'type', *more))}"
        )
    pattern = raw.get("pattern", raw.get("name"))
    if not (isinstance(pattern, str) and pattern.strip()) and (named or pattern is not None):
        raise ValueError("value: needs a name or a pattern (a text that is not empty)")
    return Matcher(pattern.strip() if isinstance(pattern, str) else None, _types(raw.get("type"), of_type))


def _types(raw: Any, of_type: str | None) -> frozenset[str]:
    if raw is None:
        return frozenset({of_type} if of_type else ())
    given = [raw] if isinstance(raw, str) else raw
    if not isinstance(given, list) or not given or not all(one in STEP_TYPES for one in given):
        raise ValueError(f"value: type: expected one or several of {', '.join(STEP_TYPES)}, got {raw!r}")
    return frozenset(given)


@dataclass(frozen=True, slots=True)
class Count:
    """How often something is to happen."""

    least: int = 1
    most: int | None = None

    def holds(self, number: int) -> bool:
        """Whether a number is within."""
        return number >= self.least and (self.most is None or number <= self.most)

    @property
    def shown(self) -> str:
        """How messages say it."""
        if self.most is None:
            return f"at least {self.least}"
        return f"{self.least} to {self.most}" if self.least else f"at most {self.most}"


def read_count(raw: Mapping[str, Any], *, needed: bool = False, least: int = 1) -> Count:
    """`min` and `max` of a mapping. Raises ValueError."""
    for name in ("min", "max"):
        number = raw.get(name)
        if number is not None and (type(number) is not int or number < 0):
            raise ValueError(f"value: {name}: expected a whole number of at least 0, got {number!r}")
    low, high = raw.get("min"), raw.get("max")
    if needed and low is None and high is None:
        raise ValueError("value: needs min or max")
    if low is not None and high is not None and high < low:
        raise ValueError(f"value: max {high} is less than min {low}")
    return Count(least if low is None else low, high)
