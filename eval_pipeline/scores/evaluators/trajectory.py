"""`trajectory:tool-used`, `trajectory:tool-args-match`, `trajectory:tool-sequence` and `trajectory:step-count`.

A report that shows no session, only an answer, says nothing about steps; a session without any has made none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.fingerprints import to_json
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS
from eval_pipeline.scores.evaluators.budgets import OnMissing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import Step, shows_session, steps_of
from eval_pipeline.scores.steps import Count, Matcher, globs, read_count, read_matcher

_SHOWN = 300
_BOUNDS = ("min", "max")


@dataclass(frozen=True, kw_only=True)
class _OverSteps:
    """What these evaluators have in common: `value`, and what a session that was not shown means."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Any
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _ = self.expected

    @cached_property
    def expected(self) -> Any:
        """What `value` asks for. Raises ValueError."""
        raise NotImplementedError

    def evaluate(self, subject: Subject) -> Outcome:
        if not shows_session(subject.report):
            return Outcome(0.0 if self.on_missing == "fail" else None, "the report shows no session: steps are unknown")
        passed, reason = self.look(list(steps_of(subject.report)))
        return Outcome(float(passed), reason, (Finding(reason, passed),))

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        """Whether the steps are as expected, and why."""
        raise NotImplementedError


@EVALUATORS.register("trajectory:tool-used")
@dataclass(frozen=True, kw_only=True)
class ToolUsed(_OverSteps):
    """1 when the tools were called that `value` names: a name, a list of names, or `{pattern, min, max}`.

    In names, `*` and `?` stand for what is not known. Shell commands are no tools here (see `trajectory:step-count`).
    """

    @cached_property
    def expected(self) -> list[tuple[Matcher, Count]]:
        """The tools, each with how often."""
        if isinstance(self.value, list):
            if not self.value or not all(isinstance(one, str) for one in self.value):
                raise ValueError("value: expected names of tools")
            return [(read_matcher(one, of_type="tool"), Count()) for one in self.value]
        matcher = read_matcher(self.value, of_type="tool", more=_BOUNDS)
        return [(matcher, read_count(self.value) if isinstance(self.value, Mapping) else Count())]

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        counted = [(one, count, sum(map(one.matches, steps))) for one, count in self.expected]
        told = "; ".join(
            f"{one.shown} was called {number} times, {count.shown} expected" for one, count, number in counted
        )
        return all(count.holds(number) for _, count, number in counted), told


@EVALUATORS.register("not-trajectory:tool-used")
@dataclass(frozen=True, kw_only=True)
class ToolNotUsed(ToolUsed):
    """1 when none of the tools was called that `value` names, or one not as often as `{pattern, min, max}` says."""

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        counted = [(one, count, sum(map(one.matches, steps))) for one, count in self.expected]
        told = "; ".join(f"{one.shown} was called {number} times" for one, _, number in counted)
        return not any(count.holds(number) for _, count, number in counted), told


@EVALUATORS.register("trajectory:tool-sequence")
@dataclass(frozen=True, kw_only=True)
class ToolSequence(_OverSteps):
    """1 when tools were called in the order of `value`: a list of names, or `{steps, mode}`.

    `mode: in_order` lets other calls stand between, `exact` does not.
    """

    @cached_property
    def expected(self) -> tuple[list[Matcher], bool]:
        """The tools in order, and whether no others may be called."""
        steps = self.value.get("steps") if isinstance(self.value, Mapping) else self.value
        mode = self.value.get("mode", "in_order") if isinstance(self.value, Mapping) else "in_order"
        if isinstance(self.value, Mapping) and set(self.value) - {"steps", "mode"}:
            raise ValueError("value: expected a mapping with steps and mode and nothing else")
        if not isinstance(steps, list) or not steps:
            raise ValueError("value: expected a list of tools, or a mapping with steps (a list) and mode")
        if mode not in ("in_order", "exact"):
            raise ValueError(f"value: mode: expected in_order or exact, got {mode!r}")
        return [read_matcher(step, of_type="tool") for step in steps], mode == "exact"

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        wanted, exact = self.expected
        tools = [step for step in steps if "tool" in step.types]
        called = ", ".join(step.shown for step in tools) or "none"
        if exact:
            same = len(tools) == len(wanted) and all(map(Matcher.matches, wanted, tools))
            expected = ", ".join(one.shown for one in wanted)
            return same, f"the tools called are {called}" + ("" if same else f", not {expected}")
        remaining = list(wanted)
        for step in tools:
            if remaining and remaining[0].matches(step):
                remaining.pop(0)
        missing = f"{remaining[0].shown} was not called in its place; " if remaining else ""
        return not remaining, f"{missing}the tools called are {called}"


