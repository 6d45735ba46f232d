"""The project file `eval-pipeline.yaml`: which suites, runners, data folder and defaults belong together.

Found upward from the current folder; an exported `EVAL_PIPELINE_PROJECT` (a file or a folder) wins over that, one in a
`.env` does unless the file found is below it. Without one, the current folder is the project: its suites are those in
`suites`, its runners file is `runners.yaml` or one of another registered format, its data folder `data` (or what
`EVAL_PIPELINE_DATA` names).
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from typing_extensions import TypeIs

from eval_pipeline.errors import InputError, SourceLocation, UnknownName, did_you_mean
from eval_pipeline.executions.runner_files import default_runner_files
from eval_pipeline.leaderboards.gate_rules import PREVIOUS
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.interpolation import read_environment
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules
from eval_pipeline.parsing.source import FieldPath, Source, show_path, yaml_source
from eval_pipeline.parsing.yaml_text import parse_yaml
from eval_pipeline.suites.configurations import ProjectSettings, project_settings
from eval_pipeline.sweeps.cron import cron_problem
from eval_pipeline.sweeps.dagster_settings import DagsterSettings
from eval_pipeline.sweeps.named_sweeps import NamedSweep, tells_when
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.retention import Retention
from eval_pipeline.warehouse.storage import LocalStorage
from eval_pipeline.warehouse.store import DEFAULT_MEMORY_MB, Warehouse, open_warehouse

PROJECT_FILE = "eval-pipeline.yaml"
PROJECT_VARIABLE = "EVAL_PIPELINE_PROJECT"
DATA_VARIABLE = "EVAL_PIPELINE_DATA"
WAREHOUSE_VARIABLE = "EVAL_PIPELINE_WAREHOUSE"
DEFAULT_SUITES = "suites"
"""The folder of suites where no project file names others."""
NO_SUITES = "no suites: name files, folders or globs, put suites into suites/, or list them in eval-pipeline.yaml"
DEFAULT_SCHEDULE = "0 2 * * *"
DEFAULT_OWNERS = ("team:evaluation",)
_LONGEST_NAME = 255
_SWEEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_OWNER = re.compile(r"team:\S+|[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,7}")


class ProjectFile(BaseModel):
    """The fields of `eval-pipeline.yaml`. Relative paths begin at the file's folder."""

    model_config = ConfigDict(extra="forbid", strict=True)

    suites: list[str] | str = Field(default=[DEFAULT_SUITES], description="Suite files, folders and globs")
    runners: str = Field(default="runners.yaml", description="The runners file")
    data: str = Field(default="data", description="The data folder; the variable EVAL_PIPELINE_DATA wins over it")
    warehouse: str | None = Field(
        default=None,
        description="URL of the warehouse; without one, the DuckDB file in the data folder. The variable"
        " EVAL_PIPELINE_WAREHOUSE wins over it",
    )
    warehouse_memory_mb: int = Field(
        default=DEFAULT_MEMORY_MB,
        ge=96,
        description="The most memory, in MB, that the database of the warehouse may use in each process: boards and"
        " exports of very many results need more",
    )
    defaults: Defaults = Field(
        default_factory=Defaults, description="Options of every run; the command line and suites win over them"
    )
    schedule: str = Field(default=DEFAULT_SCHEDULE, description="Cron expression of the nightly sweep, in UTC")
    sweeps: dict[str, NamedSweep] = Field(
        default={}, description="Sweeps by name, each with a selection, options and a time: `run --sweep NAME`"
    )
    retention: Retention = Field(
        default_factory=Retention, description="What `eval-pipeline delete --retention` deletes; nothing by itself"
    )
    secrets: list[str] = Field(
        default=[],
        description="Names or patterns (`*_ID`) of environment variables, settings and headers whose values are secret,"
        " beside those that are known by their name, place or shape",
    )
    not_secrets: list[str] = Field(
        default=[], description="Names or patterns of those that are not secret; they go before `secrets`"
    )
    versions: dict[str, str] = Field(
        default={},
        description="Versions of other systems that the project's programs are written for, by the system's name; the"
        " nearest `package.json` of a program goes before it",
    )
    snapshots: dict[str, Any] | None = Field(
        default=None,
        description="Token baselines of every suite: `metric`, `tolerance` (`absolute`, `percent`), and `path` from the"
        " suite's folder",
    )
    dagster: DagsterSettings = Field(
        default_factory=DagsterSettings, description="How Dagster spreads the runs that it starts over processes"
    )
    owners: list[str] = Field(
        default=list(DEFAULT_OWNERS), description="Who owns the assets in Dagster: e-mail addresses, or team:NAME"
    )

    @field_validator("data", "warehouse")
    @classmethod
    def _check_path(cls, value: str | None) -> str | None:
        if value is None:
            return None
        names = [part.encode("utf-8", "surrogatepass") for part in Path(value).parts]
        if "\0" in value or any(len(name) > _LONGEST_NAME for name in names):
            raise PydanticCustomError("path", "a path whose names have at most 255 bytes")
        return value

    @field_validator("owners")
    @classmethod
    def _check_owners(cls, values: list[str]) -> list[str]:
        for value in values:
            if not _OWNER.fullmatch(value):
                raise PydanticCustomError("owner", "e-mail addresses or team:NAME")
        return values

    @field_validator("sweeps")
    @classmethod
    def _check_sweeps(cls, values: dict[str, NamedSweep]) -> dict[str, NamedSweep]:
        for name in values:
            if not _SWEEP_NAME.fullmatch(name):
                raise PydanticCustomError("sweep", "names of letters, digits, '-' and '_'")
        _check_distinct(values)
        _check_gates(values)
        return values

    @field_validator("schedule")
    @classmethod
    def _check_schedule(cls, value: str) -> str:
        expected = cron_problem(value)
        if expected is not None:
            raise PydanticCustomError("cron", expected)
        return value


