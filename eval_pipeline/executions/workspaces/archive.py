"""A workspace as a file: what an evaluator added tomorrow looks at is the folder as the target left it.

A gzip-compressed tar of folders, files and symbolic links, in sorted order and without owners, so that equal folders
give equal bytes. Reading one back writes nowhere but into its folder.
"""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

MOST_BYTES = 100_000_000
_COMPRESSION = 1  # a third of the time of the usual 9, for a tenth more bytes


class TooLarge(Exception):
    """The folder holds more than may be kept of one; the text says how much."""


def save(folder: Path, archive: Path, *, most_bytes: int = MOST_BYTES) -> int:
    """Writes what is in a folder to an archive; returns the bytes of its files. A file that cannot be read is left out.

    Raises TooLarge, without leaving an archive, and OSError. Blocks: call it in a thread.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.name}.part")
    try:
        with part.open("wb") as raw, gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as packed:
            total = _write(folder, packed, most_bytes)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return total


def restore(archive: Path, folder: Path) -> None:
    """Writes what is in an archive into a folder; a symbolic link that leads out of the folder is left out.

    Raises OSError and tarfile.TarError. Blocks: call it in a thread.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:gz") as tar:
        tar.extractall(folder, filter=_inside)


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _write(folder: Path, packed: gzip.GzipFile, most_bytes: int) -> int:
    total = 0
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _paths(folder):
            member = _member(tar, path, path.relative_to(folder).as_posix())
            if member is None:
                continue
            total += member.size
            if total > most_bytes:
                raise TooLarge(f"the workspace holds more than {most_bytes:,} bytes")
            _add(tar, member, path)
    return total


def _paths(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *names]):
            yield Path(parent, name)


def _member(tar: tarfile.TarFile, path: Path, name: str) -> tarfile.TarInfo | None:
    """What the archive says of a path; None for pipes, sockets and what is gone or cannot be read."""
    try:
        member = tar.gettarinfo(path, name)
    except OSError:
        return None
    if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return None
    if member.isreg() and not os.access(path, os.R_OK):
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if not member.isreg():
        tar.addfile(member)
        return
    with path.open("rb") as file:
        tar.addfile(member, file)
