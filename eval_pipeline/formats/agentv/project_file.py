"""AgentV's own project file, `.agentv/config.yaml`: what it sets for the suites of the folders below it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.file_search import search_roots
from eval_pipeline.parsing.interpolation import interpolate
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.yaml_text import read_yaml

MAX_POOL_SLOTS = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """What a project file says; `execution` holds the settings that it gives, by their names."""

    path: Path
    required_version: str | None = None
    eval_patterns: tuple[str, ...] = ()
    execution: Map = field(default_factory=dict)


def nearest_project_file(folder: Path) -> Path | None:
    """The project file that holds for a folder: its own, or the nearest above it in its git repository."""
    candidates = (root / ".agentv" / name for root in search_roots(folder).roots for name in _NAMES)
    return next((path for path in candidates if path.is_file()), None)


def read_project_file(path: Path, environment: Mapping[str, str]) -> ProjectFile:
    """A project file. Raises InputError."""
    shown = show_path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FieldCursor(Source(path, shown, lambda _: None)).error(f"cannot be read: {error}") from None
    raw, lines = read_yaml(text, shown)
    cursor = FieldCursor(Source(path, shown, lines.of))
    if raw is not None and not isinstance(raw, Mapping):
        raise cursor.error(f"expected a mapping, got {kind(raw)}")
    document = interpolate(raw or {}, environment)
    return ProjectFile(
        path=path,
        required_version=fields.text(document, "required_version", cursor),
        eval_patterns=fields.texts(document, "eval_patterns", cursor),
        execution=execution_defaults(fields.mapping(document, "execution", cursor), cursor.at("execution")),
    )


def execution_defaults(raw: Map, cursor: FieldCursor) -> dict[str, Any]:
    """The settings of an `execution` block that have a value. Raises InputError."""
    for key in raw:
        if key not in _SETTINGS:
            raise cursor.error(
                f"unknown field; there are: {', '.join(_SETTINGS)}{did_you_mean(str(key), _SETTINGS)}", key
            )
    return {key: read(raw, key, cursor) for key, read in _SETTINGS.items() if raw.get(key) is not None}


def _words(raw: Map, key: str, cursor: FieldCursor) -> str:
    value = fields.text(raw, key, cursor)
    if value is None or not value.strip():
        raise cursor.error("expected a text, got an empty one", key)
    return value.strip()


def _slots(raw: Map, key: str, cursor: FieldCursor) -> int | None:
    value = fields.count(raw, key, cursor)
    if value is not None and value > MAX_POOL_SLOTS:
        raise _too_many(value, key, cursor)
    return value


def _too_many(value: int, key: str, cursor: FieldCursor) -> InputError:
    return cursor.error(f"expected at most {MAX_POOL_SLOTS}, got {value}", key)


_NAMES = ("config.yaml", "config.yml")
_SETTINGS: Mapping[str, Callable[[Map, str, FieldCursor], Any]] = {
    **dict.fromkeys(
        ("verbose", "keep_workspaces", "export_otel", "otel_capture_content", "otel_group_turns", "pool_workspaces"),
        fields.flag,
    ),
    **dict.fromkeys(("otel_file", "otel_backend"), _words),
    "pool_slots": _slots,
}
