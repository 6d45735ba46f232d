"""Who gets which folder: a fresh one for each case, one for all in turn, or one of several in a pool."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from eval_pipeline.executions.model import Plan, TargetFailure
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.folders import remove
from eval_pipeline.executions.workspaces.git import GitFailure
from eval_pipeline.executions.workspaces.hooks import HookFailure, told_of_all
from eval_pipeline.executions.workspaces.pool import fill, outer_first, prepare
from eval_pipeline.executions.workspaces.repositories import CheckedOut, as_it_is, check_out
from eval_pipeline.executions.workspaces.workspace_dir import WorkspaceDir, WorkspaceManager
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.workspace import Repository, WorkspaceSpec

_LOG = logging.getLogger(__name__)
FAILURES = (GitFailure, HookFailure, OSError)
"""What making or preparing a workspace may raise."""


class WorkspaceProvider(Protocol):
    """Gives out folders that are prepared up to before_all."""

    async def take(self, plan: Plan) -> WorkspaceDir:
        """A folder for one case to work in, alone. Raises TargetFailure."""

    async def give(self, place: WorkspaceDir, plan: Plan) -> None:
        """The case is done with it."""

    async def cancel(self, place: WorkspaceDir) -> None:
        """The case was cancelled: the folder is free again, or gone, and no hook runs."""

    async def close(self) -> None:
        """No case comes any more: after_all, and the folders are let go."""


def supply_of(plan: Plan, spec: WorkspaceSpec, bench: WorkspaceManager) -> WorkspaceProvider:
    """The supply for cases that ask for this workspace."""
    if for_each_case(spec):
        return PerCaseProvider(bench)
    if spec.mode == "static":
        return SharedProvider(bench, spec, lambda: _static(bench, spec), own=plan.case if spec.own_setup else None)
    if spec.mode == "pooled":
        return Pooled(bench, spec, lambda: _temporary(bench, spec, (plan.suite, plan.runner.name, "shared")))
    return SharedProvider(bench, spec, lambda: _temporary(bench, spec, (plan.suite, plan.runner.name, "shared")))


def for_each_case(spec: WorkspaceSpec) -> bool:
    """Whether every case has a fresh folder: when it says so, or brings a before_all of its own."""
    return spec.isolation == "per_case" or (spec.own_setup and spec.mode != "static")


class PerCaseProvider:
    """A new folder for every execution, removed after it."""

    def __init__(self, bench: WorkspaceManager) -> None:
        self._bench = bench

    async def take(self, plan: Plan) -> WorkspaceDir:
        spec = plan.case.workspace
        assert spec is not None
        names = (plan.suite, plan.runner.name, f"{plan.case.id}-{plan.repetition}")
        try:
            place = await _temporary(self._bench, spec, names, clone=self._bench.copy_of)
        except FAILURES as error:
            raise TargetFailure(WORKSPACE, str(error)) from error
        try:
            await _before_all(self._bench, place, spec, plan.case)
        except TargetFailure:
            place.failed = True
            await self.give(place, plan)
            raise
        return place

    async def give(self, place: WorkspaceDir, plan: Plan) -> None:
        assert plan.case.workspace is not None
        await after_all(self._bench, place, plan.case.workspace, plan.case)
        await place.release()

    async def cancel(self, place: WorkspaceDir) -> None:
        await place.release()

    async def close(self) -> None:
        return None


class SharedProvider:
    """Up to `most` folders that stay prepared for one case after another; a failure to prepare one is every case's.

    `make` makes one more, or says with None that there are to be no more than there are. `own` is the case that the
    preparation belongs to, when it is one's alone.
    """

    most = 1

    def __init__(
        self,
        bench: WorkspaceManager,
        spec: WorkspaceSpec,
        make: Callable[[], Awaitable[WorkspaceDir | None]],
        own: Case | None = None,
    ) -> None:
        self._bench = bench
        self._spec = spec
        self._make = make
        self._own = own
        self._free: list[WorkspaceDir] = []
        self._all: list[WorkspaceDir] = []
        self._being_made = 0
        self._failure: str | None = None
        self._changed = asyncio.Condition()

    async def take(self, plan: Plan) -> WorkspaceDir:
        if self._spec.path is not None:
            await self._bench.turn(self._spec.path).acquire()
        try:
            return await self._next()
        except BaseException:
            self._end_turn()
            raise

    async def give(self, place: WorkspaceDir, plan: Plan) -> None:
        await self.cancel(place)

    async def cancel(self, place: WorkspaceDir) -> None:
        self._free.append(place)
        self._end_turn()
        async with self._changed:
            self._changed.notify()

    async def close(self) -> None:
        for place in self._all:
            await after_all(self._bench, place, self._spec, self._own)
            await place.release()

    def _end_turn(self) -> None:
        if self._spec.path is not None:
            self._bench.turn(self._spec.path).release()

    async def _next(self) -> WorkspaceDir:
        while True:
            async with self._changed:
                if self._failure is not None:
                    raise TargetFailure(WORKSPACE, self._failure)
                if self._free:
                    return self._free.pop()
                if len(self._all) + self._being_made >= self.most:
                    await self._changed.wait()
                    continue
                self._being_made += 1
            place = await self._one_more()
            if place is not None:
                return place

    async def _one_more(self) -> WorkspaceDir | None:
        """One more folder, prepared; None when there are to be no more."""
        place = None
        try:
            place = await self._make()
            if place is None:
                self.most = max(1, len(self._all))
                return None
            self._all.append(place)
            await _before_all(self._bench, place, self._spec, self._own)
        except (TargetFailure, *FAILURES) as error:
            self._failure = str(error)
            if place is not None:
                place.failed = True
            raise TargetFailure(WORKSPACE, self._failure) from error
        finally:
            self._being_made -= 1
            async with self._changed:
                self._changed.notify_all()
        return place


class Pooled(SharedProvider):
    """Slots of the pool, as many as there are cases at once; one temporary folder when others hold all of them."""

    def __init__(
        self, bench: WorkspaceManager, spec: WorkspaceSpec, temporary: Callable[[], Awaitable[WorkspaceDir]]
    ) -> None:
        super().__init__(bench, spec, self._slot)
        self.most = 1_000_000
        self._temporary = temporary

    async def _slot(self) -> WorkspaceDir | None:
        slot = self._bench.pool.take(self._spec)
        if slot is not None:
            try:
                checked_out = await prepare(slot, self._spec)
                watch = self._bench.watch(slot.folder)
            except BaseException:
                slot.release()
                raise
            return WorkspaceDir(self._bench, slot.folder, watch, repositories=tuple(checked_out), slot=slot)
        if self._all or self._being_made > 1:
            return None
        _LOG.warning("all slots of the workspace pool are in use; working in a temporary workspace")
        return await self._temporary()


async def _temporary(
    bench: WorkspaceManager,
    spec: WorkspaceSpec,
    names: tuple[str, ...],
    clone: Callable[[Repository, Path], Awaitable[CheckedOut]] = check_out,
) -> WorkspaceDir:
    folder = bench.sweep.new(*names)
    try:
        await fill(spec, folder)
        checked_out = [await clone(item, folder / item.path) for item in outer_first(spec)]
        watch = bench.watch(folder)
        return WorkspaceDir(bench, folder, watch, repositories=tuple(checked_out), fresh=clone is not check_out)
    except BaseException:
        remove(folder)
        raise


async def _static(bench: WorkspaceManager, spec: WorkspaceSpec) -> WorkspaceDir:
    """The user's own folder: filled when it is missing or empty, else taken as it is."""
    folder = spec.path
    assert folder is not None
    await bench.hold(folder)
    await in_thread(folder.mkdir, parents=True, exist_ok=True)
    if not any(folder.iterdir()):
        await fill(spec, folder)
    checked_out: list[CheckedOut] = []
    for item in outer_first(spec):
        place = folder / item.path
        found = await as_it_is(place) if place.is_dir() and any(place.iterdir()) else await check_out(item, place)
        checked_out += [found] if found is not None else []
    return WorkspaceDir(bench, folder, bench.watch(folder), repositories=tuple(checked_out), permanent=True)


async def _before_all(bench: WorkspaceManager, place: WorkspaceDir, spec: WorkspaceSpec, case: Case | None) -> None:
    """Runs before_all in a folder. Raises TargetFailure."""
    try:
        await place.run("before_all", spec, told_of_all("before_all", place.folder, bench.sweep_id, case))
        await place.remember()
    except FAILURES as error:
        raise TargetFailure(WORKSPACE, str(error)) from error


async def after_all(bench: WorkspaceManager, place: WorkspaceDir, spec: WorkspaceSpec, case: Case | None) -> None:
    """Runs after_all in a folder; a failure is said and changes nothing."""
    try:
        await place.run("after_all", spec, told_of_all("after_all", place.folder, bench.sweep_id, case))
    except FAILURES as error:
        _LOG.warning("workspace %s: %s", place.folder, error)
