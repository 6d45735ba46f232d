"""`skill-used`: which skills a session used, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.reports.model import SessionReport, SkillEvent, ToolCallEvent, ToolResultEvent
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS
from eval_pipeline.scores.evaluators.budgets import OnMissing
from eval_pipeline.scores.evaluators.skill_trigger import SKILL_TOOLS
from eval_pipeline.scores.evaluators.tool_trajectory import shows_calls
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.steps import Count, globs, read_count


@EVALUATORS.register("skill-used")
@dataclass(frozen=True, kw_only=True)
class SkillUsed:
    """1 when the skills were used that `value` names: a name, a list of names, or `{name or pattern, min, max}`.

    A plug-in's skill is known by its short name, too. Attempts that failed are no use. `not-skill-used` is the
    opposite: none of them was used.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "1"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Any
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _ = self.expected

    @cached_property
    def expected(self) -> list[tuple[str, Count]]:
        """Names or patterns, each with how often. Raises ValueError."""
        if isinstance(self.value, Mapping):
            return [_counted(self.value)]
        names = self.value if isinstance(self.value, list) else [self.value]
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise ValueError(
                "value: expected a skill, a list of skills, or a mapping with name or pattern, min and max"
            )
        return [(name.strip(), Count()) for name in names]

    def evaluate(self, subject: Subject) -> Outcome:
        told = self.told(subject.report)
        if told is None:
            return Outcome(
                0.0 if self.on_missing == "fail" else None, "the report shows no session: skills are unknown"
            )
        passed = all(count.holds(number) for _, count, number in told)
        return self.outcome(passed, told)

    def told(self, report: SessionReport) -> list[tuple[str, Count, int]] | None:
        """Each expected skill with how often it was used; None when the report does not tell."""
        used = uses_of(report)
        if not used and not shows_calls(report):
            return None
        pattern = isinstance(self.value, Mapping) and "pattern" in self.value
        return [
            (name, count, sum(number for skill, number in used.items() if _is_meant(skill, name, pattern)))
            for name, count in self.expected
        ]

    def outcome(self, passed: bool, told: list[tuple[str, Count, int]]) -> Outcome:
        """The outcome with what was counted as its reason."""
        reason = "; ".join(f"{name} was used {number} times" for name, _, number in told)
        return Outcome(float(passed), reason, (Finding(reason, passed),))


@EVALUATORS.register("not-skill-used")
@dataclass(frozen=True, kw_only=True)
class SkillNotUsed(SkillUsed):
    """1 when none of the skills was used that `value` names: a name, a list of names, or `{name or pattern}`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.value, Mapping) and (self.value.get("min") is not None or self.value.get("max", 0) != 0):
            raise ValueError("value: takes no min or max: a skill that is not used is used 0 times")

    def evaluate(self, subject: Subject) -> Outcome:
        told = self.told(subject.report)
        if told is None:
            return Outcome(
                0.0 if self.on_missing == "fail" else None, "the report shows no session: skills are unknown"
            )
        return self.outcome(not any(number for _, _, number in told), told)


def uses_of(report: SessionReport) -> Counter[str]:
    """How often each skill was used: as loaded by a skill tool, else as the other signs of it say."""
    failed = {event.call_id for event in report.events if isinstance(event, ToolResultEvent) and event.is_error} - {
        None
    }
    signs: dict[str, list[SkillEvent]] = {}
    called: Counter[str] = Counter()
    for event in report.events:
        if isinstance(event, SkillEvent) and event.ok is not False and event.call_id not in failed:
            signs.setdefault(event.skill, []).append(event)
        elif isinstance(event, ToolCallEvent) and event.call_id not in failed:
            called.update(_skills_of(event))
    used = Counter({skill: _explicit(found) or len(found) for skill, found in signs.items()})
    once = Counter({detected.skill: 1 for detected in report.skills})
    return used | called | once


def _explicit(signs: list[SkillEvent]) -> int:
    return sum(sign.strength == "explicit" for sign in signs)


def _skills_of(call: ToolCallEvent) -> list[str]:
    """The skill that a call of a skill tool names."""
    arguments = call.arguments if isinstance(call.arguments, Mapping) else {}
    return [arguments[field] for field in SKILL_TOOLS.get(call.tool, ()) if isinstance(arguments.get(field), str)]


def _is_meant(skill: str, name: str, pattern: bool) -> bool:
    names = {skill, skill.rpartition(":")[2]}
    return any(globs(name, one) for one in names) if pattern else name in names


def _counted(value: Mapping[str, Any]) -> tuple[str, Count]:
    unknown = set(value) - {"name", "pattern", "min", "max"}
    name = value.get("pattern", value.get("name"))
    if unknown or not isinstance(name, str) or not name.strip():
        raise ValueError("value: expected a mapping with name or pattern (a text), min and max")
    bounded = value.get("max") is not None and value.get("min") is None
    return name.strip(), read_count(value, least=0 if bounded else 1)
