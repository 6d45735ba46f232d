"""One prepared folder, its hooks around a case, and the resources that all folders of a sweep share."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import logging
from dataclasses import replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from eval_pipeline.errors import error_text
from eval_pipeline.executions.model import TargetFailure, WorkspaceTrace
from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.session_folders import lasting_folder
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import copy_folder, folder_beneath
from eval_pipeline.executions.workspaces.folders import POOL, SweepFolder
from eval_pipeline.executions.workspaces.git import GitFailure
from eval_pipeline.executions.workspaces.hooks import HookFailure, HookPayload, failure_of_workspace, run_hook
from eval_pipeline.executions.workspaces.known_copies import Origin
from eval_pipeline.executions.workspaces.pool import Pool, Slot
from eval_pipeline.executions.workspaces.repositories import CheckedOut, check_out, reset
from eval_pipeline.executions.workspaces.snapshots import SnapshotStore, SnapshotTracker
from eval_pipeline.suites.workspace import PREPARING_HOOKS, Hook, Repository, WorkspaceSpec

_LOG = logging.getLogger(__name__)
_POLL_S = 0.2
Keep = Literal["failures", "always", "never"]


class WorkspaceManager:
    """Resources shared by the workspaces of a sweep: folder, snapshot store, clones, pool and locks."""

    def __init__(self, root: Path, sweep_id: str, *, keep: Keep, pool_slots: int, most_bytes: int) -> None:
        self.sweep_id = sweep_id
        self.keep = keep
        self.sweep = SweepFolder(root, sweep_id)
        self.pool = Pool(root.absolute() / POOL, lasting_folder(root), pool_slots)
        self._snapshots = SnapshotStore(self.sweep.path / ".snapshots", most_bytes=most_bytes)
        self._numbers = itertools.count(1)
        self._clones: dict[Repository, asyncio.Task[CheckedOut]] = {}
        self._folder_locks: dict[Path, asyncio.Lock] = {}
        self._locks: dict[Path, FileLock] = {}
        self._lock_folder = root.absolute() / ".static"

    def track(self, folder: Path, origin: Origin | None = None) -> SnapshotTracker:
        return self._snapshots.track(folder, origin)

    def scratch(self) -> Path:
        """Return a new path for a hook's temporary folder."""
        return self.sweep.path / ".scratch" / str(next(self._numbers))

    async def check_out(self, repository: Repository, folder: Path) -> CheckedOut:
        """Clone a repository into a missing or empty folder. Raises GitFailure."""
        return await check_out(repository, folder, self._clone_folder())

    def _clone_folder(self) -> Path:
        return self.sweep.path / ".clones" / str(next(self._numbers))

    async def copy_clone(self, repository: Repository, folder: Path) -> CheckedOut:
        """Copy a repository from this sweep's clone: one clone serves many cases. Raises GitFailure, OSError."""
        key = replace(repository, path=".")
        if key not in self._clones:
            self._clones[key] = asyncio.create_task(self.check_out(repository, self._clone_folder()))
        # Shielded, because other cases wait for the same clone when this one is cancelled.
        cloned = await asyncio.shield(self._clones[key])
        await in_thread(copy_folder, cloned.folder, folder)
        return replace(cloned, folder=folder)

    def folder_lock(self, folder: Path) -> asyncio.Lock:
        """Return the lock of a folder that several providers of this sweep may use."""
        return self._folder_locks.setdefault(folder, asyncio.Lock())

    async def lock_folder(self, folder: Path) -> None:
        """Lock a folder against other processes until the sweep ends. Waits while another sweep holds it."""
        if folder in self._locks:
            return
        self._lock_folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(str(folder.resolve()).encode(errors="surrogateescape")).hexdigest()[:24]
        lock = FileLock(self._lock_folder / f"{name}.lock", thread_local=False)
        for number in itertools.count():
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                if number == 0:
                    _LOG.warning("another sweep works in %s; waiting for it to end", folder)
                await asyncio.sleep(_POLL_S)
        self._locks[folder] = lock

    async def close(self) -> None:
        """Release all locks and remove what is not kept."""
        for task in self._clones.values():
            task.cancel()
        await asyncio.gather(*self._clones.values(), return_exceptions=True)
        self.pool.close()
        for lock in self._locks.values():
            lock.release()
        await in_thread(self.sweep.close)


