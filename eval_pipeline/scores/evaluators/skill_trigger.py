"""`skill-trigger`: whether a session used a skill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field

from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.scores.evaluators import SNAKE_OR_CAMEL, Text
from eval_pipeline.scores.evaluators.budgets import OnMissing, missing
from eval_pipeline.scores.model import Finding, Outcome, Subject
from eval_pipeline.scores.session_facts import shows_session, skill_evidence


@EVALUATORS.register("skill-trigger")
@dataclass(frozen=True, slots=True, kw_only=True)
class SkillTrigger:
    """1 when `skill` was used, or, with `should_trigger: false`, was not. Failed attempts do not count."""

    __pydantic_config__: ClassVar[ConfigDict] = SNAKE_OR_CAMEL
    version: ClassVar[str] = "3"
    reads: ClassVar[tuple[str, ...]] = ()
    skill: Text
    should_trigger: Annotated[bool, Field(strict=True)] = True
    on_missing: OnMissing = "unscored"

    def evaluate(self, subject: Subject) -> Outcome:
        report = subject.report
        evidence = next(skill_evidence(report, self.skill), None)
        if evidence is None and not shows_session(report):
            reason = "the report shows no session: whether a skill was used is unknown"
            return missing(self.on_missing, reason, value=float(not self.should_trigger))
        used = f"skill {self.skill} was used" if evidence is not None else f"skill {self.skill} was not used"
        passed = (evidence is not None) == self.should_trigger
        reason = used + (f": {evidence}" if evidence else "")
        return Outcome(float(passed), reason, (Finding(used, passed, evidence),))
