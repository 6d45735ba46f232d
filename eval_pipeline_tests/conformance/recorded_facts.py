"""Where recorded facts lie, and the rows in them. Facts are read in place and never copied into the project."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded fact: what the reference was given and what it answered."""

    family: str
    file: str
    kind: str
    number: int
    data: dict[str, Any]

    @property
    def id(self) -> str:
        return f"{self.family}/{self.file}/{self.kind}/{self.number}"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded run of an agent CLI: the folder it lies in."""

    folder: Path

    @property
    def cli(self) -> str:
        return self.folder.parent.name

    @property
    def id(self) -> str:
        return f"recordings/{self.cli}/{self.folder.name}"

    def text(self, name: str) -> str | None:
        """A file of the recording with its machine paths put in; None when there is no such file."""
        path = self.folder / name
        if not path.exists():
            return None
        actual = path.read_bytes().decode("utf-8", "replace")
        for placeholder, folder in MACHINE_PATHS.items():
            actual = actual.replace(placeholder, folder)
        return actual

    def json(self, name: str) -> dict[str, Any]:
        document = json.loads(self.text(name) or "{}")
        assert isinstance(document, dict)
        return document


MACHINE_PATHS = {"$WORKSPACE": "/agent/workspace", "$HOME": "/agent/home", "$CLIS": "/agent/clis", "$TMP": "/agent/tmp"}
WORKSPACE = MACHINE_PATHS["$WORKSPACE"]


def conformance_folder() -> Path:
    default = _REPOSITORY.parent / "shared" / "conformance"
    return Path(os.environ.get("EVAL_PIPELINE_CONFORMANCE") or default)


def recordings_folder() -> Path:
    default = _REPOSITORY.parent / "shared" / "recordings"
    return Path(os.environ.get("EVAL_PIPELINE_RECORDINGS") or default)


def row_params(family: str) -> list[Any]:
    """A pytest parameter for each row of a family; one skipped parameter when its folder is missing."""
    folder = conformance_folder() / family
    if not folder.is_dir():
        return [_missing(family, folder, "EVAL_PIPELINE_CONFORMANCE")]
    return [pytest.param(row, id=row.id) for row in rows_of(family)]


def params_of_kinds(family: str, kinds: Collection[str]) -> list[Any]:
    """Return the parameters of rows of these kinds, and the one that stands for a missing folder."""
    return params_of(family, lambda row: row.kind in kinds)


def params_of(family: str, selects: Callable[[Row], bool]) -> list[Any]:
    """Return the parameters of the selected rows, and the one that stands for a missing folder."""
    return [param for param in row_params(family) if param.values[0] is None or selects(param.values[0])]


@cache
def rows_of(family: str) -> tuple[Row, ...]:
    """Return all rows of a family; none when its folder is missing."""
    folder = conformance_folder() / family
    return tuple(_rows(family, folder)) if folder.is_dir() else ()


def recording_params() -> list[Any]:
    """A pytest parameter for each recorded run."""
    folder = recordings_folder()
    if not folder.is_dir():
        return [_missing("recordings", folder, "EVAL_PIPELINE_RECORDINGS")]
    runs = (Recording(path) for path in sorted(folder.glob("*/*")) if path.is_dir())
    return [pytest.param(run, id=run.id) for run in runs]


def _missing(family: str, folder: Path, variable: str) -> Any:
    reason = f"no {family} facts at {folder}; {variable} names another folder"
    return pytest.param(None, id=f"{family}/missing", marks=pytest.mark.skip(reason=reason))


def _rows(family: str, folder: Path) -> Iterator[Row]:
    for path in sorted(folder.rglob("*.jsonl")):
        file = path.relative_to(folder).with_suffix("").as_posix()
        if not file.startswith(_WHOLE_FOLDERS):
            for number, line in enumerate(path.read_text("utf-8").split("\n"), start=1):
                if line.strip():
                    data = json.loads(line)
                    yield Row(family, file, _kind(data), number, data)
    for name in _WHOLE_FOLDERS:
        for number, entry in enumerate(sorted((folder / name).glob("*")), start=1):
            yield Row(family, name, _entry_kind(entry), number, {"path": str(entry)})


def _kind(data: Any) -> str:
    """What a row is about, whatever its file calls it."""
    if not isinstance(data, dict):
        return "row"
    named = (str(data[name]) for name in _KIND_FIELDS if isinstance(data.get(name), str))
    marked = (kind for mark, kind in _KIND_MARKS.items() if mark in data)
    return next(named, None) or next(marked, "row")


def _entry_kind(entry: Path) -> str:
    """`claude-code__normalize__…` is a fact about normalizing Claude Code."""
    return "-".join(entry.name.split("__")[:2]) if "__" in entry.name else entry.stem


_WHOLE_FOLDERS = ("adapters", "examples")
_KIND_FIELDS = ("evaluator", "fn", "area", "helper", "adapter", "kind")
_KIND_MARKS = {"test": "observed-test", "raw_test": "parsing", "valid": "validation"}
