"""`trajectory:tool-used`, `trajectory:tool-args-match`, `trajectory:tool-sequence` and `trajectory:step-count`.

Steps are unknown for a report that shows no session, only an answer; a session without steps made none.
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
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import Step, missing_in_order, shows_session, steps_of
from eval_pipeline.scores.steps import Count, Matcher, globs, read_count, read_matcher
from eval_pipeline.suites.arguments import same_value

_SHOWN = 300
_BOUNDS = ("min", "max")


@dataclass(frozen=True, kw_only=True)
class _OverSteps:
    """Base of these evaluators: `value`, and the outcome for a report that shows no session."""

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "2"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Any
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _ = self.expected

    @cached_property
    def expected(self) -> Any:
        """The parsed `value`. Raises ValueError."""
        raise NotImplementedError

    def evaluate(self, subject: Subject) -> Outcome:
        if not shows_session(subject.report):
            return missing(self.on_missing, "the report shows no session: steps are unknown")
        passed, reason = self.look(list(steps_of(subject.report)))
        return Outcome(float(passed), reason, (Finding(reason, passed),))

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        """Return whether the steps are as expected, and the reason."""
        raise NotImplementedError


@EVALUATORS.register("trajectory:tool-used")
@dataclass(frozen=True, kw_only=True)
class ToolUsed(_OverSteps):
    """1 when the tools of `value` were called: a name, a list of names, or `{pattern, min, max}`.

    `*` and `?` in names are wildcards. `{type: read}` means any tool of that kind, whatever an agent calls it. Shell
    commands are not tools here (see `trajectory:step-count`).
    """

    @cached_property
    def expected(self) -> list[tuple[Matcher, Count]]:
        """The tools, each with its bounds."""
        if isinstance(self.value, list):
            if not self.value or not all(isinstance(name, str) for name in self.value):
                raise ValueError("value: expected names of tools")
            return [(read_matcher(name, of_type="tool"), Count()) for name in self.value]
        matcher = read_matcher(self.value, of_type="tool", more=_BOUNDS)
        return [(matcher, read_count(self.value) if isinstance(self.value, Mapping) else Count())]

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        counted = [(tool, count, sum(map(tool.matches, steps))) for tool, count in self.expected]
        reason = "; ".join(
            f"{tool.shown} was called {number} times, {count.shown} expected" for tool, count, number in counted
        )
        return all(count.holds(number) for _, count, number in counted), reason


@EVALUATORS.register("not-trajectory:tool-used")
@dataclass(frozen=True, kw_only=True)
class ToolNotUsed(ToolUsed):
    """1 when none of the tools of `value` was called, or none as often as `{pattern, min, max}` requires."""

    def look(self, steps: Sequence[Step]) -> tuple[bool, str]:
        counted = [(tool, count, sum(map(tool.matches, steps))) for tool, count in self.expected]
        reason = "; ".join(f"{tool.shown} was called {number} times" for tool, _, number in counted)
        return not any(count.holds(number) for _, count, number in counted), reason


@EVALUATORS.register("trajectory:tool-sequence")
@dataclass(frozen=True, kw_only=True)
class ToolSequence(_OverSteps):
    """1 when tools were called in the order of `value`: a list of names, or `{steps, mode}`.

    `mode: in_order` allows other calls in between, `exact` does not.
    """

    @cached_property
    def expected(self) -> tuple[list[Matcher], bool]:
        """The tools in order, and whether other calls are excluded."""
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
        sequence, exact = self.expected
        tools = [step for step in steps if "tool" in step.types]
        called = ", ".join(step.shown for step in tools) or "none"
        if exact:
            same = len(tools) == len(sequence) and all(map(Matcher.matches, sequence, tools))
            expected = ", ".join(tool.shown for tool in sequence)
            return same, f"the tools called are {called}" + ("" if same else f", not {expected}")
        at = missing_in_order(tools, sequence, Matcher.matches)
        missing = f"{sequence[at].shown} was not called in its place; " if at is not None else ""
        return at is None, f"{missing}the tools called are {called}"


@EVALUATORS.register("trajectory:step-count")
@dataclass(frozen=True, kw_only=True)
class StepCount(_OverSteps):
    """1 when the number of steps of a `type` and `pattern` is from `min` to `max` (fields of `value`).

    Types are `command`, `message`, `reasoning`, `search` and `tool`. The names of a command are its line and program.
    """

    @cached_property
    def expected(self) -> tuple[Matcher, Count]:
        """The steps and their bounds."""
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
    """1 when a call of a tool (`name` or `pattern` in `value`) has the arguments `args`.

    `mode: partial` (the default) allows further arguments, `exact` does not. Arguments named by `ignore` (`*` and `?`
    are wildcards) are left out, and those with the value that `defaults` gives them.
    """

    @cached_property
    def expected(self) -> Matcher:
        """The tool; the other fields are validated."""
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
        expected = self.value.get("args", self.value.get("arguments"))
        match = next(
            (step for step in calls if step.arguments is not None and self._fits(step.arguments, expected)), None
        )
        if match is not None:
            return True, f"{match.shown} was called with {_json(match.arguments)}"
        if not calls:
            return False, f"{self.expected.shown} was never called"
        seen = ", ".join(_json(step.arguments) for step in calls)
        return False, f"{self.expected.shown} was never called with {_json(expected)}, but with {seen[:_SHOWN]}"

    def _fits(self, arguments: Any, expected: Any) -> bool:
        defaults = self.value.get("defaults", {})
        given = self._compared(arguments)
        if isinstance(given, Mapping):
            given = {
                name: value
                for name, value in given.items()
                if name not in defaults or not same_value(value, defaults[name])
            }
        expected = self._compared(expected)
        return same_value(given, expected) if self.value.get("mode") == "exact" else _holds(given, expected)

    def _compared(self, arguments: Any) -> Any:
        """The arguments without the ignored ones."""
        if not isinstance(arguments, Mapping):
            return arguments
        return {
            name: value
            for name, value in arguments.items()
            if not any(
                globs(pattern, name) if {"*", "?"} & set(pattern) else pattern == name for pattern in self._ignored
            )
        }


def _holds(given: Any, expected: Any) -> bool:
    """Return whether a value contains another: of mappings every entry, of lists every item in its place."""
    if isinstance(expected, Mapping):
        return isinstance(given, Mapping) and all(
            name in given and _holds(given[name], value) for name, value in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(given, list) and len(given) == len(expected) and all(map(_holds, given, expected))
    return same_value(given, expected)


def _json(value: Any) -> str:
    return to_json(value).decode()
