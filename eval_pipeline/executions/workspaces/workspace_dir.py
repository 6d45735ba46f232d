"""One prepared folder, what runs in it around a case, and what all folders of a sweep share."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.folders import POOL, SweepFolder, remove
from eval_pipeline.executions.workspaces.git import GitFailure
from eval_pipeline.executions.workspaces.hooks import HookPayload, run_hook
from eval_pipeline.executions.workspaces.pool import Pool, Slot
from eval_pipeline.executions.workspaces.repositories import CheckedOut, check_out, reset
from eval_pipeline.executions.workspaces.snapshots import SnapshotStore, SnapshotTracker
from eval_pipeline.suites.workspace import Repository, WorkspaceSpec

_LOG = logging.getLogger(__name__)
_LOOK_AGAIN_S = 0.2
Keep = Literal["failures", "always", "never"]


class WorkspaceManager:
    """What the workspaces of a sweep share: their folder, the store of pictures, clones, the pool, and locks."""

    def __init__(self, root: Path, sweep_id: str, *, keep: Keep, pool_slots: int, most_bytes: int) -> None:
        self.sweep_id = sweep_id
        self.keep = keep
        self.sweep = SweepFolder(root, sweep_id)
        self.pool = Pool(root.absolute() / POOL, pool_slots)
        self._pictures = SnapshotStore(self.sweep.path / ".pictures", most_bytes=most_bytes)
        self._numbers = itertools.count(1)
        self._clones: dict[Repository, asyncio.Task[CheckedOut]] = {}
        self._turns: dict[Path, asyncio.Lock] = {}
        self._locks: dict[Path, FileLock] = {}
        self._lock_folder = root.absolute() / ".static"

    def watch(self, folder: Path) -> SnapshotTracker:
        return self._pictures.watch(folder)

    def scratch(self) -> Path:
        """A folder that a hook may fill for a moment."""
        return self.sweep.path / ".scratch" / str(next(self._numbers))

    async def copy_of(self, repository: Repository, folder: Path) -> CheckedOut:
        """A repository copied from this sweep's clone of it: many cases, one clone. Raises GitFailure, OSError."""
        key = replace(repository, path=".")
        if key not in self._clones:
            place = self.sweep.path / ".clones" / str(next(self._numbers))
            self._clones[key] = asyncio.create_task(check_out(repository, place))
        cloned = await asyncio.shield(self._clones[key])
        await in_thread(shutil.copytree, cloned.folder, folder, symlinks=True, dirs_exist_ok=True)
        return replace(cloned, folder=folder)

    def turn(self, folder: Path) -> asyncio.Lock:
        """Who works in a folder that several supplies of this sweep may use."""
        return self._turns.setdefault(folder, asyncio.Lock())

    async def hold(self, folder: Path) -> None:
        """Waits until no other process works in a folder; it is this process's then, until the sweep ends."""
        if folder in self._locks:
            return
        self._lock_folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:24]
        lock = FileLock(self._lock_folder / f"{name}.lock", thread_local=False)
        for look in itertools.count():
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                if look == 0:
                    _LOG.warning("another sweep works in %s; waiting for it to end", folder)
                await asyncio.sleep(_LOOK_AGAIN_S)
        self._locks[folder] = lock

    async def close(self) -> None:
        """Lets everything go and removes what is not kept."""
        for task in self._clones.values():
            task.cancel()
        await asyncio.gather(*self._clones.values(), return_exceptions=True)
        self.pool.close()
        for lock in self._locks.values():
            lock.release()
        await in_thread(self.sweep.close)


class WorkspaceDir:
    """A prepared folder.

    `slot` is its place in the pool, `permanent` says that it is the user's own, `fresh` that it is one case's and is
    never reset. `clean` is its picture after before_all, which a reset goes back to where there is no repository.
    `failed` is whether a case failed in it.
    """

    def __init__(
        self,
        bench: WorkspaceManager,
        folder: Path,
        watch: SnapshotTracker,
        *,
        repositories: tuple[CheckedOut, ...] = (),
        slot: Slot | None = None,
        permanent: bool = False,
        fresh: bool = False,
    ) -> None:
        self._bench = bench
        self._watch = watch
        self._slot = slot
        self.folder = folder
        self.repositories = repositories
        self.permanent = permanent
        self.fresh = fresh
        self.clean: str | None = None
        self.failed = False
        self.printed: dict[str, str] = {}

    async def snapshot(self) -> str:
        return await self._watch.snapshot()

    async def diff(self, before: str, after: str) -> str:
        return await self._watch.diff(before, after)

    async def run(self, name: str, spec: WorkspaceSpec, told: HookPayload) -> None:
        """Runs the hook of this name, if there is one: its reset first. Raises GitFailure, OSError, HookFailure."""
        hook = spec.hook(name)
        if hook is None:
            return
        if hook.resets and not self.fresh and (self.repositories or name != "before_all"):
            await self.reset(strict=hook.reset == "strict")
        if hook.command:
            scratch = self._bench.scratch()
            self.printed[name] = await run_hook(name, hook, told, folder=spec.folder, scratch=scratch)

    async def remember(self) -> None:
        """Takes the picture that a reset goes back to, where that is not a commit. Raises OSError."""
        if not self.repositories and not self.fresh:
            with contextlib.suppress(GitFailure):  # asking for a reset says so
                self.clean = await self.snapshot()

    async def reset(self, *, strict: bool) -> None:
        """Puts the repositories back to their commits; without any, all files to how before_all left them."""
        if self.repositories:
            await self._reset_repositories(strict=strict)
        elif self.clean is None:
            raise GitFailure("the workspace cannot be reset: it is not known how it began")
        else:
            await self._watch.put_back(self.clean, ignored=strict)

    async def restore(self, snapshot: str) -> None:
        """Puts everything back to a picture, repositories to their commits first."""
        await self._reset_repositories(strict=False)
        await self._watch.put_back(snapshot)

    async def _reset_repositories(self, *, strict: bool) -> None:
        folders = tuple(at.folder for at in self.repositories)
        for at in self.repositories:
            await reset(at, ignored=strict, keep=folders)

    def stays(self, *, failed: bool) -> bool:
        """Whether the folder is there after the sweep (one in the pool is, and is used again)."""
        keep = self._bench.keep
        return self.permanent or (self._slot is None and (keep == "always" or (failed and keep == "failures")))

    async def release(self) -> None:
        """Nobody works in it any more."""
        if self._slot is not None:
            self._slot.release()
        elif self.stays(failed=self.failed):
            if not self.permanent:
                self._bench.sweep.keep(self.folder)
        else:
            await in_thread(remove, self.folder)
