"""AgentV's own project file, `.agentv/config.yaml`: its settings and its problems.

AgentV ignores invalid settings, so a problem is a warning here and the other settings are used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.interpolation import interpolate
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml
from eval_pipeline.suites.configurations import Configuration

MAX_POOL_SLOTS = 50
_NAME = re.compile(r"config\.ya?ml\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """The valid settings of a project file, and the problems of the others."""

    settings: Map = field(default_factory=dict)
    problems: tuple[Diagnostic, ...] = ()


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
    return ProjectFile(settings=settings, problems=tuple(problems))


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
}


def _is_project_file(path: Path) -> bool:
    return _NAME.match(path.name) is not None and path.parent.name == ".agentv"


CONFIGURATION = Configuration(
    schemas=("agentv-config",),
    recognizes=_is_project_file,
    check=lambda path: read_project_file(path, {}).problems,
)
