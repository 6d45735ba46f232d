"""What a check looks for: a text, a pattern, a command in parts, or a tool call."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from eval_pipeline.reports.model import ToolCallEvent
from eval_pipeline.scores.assertions.command_line import OptionValue, ParsedCommand, parse_command, quoted

_LONGEST_COMPARED = 400


class Pattern(Protocol):
    """A pattern that is searched for anywhere: `re.compile(…)`, or one of another syntax with its `pattern`."""

    @property
    def pattern(self) -> Any:
        """The text of the pattern."""

    def search(self, text: str, /) -> Any:
        """Return something true when the pattern matches anywhere."""


Text = str | Pattern
"""A text, or a pattern."""


def contains(matcher: Text, text: str) -> bool:
    """Return whether a text contains another (case-sensitive), or a pattern matches in it."""
    return matcher in text if isinstance(matcher, str) else bool(matcher.search(text))


def equals(matcher: Text, text: str) -> bool:
    """Return whether a text is another one, or a pattern matches in it."""
    return matcher == text if isinstance(matcher, str) else bool(matcher.search(text))


def shown(matcher: Any) -> str:
    """Return a matcher for messages."""
    if isinstance(matcher, CommandMatcher | ToolMatcher):
        return matcher.shown
    return quoted(matcher) if isinstance(matcher, str) else f"/{matcher.pattern}/"


@dataclass(frozen=True, slots=True)
class CommandMatcher:
    """Selects commands by their parts. A text equals a word; a pattern matches in it.

    `positionals` occur in this order, with others between. Each value of an option matches another value that the
    command has; True is a flag without a value. `strict`: no other positionals, options and values.
    """

    executable: Text | None = None
    positionals: tuple[Text, ...] = ()
    options: Mapping[str, tuple[Text | bool, ...]] | None = None
    end_of_options: bool | None = None
    strict: bool = False

    def matches(self, line: str) -> bool:
        """Return whether a command line has these parts."""
        return not self.mismatches(parse_command(line))

    def mismatches(self, command: ParsedCommand) -> list[str]:
        """Return the names of the parts that differ."""
        options = self.options or {}
        same = {
            "executable": self.executable is None
            or (command.executable is not None and equals(self.executable, command.executable)),
            "positionals": self._has_positionals(command.positionals),
            "options": self._has_options(options, command.options),
            "end_of_options": self.end_of_options in (None, command.end_of_options),
        }
        return [name for name, holds in same.items() if not holds]

    def _has_positionals(self, given: Sequence[str]) -> bool:
        if self.strict:
            return len(given) == len(self.positionals) and all(map(equals, self.positionals, given))
        remaining = iter(given)
        return all(any(equals(expected, word) for word in remaining) for expected in self.positionals)

    def _has_options(
        self, expected: Mapping[str, tuple[Text | bool, ...]], given: Mapping[str, tuple[OptionValue, ...]]
    ) -> bool:
        if self.strict and expected.keys() != given.keys():
            return False
        return all(
            name in given
            and (not self.strict or len(values) == len(given[name]))
            and _assignable(values, list(given[name]))
            for name, values in expected.items()
        )

    @property
    def shown(self) -> str:
        """Description for messages."""
        parts = [f"executable={shown(self.executable)}"] if self.executable is not None else []
        if self.positionals:
            parts.append(f"positionals=[{', '.join(map(shown, self.positionals))}]")
        if self.options:
            parts.append(f"options={{{', '.join(map(_shown_option, self.options, self.options.values()))}}}")
        if self.end_of_options is not None:
            parts.append(f"end_of_options={quoted(self.end_of_options)}")
        parts += ["strict=true"] if self.strict else []
        return f"command matcher ({', '.join(parts)})"


def _shown_option(name: str, values: Sequence[Text | bool]) -> str:
    return f"{name}: [{', '.join('true' if value is True else shown(value) for value in values)}]"


def _assignable(expected: Sequence[Text | bool], given: Sequence[OptionValue]) -> bool:
    """Return whether each expected value has a given one of its own (augmenting paths: a pattern may fit several)."""
    owners: dict[int, int] = {}

    def assign(wanted: int, tried: set[int]) -> bool:
        for place, value in enumerate(given):
            if place in tried or not _is_value(expected[wanted], value):
                continue
            tried.add(place)
            if place not in owners or assign(owners[place], tried):
                owners[place] = wanted
                return True
        return False

    return all(assign(place, set()) for place in range(len(expected)))


def _is_value(expected: Text | bool, given: OptionValue) -> bool:
    if isinstance(expected, bool) or given is True:
        return expected is given
    return equals(expected, given)


class CommandBuilder:
    """Builds a command matcher step by step: `command("pnpm").arg("test").flag("--watch").strict()`."""

    def __init__(self, executable: Text | None = None) -> None:
        self._executable = executable
        self._positionals: list[Text] = []
        self._options: dict[str, list[Text | bool]] = {}
        self._end_of_options: bool | None = None
        self._strict = False

    def executable(self, matcher: Text) -> CommandBuilder:
        """Require the program."""
        self._executable = matcher
        return self

    def arg(self, matcher: Text) -> CommandBuilder:
        """Require a positional, after those before."""
        return self.args(matcher)

    def args(self, *matchers: Text) -> CommandBuilder:
        """Require positionals, in this order."""
        self._positionals += matchers
        return self

    def option(self, name: str, value: Text | bool = True) -> CommandBuilder:
        """Require an option with a value; True: a flag without one."""
        self._options.setdefault(name, []).append(value)
        return self

    def flag(self, name: str) -> CommandBuilder:
        """Require an option without a value."""
        return self.option(name)

    def end_of_options(self) -> CommandBuilder:
        """Require a `--`."""
        self._end_of_options = True
        return self

    def strict(self) -> CommandBuilder:
        """Allow no other positionals, options and values."""
        self._strict = True
        return self

    exact = strict

    def build(self) -> CommandMatcher:
        """Return the matcher; a builder is accepted wherever a matcher is."""
        options = {name: tuple(values) for name, values in self._options.items()}
        return CommandMatcher(self._executable, tuple(self._positionals), options, self._end_of_options, self._strict)


def command(executable: Text | None = None) -> CommandBuilder:
    """Begin a matcher of commands by their parts."""
    return CommandBuilder(executable)


_COMMAND_FIELDS = ("executable", "positionals", "options", "end_of_options", "exact", "strict")


def command_matcher(value: Any) -> Text | CommandMatcher:
    """Return a matcher of commands: a text, a pattern, a builder, or a mapping of a matcher's parts. Raises ValueError
    and TypeError."""
    if isinstance(value, CommandBuilder):
        return value.build()
    if isinstance(value, CommandMatcher):
        return value
    if not isinstance(value, Mapping):
        return text_matcher(value)
    require_known(value, _COMMAND_FIELDS, "a command")
    executable = value.get("executable")
    ended, strict = value.get("end_of_options"), value.get("strict", value.get("exact", False))
    for name, given in (("end_of_options", ended), ("strict", strict)):
        if given is not None and not isinstance(given, bool):
            raise TypeError(f"{name}: expected true or false, got {given!r}")
    return CommandMatcher(
        None if executable is None else text_matcher(executable),
        tuple(map(text_matcher, _listed(value.get("positionals"), "positionals"))),
        _options(value.get("options")),
        ended,
        bool(strict),
    )


def _options(value: Any) -> Mapping[str, tuple[Text | bool, ...]]:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"options: expected a mapping of names and values, got {value!r}")
    given = {str(name): _listed(values, "options") for name, values in (value or {}).items()}
    return {
        name: tuple(item if item is True else text_matcher(item) for item in values) for name, values in given.items()
    }


def _listed(value: Any, name: str) -> Sequence[Any]:
    if value is None:
        return ()
    return value if isinstance(value, (list, tuple)) else (value,)


def text_matcher(value: Any) -> Text:
    """Return a text or a pattern as it is. Raises TypeError for anything else."""
    if isinstance(value, str) or (hasattr(value, "search") and hasattr(value, "pattern")):
        matcher: Text = value
        return matcher
    raise TypeError(f"expected a text or a pattern, got {value!r}")


def require_known(value: Mapping[Any, Any], known: Sequence[str], what: str) -> None:
    """Raise ValueError for a field that is not among `known`, with the nearest one."""
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean '{near[0]}'?" if near else f"; there are: {', '.join(known)}"
            raise ValueError(f"unknown field '{name}' of {what}{hint}")


@dataclass(frozen=True, slots=True)
class ToolMatcher:
    """Selects tool calls: `tool` is in the tool's name, `where` returns true for its arguments (and its event)."""

    tool: Text | None = None
    where: Callable[..., Any] | None = None
    where_shown: str = "where …"

    def matches(self, call: ToolCallEvent) -> bool:
        """Return whether a call is selected."""
        if self.tool is not None and not contains(self.tool, call.tool):
            return False
        return self.where is None or bool(_called(self.where, call))

    @property
    def shown(self) -> str:
        """Description for messages."""
        parts = [f"tool matching {shown(self.tool)}"] if self.tool is not None else []
        parts += [self.where_shown] if self.where is not None else []
        return " ".join(parts) or "any tool call"


