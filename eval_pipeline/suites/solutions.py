"""The solution of a case: what the runner `oracle` does to the workspace, and no agent ever sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.parsing.fields import FieldCursor, kind
from eval_pipeline.parsing.file_search import NotFound, search_roots
from eval_pipeline.parsing.tables import ANY, TEXT, TEXT_LIST, Field, FieldTable, either
from eval_pipeline.suites.overlays import overlay_files
from eval_pipeline.suites.workspace import WorkspaceFile

SOLUTION = FieldTable(
    "solution",
    (
        Field("patch", TEXT, "A unified diff of the workspace: a file of the suite, or the diff itself."),
        Field("files", ANY, "Files laid over the workspace: a folder, a list, or a mapping from path to file."),
        Field("command", either(TEXT, TEXT_LIST), "A program that runs in the workspace, last."),
    ),
    "How the case is solved: `eval-pipeline validate --oracle` and the adapter `oracle` carry it out.",
)
_DIFF_MARKS = ("--- ", "diff --git ", "@@ ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """A patch, files and a command, applied in this order. `patch` is the text of a unified diff."""

    patch: str | None = None
    files: tuple[WorkspaceFile, ...] = ()
    command: tuple[str, ...] = ()

    def fingerprint_fields(self) -> object:
        """The solution for fingerprints: without this machine's paths."""
        return [self.patch, [[file.path, file.sha256] for file in self.files], list(self.command)]


def read_solution(raw: Any, cursor: FieldCursor, folder: Path) -> Solution | None:
    """Return the solution in a mapping; None where there is none. Raises InputError."""
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a mapping with patch, files or command, got {kind(raw)}")
    for key in raw:
        if key not in SOLUTION.names:
            raise cursor.error(f"unknown solution field{did_you_mean(str(key), SOLUTION.names)}", str(key))
    values = SOLUTION.read_values(raw, cursor)
    if not any(values.values()):
        raise cursor.error("expected a patch, files or a command")
    return Solution(
        patch=_patch(values["patch"], cursor, folder),
        files=_files(values["files"], cursor, folder),
        command=_command(values["command"]),
    )


def _patch(value: str | None, cursor: FieldCursor, folder: Path) -> str | None:
    if value is None or ("\n" in value and any(mark in value for mark in _DIFF_MARKS)):
        return value
    try:
        return search_roots(folder).file(value.strip()).read_text(encoding="utf-8")
    except (NotFound, OSError, UnicodeDecodeError) as error:
        raise cursor.error(str(error), "patch") from None


def _files(value: Any, cursor: FieldCursor, folder: Path) -> tuple[WorkspaceFile, ...]:
    try:
        return overlay_files(value, folder) if value is not None else ()
    except InputError as error:
        raise cursor.error(error.problem, "files") from None


def _command(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return ("sh", "-c", value)
    return tuple(value or ())