class WorkspaceDir:
    """A prepared folder.

    `slot` is its slot in the pool; `permanent` marks the user's own folder; `fresh` a folder of a single case, which is
    never reset. `clean` is the snapshot after before_all, the target of a reset without repositories. `first` is
    the one before the first target's work. `failed` is whether a case failed in it. `copy_place` is where a copy of a
    slot stays, as the case that works in it leaves it; None between cases. `filled_ns` is when the copy of its
    template was complete; None for one that was not made here, or without a template.
    """

    def __init__(
        self,
        manager: WorkspaceManager,
        folder: Path,
        tracker: SnapshotTracker,
        *,
        repositories: tuple[CheckedOut, ...] = (),
        slot: Slot | None = None,
        permanent: bool = False,
        fresh: bool = False,
        filled_ns: int | None = None,
    ) -> None:
        self._manager = manager
        self._tracker = tracker
        self._slot = slot
        self.folder = folder
        self.repositories = repositories
        self.permanent = permanent
        self.fresh = fresh
        self.filled_ns = filled_ns
        self.clean: str | None = None
        self.first: str | None = None
        self.failed = False
        self.copy_place: Path | None = None
        self.hook_output: dict[str, str] = {}

    async def snapshot(self) -> str:
        return await self._tracker.snapshot()

    async def diff(self, before: str, after: str) -> str:
        return await self._tracker.diff(before, after)

    async def run(self, name: str, spec: WorkspaceSpec, payload: HookPayload) -> None:
        """Run the hook of this name, if any, after its reset, and that of the runner: inside of it, so that what the
        suite prepares is there. Raises GitFailure, OSError, HookFailure."""
        of_runner, prepares = spec.runner_hooks.get(name), name in PREPARING_HOOKS
        if of_runner is not None and not prepares:
            await self._run_of_runner(name, of_runner, spec, payload)
        await self._run_of_suite(name, spec, payload)
        if of_runner is not None and prepares:
            await self._run_of_runner(name, of_runner, spec, payload)

    async def _run_of_runner(self, name: str, hook: Hook, spec: WorkspaceSpec, payload: HookPayload) -> None:
        """Run a hook of the runner. One after the target's work that fails is a warning: the suite's follows it."""
        shown, prepares = f"target_{name}", name in PREPARING_HOOKS
        payload = replace(payload, test_id=f"__{shown}__") if name.endswith("all") else payload
        try:
            await self._run_hook(shown, hook, spec, payload, prepares=prepares)
        except HookFailure as error:
            if prepares:
                raise
            _LOG.warning("workspace %s: %s", self.folder, error)

    async def _run_of_suite(self, name: str, spec: WorkspaceSpec, payload: HookPayload) -> None:
        hook = spec.hook(name)
        if hook is None:
            return
        if hook.resets and not self.fresh and (self.repositories or name != "before_all"):
            await self.reset(strict=hook.reset == "strict")
        if hook.command:
            await self._run_hook(name, hook, spec, payload, prepares=name in PREPARING_HOOKS)

    async def _run_hook(
        self, name: str, hook: Hook, spec: WorkspaceSpec, payload: HookPayload, *, prepares: bool
    ) -> None:
        """Run a hook and keep its output, also that of one that fails. Raises HookFailure."""
        scratch = self._manager.scratch()
        sweep, artifacts = self._manager.sweep, None
        if hook.bootstrap:
            output, artifacts = await in_thread(sweep.artifacts, self.folder)
            payload = replace(payload, output_dir=str(output), artifact_dir=str(artifacts))
        try:
            self.hook_output[name] = await run_hook(
                name, hook, payload, prepares=prepares, folder=spec.folder, scratch=scratch
            )
        except HookFailure as error:
            self.hook_output[name] = error.output
            raise
        finally:
            if artifacts is not None and sweep.keep_artifacts(artifacts):
                self.hook_output[name] = f"{self.hook_output.get(name, '')}files that it left: {artifacts}\n"

    async def record_clean_state(self) -> None:
        """Take the snapshot that a reset restores when there are no repositories. Raises OSError."""
        if not self.repositories and not self.fresh:
            with contextlib.suppress(GitFailure):  # `reset` reports it
                self.clean = await self.snapshot()

    async def reset(self, *, strict: bool) -> None:
        """Reset the repositories to their commits; without repositories, all files to the state after before_all."""
        if self.repositories:
            await self._reset_repositories(strict=strict)
        elif self.clean is None:
            raise GitFailure("the workspace cannot be reset: its initial state is unknown")
        else:
            await self._tracker.restore(self.clean, ignored=strict)

    async def restore(self, snapshot: str) -> None:
        """Restore a snapshot, after resetting repositories to their commits."""
        await self._reset_repositories(strict=False)
        await self._tracker.restore(snapshot)

    async def _reset_repositories(self, *, strict: bool) -> None:
        folders = tuple(at.folder for at in self.repositories)
        for at in self.repositories:
            folder_beneath(self.folder, at.folder.relative_to(self.folder).as_posix())
            await reset(at, ignored=strict, keep=folders)

    @property
    def place(self) -> Path:
        """Where the folder, or the copy of a slot, is once it is kept."""
        return self.copy_place or self._manager.sweep.place_of(self.folder)

    def begin_case(self, *names: str) -> None:
        """Choose where a copy of a slot stays, which has this name; any other folder has its place."""
        if self._slot is not None:
            self.copy_place = self._manager.sweep.unused_place(*names)

    def is_kept(self, *, failed: bool) -> bool:
        """Return whether the folder stays after the sweep; a slot of the pool is reused: whether a copy of it stays."""
        keep = self._manager.keep
        can_stay = self._slot is None or self.copy_place is not None
        return self.permanent or (can_stay and (keep == "always" or (failed and keep == "failures")))

    async def end_case(self, *, failed: bool) -> None:
        """Copy a slot as its case leaves it, where that is to be kept: the next case, or sweep, resets it."""
        if self._slot is not None and self.is_kept(failed=failed):
            await self._keep()

    def unprepared(self, error: Exception) -> TargetFailure:
        """Return the failure of an attempt whose folder could not be prepared: where it stays, and hooks' output."""
        kept = self.is_kept(failed=True)
        trace = WorkspaceTrace(place=self.place if kept else None, kept=kept, hooks=dict(self.hook_output))
        return TargetFailure(failure_of_workspace(error), str(error), workspace=trace)

    async def release(self) -> None:
        """Release the folder: free its slot, or keep or remove it."""
        if self._slot is not None:
            self._slot.release()
        elif self.is_kept(failed=self.failed):
            if not self.permanent:
                await self._keep()
        else:
            await in_thread(remove, self.folder)

    async def _keep(self) -> None:
        try:
            sweep = self._manager.sweep
            if self.copy_place is not None:
                await in_thread(sweep.keep_copy, self.folder, self.copy_place)
            else:
                await in_thread(sweep.keep, self.folder)
        except OSError as error:
            _LOG.warning("not all of a workspace is kept in %s: %s", self.place, error_text(error))
