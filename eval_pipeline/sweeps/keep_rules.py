"""How much of a sweep's earlier runs stays stored, as the project file says it. Values only: every command reads it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError


class Keep(BaseModel):
    """What stays when a run of the sweep has ended; what is left out is kept for ever."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sweeps: int | None = Field(
        default=None,
        ge=1,
        description="Its newest so many runs, with their Dagster runs; those with current results, and those whose cost"
        " counts in the budget of the month",
    )
    artifacts_days: int | None = Field(
        default=None, ge=0, description="Raw output of its executions of so many days; rows and reports stay"
    )

    @model_validator(mode="after")
    def _check_limited(self) -> Keep:
        """An empty rule is a mistake."""
        if self.sweeps is None and self.artifacts_days is None:
            raise PydanticCustomError("keep", "sweeps or artifacts_days")
        return self
