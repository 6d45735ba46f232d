"""Which stored answers the graders of a sweep grade again, as the project file says it. Values only: every command
reads that file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Anchors(BaseModel):
    """Answers that are chosen once, and graded again whenever the sweep has ended: a judge that drifts shows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    size: int = Field(default=30, ge=2, description="The answers of each suite that are chosen")
    base: int = Field(default=3, ge=2, description="How often each is graded at first, for the control limits")
    cases: list[str] = Field(default=[], description="Only answers to cases of these ids")
    evaluators: list[str] = Field(default=[], description="Only evaluators of these names; all that ask a grader")
