"""Files of a suite that are laid over a workspace: those of a solution, and hidden tests.

Named by a folder (its files, at their paths below it), a file (at its name), a list of both, or a mapping from the
path in the workspace to the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.file_search import NotFound, SearchRoots, search_roots
from eval_pipeline.suites.workspace import WorkspaceFile

_LEFT_OUT = ("__pycache__", ".git")


def overlay_files(given: Any, folder: Path, field: str = "files") -> tuple[WorkspaceFile, ...]:
    """Return the files that an overlay has, by their paths in the workspace.

    `folder` is the suite's. Raises InputError for a file that does not exist or lies elsewhere.
    """
    place = SourceLocation(field=field)
    try:
        files = dict(_placed(given, search_roots(folder)))
        return tuple(WorkspaceFile(path=path, origin=files[path], sha256=file_fingerprint(files[path]))
                     for path in sorted(files))  # fmt: skip
    except (NotFound, OSError, ValueError) as error:
        raise InputError(str(error), place) from None


def _placed(given: Any, roots: SearchRoots) -> Iterator[tuple[str, Path]]:
    if isinstance(given, str):
        found = roots.file_or_folder(given)
        yield from _below(found) if found.is_dir() else [(found.name, found)]
    elif isinstance(given, Mapping):
        for path, name in given.items():
            yield from _at(str(path), roots.file_or_folder(str(name)))
    elif isinstance(given, (list, tuple)) and all(isinstance(name, str) for name in given):
        for name in given:
            yield from _placed(name, roots)
    else:
        raise ValueError("expected a folder, a file, a list of them, or a mapping from paths in the workspace to files")


def _at(path: str, found: Path) -> Iterator[tuple[str, Path]]:
    place = PurePosixPath(path)
    if place.is_absolute() or ".." in place.parts or not place.parts:
        raise ValueError(f"'{path}' is no path inside a workspace")
    if found.is_dir():
        yield from ((str(place / below), file) for below, file in _below(found))
    else:
        yield str(place), found


def _below(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.rglob("*"):
        relative = path.relative_to(folder)
        if path.is_file() and not set(_LEFT_OUT) & set(relative.parts):
            yield relative.as_posix(), path
