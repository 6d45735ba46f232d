"""Exports as files: written beside their place and moved there, so that no reader finds half of one."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.exports import FileChunk
from eval_pipeline.parsing.source import show_path


def write_file(pieces: Iterable[FileChunk], path: Path) -> None:
    """Writes the one file of an export beside its place and moves it there; an older one is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with beside.open("wb") as file:
            file.writelines(piece.data for piece in pieces)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def write_folder(pieces: Iterable[FileChunk], path: Path) -> None:
    """Writes the files of an export into a new folder beside its place and moves it there.

    Raises InputError when there is something already: an export never mixes with another.
    """
    _check_free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        beside.mkdir()
        for piece in pieces:
            _append(beside, piece)
        _check_free(path)
        beside.replace(path)  # also over an empty folder
    finally:
        shutil.rmtree(beside, ignore_errors=True)


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
