"""Changes of a folder between two moments as a unified diff, and restoring the folder.

A private git store outside the folder takes snapshots, so that a `.git` of the user is neither required nor modified.
All folders of a sweep share one store: equal files are stored once. Files that `.gitignore` excludes are skipped, as in
git; nested repositories are included file by file.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import shutil
import stat
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from pathlib import Path

from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.git import git
from eval_pipeline.executions.workspaces.known_copies import FileStatus, KnownCopy, Origin, statuses

MOST_BYTES = 5_000_000
_CUT = "\\ The diff goes on; it is longer than {:,} bytes.\n"
# Store bytes unchanged: no line-end conversion, no filters, nothing that hides a change from the diff.
_ATTRIBUTES = "* -text -ident !filter !diff !working-tree-encoding\n"
_CONFIG = ("core.bare=false", "core.quotePath=false", "core.excludesFile=/dev/null", "core.attributesFile=/dev/null",
           "core.autocrlf=false", "core.fileMode=true", "core.symlinks=true", "core.bigFileThreshold=5m",
           "core.looseCompression=1", "core.safecrlf=false", "advice.addEmbeddedRepo=false")  # fmt: skip
_SETTINGS = tuple(itertools.chain.from_iterable(("-c", setting) for setting in _CONFIG))


class SnapshotStore:
    """Storage of snapshots: a private git directory at `path`."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self.path = path
        self.most_bytes = most_bytes
        self.known: dict[Hashable, KnownCopy] = {}
        self._numbers = itertools.count(1)
        self._making = asyncio.Lock()
        self._created = False

    def track(self, folder: Path, origin: Origin | None = None) -> SnapshotTracker:
        """Return a tracker for a folder; `origin` is what it was filled with."""
        return SnapshotTracker(self, folder, self.new_index(), origin)

    def new_index(self) -> Path:
        """Return the path of another index."""
        return self.path / "indexes" / str(next(self._numbers))

    async def ensure_created(self) -> None:
        """Create the store on first use. Raises GitFailure."""
        async with self._making:
            if not self._created:
                await self._make()
                self._created = True

    async def _make(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        await git("init", "--quiet", "--bare", "--template=", self.path, cwd=self.path, env=_own_config())
        (self.path / "info").mkdir(exist_ok=True)
        (self.path / "info" / "attributes").write_text(_ATTRIBUTES, encoding="ascii")
        (self.path / "indexes").mkdir(exist_ok=True)


class SnapshotTracker:
    """Takes snapshots of one folder; a snapshot is the hash of a git tree. Methods raise GitFailure and OSError."""

    def __init__(self, store: SnapshotStore, folder: Path, index: Path, origin: Origin | None = None) -> None:
        self._store = store
        self._folder = folder
        self._index = index
        self._origin = origin
        self._env = {
            **_own_config(),
            "GIT_DIR": str(store.path),
            "GIT_WORK_TREE": str(folder),
            "GIT_INDEX_FILE": str(index),
        }
        self._repositories: frozenset[str] | None = None
        self._first: Mapping[str, FileStatus] | None = None
        self._removed: set[str] = set()

    async def snapshot(self) -> str:
        """Take a snapshot of the current content."""
        await self._store.ensure_created()
        files = await in_thread(statuses, self._folder) if self._origin is not None else None
        if self._repositories is None:
            below = await in_thread(_repositories_below, str(self._folder)) if files is None else ()
            self._repositories = frozenset(below)
        if files is None or self._origin is None:
            return await self._tree(await self._files(""))
        is_first, self._first = self._first is None, self._first or files
        known = self._store.known.get(self._origin.key)
        if known is not None:
            return await self._changed_tree(known, files, self._first, self._origin.filled_ns)
        listed = await self._files("")
        tree = await self._tree(listed)
        if is_first and all(status.touched_ns <= self._origin.filled_ns for status in files.values()):
            await in_thread(self._remember, self._origin.key, tree, listed, files)
        return tree

    async def _changed_tree(
        self, known: KnownCopy, files: Mapping[str, FileStatus], first: Mapping[str, FileStatus], since_ns: int
    ) -> str:
        """Return the tree of the content by that of an untouched copy: only what is not as there is read."""
        unchanged = known.unchanged(files, first, since_ns)
        if len(unchanged) == len(files) == len(known.files):
            return known.tree
        if not self._index.exists():
            await in_thread(shutil.copyfile, known.index, self._index)
        return await self._tree(await self._files(""), unchanged & known.indexed - self._removed)

    def _remember(self, key: Hashable, tree: str, listed: Iterable[str], files: Mapping[str, FileStatus]) -> None:
        index = self._store.new_index()
        if self._index.exists():  # there is none of a folder without files
            shutil.copyfile(self._index, index)
            self._store.known[key] = KnownCopy(tree=tree, index=index, indexed=frozenset(listed), files=files)

    async def _tree(self, listed: Iterable[str], unchanged: Collection[str] = ()) -> str:
        """Return the tree of the listed files; the index has those that are unchanged already."""
        names = [name for name in listed if name not in unchanged]
        present, gone = await in_thread(_split_by_presence, str(self._folder), names)
        if gone:
            self._removed.update(gone)
            await self._git("update-index", "-z", "--force-remove", "--stdin", stdin=_joined(gone))
        if present:
            await self._git("update-index", "-z", "--add", "--replace", "--stdin", stdin=_joined(present))
        return (await self._git("write-tree")).decode().strip()

    async def diff(self, before: str, after: str) -> str:
        """Return the unified diff between two snapshots; binary files are only named."""
        if before == after:
            return ""
        most = self._store.most_bytes
        arguments = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", before, after)
        text = await self._git(*arguments, most_bytes=most)
        if len(text) >= most:
            text = text[: text.rfind(b"\n") + 1] + _CUT.format(most).encode()
        return text.decode(errors="replace")

    async def restore(self, snapshot: str, *, ignored: bool = False) -> None:
        """Restore a snapshot. Files excluded by `.gitignore` stay, unless `ignored`."""
        now = await self.snapshot()
        if ignored:
            extra = await self._git("ls-files", "-z", "--others", "--ignored", "--exclude-standard")
            await in_thread(_remove, self._folder, _names(extra))
        status = _names(await self._git("diff-tree", "-r", "-z", "--no-renames", "--name-status", snapshot, now))
        changes = dict(zip(status[1::2], status[::2], strict=True))
        await in_thread(_remove, self._folder, [name for name, kind in changes.items() if kind == "A"])
        await in_thread(_remove_repositories, self._folder, self._repositories or frozenset())
        await self._git("read-tree", "--reset", snapshot)
        again = [name for name, kind in changes.items() if kind != "A"]
        if again:
            await self._git("checkout-index", "--force", "-z", "--stdin", stdin=_joined(again))

    async def _files(self, below: str) -> list[str]:
        """Return the files of the folder, including those of nested repositories (which git lists as one name)."""
        folder = self._folder / below
        env = {"GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": f"{self._env['GIT_INDEX_FILE']}.none"} if below else {}
        cached = () if below else ("--cached",)
        output = await self._git("ls-files", "-z", *cached, "--others", "--exclude-standard", cwd=folder, env=env)
        files: list[str] = []
        for name in _names(output):
            files += await self._files(below + name) if name.endswith("/") else [below + name]
        return files

    async def _git(
        self,
        *arguments: str,
        stdin: bytes | None = None,
        most_bytes: int | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> bytes:
        return await git(
            *_SETTINGS,
            *arguments,
            cwd=cwd or self._folder,
            env={**self._env, **(env or {})},
            stdin=stdin,
            most_bytes=most_bytes,
        )


def _own_config() -> dict[str, str]:
    """Return variables that disable the user's git configuration, which is meant for other repositories."""
    return {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_SYSTEM": os.devnull, "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_COUNT": "0", "GIT_CONFIG_PARAMETERS": ""}  # fmt: skip


def _names(output: bytes) -> list[str]:
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _joined(names: Iterable[str]) -> bytes:
    return b"\0".join(map(os.fsencode, names))


def _split_by_presence(folder: str, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split names into files or links that exist and names that are gone. Unreadable files are in neither.

    A name below a symbolic link does not belong to this folder.
    """
    present, gone = [], []
    linked = {"": False}
    for name in dict.fromkeys(names):
        mode = _mode(f"{folder}/{name}")
        if _below_link(folder, name.rpartition("/")[0], linked) or not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            gone.append(name)
        elif stat.S_ISLNK(mode) or os.access(f"{folder}/{name}", os.R_OK):
            present.append(name)
    return present, gone


def _below_link(folder: str, parent: str, known: dict[str, bool]) -> bool:
    if parent not in known:
        above = _below_link(folder, parent.rpartition("/")[0], known)
        known[parent] = above or stat.S_ISLNK(_mode(f"{folder}/{parent}"))
    return known[parent]


def _mode(path: str) -> int:
    """Return the mode of a path without following links; 0 if it does not exist."""
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0


def _repositories_below(folder: str) -> Iterator[str]:
    """Yield the folders that contain a `.git`, relative to `folder` (itself included)."""
    for parent, folders, names in os.walk(folder):
        if ".git" in folders or ".git" in names:
            yield os.path.relpath(parent, folder)
        folders[:] = [name for name in folders if name != ".git"]


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Remove files, and the folders that become empty."""
    for name in names:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        _remove_empty(path.parent, folder)


def _remove_empty(path: Path, top: Path) -> None:
    with contextlib.suppress(OSError):  # stops at the first folder that is not empty
        while path != top:
            path.rmdir()
            path = path.parent


def _remove_repositories(folder: Path, known: frozenset[str]) -> None:
    """Remove the `.git` of repositories that did not exist at first."""
    for inside in list(_repositories_below(str(folder))):
        if inside not in known:
            _remove(folder, [f"{inside}/.git"])
