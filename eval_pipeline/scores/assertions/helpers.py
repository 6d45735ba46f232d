"""The words that checks of Python suites are written in: `skills.has(report, "x")`, `commands.includes(…)`, `soft`, …

Each raises `CheckFailed`, an AssertionError, with what was expected, what was observed and the nearest candidate.
`soft` has the same words; its failures are collected and end the case together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eval_pipeline.scores.assertions import checks
from eval_pipeline.scores.assertions.checks import COMMANDS, FILE_READS, TOOL_CALLS, Check, Subject
from eval_pipeline.scores.assertions.failed_checks import (
    CheckFailed,
    Question,
    keep_soft,
    surrounding_question,
    user_line,
)
from eval_pipeline.scores.assertions.matching import Pattern
from eval_pipeline.scores.near_words import nearest_word

Explain = str | Mapping[str, Any] | Callable[..., str | None] | None
"""The question of a failed check: a text, a mapping with `question`, or a function of the facts of the failure."""


def _raise(error: AssertionError) -> None:
    raise error


class _Group:
    """Helpers of one kind. `fail` takes a failure: it raises it, or collects it."""

    def __init__(self, fail: Callable[[AssertionError], None] = _raise) -> None:
        self._fail = fail

    def _require(self, check: Check, message: str | None, explain: Explain, report: Any) -> None:
        if check.passed:
            return
        text = f"{message}. {check.message}" if message else check.message
        question = _question(check, explain, report)
        questions = () if question is None else (Question(question, user_line()),)
        self._fail(CheckFailed(text, questions))

    def __getattr__(self, name: str) -> Any:
        known = [word for word in dir(self) if not word.startswith("_")]
        near = nearest_word(_snake(name), known)
        hint = f"; did you mean '{near}'?" if near is not None else ""
        raise AttributeError(f"no helper '{name}'; there are: {', '.join(known)}{hint}")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def _question(check: Check, explain: Explain, report: Any) -> str | None:
    if isinstance(explain, Mapping):
        explain = explain.get("question")
    if callable(explain):
        return explain({"report": report, "expected": check.goal, "actual": check.found, "observed": check.observed})
    return explain or surrounding_question() or check.question


class _Ordered(_Group):
    """Helpers over values in order."""

    _subject: Subject

    def count(
        self, report: Any, matcher: Any, number: int, *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require exactly `number` matches."""
        self._require(checks.count(self._subject, report, matcher, number), message, explain, report)

    def at_least(
        self, report: Any, matcher: Any, number: int, *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require `number` matches or more."""
        self._require(checks.at_least(self._subject, report, matcher, number), message, explain, report)

    def at_most(
        self, report: Any, matcher: Any, number: int, *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require no more than `number` matches."""
        self._require(checks.at_most(self._subject, report, matcher, number), message, explain, report)

    def before(
        self, report: Any, first: Any, second: Any, *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require the first match of `first` before the first match of `second`."""
        self._require(checks.before(self._subject, report, first, second), message, explain, report)

    def only(
        self, report: Any, matchers: Sequence[Any], *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require that every observed value matches one of `matchers`."""
        self._require(checks.only(self._subject, report, matchers), message, explain, report)


class _Texts(_Ordered):
    """Helpers over commands and file reads."""

    def includes(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require a match."""
        self._require(checks.includes(self._subject, report, matcher), message, explain, report)

    def not_includes(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require that nothing matches."""
        self._require(checks.not_includes(self._subject, report, matcher), message, explain, report)

    def size(self, report: Any, number: int, *, message: str | None = None, explain: Explain = None) -> None:
        """Require exactly `number` values."""
        self._require(checks.size(self._subject, report, number), message, explain, report)

    def exactly_one(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require one match and only one."""
        self._require(checks.exactly_one(self._subject, report, matcher), message, explain, report)

    def first(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require that the first value matches."""
        self._require(checks.first(self._subject, report, matcher), message, explain, report)

    def last(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require that the last value matches."""
        self._require(checks.last(self._subject, report, matcher), message, explain, report)


class Commands(_Texts):
    """Checks of shell commands: a text is contained in the command, a pattern matches in it, `command()` compares its
    parts."""

    _subject = COMMANDS


class FileReads(_Texts):
    """Checks of the files that were read, by absolute path."""

    _subject = FILE_READS


class ToolCalls(_Ordered):
    """Checks of tool calls: a text or pattern for the tool's name, or `{"tool": …, "where": function}`."""

    _subject = TOOL_CALLS

    def has(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require a match."""
        self._require(checks.includes(self._subject, report, matcher), message, explain, report)

    def sequence(
        self, report: Any, matchers: Sequence[Any], *, message: str | None = None, explain: Explain = None
    ) -> None:
        """Require matches in this order, with others between."""
        self._require(checks.sequence(self._subject, report, matchers), message, explain, report)


class Skills(_Group):
    """Checks of the skills that were used, by exact name; `min_confidence` is `weak`, `medium`, `strong` or
    `explicit`."""

    def has(self, report: Any, skill: str, *, min_confidence: str | None = None, message: str | None = None,
            explain: Explain = None) -> None:  # fmt: skip
        """Require a skill."""
        self._require(checks.has_skill(report, skill, min_confidence), message, explain, report)

    def not_has(self, report: Any, skill: str, *, min_confidence: str | None = None, message: str | None = None,
                explain: Explain = None) -> None:  # fmt: skip
        """Require that a skill was not used."""
        self._require(checks.has_no_skill(report, skill, min_confidence), message, explain, report)

    def includes(self, report: Any, skills: Sequence[str], *, min_confidence: str | None = None,
                 message: str | None = None, explain: Explain = None) -> None:  # fmt: skip
        """Require all of these skills."""
        self._require(checks.includes_skills(report, skills, min_confidence), message, explain, report)

    def count(self, report: Any, skill: str, number: int, *, min_confidence: str | None = None,
              message: str | None = None, explain: Explain = None) -> None:  # fmt: skip
        """Require that a skill was detected exactly `number` times."""
        self._require(checks.counts_skill(report, skill, number, min_confidence), message, explain, report)

    def exactly_one(self, report: Any, skill: str, *, min_confidence: str | None = None, message: str | None = None,
                    explain: Explain = None) -> None:  # fmt: skip
        """Require that a skill was detected once."""
        self._require(checks.counts_skill(report, skill, 1, min_confidence), message, explain, report)

    def only(self, report: Any, skills: Sequence[str], *, min_confidence: str | None = None,
             message: str | None = None, explain: Explain = None) -> None:  # fmt: skip
        """Require that no other skills were used."""
        self._require(checks.only_skills(report, skills, min_confidence), message, explain, report)


class Output(_Group):
    """Checks of the final output."""

    def includes(self, report: Any, matcher: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require a text in the output, or a pattern that matches in it."""
        self._require(checks.output_includes(report, matcher), message, explain, report)

    def not_empty(self, report: Any, *, message: str | None = None, explain: Explain = None) -> None:
        """Require an output; white space is one."""
        self._require(checks.output_not_empty(report), message, explain, report)


def _search(pattern: str | Pattern, text: str) -> bool:
    return bool(re.search(pattern, text) if isinstance(pattern, str) else pattern.search(text))


def _shown(pattern: str | Pattern) -> str:
    return repr(pattern if isinstance(pattern, str) else pattern.pattern)


class Soft:
    """Checks whose failures are collected: `soft.skills.has(…)`, `soft(condition, message)`, `with soft: assert …`."""

    def __init__(self) -> None:
        self.skills = Skills(keep_soft)
        self.commands = Commands(keep_soft)
        self.file_reads = FileReads(keep_soft)
        self.tool_calls = ToolCalls(keep_soft)
        self.output = Output(keep_soft)

    def __call__(self, condition: object, message: str = "assertion failed") -> None:
        """Require that a condition is true."""
        if not condition:
            keep_soft(CheckFailed(message))

    ok = __call__

    def equal(self, actual: object, expected: object, message: str | None = None) -> None:
        """Require that two values are equal."""
        if actual != expected:
            keep_soft(CheckFailed(message or f"Expected {expected!r}, got {actual!r}"))

    deep_equal = equal

    def not_equal(self, actual: object, expected: object, message: str | None = None) -> None:
        """Require that two values are not equal."""
        if actual == expected:
            keep_soft(CheckFailed(message or f"Expected anything but {expected!r}"))

    def match(self, text: str, pattern: str | Pattern, message: str | None = None) -> None:
        """Require that a pattern matches anywhere in a text."""
        if not _search(pattern, text):
            keep_soft(CheckFailed(message or f"Expected a text matching {_shown(pattern)}, got {text!r}"))

    def does_not_match(self, text: str, pattern: str | Pattern, message: str | None = None) -> None:
        """Require that a pattern matches nowhere in a text."""
        if _search(pattern, text):
            keep_soft(CheckFailed(message or f"Expected no text matching {_shown(pattern)}, got {text!r}"))

    def fail(self, message: str = "assertion failed") -> None:
        """Fail."""
        keep_soft(CheckFailed(message))

    def __enter__(self) -> Soft:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, AssertionError):
            return False
        keep_soft(error)
        return True


skills, commands, file_reads, tool_calls, output = Skills(), Commands(), FileReads(), ToolCalls(), Output()
soft = Soft()
