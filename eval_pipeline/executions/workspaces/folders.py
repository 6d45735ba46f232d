"""Workspace folders on disk: created, kept, removed, and cleaned up after a crash.

Below the root: `<sweep>/<suite>/<runner>/<case>` for temporary folders and `.pool/` for folders that later sweeps
reuse. A sweep's folder holds a lock while its process runs; an unheld lock means that the process was killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

from eval_pipeline.parsing.redaction import redact_files

POOL = ".pool"  # no name of a sweep or a workspace begins with a dot
_OWNER = ".owner"
_KEPT = ".kept"
_LONGEST = 60
_NO_REPOSITORY = "gitdir: /none-above-a-workspace\n"


class SweepFolder:
    """The folder of one sweep's workspaces below `root`."""

    def __init__(self, root: Path, sweep_id: str) -> None:
        self._root = root.absolute()
        self._sweep_id = sweep_id
        self.path, self._owner = self._create()

    def _create(self) -> tuple[Path, FileLock]:
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / ".lock"):
            remove_leftovers(self._root)
            path = _unused(self._root / safe_name(self._sweep_id))
            path.mkdir()
            block_git_discovery(path)
            owner = FileLock(path / _OWNER, thread_local=False)
            owner.acquire(timeout=0)
        return path, owner

    def new(self, *names: str) -> Path:
        """Create an empty folder of this name."""
        path = _unused(self.path.joinpath(*map(safe_name, names)))
        path.mkdir(parents=True)
        return path

    def keep(self, folder: Path) -> None:
        """Mark a folder as kept at the end of the sweep."""
        with (self.path / _KEPT).open("a", encoding="utf-8") as names:
            names.write(f"{folder.relative_to(self.path)}\n")

    def close(self) -> None:
        """Remove everything that is not kept."""
        _remove_all_but_kept(self.path)
        self._owner.release()
        with contextlib.suppress(OSError):
            (self.path / _OWNER).unlink(missing_ok=True)
            self.path.rmdir()


def remove_leftovers(root: Path) -> None:
    """Remove the temporary workspaces of killed processes. Kept folders stay."""
    for path in root.iterdir() if root.is_dir() else ():
        if path.name == POOL or not (path / _OWNER).exists():
            continue
        owner = FileLock(path / _OWNER)
        with contextlib.suppress(Timeout, OSError), owner.acquire(timeout=0):
            _remove_all_but_kept(path)
            (path / _OWNER).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.rmdir()


def _remove_all_but_kept(path: Path) -> None:
    """Remove what is not kept, and the known secrets from what is."""
    try:
        names = (path / _KEPT).read_text(encoding="utf-8").splitlines()
    except OSError:
        names = []
    kept = {path / name for name in names}
    above = {parent for folder in kept for parent in folder.parents}
    _remove_below(path, kept, above)
    for folder in kept:
        with contextlib.suppress(OSError):
            redact_files(folder)
    if not kept:
        (path / _KEPT).unlink(missing_ok=True)


def _remove_below(folder: Path, kept: set[Path], above: set[Path]) -> None:
    for path in list(folder.iterdir()):
        if path in above:
            _remove_below(path, kept, above)
        elif path not in kept and path.name not in (_OWNER, _KEPT, *([".git"] if kept else [])):
            remove(path)


def block_git_discovery(folder: Path) -> None:
    """Write a `.git` file that refers to nothing.

    git commands of a target in a workspace without its own repository then fail instead of finding the project's
    repository above.
    """
    (folder / ".git").write_text(_NO_REPOSITORY, encoding="ascii")


def remove(path: Path) -> None:
    """Remove a folder (write-protected ones included) or a file. Never raises for a missing path."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _make_writable(path)
        shutil.rmtree(path, ignore_errors=True)


def _make_writable(path: Path) -> None:
    for parent, folders, _ in os.walk(path):
        for name in (".", *folders):
            with contextlib.suppress(OSError):
                (Path(parent) / name).chmod(0o700, follow_symlinks=False)


def safe_name(name: str) -> str:
    """Return a valid folder name. A changed name carries a hash, so that it stays unique."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST]
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")


def _unused(path: Path) -> Path:
    number, requested = 1, path
    while path.exists():
        number += 1
        path = requested.with_name(f"{requested.name}-{number}")
    return path
