"""Files without secrets: replaced in names and contents, a large file piece by piece."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from eval_pipeline.parsing.redaction import KNOWN, Redactor

GIT_OBJECTS = "/.git/objects/"
GIT_BINARY = frozenset({"index"})
PIECE_BYTES = 4_000_000
"""How much of a file is in memory; a smaller one is searched as a whole."""


def redact_files(folder: Path, secrets: Sequence[str] = (), *, cut: bool = False) -> None:
    """Replace every secret in the names and contents of the files below a folder; with `cut` also half a one at the end
    of a file. Git's own binary files are left as they are: they hold checksums, and contents compressed."""
    redactor = KNOWN.redactor(secrets)
    if not redactor:
        return
    for parent, folders, names in os.walk(folder, topdown=False):
        if GIT_OBJECTS in f"{parent}/":
            continue
        for name in (*names, *folders):
            path = Path(parent, name)
            if name not in GIT_BINARY and path.is_file() and not path.is_symlink():
                _redact_file(path, redactor, cut)
            _rename(path, redactor)


def _redact_file(path: Path, redactor: Redactor, cut: bool) -> None:
    if path.stat().st_size > PIECE_BYTES:
        _redact_large_file(path, redactor, cut)
        return
    content = path.read_bytes()
    without = redactor.content(content)
    if cut:
        without = redactor.without_cut_end(without)
    if without != content:
        _overwrite(path, without)


def _redact_large_file(path: Path, redactor: Redactor, cut: bool) -> None:
    """Write a file anew from the first piece on that has a secret in it; most have none."""
    with path.open("rb") as file:
        end = path.stat().st_size - redactor.longest
        if not any(map(redactor.finds, _overlapping(file, redactor.longest))):
            file.seek(max(0, end))
            last = file.read()
            if not cut or redactor.without_cut_end(last) == last:
                return
        file.seek(0)
        new = path.with_name(f"{path.name}.redacted")
        with new.open("wb") as target:
            for piece in _without(file, redactor, cut):
                target.write(piece)
    new.chmod(stat.S_IMODE(path.stat().st_mode))
    new.replace(path)


def _overlapping(file: BinaryIO, overlap: int) -> Iterator[bytes]:
    """Yield the pieces of a file, each with the end of the one before it."""
    end = b""
    while piece := file.read(PIECE_BYTES):
        yield end + piece
        end = (end + piece)[-overlap:]


def _without(file: BinaryIO, redactor: Redactor, cut: bool) -> Iterator[bytes]:
    """Yield the content of a file without secrets. What may be the beginning of one waits for the next piece."""
    rest = b""
    while piece := file.read(PIECE_BYTES):
        content = redactor.content(rest + piece)
        keep = max(0, len(content) - redactor.longest)
        yield content[:keep]
        rest = content[keep:]
    yield redactor.without_cut_end(rest) if cut else rest


def _overwrite(path: Path, content: bytes) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & stat.S_IWUSR:
        path.chmod(mode | stat.S_IWUSR)
    path.write_bytes(content)
    path.chmod(mode)


def _rename(path: Path, redactor: Redactor) -> None:
    name = redactor.text(path.name)
    if name == path.name:
        return
    number, free = 1, path.with_name(name)
    while free.exists() or free.is_symlink():
        number += 1
        free = path.with_name(f"{name}-{number}")
    path.rename(free)