def _check_distinct(sweeps: Mapping[str, NamedSweep]) -> None:
    """Refuse names that would be one name of a schedule in Dagster."""
    if len({name.replace("-", "_") for name in sweeps}) < len(sweeps):
        raise PydanticCustomError("sweep", "names that differ in more than '-' and '_'")


def _check_gates(sweeps: Mapping[str, NamedSweep]) -> None:
    """Refuse gates against a sweep that there is not, or against their own."""
    for name, sweep in sweeps.items():
        known = [PREVIOUS, *(each for each in sweeps if each != name)]
        if sweep.gate is not None and sweep.gate.against not in known:
            problem = f"gates against one of {', '.join(known)}; that of {name} is against '{sweep.gate.against}'"
            raise PydanticCustomError("gate", "{problem}", {"problem": problem})


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project: where its suites and runners are, and where it keeps its data. Paths are absolute.

    `schedule_problem` is why a schedule of the project file cannot be used, where that is tolerated; `schedule` is then
    the default, and a named sweep has none. `configurations` are the configuration files of other systems that are part
    of it. With `searches_runners` suites may have runners of their own, in files of other systems beside them; `file`
    is the project file, None without one.
    """

    root: Path
    suites: tuple[str, ...]
    runners: Path | None
    data: Path
    warehouse: str | None = None
    warehouse_memory_mb: int = DEFAULT_MEMORY_MB
    defaults: Defaults = field(default_factory=Defaults)
    schedule: str = DEFAULT_SCHEDULE
    sweeps: Mapping[str, NamedSweep] = field(default_factory=dict)
    schedule_problem: InputError | None = None
    dagster: DagsterSettings = field(default_factory=DagsterSettings)
    owners: tuple[str, ...] = DEFAULT_OWNERS
    retention: Retention = field(default_factory=Retention)
    secret_rules: SecretRules = NO_RULES
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    configurations: frozenset[Path] = frozenset()
    searches_runners: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)
    snapshots: Mapping[str, Any] | None = None
    file: Path | None = None

    def open_warehouse(self) -> Warehouse:
        """Return the warehouse that the project file names by URL, else the DuckDB file in the data folder."""
        warehouse = open_warehouse(self.warehouse or self.data, root=self.root, storage=LocalStorage(self.data))
        warehouse.memory_mb = self.warehouse_memory_mb
        return warehouse


def load_project(start: Path, explicit: Path | None = None, *, any_schedule: bool = False) -> Project:
    """Return the project of a folder. Raises InputError when the project file cannot be used.

    With `any_schedule` a schedule that cannot be used becomes the project's `schedule_problem`.
    """
    start = start.absolute()
    environment = read_environment(start)
    named = start / explicit if explicit is not None else _named_by(environment, start)
    nearer = _found_upward(start) if explicit is None else None
    if nearer is not None and PROJECT_VARIABLE not in os.environ and _is_nearer(nearer, start):
        named = nearer
    file = _named_file(named) if named is not None else nearer
    environment = environment if file is None else read_environment(file.parent)
    project = _without_file(start, environment) if file is None else _from_file(file, environment, any_schedule)
    KNOWN.add_environment(environment, project.secret_rules)
    return project


def unknown_defaults(project: Project, runners: Collection[str]) -> Iterator[InputError]:
    """Yield an error for each runner under `defaults` of the project file that is not among these."""
    defaults = project.defaults
    named: list[tuple[FieldPath, str]] = [(("runners", index), name) for index, name in enumerate(defaults.runners)]
    named += [(("grader",), defaults.grader)] if defaults.grader is not None else []
    unknown = [(steps, name) for steps, name in named if name not in runners]
    if not unknown or project.file is None:
        return
    source = yaml_source(project.file, project.file.read_text(encoding="utf-8-sig"))
    yield from (UnknownName("runner", name, runners, source.place(("defaults", *steps))) for steps, name in unknown)


def _named_by(environment: Mapping[str, str], start: Path) -> Path | None:
    """The project that the environment names; a relative name begins here, or at the `.env` file that sets it."""
    named = environment.get(PROJECT_VARIABLE)
    if not named:
        return None
    if PROJECT_VARIABLE in os.environ:
        return start / named
    return next(folder for folder in (start, *start.parents) if (folder / ".env").is_file()) / named


def _is_nearer(file: Path, start: Path) -> bool:
    """Whether a project file is nearer than the `.env` that may name another."""
    holder = next((folder for folder in (start, *start.parents) if (folder / ".env").is_file()), None)
    return holder is None or (file.parent != holder and file.parent.is_relative_to(holder))


def _named_file(path: Path) -> Path:
    file = path / PROJECT_FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"no project file at {show_path(file)}")
    return file.absolute()


def _found_upward(start: Path) -> Path | None:
    folders = (start, *start.parents)
    return next((folder / PROJECT_FILE for folder in folders if (folder / PROJECT_FILE).is_file()), None)


def _without_file(root: Path, environment: Mapping[str, str]) -> Project:
    runners = next((root / name for name in default_runner_files() if (root / name).is_file()), None)
    project = Project(
        root=root,
        suites=(DEFAULT_SUITES,) if (root / DEFAULT_SUITES).is_dir() else (),
        runners=runners,
        data=_absolute(root, environment.get(DATA_VARIABLE) or "data"),
        warehouse=environment.get(WAREHOUSE_VARIABLE) or None,
        environment=environment,
    )
    return _configured(project, names_suites=False)


def _configured(project: Project, *, names_suites: bool) -> Project:
    """Return the project with what configuration files of other systems set and its own file does not."""
    for settings in project_settings(project.root, project.environment):
        unset = {k: v for k, v in settings.defaults.items() if k not in project.defaults.model_fields_set}
        project = replace(
            project,
            suites=project.suites if names_suites or not settings.suites else _matching(settings, project.root),
            defaults=project.defaults.model_copy(update=unset),
            configurations=project.configurations | {settings.path},
        )
    return project


def _matching(settings: ProjectSettings, root: Path) -> tuple[str, ...]:
    """Return the globs of a configuration file as those of the project; of several, those that match files."""
    base = "" if settings.folder == root else glob.escape(str(settings.folder)) + os.sep
    patterns = [base + pattern for pattern in settings.suites]
    matching = [each for each in patterns if any(glob.iglob(each, root_dir=root, recursive=True))]  # noqa: PTH207
    return tuple(matching or patterns)


def _from_file(file: Path, environment: Mapping[str, str], any_schedule: bool) -> Project:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", SourceLocation(show_path(file))) from None
    source = yaml_source(file, text)
    raw = parse_yaml(text, source.shown)
    if raw is not None and not isinstance(raw, Mapping):
        raise source.error((), f"expected a mapping with some of: {', '.join(ProjectFile.model_fields)}")
    content, schedule_problem = _content(raw or {}, source, any_schedule)
    root = file.parent
    project = Project(
        root=root,
        suites=(content.suites,) if isinstance(content.suites, str) else tuple(content.suites),
        runners=_runners_of(root, content),
        data=_absolute(root, environment.get(DATA_VARIABLE) or content.data),
        warehouse=_warehouse_of(content, environment),
        warehouse_memory_mb=content.warehouse_memory_mb,
        defaults=content.defaults,
        schedule=content.schedule,
        sweeps=content.sweeps,
        schedule_problem=schedule_problem,
        dagster=content.dagster,
        owners=tuple(content.owners),
        retention=content.retention,
        secret_rules=SecretRules(tuple(content.secrets), tuple(content.not_secrets)),
        environment=environment,
        versions=content.versions,
        snapshots=content.snapshots,
        file=file,
    )
    return _configured(project, names_suites="suites" in content.model_fields_set)


def _runners_of(root: Path, content: ProjectFile) -> Path | None:
    """Return the runners file; None where the project names none and has none, so that suites have theirs."""
    path = _absolute(root, content.runners)
    return path if "runners" in content.model_fields_set or path.exists() else None


def _content(raw: Mapping[str, Any], source: Source, any_schedule: bool) -> tuple[ProjectFile, InputError | None]:
    """The fields of a project file, and what is wrong with its schedules where that is tolerated."""
    try:
        return ProjectFile.model_validate(raw), None
    except ValidationError as error:
        problem = _field_errors(error, source)
        places = [each["loc"] for each in error.errors()]
        if not any_schedule or not all(map(tells_when, places)):
            raise problem from None
    return ProjectFile.model_validate(_without(raw, places)), problem


def _without(raw: Mapping[str, Any], places: Sequence[FieldPath]) -> dict[str, Any]:
    """A mapping without the fields at these places."""
    copied = deepcopy(dict(raw))
    for *steps, last in places:
        holder = copied
        for step in steps:
            holder = holder[str(step)]
        holder.pop(str(last), None)
    return copied


def _warehouse_of(content: ProjectFile, environment: Mapping[str, str]) -> str | None:
    """Return the URL of the environment, else that of the file unless the environment names another data folder."""
    return environment.get(WAREHOUSE_VARIABLE) or (None if environment.get(DATA_VARIABLE) else content.warehouse)


def _absolute(root: Path, name: str) -> Path:
    return Path(os.path.normpath(root / os.path.expanduser(name)))  # noqa: PTH111 — no error for an unknown user


def _field_errors(error: ValidationError, source: Source) -> InputError:
    """One error with the problem of every field."""
    problems: dict[tuple[str | int, ...], InputError] = {}
    for each in error.errors(include_url=False):
        path = tuple(step for step in each["loc"] if step not in ("list[str]", "str"))
        problems.setdefault(path, _field_error(each, path, source))
    return first_of_each(list(problems.values()))


def _field_error(first: Any, path: tuple[str | int, ...], source: Source) -> InputError:
    if first["type"] == "extra_forbidden":
        known = [str(field.validation_alias or name) for name, field in _model_at(path).model_fields.items()]
        hint = did_you_mean(str(path[-1]), known)
        return source.error(path, f"unknown field; there are: {', '.join(known)}{hint}")
    expected = "a mapping" if first["type"] == "model_type" else first["msg"].removeprefix("Input should be ")
    return InputError(f"expected {expected}, got {first['input']!r}", SourceLocation(*_spot(source, path)))


def _model_at(path: Sequence[str | int]) -> type[BaseModel]:
    """The model of the mapping that a field is in."""
    model: type[BaseModel] = ProjectFile
    steps = iter(path[:-1])
    for step in steps:
        annotation = model.model_fields[str(step)].annotation
        model = next(each for each in (annotation, *get_args(annotation)) if _is_model(each))
        if get_origin(annotation) is dict:
            next(steps, None)  # the name of an entry
    return model


def _is_model(kind: Any) -> TypeIs[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _spot(source: Source, path: tuple[str | int, ...]) -> tuple[str, int | None, str]:
    place = source.place(path)
    return source.shown, place.line, place.field or ""
