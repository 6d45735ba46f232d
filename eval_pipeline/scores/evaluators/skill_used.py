"""`skill-used` and `not-skill-used`: which skills a session used, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from pydantic import ConfigDict

from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import ARGUMENTS
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import is_skill, shows_session, skill_counts, skill_names
from eval_pipeline.scores.steps import Count, globs, read_count


@EVALUATORS.register("skill-used")
@dataclass(frozen=True, kw_only=True)
class SkillUsed:
    """1 when the session used the skills of `value`: a name, a list of names, or `{name or pattern, min, max}`.

    The short name of a plug-in's skill matches, too. Failed attempts do not count. `not-skill-used` is the opposite:
    none of them was used.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ARGUMENTS
    version: ClassVar[str] = "3"
    reads: ClassVar[tuple[str, ...]] = ()
    value: Any
    on_missing: OnMissing = "unscored"

    def __post_init__(self) -> None:
        _ = self.expected

    @cached_property
    def expected(self) -> list[tuple[str, Count]]:
        """Names or patterns, each with the expected count. Raises ValueError."""
        if isinstance(self.value, Mapping):
            return [_counted(self.value)]
        names = self.value if isinstance(self.value, list) else [self.value]
        if not names or not all(isinstance(name, str) and name.strip() for name in names):
            raise ValueError(
                "value: expected a skill, a list of skills, or a mapping with name or pattern, min and max"
            )
        return [(name.strip(), Count()) for name in names]

    def evaluate(self, subject: Subject) -> Outcome:
        counts = self.counts(subject.report)
        if counts is None:
            return self.unknown()
        return self.outcome(all(count.holds(number) for _, count, number in counts), counts)

    def counts(self, report: SessionReport) -> list[tuple[str, Count, int]] | None:
        """Return each expected skill with how often it was used; None when the report does not show it."""
        used = skill_counts(report)
        if not used and not shows_session(report):
            return None
        pattern = isinstance(self.value, Mapping) and "pattern" in self.value
        return [
            (name, count, sum(number for skill, number in used.items() if _matches(skill, name, pattern)))
            for name, count in self.expected
        ]

    def unknown(self) -> Outcome:
        """Return the outcome of a report that shows no session."""
        return missing(self.on_missing, "the report shows no session: skills are unknown")

    def outcome(self, passed: bool, counts: list[tuple[str, Count, int]]) -> Outcome:
        """Return the outcome with the counts as its reason."""
        reason = "; ".join(f"{name} was used {number} times" for name, _, number in counts)
        return Outcome(float(passed), reason, (Finding(reason, passed),))


@EVALUATORS.register("not-skill-used")
@dataclass(frozen=True, kw_only=True)
class SkillNotUsed(SkillUsed):
    """1 when the session used none of the skills of `value`: a name, a list of names, or `{name or pattern}`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.value, Mapping) and (self.value.get("min") is not None or self.value.get("max", 0) != 0):
            raise ValueError("value: takes no min or max: a skill that is not used is used 0 times")

    def evaluate(self, subject: Subject) -> Outcome:
        counts = self.counts(subject.report)
        if counts is None:
            return self.unknown()
        return self.outcome(not any(number for _, _, number in counts), counts)


def _matches(used: str, skill: str, pattern: bool) -> bool:
    return any(globs(skill, name) for name in skill_names(used)) if pattern else is_skill(used, skill)


def _counted(value: Mapping[str, Any]) -> tuple[str, Count]:
    unknown = set(value) - {"name", "pattern", "min", "max"}
    name = value.get("pattern", value.get("name"))
    if unknown or not isinstance(name, str) or not name.strip():
        raise ValueError("value: expected a mapping with name or pattern (a text), min and max")
    bounded = value.get("max") is not None and value.get("min") is None
    return name.strip(), read_count(value, least=0 if bounded else 1)
