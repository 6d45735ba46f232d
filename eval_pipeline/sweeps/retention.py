"""How long a project keeps what its sweeps store: `retention:` of the project file.

Nothing is deleted by it until somebody requests that: `eval-pipeline delete --retention`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

_AGE = re.compile(r"(\d{1,6})([mhdw])\Z", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """What is old: finished before a time (UTC), and not in one of the newest `keep_last` sweeps; None: no limit."""

    before: datetime | None = None
    keep_last: int | None = None


def moment_before(now: datetime, age: str) -> datetime | None:
    """Return the time that is an age (`90d`, `12h`, `2w`) before another one, None for a text that is no age."""
    match = _AGE.match(age)
    if match is None:
        return None
    try:
        return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _check_age(text: str) -> str:
    if _AGE.match(text) is None:
        raise PydanticCustomError("age", "an age such as 90d, 12h or 2w")
    return text


class AgeLimit(BaseModel):
    """What is old by its time alone."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    older_than: Annotated[str, AfterValidator(_check_age)] | None = Field(
        default=None, description="An age: `90d`, `12h`, `2w`"
    )

    @model_validator(mode="after")
    def _check_limited(self) -> AgeLimit:
        """An empty limit would make everything old."""
        if all(getattr(self, name) is None for name in type(self).model_fields):
            raise PydanticCustomError("limit", " or ".join(type(self).model_fields))
        return self


class SweepLimit(AgeLimit):
    """What is old by its time, by the number of newer sweeps, or, with both limits, by both."""

    keep_last: int | None = Field(default=None, ge=0, description="The newest so many sweeps are not old")


class Retention(BaseModel):
    """What `eval-pipeline delete --retention` deletes of each kind: nothing of a kind that has no limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    sweeps: SweepLimit | None = Field(default=None, description="Sweeps; those with current results stay")
    artifacts: SweepLimit | None = Field(default=None, description="Raw output of executions; rows and reports stay")
    workspaces: SweepLimit | None = Field(default=None, description="Kept folders of cases")
    grader_replies: AgeLimit | None = Field(default=None, description="Stored replies of graders; scores stay")
    conversations: AgeLimit | None = Field(
        default=None, description="Conversations that a killed process left unfinished"
    )
    dagster_runs: AgeLimit | None = Field(
        default=None, description="Runs that Dagster shows, without those that have a partition's newest events"
    )

    def ages(self, now: datetime) -> Iterator[tuple[str, Age]]:
        """Yield each limited kind, by its name on the command line, with what is old of it at a time."""
        for name in type(self).model_fields:
            limit: AgeLimit | None = getattr(self, name)
            if limit is not None:
                before = moment_before(now, limit.older_than) if limit.older_than is not None else None
                keep_last = limit.keep_last if isinstance(limit, SweepLimit) else None
                yield name.replace("_", "-"), Age(before=before, keep_last=keep_last)
