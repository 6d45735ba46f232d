"""Checks over a session report: one set of functions for Python suites and for evaluators in YAML.

A check returns a `Check`; it raises only for arguments that are none. Ported suites depend on its order and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.reports.model import DetectedSkill, FileReadEvent, SessionReport, ToolCallEvent
from eval_pipeline.scores.assertions.command_line import parse_command, quoted
from eval_pipeline.scores.assertions.matching import (
    CommandMatcher,
    ToolMatcher,
    command_matcher,
    contains,
    nearest_text,
    shown,
    text_matcher,
    tool_matcher,
)
from eval_pipeline.scores.session_facts import detected_skills, missing_in_order

STRENGTHS = ("weak", "medium", "strong", "explicit")
"""Confidence of a detected skill, from the least."""
_MOST_SHOWN = 30
_LONGEST_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The result of one check.

    `goal` is what the agent was expected to do, as an infinitive; `found` what the check counted or missed; `question`
    is what the agent can be asked about a failure, None for the output, which nobody asks about.
    """

    passed: bool
    goal: str
    observed: str
    found: str | None = None
    nearest: str | None = None
    question: str | None = None

    @property
    def message(self) -> str:
        """Expected, found, observed and the nearest candidate, in sentences."""
        parts = [f"Expected the agent to {self.goal}", self.found, self.observed]
        parts += [f"Nearest: {_cut(self.nearest)}"] if self.nearest is not None else []
        return ". ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Subject:
    """What a group of checks is about: its words, the values in a report, how one matches and is shown."""

    verb: str
    one: str
    many: str
    values: Callable[[Any], Sequence[Any]]
    matcher: Callable[[Any], Any]
    matches: Callable[[Any, Any], bool]
    shown: Callable[[Any], str]
    text: Callable[[Any], str]

    def observed(self, values: Sequence[Any]) -> str:
        """Return the observed values in one sentence."""
        return f"Observed {self.many}: {listed(map(self.shown, values))}"

    def result(
        self, passed: bool, goal: str, values: Sequence[Any], found: str | None = None, like: Any = None
    ) -> Check:
        """Return a check; `like` is the matcher whose nearest candidate a failure shows."""
        texts = [] if passed or like is None else [self.text(value) for value in values]
        near = nearest_text(_nearest_of(like), texts) if texts else None
        question = _question(goal, passed)
        return Check(passed=passed, goal=goal, observed=self.observed(values), found=found, nearest=near,
                     question=question)  # fmt: skip


def _question(goal: str, passed: bool) -> str | None:
    """Return what the agent can be asked about a failed check: why it did what it should not, or did not what it
    should."""
    asked = "Why did you do that?" if goal.startswith("not ") else "Why did you not do that?"
    return None if passed else f"You were expected to {goal}. {asked}"


def _nearest_of(matcher: Any) -> Any:
    return matcher.tool or "" if isinstance(matcher, ToolMatcher) else matcher


