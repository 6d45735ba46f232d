"""Where workspaces lie on disk, and that none is left behind: made, kept, removed, and swept up after a crash.

Below the root: `<sweep>/<suite>/<runner>/<case>` for temporary ones and `.pool/` for those of the next sweep. A sweep's
folder holds a lock as long as its process lives; one that nobody holds belongs to a process that was killed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from pathlib import Path

from filelock import FileLock, Timeout

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
        self.path, self._owner = self._begin()

    def _begin(self) -> tuple[Path, FileLock]:
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / ".lock"):
            remove_leftovers(self._root)
            path = _unused(self._root / safe_name(self._sweep_id))
            path.mkdir()
            end_search_for_git(path)
            owner = FileLock(path / _OWNER, thread_local=False)
            owner.acquire(timeout=0)
        return path, owner

    def new(self, *names: str) -> Path:
        """A new, empty folder of this name."""
        path = _unused(self.path.joinpath(*map(safe_name, names)))
        path.mkdir(parents=True)
        return path

    def keep(self, folder: Path) -> None:
        """Marks a folder as one to be left when the sweep ends."""
        with (self.path / _KEPT).open("a", encoding="utf-8") as names:
            names.write(f"{folder.relative_to(self.path)}\n")

    def close(self) -> None:
        """Removes everything that is not kept."""
        _remove_all_but_kept(self.path)
        self._owner.release()
        with contextlib.suppress(OSError):
            (self.path / _OWNER).unlink(missing_ok=True)
            self.path.rmdir()


def remove_leftovers(root: Path) -> None:
    """Removes the temporary workspaces of processes that ended without doing so; what was kept stays."""
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
    try:
        names = (path / _KEPT).read_text(encoding="utf-8").splitlines()
    except OSError:
        names = []
    kept = {path / name for name in names}
    above = {parent for folder in kept for parent in folder.parents}
    _remove_below(path, kept, above)
    if not kept:
        (path / _KEPT).unlink(missing_ok=True)


def _remove_below(folder: Path, kept: set[Path], above: set[Path]) -> None:
    for path in list(folder.iterdir()):
        if path in above:
            _remove_below(path, kept, above)
        elif path not in kept and path.name not in (_OWNER, _KEPT, *([".git"] if kept else [])):
            remove(path)


def end_search_for_git(folder: Path) -> None:
    """A `.git` that leads nowhere: a target that runs git in a workspace without a repository of its own never finds
    the project that the workspaces lie in."""
    (folder / ".git").write_text(_NO_REPOSITORY, encoding="ascii")


def remove(path: Path) -> None:
    """Removes a folder (or file) with all that is in it, write-protected folders as well; never raises for what is
    gone already."""
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


def copy_template(template: Path, folder: Path) -> None:
    """Copies what is in a template into a folder: symbolic links as such, without pipes and sockets, and without links
    to a git repository elsewhere. Raises OSError."""
    shutil.copytree(template, folder, symlinks=True, dirs_exist_ok=True, ignore=_not_copied)


def copy_file(origin: Path, path: Path) -> None:
    """Copies a file to a place whose folder may not exist yet. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(origin, path)


def _not_copied(parent: str, names: list[str]) -> list[str]:
    """A `.git` that is a file (of a submodule, of a work tree) leads to the author's own repository."""
    paths = [Path(parent, name) for name in names]
    return [path.name for path in paths if (path.is_file() if path.name == ".git" else not _is_plain(path))]


def _is_plain(path: Path) -> bool:
    return path.is_symlink() or path.is_file() or path.is_dir()


def safe_name(name: str) -> str:
    """A name that can be a folder's; one that had to be changed carries a hash, so that it stays apart."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST]
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")


def _unused(path: Path) -> Path:
    number, wanted = 1, path
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
