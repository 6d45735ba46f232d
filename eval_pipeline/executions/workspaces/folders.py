"""Workspace folders on disk: created, kept, removed, and cleaned up after a crash.

Targets work outside of the project, in folders whose names tell nothing: what is above a project's own folders, such
as its suites with their answers, is found by walking up. A folder that is kept moves to the root, as
`<sweep>/<suite>/<runner>/<case>`. A sweep's folder there holds a lock while its process runs; an unheld lock means that
the process was killed. `.pool/` is the state of folders that later sweeps reuse.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import secrets
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock, Timeout

from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.session_folders import claim_folder, release_folder, remove_abandoned
from eval_pipeline.parsing.redacted_files import redact_files

POOL = ".pool"  # no name of a sweep or a workspace begins with a dot
_OWNER = ".owner"
_KEPT = ".kept"
_MOVING = ".moving"
ARTIFACTS = ".artifacts"
"""The folder of a sweep for what hooks leave beside its workspaces."""
_LONGEST = 60
_NO_REPOSITORY = "gitdir: /none-above-a-workspace\n"


class SweepFolder:
    """The folders of one sweep's workspaces: `path` below `root` for what is kept, another one where targets work."""

    def __init__(self, root: Path, sweep_id: str) -> None:
        self._root = root.absolute()
        self._sweep_id = sweep_id
        self._places: dict[Path, Path] = {}
        self._has_artifacts = False
        self.path, self._owner = self._create()
        self._work = claim_folder()
        block_git_discovery(self._work)

    def _create(self) -> tuple[Path, FileLock]:
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / ".lock"):
            remove_abandoned()
            remove_leftovers(self._root)
            path = _unused(self._root / safe_name(self._sweep_id))
            path.mkdir()
            block_git_discovery(path)
            owner = FileLock(path / _OWNER, thread_local=False)
            owner.acquire(timeout=0)
        return path, owner

    def new(self, *names: str) -> Path:
        """Create an empty folder to work in, which has this name when it is kept."""
        folder = self._work / secrets.token_hex(4)
        folder.mkdir()
        self._places[folder] = self.unused_place(*names)
        return folder

    def unused_place(self, *names: str) -> Path:
        """Return where a folder of this name can be kept: no other one is, or will be, there."""
        return _unused(self.path.joinpath(*map(safe_name, names)), self._places.values())

    def place_of(self, folder: Path) -> Path:
        """Return where a folder is once it is kept; one that was not created here stays where it is."""
        return self._places.get(folder, folder)

    def keep(self, folder: Path) -> None:
        """Move a folder to its place, where it stays after the sweep. Raises OSError when not all of it was moved."""
        place = self.place_of(folder)
        self._note_kept(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        _move(folder, place, self.path / _MOVING / folder.name)

    def keep_copy(self, folder: Path, place: Path) -> None:
        """Copy a folder that is worked in again to a place, where it stays after the sweep. Raises OSError when not all
        of it was copied."""
        self._note_kept(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        _copy(folder, place, self.path / _MOVING / secrets.token_hex(4))

    def artifacts(self, folder: Path) -> tuple[Path, Path]:
        """Create the folders for files that hooks leave beside a workspace: that of the sweep, and in it that of the
        workspace. Both stay after the sweep when there is something in them after `keep_artifacts`."""
        place = self.place_of(folder)
        name = place.relative_to(self.path) if place.is_relative_to(self.path) else Path(safe_name(place.name))
        of_workspace = self.path / ARTIFACTS / name
        of_workspace.mkdir(parents=True, exist_ok=True)
        return self.path / ARTIFACTS, of_workspace

    def keep_artifacts(self, of_workspace: Path) -> bool:
        """Keep what hooks left in a folder of `artifacts`, or directly in that of the sweep; return whether there is
        something."""
        folder = self.path / ARTIFACTS
        found = any(of_workspace.iterdir()) or any(path.is_file() for path in folder.iterdir())
        if found and not self._has_artifacts:
            self._has_artifacts = True
            self._note_kept(folder)
        return found

    def _note_kept(self, place: Path) -> None:
        with (self.path / _KEPT).open("a", encoding="utf-8") as names:
            names.write(f"{place.relative_to(self.path)}\n")

    def close(self) -> None:
        """Remove everything that is not kept."""
        remove(self._work)
        release_folder(self._work)
        _remove_all_but_kept(self.path)
        self._owner.release()
        with contextlib.suppress(OSError):
            (self.path / _OWNER).unlink(missing_ok=True)
            self.path.rmdir()


def _move(folder: Path, place: Path, scratch: Path) -> None:
    """Move a folder; to another file system it is copied."""
    try:
        folder.rename(place)
    except OSError:
        try:
            _copy(folder, place, scratch)
        finally:
            remove(folder)


def _copy(folder: Path, place: Path, scratch: Path) -> None:
    """Copy a folder to `scratch`, from where it appears at its place as a whole."""
    try:
        shutil.copytree(folder, scratch, symlinks=True, ignore=_special_files)
    finally:
        if scratch.is_dir():
            scratch.rename(place)


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes, sockets and devices, which would be read without end."""
    modes = {name: stat.S_IFMT(Path(folder, name).lstat().st_mode) for name in names}
    return [name for name, mode in modes.items() if mode not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)]


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


def safe_name(name: str) -> str:
    """Return a valid folder name. A changed name carries a hash, so that it stays unique."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:_LONGEST]
    if plain == name:
        return plain
    return f"{plain}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}".lstrip("-")


def _unused(path: Path, reserved: Iterable[Path] = ()) -> Path:
    number, requested, taken = 1, path, set(reserved)
    while path in taken or path.exists():
        number += 1
        path = requested.with_name(f"{requested.name}-{number}")
    return path
