"""Sweeps that the project file names: what each covers, when it starts, and the options it is carried out with.

The command line, the launchpad and a schedule start one by its name; what they set themselves goes before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.executions.model import Runner
from eval_pipeline.executions.runner_matrix import FIXED, RunnerMatrix
from eval_pipeline.leaderboards.gate_rules import GateRules
from eval_pipeline.parsing.source import FieldPath
from eval_pipeline.suites.model import Suite
from eval_pipeline.suites.names import default_name
from eval_pipeline.sweeps.anchor_rules import Anchors
from eval_pipeline.sweeps.cron import cron_problem
from eval_pipeline.sweeps.keep_rules import Keep
from eval_pipeline.sweeps.notify_rules import Notify
from eval_pipeline.sweeps.options import (
    CaseStatus,
    Difficulty,
    LaunchOptions,
    SharedOptions,
    launch_options,
    without_unset,
)

if TYPE_CHECKING:
    from eval_pipeline.sweeps.project import Project

_NARROWING = ("tags", "cases", "difficulties", "statuses")


class NamedSweep(SharedOptions):
    """One entry of `sweeps:` in the project file."""

    model_config = ConfigDict(strict=True)

    cron: str | None = Field(default=None, description="When it starts by itself; without one only by its name")
    timezone: str = Field(default="UTC", description="The time zone of `cron`, such as Europe/Berlin")
    suites: list[str] = Field(
        default=[], description="Its suites, by name or path, each may have wildcards; all when left out"
    )
    runners: list[str] = Field(default=[], description="Its runners, of those that the suites request; all of them")
    matrix: dict[str, list[Any]] = Field(
        default={},
        description="Settings of its runners with the values of each: every combination is a runner in their place",
    )
    tags: list[str] = Field(default=[], description="Only cases with any of these tags")
    cases: list[str] = Field(default=[], description="Only cases of these ids")
    difficulties: list[Difficulty] = Field(default=[], description="Only cases of these difficulties")
    statuses: list[CaseStatus] = Field(default=[], description="Cases of these statuses in place of the active ones")
    overlap: Literal["skip", "queue", "latest"] = Field(
        default="skip",
        description="What a tick does while the sweep is queued or under way: nothing, or it waits; with `latest` it"
        " takes the place of those that wait",
    )
    missed: Literal["skip", "latest"] = Field(
        default="skip",
        description="What becomes of ticks that no scheduler ran for: nothing, or the latest one is made up for",
    )

    gate: GateRules | None = Field(
        default=None, description="What its results have to reach; failed cases alone are no failure of a run then"
    )
    notify: Notify | None = Field(default=None, description="Who is notified of its end")
    anchors: Anchors | None = Field(
        default=None, description="Stored answers that its graders grade again when it has ended: does a judge drift?"
    )
    month_budget_usd: float | None = Field(
        default=None,
        gt=0,
        description="The most (USD) that its runs of one calendar month spend together, by `timezone`",
    )
    keep: Keep | None = Field(default=None, description="How much of its earlier runs stays stored when one has ended")

    @field_validator("cron")
    @classmethod
    def _check_cron(cls, value: str | None) -> str | None:
        expected = cron_problem(value) if value is not None else None
        if expected is not None:
            raise PydanticCustomError("cron", expected)
        return value

    @field_validator("matrix")
    @classmethod
    def _check_matrix(cls, value: dict[str, list[Any]]) -> dict[str, list[Any]]:
        fixed = next((path for path in value if path.split(".")[0] in FIXED), None)
        if fixed is not None:
            raise PydanticCustomError("matrix", "settings of runners, without their {name}", {"name": fixed})
        if not all(value.values()):
            raise PydanticCustomError("matrix", "at least one value of each setting")
        return value

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError):
            raise PydanticCustomError("timezone", "a time zone such as UTC or Europe/Berlin") from None
        return value

    @property
    def given(self) -> dict[str, Any]:
        """What the entry sets of the options of a launch, by field."""
        names = [name for name in (*SharedOptions.model_fields, *_NARROWING) if name in self.model_fields_set]
        values = {name: getattr(self, name) for name in names}
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    def covers_suite(self, suite: Suite, root: Path) -> bool:
        """Return whether a suite belongs to the sweep."""
        return self.covers_file(suite.path, suite.name, root)

    def covers_file(self, path: Path, name: str, root: Path) -> bool:
        """Return whether the suite of a file belongs to the sweep, by this name."""
        return not self.suites or any(_matches(pattern, path, name, root) for pattern in self.suites)

    def check_names(self, suites: Iterable[Suite], root: Path, broken: Iterable[InputError] = ()) -> None:
        """Raise UnknownName for an entry of `suites` that matches none, nor a file that cannot be read as one."""
        known = [(suite.path, suite.name) for suite in suites]
        files = [*known, *((path, default_name(path)) for error in broken if (path := file_of(error)) is not None)]
        for pattern in self.suites:
            if not any(_matches(pattern, path, name, root) for path, name in files):
                raise UnknownName("suite", pattern, [name for _, name in known])


def file_of(error: InputError) -> Path | None:
    """Return the file that an error is about."""
    return Path(error.place.file).absolute() if error.place.file is not None else None


def _matches(pattern: str, path: PurePath, name: str, root: Path) -> bool:
    """Whether a pattern matches a suite's name, or its path from any folder on; without the path's suffixes, too."""
    if fnmatchcase(name, pattern):
        return True
    relative = path.relative_to(root) if path.is_relative_to(root) else path
    bare = relative.with_name(relative.name.split(".")[0])
    return relative.match(pattern) or bare.match(pattern)


def matrices(project: Project) -> list[RunnerMatrix]:
    """Return the matrices of the sweeps of a project."""
    return [
        RunnerMatrix(name, tuple(sweep.runners), sweep.matrix) for name, sweep in project.sweeps.items() if sweep.matrix
    ]


def runners_in(project: Project, name: str | None, runners: Iterable[Runner]) -> list[Runner]:
    """Return the runners that take part in a sweep; None: in one without a name. A matrix takes the place of the
    runners that it varies."""
    sweep = project.sweeps.get(name) if name is not None else None
    if sweep is not None and sweep.matrix:
        return [runner for runner in runners if name in runner.in_sweeps]
    wanted = sweep.runners if sweep is not None else []
    return [runner for runner in runners if not runner.in_sweeps and (not wanted or runner.name in wanted)]


def named_sweep(project: Project, name: str) -> NamedSweep:
    """Return the sweep of this name. Raises UnknownName."""
    if name not in project.sweeps:
        raise UnknownName("sweep", name, project.sweeps)
    return project.sweeps[name]


def with_named(project: Project, launch: LaunchOptions) -> LaunchOptions:
    """Return the options of a launch over those of the sweep that it names. Raises UnknownName."""
    if launch.sweep is None:
        return launch
    given = {name: getattr(launch, name) for name in launch.model_fields_set}
    return launch_options({**named_sweep(project, launch.sweep).given, **without_unset(given)})


def tells_when(place: FieldPath) -> bool:
    """Return whether a field of the project file sets when a sweep starts."""
    return place[0] == "schedule" or (place[0] == "sweeps" and place[2:] in (("cron",), ("timezone",)))
