"""Who is notified of the end of a sweep, by the project file. Values only: every command reads that file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

Event = Literal["failed-gate", "inconclusive-gate", "error", "judge-drift", "always"]


class Notify(BaseModel):
    """Who is notified of the end of a sweep, and when."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    on: list[Event] = Field(
        default=["failed-gate", "error"],
        description="Of which ends: a gate that is NO-GO or INCONCLUSIVE, a sweep that did not succeed,"
        " a judge beyond its control limits or not measured, or all",
    )
    command: list[str] | None = Field(
        default=None,
        description="A program with its arguments, started in the project's folder; it reads JSON on stdin",
    )
    webhook: str | None = Field(
        default=None, description="An address that the same JSON is posted to; `${{ NAME }}` is the environment's"
    )

    @field_validator("command")
    @classmethod
    def _check_command(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and not value:
            raise PydanticCustomError("command", "a program and its arguments")
        return value

    def wants(self, events: Sequence[str]) -> bool:
        """Return whether any of these events is one to notify of."""
        return "always" in self.on or any(event in self.on for event in events)
