"""The life of a workspace: prepared, worked in by one case after another, looked at by graders, tidied, let go.

    template → repositories → before_all → ( before_each → baseline → the target works → what changed
    → graders look → reset → after_each )* → after_all → removed or kept

`Workspaces` is what a sweep has, `Workspace` what one attempt has of it. How git, hooks and folders work stands in the
modules beside this one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from types import TracebackType

from eval_pipeline.executions.model import Plan, TargetFailure, WorkspaceTrace
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.hooks import case_payload
from eval_pipeline.executions.workspaces.providers import FAILURES, WorkspaceProvider, for_each_case, supply_of
from eval_pipeline.executions.workspaces.snapshots import MOST_BYTES
from eval_pipeline.executions.workspaces.workspace_dir import Keep, WorkspaceDir, WorkspaceManager
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.suites.workspace import WorkspaceSpec

_LOG = logging.getLogger(__name__)
POOL_SLOTS = 10
_SupplyKey = tuple[str, str, str, str]


class Workspaces:
    """The workspaces of one sweep, below `root`.

    `keep` says which temporary ones stay when the sweep ends, `pool_slots` how many folders the pool may have for one
    set of repositories, `most_diff_bytes` where a diff is cut. Use it as an async context manager: at its end after_all
    runs and what is not kept is removed; when the sweep is cancelled no hook runs any more.
    """

    def __init__(
        self,
        root: Path,
        sweep_id: str,
        *,
        keep: Keep = "failures",
        pool_slots: int = POOL_SLOTS,
        most_diff_bytes: int = MOST_BYTES,
    ) -> None:
        self._root = root
        self._sweep_id = sweep_id
        self._keep = keep
        self._pool_slots = pool_slots
        self._most_diff_bytes = most_diff_bytes
        self._bench: WorkspaceManager | None = None
        self._beginning = asyncio.Lock()
        self._supplies: dict[_SupplyKey, WorkspaceProvider] = {}

    async def __aenter__(self) -> Workspaces:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ended = kind is None or issubclass(kind, Exception)
        await (self.close() if ended else self.discard())

    async def open(self, plan: Plan) -> Workspace:
        """A workspace ready for the target to work in, when it is this case's turn.

        Raises TargetFailure (failure class `workspace`) when it cannot be prepared.
        """
        spec = plan.case.workspace
        if spec is None:
            raise ValueError(f"case '{plan.case.id}' asks for no workspace")
        bench = await self._begun()
        supply = self._supply(plan, spec, bench)
        place = await supply.take(plan)
        workspace = Workspace(plan, spec, bench, supply, place)
        try:
            await workspace.prepare()
        except TargetFailure:
            await workspace.close(failed=True)
            raise
        except BaseException:
            await supply.cancel(place)
            raise
        return workspace

    async def close(self) -> None:
        """The sweep is over: after_all for every shared workspace, and what is not kept is removed."""
        try:
            for supply in self._supplies.values():
                await supply.close()
        finally:
            await self.discard()

    async def discard(self) -> None:
        """Removes what is not kept, at once and without any hook."""
        self._supplies.clear()
        bench, self._bench = self._bench, None
        if bench is not None:
            await bench.close()

    async def _begun(self) -> WorkspaceManager:
        async with self._beginning:
            if self._bench is None:
                try:
                    self._bench = await in_thread(self._begin)
                except OSError as error:
                    raise TargetFailure(WORKSPACE, f"no workspaces below {self._root}: {error}") from error
            return self._bench

    def _begin(self) -> WorkspaceManager:
        return WorkspaceManager(
            self._root,
            self._sweep_id,
            keep=self._keep,
            pool_slots=self._pool_slots,
            most_bytes=self._most_diff_bytes,
        )

    def _supply(self, plan: Plan, spec: WorkspaceSpec, bench: WorkspaceManager) -> WorkspaceProvider:
        own = plan.case.id if spec.own_setup and not for_each_case(spec) else ""
        setup = "" if for_each_case(spec) else spec.setup_key
        key = (plan.suite, plan.runner.name, setup, own)
        if key not in self._supplies:
            self._supplies[key] = supply_of(plan, spec, bench)
        return self._supplies[key]


class Workspace:
    """A workspace while one attempt has it. `folder` is where the target works.

    `warnings` are what went wrong without spoiling the attempt: a diff that could not be made, an after_each that
    failed.
    """

    def __init__(
        self, plan: Plan, spec: WorkspaceSpec, bench: WorkspaceManager, supply: WorkspaceProvider, place: WorkspaceDir
    ) -> None:
        self._plan = plan
        self._spec = spec
        self._bench = bench
        self._supply = supply
        self._place = place
        self._baseline: str | None = None
        self._trace: WorkspaceTrace | None = None
        self._closed = False
        self.warnings: list[str] = []

    @property
    def folder(self) -> Path:
        return self._place.folder

    async def prepare(self) -> None:
        """before_each, and the picture that changes are told from. Raises TargetFailure."""
        self._place.printed = {name: text for name, text in self._place.printed.items() if name == "before_all"}
        try:
            await self._run("before_each")
        except FAILURES as error:
            raise TargetFailure(WORKSPACE, str(error)) from error
        try:
            self._baseline = await self._place.snapshot()
        except FAILURES as error:
            self._warn(f"what changes in the workspace will not be known: {error}")

    async def finished(self) -> WorkspaceTrace:
        """The target is done: what it changed. The folder stays as it left it until `close`."""
        if self._trace is None:
            changes = await self._changes()
            kept = self._place.stays(failed=False)
            printed = dict(self._place.printed)
            self._trace = WorkspaceTrace(path=self.folder, kept=kept, changes=changes, hooks=printed)
        return self._trace

    def stays(self, *, failed: bool) -> bool:
        """Whether the folder will be there after the sweep, should the case have failed or not."""
        return self._place.stays(failed=failed)

    async def close(self, *, failed: bool, restore: bool = False) -> None:
        """Nobody looks at it any more: reset, after_each, and the next case may have it, or it is removed or kept.

        `undo` is for an attempt that will be repeated: first everything is put back to where it began. In a task
        that is being cancelled nothing runs any more.
        """
        if self._closed:
            return
        self._closed = True
        self._place.failed = self._place.failed or (failed and not restore)
        if _is_cancelled():
            await self._supply.cancel(self._place)
            return
        try:
            if restore and self._baseline is not None and not for_each_case(self._spec):
                await self._tolerating(self._place.restore(self._baseline))
            await self._tolerating(self._run("after_each"))
        except BaseException:
            await self._supply.cancel(self._place)
            raise
        await self._supply.give(self._place, self._plan)

    async def _run(self, hook: str) -> None:
        told = case_payload(self._plan.case, self.folder, self._bench.sweep_id)
        await self._place.run(hook, self._spec, told)

    async def _tolerating(self, work: Awaitable[None]) -> None:
        """What comes after the target's work spoils nothing of it: a failure is a warning."""
        try:
            await work
        except FAILURES as error:
            self._warn(str(error))

    def _warn(self, text: str) -> None:
        self.warnings.append(text)
        plan = self._plan
        _LOG.warning("workspace of %s · %s · %s: %s", plan.suite, plan.runner.name, plan.case.id, text)

    async def _changes(self) -> str | None:
        if self._baseline is None:
            return None
        try:
            return await self._place.diff(self._baseline, await self._place.snapshot())
        except FAILURES as error:
            self._warn(f"what changed in the workspace is not known: {error}")
            return None


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
