"""AgentV's own project file, `.agentv/config.yaml`: its settings and its problems.

AgentV ignores invalid settings, so a problem is a warning here and the other settings are used. The nearest file from
the eval file's folder upward applies, as in AgentV: `required_version` and `pool_workspaces` to a suite.
`eval_patterns`, `keep_workspaces` and `pool_slots` are settings of a whole run: the file nearest to the project's
folder applies. A setting without effect here is a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.formats.agentv.versions import is_compatible, version_problem
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.parsing.fields import DETACHED, FieldCursor, Map, kind
from eval_pipeline.parsing.file_search import search_roots
from eval_pipeline.parsing.interpolation import interpolate, read_environment
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml
from eval_pipeline.suites.configurations import Configuration, ProjectSettings

MAX_POOL_SLOTS = 50
FILE_NAMES = ("config.yaml", "config.yml")
_MARKS = (".agentv", "targets.yaml", "targets.yml")
RUN_SETTINGS = frozenset({"keep_workspaces", "pool_slots"})
_NO_TRACES = "a run exports no traces; run 'eval-pipeline export --format agentv-otel' after it"
_ONLY_AGENTV = "is for AgentV's own web page and has no effect here"
_NOT_PUSHED = "results are not pushed to a Git repository; they are in the project's data folder"
_WITHOUT_EFFECT: Mapping[tuple[str, ...], str] = {
    ("execution", "verbose"): "has no effect: 'eval-pipeline show' prints everything about a case",
    **{("execution", key): _NO_TRACES for key in ("otel_file", "export_otel", "otel_backend")},
    ("execution", "otel_capture_content"): "a run exports no traces; 'eval-pipeline export' has --content",
    ("execution", "otel_group_turns"): "a run exports no traces; exported ones have a span per turn",
    ("studio",): _ONLY_AGENTV,
    ("dashboard",): _ONLY_AGENTV,
    ("results",): _NOT_PUSHED,
    ("hooks",): "is not run; export the variables that it sets, or put them into .env",
}
_NAME = re.compile(r"config\.ya?ml\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """The valid settings of a project file, and the problems of the others."""

    settings: Map = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()
    cursor: FieldCursor = field(default=DETACHED, compare=False, repr=False)

    @property
    def execution(self) -> Map:
        """The settings under `execution`."""
        execution: Map = self.settings.get("execution", {})
        return execution

    def without_effect(self) -> Iterator[Diagnostic]:
        """Yield a warning for each setting that has no effect, and for a version that the file does not allow."""
        required = self.settings.get("required_version")
        if required is not None and is_compatible(required) is not True:
            yield Diagnostic(version_problem(required), self.cursor.place("required_version"))
        for steps, problem in _WITHOUT_EFFECT.items():
            holder = self.settings
            for step in steps[:-1]:
                holder = holder.get(step, {})
            if holder.get(steps[-1]) not in (None, False):
                yield Diagnostic(problem, self.cursor.place(*steps))


def read_project_file(path: Path, environment: Mapping[str, str]) -> ProjectFile:
    """Return a project file. Raises InputError when it is not a mapping."""
    shown = show_path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", SourceLocation(shown)) from None
    raw, lines = read_yaml(text, shown)
    cursor = FieldCursor(Source(path, shown, lines.of))
    if raw is not None and not isinstance(raw, Mapping):
        raise cursor.error(f"expected a mapping, got {kind(raw)}")
    problems: list[Diagnostic] = []
    settings = dict(_settings(interpolate(raw or {}, environment), _FIELDS, cursor, problems))
    return ProjectFile(settings=settings, problems=tuple(problems), cursor=cursor)


def nearest_project_file(folders: Iterable[Path], environment: Mapping[str, str]) -> tuple[Path, ProjectFile] | None:
    """Return the first readable project file of these folders; an unreadable one is a problem of the next."""
    skipped: list[Diagnostic] = []
    for path in (folder / ".agentv" / name for folder in folders for name in FILE_NAMES):
        if not path.is_file():
            continue
        try:
            project_file = read_project_file(path, environment)
        except InputError as error:
            skipped.append(Diagnostic(f"{error.problem}; ignored", error.place))
            continue
        return path, replace(project_file, problems=(*skipped, *project_file.problems))
    return None


def is_agentv_project(folders: Iterable[Path]) -> bool:
    """Return whether one of these folders has targets or settings of AgentV: its suites are written for AgentV."""
    return any((folder / name).exists() for folder in folders for name in _MARKS)


def warnings_for_suite(path: Path, file: ProjectFile, applied: Collection[Path]) -> Iterator[Diagnostic]:
    """Yield the warnings of the project file of a suite; `applied` are the files that set the project's run."""
    yield from file.problems
    yield from file.without_effect()
    if path not in applied:
        for key in file.execution.keys() & RUN_SETTINGS:
            problem = "is a setting of a whole run: it applies in the project's folder or above it"
            yield Diagnostic(problem, file.cursor.place("execution", key))