def _called(where: Callable[..., Any], call: ToolCallEvent) -> Any:
    arguments = call.arguments if call.arguments is not None else {}
    code = getattr(where, "__code__", None)
    if code is not None and (code.co_argcount > 1 or code.co_flags & 0x04):
        return where(arguments, call)
    return where(arguments)


def tool_matcher(value: Any) -> ToolMatcher:
    """Return a matcher of tool calls: a text or pattern for the tool's name, or a mapping with `tool` and `where`.
    Raises ValueError and TypeError."""
    if isinstance(value, ToolMatcher):
        return value
    if not isinstance(value, Mapping):
        return ToolMatcher(text_matcher(value))
    require_known(value, ("tool", "where"), "a tool call")
    tool, where = value.get("tool"), value.get("where")
    if where is not None and not callable(where):
        raise TypeError(f"where: expected a function of the arguments, got {where!r}")
    return ToolMatcher(None if tool is None else text_matcher(tool), where)


def nearest_text(matcher: Any, values: Sequence[str]) -> str | None:
    """Return the value that is most like a matcher, with what differs; None where nothing is alike."""
    if isinstance(matcher, CommandMatcher):
        return _nearest_command(matcher, values)
    expected = matcher if isinstance(matcher, str) else _plain(matcher)
    compared = {value: value[:_LONGEST_COMPARED] for value in dict.fromkeys(values)}
    ratios = {value: _likeness(expected, text) for value, text in compared.items()}
    best = max(ratios, key=lambda value: ratios[value], default=None)
    return best if best is not None and ratios[best] >= 0.5 else None


def _plain(matcher: Any) -> str:
    """The letters of a pattern, without its syntax."""
    return re.sub(r"\\(.)|[\^$*+?()\[\]{}|]", r"\1", str(getattr(matcher, "pattern", "")))


def _likeness(expected: str, value: str) -> float:
    """The share of the expected text that a value has in common blocks."""
    if not expected or not value:
        return 0.0
    compared = difflib.SequenceMatcher(None, expected[:_LONGEST_COMPARED].lower(), value.lower(), autojunk=False)
    return sum(block.size for block in compared.get_matching_blocks() if block.size > 1) / len(expected)


def _nearest_command(matcher: CommandMatcher, lines: Sequence[str]) -> str | None:
    mismatches = {line: matcher.mismatches(parse_command(line)) for line in lines}
    best = min(mismatches, key=lambda line: len(mismatches[line]), default=None)
    if best is None or len(mismatches[best]) == 4:
        return None
    return f"{best} (differs in {', '.join(mismatches[best])})"
