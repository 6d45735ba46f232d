"""Templates of workspaces: copied at the speed of `cp`, and compared with what became of the copy."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.executions.started_programs import owner_variables
from eval_pipeline.executions.workspaces.beneath import REPOSITORY_ELSEWHERE, copy_template
from eval_pipeline.fingerprints import fingerprint

MANY = 100
"""From so many entries on, starting a program costs less than copying one by one."""
_PERMISSIONS = 0o777


@dataclass(frozen=True, slots=True)
class Base:
    """The template that a workspace began as a copy of: the folder, the SHA-256 of its files as the suite has them, and
    when the copy was complete (None: not known, so every file counts as changed)."""

    folder: Path
    content: Mapping[str, str]
    copied_ns: int | None = None

    @property
    def digest(self) -> str:
        """The identity of the content."""
        return fingerprint(dict(self.content))

    def unchanged(self, workspace: Path) -> tuple[frozenset[str], list[str]]:
        """Return the entries of the template that the workspace still has as they were copied, and all others.

        A file is as it was when size, permissions and time of change are those of the template, and nothing of it was
        written, renamed or set after it was copied: the kernel notes that, and no program can set it.
        """
        if self.copied_ns is None:
            return frozenset(), []
        same, others = set(), []
        for name, original in _entries(self.folder):
            copied_to = f"{workspace}/{name}"
            copy = _status(copied_to)
            if copy is not None and _is_same(original, copy, self.copied_ns, f"{self.folder}/{name}", copied_to):
                same.add(name)
            elif copy is None or stat.S_IFMT(copy.st_mode) != stat.S_IFMT(original.st_mode) or not _is_folder(copy):
                others.append(name)
        return frozenset(same), others


def fill_from_template(template: Path, folder: Path) -> None:
    """Copy a template's content into a folder: with `cp` where the folder is empty and the template is large and plain.
    Raises LinkInTheWay, OSError."""
    if any(folder.iterdir()) or not _is_large_and_plain(template) or not _copied_by_cp(template, folder):
        copy_template(template, folder)


def _copied_by_cp(template: Path, folder: Path) -> bool:
    """Return whether `cp` copied everything; else the folder may have a part of it, which is replaced."""
    program = shutil.which("cp")
    if program is None:
        return False
    before = folder.stat()
    words = [program, "-R", "-P", "--preserve=mode,timestamps", "--reflink=auto", "--", f"{template}/.", str(folder)]
    try:
        done = subprocess.run(
            words, env={**os.environ, **owner_variables()}, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    finally:
        folder.chmod(stat.S_IMODE(before.st_mode))  # that of the template's own folder is not copied
    if done.returncode < 0:
        raise OSError(f"copying {template} was ended by signal {-done.returncode}")
    return done.returncode == 0


def _is_large_and_plain(template: Path) -> bool:
    """Return whether a template has many entries, and none that a copy leaves out or changes."""
    count = 0
    for name, status in _entries(template, everything=True):
        if not _is_plain(Path(name).name, status):
            return False
        count += 1
    return count >= MANY


def _is_plain(name: str, status: os.stat_result) -> bool:
    if stat.S_ISREG(status.st_mode) and name == REPOSITORY_ELSEWHERE:
        return False
    kinds = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
    return stat.S_IFMT(status.st_mode) in kinds and not stat.S_IMODE(status.st_mode) & ~_PERMISSIONS


def _entries(folder: Path, below: str = "", *, everything: bool = False) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the status of everything below a folder that a copy has, folders before their content."""
    with os.scandir(folder / below) as entries:
        for entry in entries:
            name, status = f"{below}{entry.name}", entry.stat(follow_symlinks=False)
            if everything or _is_copied(entry.name, status):
                yield name, status
            if stat.S_ISDIR(status.st_mode):
                yield from _entries(folder, f"{name}/", everything=everything)


def _is_copied(name: str, status: os.stat_result) -> bool:
    plain_file = stat.S_ISREG(status.st_mode) and name != REPOSITORY_ELSEWHERE
    return plain_file or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)


def _is_same(original: os.stat_result, copy: os.stat_result, copied_ns: int, at: str, copied_to: str) -> bool:
    if stat.S_IFMT(original.st_mode) != stat.S_IFMT(copy.st_mode):
        return False
    if stat.S_ISLNK(copy.st_mode):
        return Path(at).readlink() == Path(copied_to).readlink()
    permissions = stat.S_IMODE(original.st_mode) & _PERMISSIONS
    if stat.S_ISDIR(copy.st_mode):
        return stat.S_IMODE(copy.st_mode) == permissions
    as_it_was = copy.st_size == original.st_size and copy.st_mtime_ns == original.st_mtime_ns
    return as_it_was and stat.S_IMODE(copy.st_mode) == permissions and copy.st_ctime_ns <= copied_ns


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _is_folder(status: os.stat_result) -> bool:
    return stat.S_ISDIR(status.st_mode)