def _nearest(folder: Path, environment: Mapping[str, str]) -> ProjectSettings | None:
    nearest = nearest_project_file(search_roots(folder).roots, environment)
    if nearest is None:
        return None
    path, file = nearest
    execution = file.execution
    defaults: dict[str, Any] = {}
    if "keep_workspaces" in execution:
        defaults["keep_workspaces"] = "always" if execution["keep_workspaces"] else "failures"
    if execution.get("pool_slots") is not None:
        defaults["pool_slots"] = execution["pool_slots"]
    suites = file.settings.get("eval_patterns", ())
    return ProjectSettings(path=path, folder=path.parent.parent, suites=suites, defaults=defaults)


def _settings(
    raw: Map, known: Mapping[str, _Field], cursor: FieldCursor, problems: list[Diagnostic]
) -> Iterator[tuple[str, Any]]:
    for key, value in raw.items():
        field_ = known.get(key)
        if field_ is None:
            problems.append(Diagnostic(f"unknown field, ignored{did_you_mean(str(key), known)}", cursor.place(key)))
            continue
        try:
            if isinstance(field_, Mapping):
                yield key, dict(_settings(fields.mapping(raw, key, cursor), field_, cursor.at(key), problems))
            elif value is not None:
                yield key, field_(raw, key, cursor)
        except InputError as error:
            problems.append(Diagnostic(f"{error.problem}; ignored", error.place))


def _words(raw: Map, key: str, cursor: FieldCursor) -> str:
    value = fields.text(raw, key, cursor)
    if value is None or not value.strip():
        raise cursor.error("expected a text, got an empty one", key)
    return value.strip()


def _list(raw: Map, key: str, cursor: FieldCursor) -> tuple[str, ...]:
    if isinstance(raw[key], str):
        raise cursor.error(f"expected a list of texts, got {kind(raw[key])}", key)
    return fields.texts(raw, key, cursor)


def _slots(raw: Map, key: str, cursor: FieldCursor) -> int | None:
    value = fields.count(raw, key, cursor)
    if value is not None and value > MAX_POOL_SLOTS:
        raise cursor.error(f"expected at most {MAX_POOL_SLOTS}, got {value}", key)
    return value


_Field = Callable[[Map, str, FieldCursor], Any] | Mapping[str, Callable[[Map, str, FieldCursor], Any]]
_FIELDS: Mapping[str, _Field] = {
    "$schema": fields.text,
    "required_version": fields.text,
    "eval_patterns": _list,
    "execution": {
        **dict.fromkeys(("verbose", "keep_workspaces", "export_otel", "otel_capture_content"), fields.flag),
        **dict.fromkeys(("otel_group_turns", "pool_workspaces"), fields.flag),
        **dict.fromkeys(("otel_file", "otel_backend"), _words),
        "pool_slots": _slots,
    },
    "studio": {"threshold": fields.share},
    **dict.fromkeys(("dashboard", "results", "hooks"), fields.mapping),
}


def _is_project_file(path: Path) -> bool:
    return _NAME.match(path.name) is not None and path.parent.name == ".agentv"


def _check(path: Path) -> Iterator[Diagnostic]:
    file = read_project_file(path, read_environment(path.parent))
    yield from file.problems
    yield from file.without_effect()


CONFIGURATION = Configuration(
    schemas=("agentv-config",),
    recognizes=_is_project_file,
    check=_check,
    nearest=_nearest,
)