@EVALUATORS.register("trajectory:step-count")
@dataclass(frozen=True, kw_only=True)
class StepCount(_OverSteps):
    """1 when there were from `min` to `max` of the steps that `value` (a mapping) tells by `type` and `pattern`.

    Types are `command`, `message`, `reasoning`, `search` and `tool`. A command is known by its line and its program.
    """

    @cached_property
    def expected(self) -> tuple[Matcher, Count]:
        """Which steps, and how many."""
        if not isinstance(self.value, Mapping):
            raise ValueError("value: expected a mapping with min or max, type and pattern")
        return read_matcher(self.value, named=False, more=_BOUNDS), read_count(self.value, required=True, least=0)

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        matcher, count = self.expected
        number = sum(map(matcher.matches, steps))
        return count.holds(number), f"{number} steps are {matcher.shown}, {count.shown} expected"


@EVALUATORS.register("trajectory:tool-args-match")
@dataclass(frozen=True, kw_only=True)
class ToolArgsMatch(_OverSteps):
    """1 when a call of the tool that `value` names (`name` or `pattern`) has the arguments `args`.

    `mode: partial` (the default) allows further arguments, `exact` does not. Arguments that `ignore` names (`*` and `?`
    allowed) are not looked at; of `defaults`, those that the call gives with the default's value are not.
    """

    @cached_property
    def expected(self) -> Matcher:
        """The tool; the other fields are checked."""
        matcher = read_matcher(self.value, of_type="tool", more=("args", "arguments", "mode", "defaults", "ignore"))
        if not isinstance(self.value, Mapping) or not {"args", "arguments"} & set(self.value):
            raise ValueError("value: needs args (a mapping of arguments)")
        if self.value.get("mode", "partial") not in ("partial", "exact"):
            raise ValueError(f"value: mode: expected partial or exact, got {self.value['mode']!r}")
        if not isinstance(self.value.get("defaults", {}), Mapping):
            raise ValueError("value: defaults: expected a mapping of arguments")
        if not all(isinstance(name, str) and name.strip() for name in self._ignored):
            raise ValueError("value: ignore: expected a name or a list of names")
        return matcher

    @property
    def _ignored(self) -> list[Any]:
        ignored = self.value.get("ignore", [])
        return ignored if isinstance(ignored, list) else [ignored]

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        calls = [step for step in steps if self.expected.matches(step)]
        wanted = self.value.get("args", self.value.get("arguments"))
        found = next(
            (step for step in calls if step.arguments is not None and self._fits(step.arguments, wanted)), None
        )
        if found is not None:
            return True, f"{found.shown} was called with {_json(found.arguments)}"
        if not calls:
            return False, f"{self.expected.shown} was never called"
        seen = ", ".join(_json(step.arguments) for step in calls)
        return False, f"{self.expected.shown} was never called with {_json(wanted)}, but with {seen[:_SHOWN]}"

    def _fits(self, arguments: Any, wanted: Any) -> bool:
        defaults = self.value.get("defaults", {})
        given = self._looked_at(arguments)
        if isinstance(given, Mapping):
            given = {name: one for name, one in given.items() if name not in defaults or not _same(one, defaults[name])}
        wanted = self._looked_at(wanted)
        return _same(given, wanted) if self.value.get("mode") == "exact" else _holds(given, wanted)

    def _looked_at(self, arguments: Any) -> Any:
        if not isinstance(arguments, Mapping):
            return arguments
        return {
            name: one
            for name, one in arguments.items()
            if not any(
                globs(pattern, name) if {"*", "?"} & set(pattern) else pattern == name for pattern in self._ignored
            )
        }


def _holds(given: Any, wanted: Any) -> bool:
    """Whether a value holds another: of mappings every entry, of lists every item in its place."""
    if isinstance(wanted, Mapping):
        return isinstance(given, Mapping) and all(
            name in given and _holds(given[name], one) for name, one in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(given, list) and len(given) == len(wanted) and all(map(_holds, given, wanted))
    return _same(given, wanted)


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON: 1 is 1.0 and not true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return set(one) == set(other) and all(_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _json(value: Any) -> str:
    return to_json(value).decode()
