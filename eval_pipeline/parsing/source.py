"""A file being read, and the places of errors in it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.yaml_text import Lines

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A file being read: `shown` is its name in messages (empty: no file), `line_at` the 1-based line of a field."""

    path: Path
    shown: str
    line_at: Callable[[FieldPath], int | None]

    def place(self, path: FieldPath) -> SourceLocation:
        return SourceLocation(self.shown or None, self.line_at(path), dotted(path) or None)

    def error(self, path: FieldPath, problem: str) -> InputError:
        return InputError(problem, self.place(path))


def yaml_source(path: Path, text: str) -> Source:
    """A YAML or JSON document: lines are found by reading it again, only for an error."""
    return Source(path, show_path(path), Lines(text).of)


def jsonl_source(path: Path) -> Source:
    """A JSONL file: the first step of a field path is the row's line number."""
    return Source(path, show_path(path), lambda field: field[0] if field and isinstance(field[0], int) else None)


def show_path(path: Path) -> str:
    """Return a path for messages: relative to the current folder when inside it."""
    try:
        return str(Path(os.path.realpath(path)).relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def dotted(path: FieldPath) -> str:
    """`("tests", 3, "id")` as `tests[3].id`; a leading number (a JSONL line) is left to the line."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) and text else ("" if isinstance(step, int) else f".{step}")
    return text.removeprefix(".")