def listed(values: Iterable[str]) -> str:
    """Return values in one line: `a | b`, `(none)`, long ones cut."""
    texts = [_cut(value) for value in values]
    more = [f"… and {len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else []
    return " | ".join([*texts[:_MOST_SHOWN], *more]) or "(none)"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def commands_in(report: SessionReport | Sequence[str]) -> Sequence[str]:
    """Return the commands of a report, or texts as they are."""
    return report.commands if isinstance(report, SessionReport) else _texts(report)


def file_reads_in(report: SessionReport | Sequence[str]) -> Sequence[str]:
    """Return the paths that a session read successfully or without a known failure, one for each read."""
    if not isinstance(report, SessionReport):
        return _texts(report)
    return tuple(event.path for event in report.events if isinstance(event, FileReadEvent) and event.ok is not False)


def tool_calls_in(report: SessionReport | Sequence[ToolCallEvent]) -> Sequence[ToolCallEvent]:
    """Return the tool calls of a report, or calls as they are."""
    return report.tool_calls if isinstance(report, SessionReport) else tuple(report)


def _texts(values: Any) -> Sequence[str]:
    session = getattr(values, "report", None)
    if isinstance(session, SessionReport):
        raise TypeError("expected the report, got the context: pass `report`, or `ctx.report`")
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TypeError(f"expected a report or a list of texts, got {values!r:.100}")
    return tuple(values)


def _command_matches(matcher: Any, line: str) -> bool:
    return matcher.matches(line) if isinstance(matcher, CommandMatcher) else contains(matcher, line)


def _shown_command(line: str) -> str:
    return f"{line} parsed ({parse_command(line).shown})"


def _shown_call(call: ToolCallEvent) -> str:
    return call.tool if call.arguments is None else f"{call.tool} {_compact(call.arguments)}"


def _compact(value: Any) -> str:
    return value if isinstance(value, str) else quoted(value)


COMMANDS = Subject(
    "run", "a command", "commands", commands_in, command_matcher, _command_matches, _shown_command, str
)  # fmt: skip
FILE_READS = Subject("read", "a file", "file reads", file_reads_in, text_matcher, contains, str, str)
TOOL_CALLS = Subject(
    "make", "a tool call", "tool calls", tool_calls_in, tool_matcher, ToolMatcher.matches, _shown_call,
    lambda call: str(call.tool),
)  # fmt: skip


# Values in order: commands, file reads, tool calls.


def _hits(subject: Subject, values: Sequence[Any], matcher: Any) -> list[int]:
    return [place for place, value in enumerate(values) if subject.matches(matcher, value)]


def includes(subject: Subject, report: Any, matcher: Any) -> Check:
    """Return whether some value matches."""
    values, wanted = subject.values(report), subject.matcher(matcher)
    goal = f"{subject.verb} {subject.one} matching {shown(wanted)}"
    return subject.result(any(subject.matches(wanted, value) for value in values), goal, values, like=wanted)


def not_includes(subject: Subject, report: Any, matcher: Any) -> Check:
    """Return whether no value matches."""
    values, wanted = subject.values(report), subject.matcher(matcher)
    hits = _hits(subject, values, wanted)
    goal = f"not {subject.verb} {subject.one} matching {shown(wanted)}"
    found = f"Unexpected: {listed(subject.shown(values[place]) for place in hits)}" if hits else None
    return subject.result(not hits, goal, values, found)


def _counted(
    subject: Subject, report: Any, matcher: Any, words: str, number: int, holds: Callable[[int], bool]
) -> Check:
    require_count(number)
    values, wanted = subject.values(report), subject.matcher(matcher)
    hits = len(_hits(subject, values, wanted))
    goal = f"{subject.verb} {words} {number} {subject.many} matching {shown(wanted)}"
    return subject.result(holds(hits), goal, values, f"Found {hits}", like=wanted if hits < number else None)


def require_count(number: Any) -> None:
    """Raise TypeError or ValueError for what is no number of things."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"expected a whole number, got {number!r}")
    if number < 0:
        raise ValueError(f"expected a number of at least 0, got {number}")


def count(subject: Subject, report: Any, matcher: Any, number: int) -> Check:
    """Return whether exactly `number` values match."""
    return _counted(subject, report, matcher, "exactly", number, lambda hits: hits == number)


def at_least(subject: Subject, report: Any, matcher: Any, number: int) -> Check:
    """Return whether `number` values or more match."""
    return _counted(subject, report, matcher, "at least", number, lambda hits: hits >= number)


def at_most(subject: Subject, report: Any, matcher: Any, number: int) -> Check:
    """Return whether no more than `number` values match."""
    return _counted(subject, report, matcher, "at most", number, lambda hits: hits <= number)


def exactly_one(subject: Subject, report: Any, matcher: Any) -> Check:
    """Return whether one value matches, and only one."""
    return count(subject, report, matcher, 1)


def before(subject: Subject, report: Any, first: Any, second: Any) -> Check:
    """Return whether the first match of `first` comes before the first match of `second`."""
    values = subject.values(report)
    wanted = [subject.matcher(first), subject.matcher(second)]
    places = [next(iter(_hits(subject, values, matcher)), None) for matcher in wanted]
    one, other = shown(wanted[0]), shown(wanted[1])
    goal = f"{subject.verb} {subject.one} matching {one} before {subject.one} matching {other}"
    for place, matcher, which in zip(places, wanted, ("first", "second"), strict=True):
        if place is None:
            return subject.result(False, goal, values, f"The {which} was not found", like=matcher)
    early, late = (place or 0 for place in places)
    return subject.result(early < late, goal, values, f"First matches at positions {early + 1} and {late + 1}")


def only(subject: Subject, report: Any, matchers: Sequence[Any]) -> Check:
    """Return whether every value matches one of the matchers; a missing one is no failure."""
    values, wanted = subject.values(report), [subject.matcher(matcher) for matcher in require_list(matchers)]
    others = [value for value in values if not any(subject.matches(matcher, value) for matcher in wanted)]
    goal = f"{subject.verb} only {subject.many} matching one of: {', '.join(map(shown, wanted)) or '(none)'}"
    found = f"Unexpected: {listed(map(subject.shown, others))}" if others else None
    return subject.result(not others, goal, values, found)


def require_list(value: Any) -> Sequence[Any]:
    """Return a list of matchers. Raises TypeError for a single one."""
    if isinstance(value, (list, tuple)):
        return value
    raise TypeError(f"expected a list, got {value!r}")


def size(subject: Subject, report: Any, number: int) -> Check:
    """Return whether there are exactly `number` values."""
    require_count(number)
    values = subject.values(report)
    goal = f"{subject.verb} exactly {number} {subject.many}"
    return subject.result(len(values) == number, goal, values, f"Found {len(values)}")


def first(subject: Subject, report: Any, matcher: Any) -> Check:
    """Return whether the first value matches."""
    return _at_end(subject, report, matcher, 0, "first")


def last(subject: Subject, report: Any, matcher: Any) -> Check:
    """Return whether the last value matches."""
    return _at_end(subject, report, matcher, -1, "last")


def _at_end(subject: Subject, report: Any, matcher: Any, place: int, word: str) -> Check:
    values, wanted = subject.values(report), subject.matcher(matcher)
    passed = bool(values) and subject.matches(wanted, values[place])
    goal = f"{subject.verb} {subject.one} matching {shown(wanted)} {word}"
    return subject.result(passed, goal, values, like=wanted)


def sequence(subject: Subject, report: Any, matchers: Sequence[Any]) -> Check:
    """Return whether values match in this order, with others between."""
    values, wanted = subject.values(report), [subject.matcher(matcher) for matcher in require_list(matchers)]
    missing = missing_in_order(values, wanted, subject.matches)
    goal = f"{subject.verb} {subject.many} in this order: {' -> '.join(map(shown, wanted))}"
    if missing is None:
        return subject.result(True, goal, values)
    found = f"Number {missing + 1}, {shown(wanted[missing])}, was not found after the ones before"
    return subject.result(False, goal, values, found, like=wanted[missing])


# Skills.


def _skills(report: Any, min_confidence: str | None) -> list[DetectedSkill]:
    if not isinstance(report, SessionReport):
        raise TypeError(f"expected a report, got {report!r:.100}")
    if min_confidence is None:
        return list(detected_skills(report))
    if min_confidence not in STRENGTHS:
        raise ValueError(f"min_confidence: expected one of {', '.join(STRENGTHS)}, got {min_confidence!r}")
    least = STRENGTHS.index(min_confidence)
    return [skill for skill in detected_skills(report) if STRENGTHS.index(skill.confidence) >= least]


def _skill_check(
    passed: bool, goal: str, report: Any, least: str | None, found: str | None = None, like: str | None = None
) -> Check:
    every = _skills(report, None)
    goal += f" with a confidence of at least {least}" if least is not None else ""
    observed = f"Observed skills: {listed(f'{skill.skill} ({skill.confidence})' for skill in every)}"
    near = nearest_text(like, [skill.skill for skill in every]) if like is not None and not passed else None
    question = _question(goal, passed)
    return Check(passed=passed, goal=goal, observed=observed, found=found, nearest=near, question=question)


def has_skill(report: Any, skill: str, min_confidence: str | None = None) -> Check:
    """Return whether a skill was used; its name is compared exactly."""
    passed = any(used.skill == skill for used in _skills(report, min_confidence))
    return _skill_check(passed, f"use the skill {quoted(skill)}", report, min_confidence, like=skill)


def has_no_skill(report: Any, skill: str, min_confidence: str | None = None) -> Check:
    """Return whether a skill was not used."""
    passed = all(used.skill != skill for used in _skills(report, min_confidence))
    return _skill_check(passed, f"not use the skill {quoted(skill)}", report, min_confidence)


def includes_skills(report: Any, skills: Sequence[str], min_confidence: str | None = None) -> Check:
    """Return whether all of these skills were used."""
    used = {skill.skill for skill in _skills(report, min_confidence)}
    missing = [skill for skill in require_list(skills) if skill not in used]
    found = f"Missing: {', '.join(map(quoted, missing))}" if missing else None
    goal = f"use all of the skills {', '.join(map(quoted, skills)) or '(none)'}"
    return _skill_check(not missing, goal, report, min_confidence, found, like=missing[0] if missing else None)


def counts_skill(report: Any, skill: str, number: int, min_confidence: str | None = None) -> Check:
    """Return whether a skill was detected exactly `number` times."""
    require_count(number)
    hits = sum(used.skill == skill for used in _skills(report, min_confidence))
    goal = f"use the skill {quoted(skill)} exactly {number} times"
    return _skill_check(hits == number, goal, report, min_confidence, f"Found {hits}", like=skill)


def only_skills(report: Any, skills: Sequence[str], min_confidence: str | None = None) -> Check:
    """Return whether no other skills were used."""
    allowed = require_list(skills)
    others = [used for used in _skills(report, min_confidence) if used.skill not in allowed]
    found = f"Unexpected: {listed(f'{used.skill} ({used.confidence})' for used in others)}" if others else None
    goal = f"use no skills but {', '.join(map(quoted, allowed)) or '(none)'}"
    return _skill_check(not others, goal, report, min_confidence, found)


# The output.


def output_includes(report: Any, matcher: Any) -> Check:
    """Return whether the final output contains a text, or a pattern matches in it."""
    text, wanted = _output(report), text_matcher(matcher)
    goal = f"end with an output that includes {shown(wanted)}"
    passed = contains(wanted, text)
    near = None if passed else nearest_text(wanted, [line for line in text.splitlines() if line.strip()])
    return Check(passed=passed, goal=goal, observed=_observed_output(text), nearest=near)


def output_not_empty(report: Any) -> Check:
    """Return whether there is a final output; white space is one."""
    text = _output(report)
    return Check(passed=bool(text), goal="end with an output", observed=_observed_output(text))


def _output(report: Any) -> str:
    return report if isinstance(report, str) else report.final_output or ""


def _observed_output(text: str) -> str:
    return f"Observed final output: {_cut(text) or '(empty)'}"
