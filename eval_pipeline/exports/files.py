"""Writing exports: into a temporary path beside the target, then renamed, so that readers see whole exports only."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.exports import FileChunk
from eval_pipeline.parsing.source import show_path


def write_file(pieces: Iterable[FileChunk], path: Path) -> None:
    """Write an export of one file, and replace an older file of that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with _named(path), beside.open("wb") as file:
            file.writelines(piece.data for piece in pieces)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_folder(pieces: Iterable[FileChunk], path: Path) -> None:
    """Write an export of several files into a new folder.

    Raises InputError for an existing, non-empty path: two exports never mix in a folder.
    """
    _check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with _named(path):
            beside.mkdir()
            for piece in pieces:
                _append(beside, piece)
        _check_free(path)
        beside.replace(path)  # a rename: atomic, and it replaces an empty folder
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Make errors of writing name the export: those of a full disk name no file, others the temporary one."""
    try:
        yield
    except OSError as error:
        error.filename = str(path)
        raise


def _check_free(path: Path) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{show_path(path)} exists already; name a new folder")


def _append(folder: Path, piece: FileChunk) -> None:
    path = folder / piece.path
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        file.write(piece.data)
