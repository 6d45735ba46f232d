"""`skills`, `commands`, `file-reads`, `tool-calls` and `output`: the checks of Python suites as arguments in YAML.

Each argument is one check (`scores/assertions/checks.py`); all that are given have to hold. A matcher is a text,
`{regex, flags}`, for commands also the parts of a command, for tool calls `{tool, args}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from eval_pipeline.scores.assertions import checks
from eval_pipeline.scores.assertions.checks import COMMANDS, FILE_READS, TOOL_CALLS, Check
from eval_pipeline.scores.assertions.command_line import quoted
from eval_pipeline.scores.assertions.matching import (
    CommandMatcher,
    Text,
    ToolMatcher,
    command_matcher,
    contains,
    require_known,
    text_matcher,
)
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.javascript_regex import JavaScriptPattern, PatternError, compile_javascript
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session
from eval_pipeline.suites.arguments import same_value

TIME_LIMIT_S = 2.0
Confidence = Literal["weak", "medium", "strong", "explicit"]
_Run = Callable[[Any], Check]
_NO_CHECKS = ("on_missing", "message", "explain", "min_confidence")


@dataclass(frozen=True, slots=True)
class TimedPattern:
    """A JavaScript pattern whose search ends after a time limit with a TimeoutError."""

    pattern: str
    compiled: JavaScriptPattern

    def search(self, text: str) -> str | None:
        """Return the text of the first match, or None."""
        return self.compiled.search(text, TIME_LIMIT_S)


@lru_cache(maxsize=2_000)
def _pattern(pattern: str, flags: str) -> TimedPattern:
    try:
        return TimedPattern(pattern, compile_javascript(pattern, flags))
    except PatternError as error:
        raise ValueError(f"not a valid pattern: {error}") from None


def read_text(value: Any) -> Text:
    """Return a matcher of texts: a text, or `{regex, flags}`. Raises ValueError and TypeError."""
    if not isinstance(value, Mapping):
        return text_matcher(value)
    require_known(value, ("regex", "flags"), "a pattern")
    pattern, flags = value.get("regex"), value.get("flags", "")
    if not isinstance(pattern, str) or not isinstance(flags, str):
        raise TypeError(f"expected a text, or a mapping with regex and flags, got {value!r}")
    return _pattern(pattern, flags)


def read_command(value: Any) -> Text | CommandMatcher:
    """Return a matcher of commands: a text, `{regex, flags}`, or the parts of a command."""
    if not isinstance(value, Mapping) or "regex" in value:
        return read_text(value)
    return command_matcher({name: _parts(part) for name, part in value.items()})


def _parts(value: Any) -> Any:
    """Return a part of a command with its patterns read."""
    if isinstance(value, Mapping):
        return read_text(value) if "regex" in value else {name: _parts(item) for name, item in value.items()}
    return [_parts(item) for item in value] if isinstance(value, list) else value


def read_tool(value: Any) -> ToolMatcher:
    """Return a matcher of tool calls: a text, `{regex, flags}`, or `{tool, args}`; each argument is a matcher or a
    value."""
    if not isinstance(value, Mapping) or "regex" in value:
        return ToolMatcher(read_text(value))
    require_known(value, ("tool", "args"), "a tool call")
    tool = None if value.get("tool") is None else read_text(value["tool"])
    if value.get("args") is None:
        return ToolMatcher(tool)
    if not isinstance(value["args"], Mapping):
        raise TypeError(f"args: expected a mapping, got {value['args']!r}")
    expected = {name: _argument(item) for name, item in value["args"].items()}
    return ToolMatcher(tool, lambda given: _has(given, expected), f"with arguments {quoted(value['args'])}")


def _argument(value: Any) -> Any:
    return read_text(value) if isinstance(value, Mapping) and "regex" in value else value


def _has(given: Any, expected: Mapping[str, Any]) -> bool:
    if not isinstance(given, Mapping):
        return False
    return all(
        name in given
        and (contains(item, str(given[name])) if isinstance(item, TimedPattern) else same_value(given[name], item))
        for name, item in expected.items()
    )


def _with(check: Callable[..., Check], subject: Any, *arguments: Any) -> Check:
    """Carry out a check of a report, the last of the arguments."""
    *given, report = arguments
    return check(subject, report, *given)


def _each(check: Callable[..., Check], subject: Any, read: Callable[[Any], Any]) -> Callable[[Any], list[_Run]]:
    """A check of one matcher; a list is a check of each."""

    def prepare(value: Any) -> list[_Run]:
        matchers = [read(item) for item in (value if isinstance(value, list) else [value])]
        return [partial(_with, check, subject, matcher) for matcher in matchers]

    return prepare


def _number(check: Callable[..., Check], subject: Any, read: Callable[[Any], Any]) -> Callable[[Any], list[_Run]]:
    """A check of `{match, number}`, or of a list of them."""

    def prepare(value: Any) -> list[_Run]:
        pairs = [_counted(item, "match") for item in (value if isinstance(value, list) else [value])]
        return [partial(_with, check, subject, read(match), number) for match, number in pairs]

    return prepare


def _counted(value: Any, name: str) -> tuple[Any, int]:
    if not isinstance(value, Mapping) or name not in value:
        raise TypeError(f"expected a mapping with {name} and number, got {value!r}")
    require_known(value, (name, "number"), "a count")
    checks.require_count(value.get("number"))
    return value[name], value["number"]


def _several(check: Callable[..., Check], subject: Any, read: Callable[[Any], Any]) -> Callable[[Any], list[_Run]]:
    """A check of a list of matchers."""

    def prepare(value: Any) -> list[_Run]:
        matchers = [read(item) for item in checks.require_list(value)]
        return [partial(_with, check, subject, matchers)]

    return prepare


def _order(check: Callable[..., Check], subject: Any, read: Callable[[Any], Any]) -> Callable[[Any], list[_Run]]:
    """A check of two matchers."""

    def prepare(value: Any) -> list[_Run]:
        if not isinstance(value, list) or len(value) != 2:
            raise TypeError(f"expected a list of two, got {value!r}")
        first, second = map(read, value)
        return [partial(_with, check, subject, first, second)]

    return prepare


def _size(value: Any) -> int:
    checks.require_count(value)
    return int(value)


_SHAPES: Mapping[str, tuple[Callable[..., Callable[[Any], list[_Run]]], Callable[..., Check]]] = {
    "includes": (_each, checks.includes),
    "has": (_each, checks.includes),
    "not_includes": (_each, checks.not_includes),
    "count": (_number, checks.count),
    "at_least": (_number, checks.at_least),
    "at_most": (_number, checks.at_most),
    "before": (_order, checks.before),
    "only": (_several, checks.only),
    "exactly_one": (_each, checks.exactly_one),
    "first": (_each, checks.first),
    "last": (_each, checks.last),
    "sequence": (_several, checks.sequence),
}
"""How the argument of a check is written, and the check."""


@dataclass(frozen=True, kw_only=True)
class _SessionChecks:
    """Base: the checks of the given arguments, and the outcome."""

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    message: str | None = None
    explain: str | None = None
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        if not self.prepared:
            names = [field.name for field in fields(self) if field.name not in _NO_CHECKS]
            raise ValueError(f"needs at least one check: {', '.join(names)}")

    @cached_property
    def prepared(self) -> list[_Run]:
        """The checks. Raises ValueError naming the argument."""
        return [run for name, value in self._given() for run in self._prepare(name, value)]

    def _given(self) -> Iterator[tuple[str, Any]]:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in _NO_CHECKS and value is not None and value is not False:
                yield field.name, value

    def _prepare(self, name: str, value: Any) -> list[_Run]:
        try:
            return self._runs(name, value)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from None

    def _runs(self, name: str, value: Any) -> list[_Run]:
        raise NotImplementedError

    def evaluate(self, subject: Subject) -> Outcome:
        if self._needs_session and not shows_session(subject.report):
            reason = "the report shows no session: what the agent did is unknown"
            return missing(self.on_missing, reason)
        try:
            results = [run(subject.report) for run in self.prepared]
        except TimeoutError:
            return Outcome(None, f"a pattern took longer than {TIME_LIMIT_S:g} s to match")
        return self._outcome(results)

    _needs_session: ClassVar[bool] = True

    def _outcome(self, results: Sequence[Check]) -> Outcome:
        failures = [result for result in results if not result.passed]
        findings = tuple(Finding(f"The agent is to {check.goal}", check.passed, check.observed) for check in results)
        if not failures:
            return Outcome(1.0, "; ".join(check.goal for check in results), findings)
        reason = "; ".join(check.message for check in failures)
        questions = [question for check in failures if (question := self.explain or check.question) is not None]
        details = {"questions": [{"question": question} for question in dict.fromkeys(questions)]} if questions else {}
        return Outcome(0.0, f"{self.message}. {reason}" if self.message else reason, findings, details)


@dataclass(frozen=True, kw_only=True)
class _OrderedChecks(_SessionChecks):
    """Base of checks over values in order."""

    subject: ClassVar[Any]
    read: ClassVar[Any]
    count: Any = None
    at_least: Any = None
    at_most: Any = None
    before: Any = None
    only: Any = None

    def _runs(self, name: str, value: Any) -> list[_Run]:
        if name == "size":
            number = _size(value)
            return [partial(_with, checks.size, self.subject, number)]
        shape, check = _SHAPES[name]
        return shape(check, self.subject, self.read)(value)


@dataclass(frozen=True, kw_only=True)
class _TextChecks(_OrderedChecks):
    """Base of checks over commands and file reads."""

    includes: Any = None
    not_includes: Any = None
    size: Any = None
    exactly_one: Any = None
    first: Any = None
    last: Any = None


@EVALUATORS.register("commands")
@dataclass(frozen=True, kw_only=True)
class CommandChecks(_TextChecks):
    """1 when the shell commands of the session are as each given argument requires.

    A matcher is a text that the command contains, `{regex, flags}`, or parts of a command: `executable`, `positionals`
    (in this order, others between), `options`, `end_of_options`, `strict` (nothing else). A shell's `-c` is unwrapped.
    """

    subject: ClassVar[Any] = COMMANDS
    read: ClassVar[Any] = staticmethod(read_command)


@EVALUATORS.register("file-reads")
@dataclass(frozen=True, kw_only=True)
class FileReadChecks(_TextChecks):
    """1 when the files that the session read are as each given argument requires; failed reads do not count.

    A matcher is a text that the path contains, or `{regex, flags}`.
    """

    subject: ClassVar[Any] = FILE_READS
    read: ClassVar[Any] = staticmethod(read_text)


@EVALUATORS.register("tool-calls")
@dataclass(frozen=True, kw_only=True)
class ToolCallChecks(_OrderedChecks):
    """1 when the tool calls of the session are as each given argument requires.

    A matcher is a text that the tool's name contains, `{regex, flags}`, or `{tool, args}`: arguments that the call has,
    each a value or `{regex, flags}`.
    """

    subject: ClassVar[Any] = TOOL_CALLS
    read: ClassVar[Any] = staticmethod(read_tool)
    has: Any = None
    sequence: Any = None


@EVALUATORS.register("skills")
@dataclass(frozen=True, kw_only=True)
class SkillChecks(_SessionChecks):
    """1 when the skills that the session used are as each given argument requires; names are compared exactly.

    `min_confidence` is the least sign that counts: `explicit` is a call of a skill tool, `strong` a read of the skill's
    SKILL.md.
    """

    has: Any = None
    not_has: Any = None
    includes: Any = None
    count: Any = None
    exactly_one: Any = None
    only: Any = None
    min_confidence: Confidence | None = None

    def _runs(self, name: str, value: Any) -> list[_Run]:
        least = self.min_confidence
        if name == "count":
            pairs = [_counted(item, "skill") for item in (value if isinstance(value, list) else [value])]
            return [partial(_of_skill, checks.counts_skill, least, _name(skill), number) for skill, number in pairs]
        names = [_name(item) for item in (value if isinstance(value, list) else [value])]
        if name in ("includes", "only"):
            check = checks.includes_skills if name == "includes" else checks.only_skills
            return [partial(_of_skill, check, least, names)]
        return [partial(_of_skill, _SKILL_CHECKS[name], least, skill) for skill in names]


def _of_skill(check: Callable[..., Check], least: str | None, *arguments: Any) -> Check:
    """Carry out a check of skills of a report, the last of the arguments."""
    *given, report = arguments
    return check(report, *given, least)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TypeError(f"expected the name of a skill, got {value!r}")
    return value


_SKILL_CHECKS: Mapping[str, Callable[..., Check]] = {
    "has": checks.has_skill,
    "not_has": checks.has_no_skill,
    "exactly_one": lambda report, skill, least: checks.counts_skill(report, skill, 1, least),
}


@EVALUATORS.register("output")
@dataclass(frozen=True, kw_only=True)
class OutputChecks(_SessionChecks):
    """1 when the final output is as each given argument requires: `includes` a text or `{regex, flags}`, `not_empty`.

    White space is an output that is not empty.
    """

    _needs_session: ClassVar[bool] = False
    includes: Any = None
    not_empty: bool | None = None

    def _runs(self, name: str, value: Any) -> list[_Run]:
        if name == "not_empty":
            return [checks.output_not_empty]
        matchers = [read_text(item) for item in (value if isinstance(value, list) else [value])]
        return [partial(_of_output, matcher) for matcher in matchers]


def _of_output(matcher: Text, report: Any) -> Check:
    return checks.output_includes(report, matcher)
