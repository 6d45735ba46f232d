"""What a sweep has to reach, as the project file says it. Values only: every command reads that file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

PREVIOUS = "previous"


class GateRules(BaseModel):
    """What a sweep has to reach; rules that are left out decide nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    against: str = Field(
        default=PREVIOUS,
        description="The sweep that drops are measured from: `previous`, the one of the same name before it, or the"
        " name of another",
    )
    max_drop: float | None = Field(
        default=None, ge=0, le=1, description="The greatest drop of a runner's mean score that is tolerated"
    )
    max_relative_drop: float | None = Field(
        default=None, ge=0, le=1, description="The same as a share of the mean score before"
    )
    min_pass_rate: float | None = Field(
        default=None, ge=0, le=1, description="The least pass rate of each runner on each suite"
    )
    min_coverage: float | None = Field(
        default=None, ge=0, le=1, description="The least share of graded plans of each runner on each suite"
    )

    @property
    def compares(self) -> bool:
        """Whether a rule needs an earlier sweep."""
        return self.max_drop is not None or self.max_relative_drop is not None
