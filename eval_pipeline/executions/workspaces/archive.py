"""A workspace as a file, so that an evaluator added later reads the folder as the target left it.

The format is a gzip-compressed tar of folders, files and symbolic links, sorted and without owners, so that equal
folders give equal bytes. Of a workspace that began as a copy of a template it holds what is not as it was copied, and
names what of the template is not there any more. Extraction writes only below its folder.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, BinaryIO

from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.workspaces.template_copy import Base, fill_from_template
from eval_pipeline.parsing.redaction import KNOWN, REDACTED

MOST_BYTES = 100_000_000
_MOST_IN_MEMORY = 20_000_000
_BLOCK = 1_000_000
_BASE = "eval_pipeline.base"
_TOP = "."
_COMPRESSION = 1  # a third of the time of the usual 9, for a tenth more bytes


class TooLarge(Exception):
    """The folder exceeds the size limit; the message names the limit."""


def save(
    folder: Path,
    archive: Path,
    *,
    most_bytes: int = MOST_BYTES,
    secrets: Iterable[str] = (),
    base: Base | None = None,
) -> int:
    """Write a folder, beside what `base` has of it, to an archive and return the total bytes of the files written.
    Unreadable files are skipped.

    Known secrets and `secrets`, of at least eight characters, become `***` in the names and contents of files;
    compressed contents, such as git objects, are not searched. Raises OSError, and TooLarge without leaving an archive.
    Blocks: call it in a thread.
    """
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_name(f"{archive.name}.part")
    try:
        with part.open("wb") as raw, gzip.GzipFile("", "wb", _COMPRESSION, raw, mtime=0) as packed:
            total = _write(folder, packed, most_bytes, _Cleaner(secrets), base)
        part.replace(archive)
    finally:
        part.unlink(missing_ok=True)
    return total


def restore(archive: Path, folder: Path, base: Base | None = None) -> None:
    """Extract an archive into an empty folder, over a copy of the template that it was made with. Symbolic links that
    lead out of the folder are skipped.

    Raises OSError, also when the template is another one now, and tarfile.TarError. Blocks: call it in a thread.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:gz") as tar:
        if (of_base := tar.pax_headers.get(_BASE)) is not None:
            _restore_base(base, json.loads(of_base), folder)
        tar.extractall(folder, filter=_inside)


def _restore_base(base: Base | None, stored: Mapping[str, Any], folder: Path) -> None:
    """Copy the template into a folder, without what the workspace did not have any more as it was."""
    if base is None or base.digest != stored["digest"]:
        raise OSError("the template that it was made with has changed since")
    fill_from_template(base.folder, folder)
    for name in stored["gone"]:
        remove(folder / name)


def _inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    if member.name == _TOP:
        return None
    try:
        return tarfile.data_filter(member, folder)
    except tarfile.FilterError:
        return None


def _write(folder: Path, packed: gzip.GzipFile, most_bytes: int, cleaner: _Cleaner, base: Base | None) -> int:
    total, headers = 0, {}
    same, gone = base.unchanged(folder) if base is not None else (frozenset(), [])
    if base is not None and same:
        headers[_BASE] = json.dumps({"digest": base.digest, "gone": gone})
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
        if headers:
            tar.addfile(_top())  # headers are read with the first entry
        for name in _names(folder):
            path = folder / name if name not in same else None
            member = _member(tar, path, name) if path is not None else None
            if path is None or member is None:
                continue
            total += member.size
            if total > most_bytes:
                raise TooLarge(f"the workspace holds more than {most_bytes:,} bytes")
            _add(tar, member, path, cleaner)
    return total


def _top() -> tarfile.TarInfo:
    member = tarfile.TarInfo(_TOP)
    member.type = tarfile.DIRTYPE
    return member


def _names(folder: Path) -> Iterator[str]:
    """Yield the paths of everything below a folder, relative to it."""
    begin = len(str(folder)) + 1
    for parent, folders, names in os.walk(folder):
        folders.sort()
        above = f"{parent[begin:]}/" if len(parent) > begin else ""
        for name in sorted([*folders, *names]):
            yield f"{above}{name}"


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
