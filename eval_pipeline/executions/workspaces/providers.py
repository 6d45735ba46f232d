"""Workspace providers: per case, shared, pooled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from eval_pipeline.executions.model import Plan, TargetFailure
from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import folder_beneath
from eval_pipeline.executions.workspaces.git import GitFailure
from eval_pipeline.executions.workspaces.hooks import HookFailure, failure_of_workspace, suite_payload
from eval_pipeline.executions.workspaces.known_copies import Origin, moment_after_copy
from eval_pipeline.executions.workspaces.pool import fill, outer_first, prepare
from eval_pipeline.executions.workspaces.repositories import CheckedOut, check_out, existing_checkout
from eval_pipeline.executions.workspaces.workspace_dir import WorkspaceDir, WorkspaceManager
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.workspace import Repository, WorkspaceSpec

_LOG = logging.getLogger(__name__)
FAILURES = (GitFailure, HookFailure, OSError)
"""Exceptions that preparing a workspace may raise."""


class WorkspaceProvider(Protocol):
    """Provides folders that are prepared up to before_all."""

    async def acquire(self, plan: Plan) -> WorkspaceDir:
        """Return a folder for exclusive use by one case. Raises TargetFailure."""

    async def release(self, workspace: WorkspaceDir, plan: Plan) -> None:
        """Take a folder back after its case is done."""

    async def cancel(self, workspace: WorkspaceDir) -> None:
        """Take a folder back after a cancellation: it becomes free or is removed, and no hook runs."""

    async def close(self) -> None:
        """Run after_all and release all folders. No case may follow."""


def provider_for(plan: Plan, spec: WorkspaceSpec, manager: WorkspaceManager) -> WorkspaceProvider:
    """Return the provider for cases with this workspace spec."""
    if is_per_case(spec):
        return PerCaseProvider(manager)
    if spec.mode == "static":
        return SharedProvider(manager, spec, lambda: _static(manager, spec), case=plan.case if spec.own_setup else None)
    if spec.mode == "pooled":
        return Pooled(manager, spec, lambda: _temporary(manager, spec, (plan.suite, plan.runner.name, "shared")))
    return SharedProvider(manager, spec, lambda: _temporary(manager, spec, (plan.suite, plan.runner.name, "shared")))


def is_per_case(spec: WorkspaceSpec) -> bool:
    """Return whether every case has a fresh folder: by its isolation, or because it has its own before_all."""
    return spec.isolation == "per_case" or (spec.own_setup and spec.mode != "static")


class PerCaseProvider:
    """A new folder for every execution, removed afterwards."""

    def __init__(self, manager: WorkspaceManager) -> None:
        self._manager = manager

    async def acquire(self, plan: Plan) -> WorkspaceDir:
        spec = plan.case.workspace
        assert spec is not None
        names = (plan.suite, plan.runner.name, f"{plan.case.id}-{plan.repetition}")
        try:
            workspace = await _temporary(self._manager, spec, names, clone=self._manager.copy_clone, fresh=True)
        except FAILURES as error:
            raise _unprepared(error) from error
        try:
            await _before_all(self._manager, workspace, spec, plan.case)
        except TargetFailure:
            workspace.failed = True
            await self.release(workspace, plan)
            raise
        return workspace

    async def release(self, workspace: WorkspaceDir, plan: Plan) -> None:
        assert plan.case.workspace is not None
        await after_all(self._manager, workspace, plan.case.workspace, plan.case)
        await workspace.release()

    async def cancel(self, workspace: WorkspaceDir) -> None:
        await workspace.release()

    async def close(self) -> None:
        return None


class SharedProvider:
    """Up to `most` folders that stay prepared for one case after another. A failed preparation fails every case.

    `make` creates another folder, or returns None when there can be no more. `case` is the owner of the preparation, if
    it belongs to a single case.
    """

    most = 1

    def __init__(
        self,
        manager: WorkspaceManager,
        spec: WorkspaceSpec,
        make: Callable[[], Awaitable[WorkspaceDir | None]],
        case: Case | None = None,
    ) -> None:
        self._manager = manager
        self._spec = spec
        self._make = make
        self._case = case
        self._free: list[WorkspaceDir] = []
        self._all: list[WorkspaceDir] = []
        self._pending = 0
        self._failure: TargetFailure | None = None
        self._changed = asyncio.Condition()

    async def acquire(self, plan: Plan) -> WorkspaceDir:
        if self._spec.path is not None:
            await self._manager.folder_lock(self._spec.path).acquire()
        try:
            return await self._next()
        except BaseException:
            self._end_turn()
            raise

    async def release(self, workspace: WorkspaceDir, plan: Plan) -> None:
        await self.cancel(workspace)

    async def cancel(self, workspace: WorkspaceDir) -> None:
        self._free.append(workspace)
        self._end_turn()
        async with self._changed:
            self._changed.notify()

    async def close(self) -> None:
        for workspace in self._all:
            await after_all(self._manager, workspace, self._spec, self._case)
            await workspace.release()

    def _end_turn(self) -> None:
        if self._spec.path is not None:
            self._manager.folder_lock(self._spec.path).release()

    async def _next(self) -> WorkspaceDir:
        while True:
            async with self._changed:
                if self._failure is not None:
                    raise _again(self._failure)
                if self._free:
                    return self._free.pop()
                if len(self._all) + self._pending >= self.most:
                    await self._changed.wait()
                    continue
                self._pending += 1
            workspace = await self._make_another()
            if workspace is not None:
                return workspace

    async def _make_another(self) -> WorkspaceDir | None:
        """Create and prepare another folder. Returns None when there can be no more."""
        workspace = None
        try:
            workspace = await self._make()
            if workspace is None:
                self.most = max(1, len(self._all))
                return None
            self._all.append(workspace)
            await _before_all(self._manager, workspace, self._spec, self._case)
        except (TargetFailure, *FAILURES) as error:
            if workspace is not None:
                workspace.failed = True
            self._failure = _unprepared(error)
            raise _again(self._failure) from error
        finally:
            self._pending -= 1
            async with self._changed:
                self._changed.notify_all()
        return workspace


class Pooled(SharedProvider):
    """Pool slots, one per concurrent case; a single temporary folder when other processes hold all slots."""

    def __init__(
        self, manager: WorkspaceManager, spec: WorkspaceSpec, temporary: Callable[[], Awaitable[WorkspaceDir]]
    ) -> None:
        super().__init__(manager, spec, self._slot)
        self.most = 1_000_000  # bounded by the pool itself: `_slot` returns None
        self._temporary = temporary

    async def _slot(self) -> WorkspaceDir | None:
        slot = self._manager.pool.take(self._spec)
        if slot is not None:
            try:
                checked_out = await prepare(slot, self._spec)
                tracker = self._manager.track(slot.folder)
            except BaseException:
                slot.release()
                raise
            return WorkspaceDir(self._manager, slot.folder, tracker, repositories=tuple(checked_out), slot=slot)
        if self._all or self._pending > 1:
            return None
        _LOG.warning("all slots of the workspace pool are in use; working in a temporary workspace")
        return await self._temporary()


def _unprepared(error: Exception) -> TargetFailure:
    return error if isinstance(error, TargetFailure) else TargetFailure(failure_of_workspace(error), str(error))


def _again(failure: TargetFailure) -> TargetFailure:
    """Return the failure for another case: an exception that is raised twice collects both traces."""
    return TargetFailure(failure.failure, str(failure), workspace=failure.workspace)


async def _temporary(
    manager: WorkspaceManager,
    spec: WorkspaceSpec,
    names: tuple[str, ...],
    clone: Callable[[Repository, Path], Awaitable[CheckedOut]] | None = None,
    *,
    fresh: bool = False,
) -> WorkspaceDir:
    folder = manager.sweep.new(*names)
    try:
        await fill(spec, folder)
        filled_ns = await in_thread(moment_after_copy) if spec.template is not None else None
        clone = clone or manager.check_out
        checked_out = [await clone(item, folder_beneath(folder, item.path)) for item in outer_first(spec)]
        tracker = manager.track(folder, _origin(spec, filled_ns))
        return WorkspaceDir(manager, folder, tracker, repositories=tuple(checked_out), fresh=fresh, filled_ns=filled_ns)
    except BaseException:
        remove(folder)
        raise


def _origin(spec: WorkspaceSpec, filled_ns: int | None) -> Origin | None:
    return Origin((spec.template, spec.files), filled_ns) if filled_ns is not None and not spec.repositories else None


async def _static(manager: WorkspaceManager, spec: WorkspaceSpec) -> WorkspaceDir:
    """Return the user's own folder: filled when missing or empty, else unchanged."""
    folder = spec.path
    assert folder is not None
    await manager.lock_folder(folder)
    await in_thread(folder.mkdir, parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        await fill(spec, folder)
    checked_out: list[CheckedOut] = []
    for item in outer_first(spec):
        path = folder_beneath(folder, item.path)
        checkout = (
            await existing_checkout(path) if path.is_dir() and any(path.iterdir()) else await check_out(item, path)
        )
        checked_out += [checkout] if checkout is not None else []
    return WorkspaceDir(manager, folder, manager.track(folder), repositories=tuple(checked_out), permanent=True)


async def _before_all(
    manager: WorkspaceManager, workspace: WorkspaceDir, spec: WorkspaceSpec, case: Case | None
) -> None:
    """Run before_all in a folder. Raises TargetFailure."""
    try:
        await workspace.run("before_all", spec, suite_payload("before_all", workspace.folder, manager.sweep_id, case))
        await workspace.record_clean_state()
    except FAILURES as error:
        raise workspace.unprepared(error) from error


async def after_all(manager: WorkspaceManager, workspace: WorkspaceDir, spec: WorkspaceSpec, case: Case | None) -> None:
    """Run after_all in a folder. A failure is logged and has no other effect."""
    try:
        await workspace.run("after_all", spec, suite_payload("after_all", workspace.folder, manager.sweep_id, case))
    except FAILURES as error:
        _LOG.warning("workspace %s: %s", workspace.folder, error)
