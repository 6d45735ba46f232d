"""A workspace as a file, so that an evaluator added later reads the folder as the target left it.

The format is a gzip-compressed tar of folders, files and symbolic links, sorted and without owners, so that equal
folders give equal bytes. Extraction writes only below its folder.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from eval_pipeline.parsing.redaction import KNOWN, REDACTED

MOST_BYTES = 100_000_000
_MOST_IN_MEMORY = 20_000_000
_BLOCK = 1_000_000
_COMPRESSION = 1  # a third of the time of the usual 9, for a tenth more bytes


class TooLarge(Exception):
    """The folder exceeds the size limit; the message names the limit."""


def save(folder: Path, archive: Path, *, most_bytes: int = MOST_BYTES, secrets: Iterable[str] = ()) -> int:
    """Write a folder to an archive and return the total bytes of its files. Unreadable files are skipped.

    Known secrets and `secrets`, of at least eight characters, become `***` in the names and contents of files;
    compressed contents, such as git objects, are not searched. Raises OSError, and TooLarge without leaving an archive.
    Blocks: call it in a thread.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.name}.part")
    try:
        with part.open("wb") as raw, gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as packed:
            total = _write(folder, packed, most_bytes, _Cleaner(secrets))
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return total


def restore(archive: Path, folder: Path) -> None:
    """Extract an archive into a folder. Symbolic links that lead out of the folder are skipped.

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


def _write(folder: Path, packed: gzip.GzipFile, most_bytes: int, cleaner: _Cleaner) -> int:
    total = 0
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _paths(folder):
            member = _member(tar, path, path.relative_to(folder).as_posix())
            if member is None:
                continue
            total += member.size
            if total > most_bytes:
                raise TooLarge(f"the workspace holds more than {most_bytes:,} bytes")
            _add(tar, member, path, cleaner)
    return total


def _paths(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *names]):
            yield Path(parent, name)


def _member(tar: tarfile.TarFile, path: Path, name: str) -> tarfile.TarInfo | None:
    """Return the archive entry of a path; None for pipes, sockets and paths that are gone or unreadable."""
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


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path, cleaner: _Cleaner) -> None:
    member.name, member.linkname = cleaner.name(member.name), cleaner.name(member.linkname)
    if not member.isreg():
        tar.addfile(member)
        return
    with path.open("rb") as file, cleaner.content(file) as content:
        if content is not file:
            member.size = content.seek(0, os.SEEK_END)
            content.seek(0)
        tar.addfile(member, content)


class _Cleaner:
    """Replaces secrets in the names and contents of files."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._redactor = KNOWN.redactor(secrets)

    def name(self, text: str) -> str:
        return self._redactor.text(text)

    @contextlib.contextmanager
    def content(self, file: BinaryIO) -> Iterator[IO[bytes]]:
        """Yield a file's content without secrets; the file itself when there are no secrets."""
        if not self._redactor:
            yield file
            return
        with tempfile.SpooledTemporaryFile(_MOST_IN_MEMORY) as redacted:
            for block in self._blocks(file):
                redacted.write(block)
            yield redacted

    def _blocks(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the redacted blocks of a file. A possible beginning of a secret is held back for the next block."""
        rest = b""
        while block := file.read(_BLOCK):
            rest += block
            redacted, rest = self._redact(rest, max(0, len(rest) - self._redactor.longest + 1))
            yield redacted
        yield self._redact(rest, len(rest))[0]

    def _redact(self, content: bytes, until: int) -> tuple[bytes, bytes]:
        """Return `content` without the secrets that begin before `until`, and the unprocessed rest."""
        pieces, done, pattern = [], 0, self._redactor.matches(content)
        for match in pattern.finditer(content) if pattern is not None else ():
            if match.start() >= until:
                break
            pieces += [content[done : match.start()], REDACTED.encode()]
            done = match.end()
        end = max(done, until)
        return b"".join([*pieces, content[done:end]]), content[end:]
