"""Lifecycle of a workspace.

    template → repositories → before_all → ( before_each → baseline → the target works → changes
    → graders read → reset → after_each )* → after_all → removed or kept

`Workspaces` belongs to a sweep, `Workspace` to one attempt. The modules beside this one implement git, hooks and
folders.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from pathlib import Path
from types import TracebackType

from eval_pipeline.errors import InputError
from eval_pipeline.executions.model import Plan, TargetFailure, WorkspaceTrace
from eval_pipeline.executions.threads import in_thread, is_cancelled
from eval_pipeline.executions.workspaces.hooks import case_payload
from eval_pipeline.executions.workspaces.providers import FAILURES, WorkspaceProvider, is_per_case, provider_for
from eval_pipeline.executions.workspaces.requirements import missing
from eval_pipeline.executions.workspaces.snapshots import MOST_BYTES
from eval_pipeline.executions.workspaces.workspace_dir import Keep, WorkspaceDir, WorkspaceManager
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.suites.workspace import Requirements, WorkspaceSpec

_LOG = logging.getLogger(__name__)
POOL_SLOTS = 10
_ProviderKey = tuple[str, str, str, str]


class Workspaces:
    """The workspaces of one sweep, below `root`.

    `keep` selects the temporary workspaces that stay after the sweep, `pool_slots` limits the pool's folders per set of
    repositories, `most_diff_bytes` limits a diff. Use it as an async context manager: on exit it runs after_all and
    removes what is not kept; after a cancellation no hook runs.
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
        self._manager: WorkspaceManager | None = None
        self._opening = asyncio.Lock()
        self._providers: dict[_ProviderKey, WorkspaceProvider] = {}
        self._missing: dict[Requirements, tuple[str, ...]] = {}

    async def __aenter__(self) -> Workspaces:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        ended = kind is None or issubclass(kind, Exception)
        await (self.close() if ended else self.discard())

    async def open(self, plan: Plan) -> Workspace:
        """Return a workspace that is ready for the target; waits until a shared folder is free.

        Raises TargetFailure (failure class `workspace`) when it cannot be prepared.
        """
        spec = plan.case.workspace
        if spec is None:
            raise ValueError(f"case '{plan.case.id}' has no workspace")
        await self._require(spec.requirements)
        manager = await self._open_manager()
        provider = self._provider(plan, spec, manager)
        workspace_dir = await provider.acquire(plan)
        workspace_dir.begin_case(plan.suite, plan.runner.name, f"{plan.case.id}-{plan.repetition}")
        workspace = Workspace(plan, spec, manager, provider, workspace_dir)
        try:
            await workspace.prepare()
        except TargetFailure:
            await workspace.close(failed=True)
            raise
        except BaseException:
            await provider.cancel(workspace_dir)
            raise
        return workspace

    async def close(self) -> None:
        """End the sweep: run after_all in every shared workspace and remove what is not kept."""
        try:
            for provider in self._providers.values():
                await provider.close()
        finally:
            await self.discard()

    async def discard(self) -> None:
        """Remove what is not kept, immediately and without hooks."""
        self._providers.clear()
        manager, self._manager = self._manager, None
        if manager is not None:
            await manager.close()

    async def _require(self, requirements: Requirements) -> None:
        """Check once in a sweep what the machine must have. Raises TargetFailure."""
        async with self._opening:
            if requirements not in self._missing:
                self._missing[requirements] = await in_thread(lambda: missing(requirements))
        if self._missing[requirements]:
            raise TargetFailure(WORKSPACE, f"this machine lacks {', '.join(self._missing[requirements])}")

    async def _open_manager(self) -> WorkspaceManager:
        async with self._opening:
            if self._manager is None:
                try:
                    self._manager = await in_thread(self._create_manager)
                except (OSError, InputError) as error:
                    raise TargetFailure(WORKSPACE, f"no workspaces below {self._root}: {error}") from error
            return self._manager

    def _create_manager(self) -> WorkspaceManager:
        return WorkspaceManager(
            self._root,
            self._sweep_id,
            keep=self._keep,
            pool_slots=self._pool_slots,
            most_bytes=self._most_diff_bytes,
        )

    def _provider(self, plan: Plan, spec: WorkspaceSpec, manager: WorkspaceManager) -> WorkspaceProvider:
        case_id = plan.case.id if spec.own_setup and not is_per_case(spec) else ""
        setup = "" if is_per_case(spec) else spec.setup_key
        key = (plan.suite, plan.runner.name, setup, case_id)
        if key not in self._providers:
            self._providers[key] = provider_for(plan, spec, manager)
        return self._providers[key]


class Workspace:
    """A workspace leased to one attempt. `folder` is the target's working directory.

    `warnings` are errors that do not fail the attempt: a diff that could not be computed, a failed after_each.
    """

    def __init__(
        self,
        plan: Plan,
        spec: WorkspaceSpec,
        manager: WorkspaceManager,
        provider: WorkspaceProvider,
        workspace_dir: WorkspaceDir,
    ) -> None:
        self._plan = plan
        self._spec = spec
        self._manager = manager
        self._provider = provider
        self._dir = workspace_dir
        self._baseline: str | None = None
        self._trace: WorkspaceTrace | None = None
        self._closed = False
        self.warnings: list[str] = []

    @property
    def folder(self) -> Path:
        return self._dir.folder

    async def prepare(self) -> None:
        """Run before_each and take the baseline snapshot. Raises TargetFailure."""
        self._dir.hook_output = {
            name: text for name, text in self._dir.hook_output.items() if name.endswith("before_all")
        }
        try:
            await self._run("before_each")
        except FAILURES as error:
            raise self._dir.unprepared(error) from error
        try:
            self._baseline = await self._dir.snapshot()
            self._dir.first = self._dir.first or self._baseline
        except FAILURES as error:
            self._warn(f"changes in the workspace will be unknown: {error}")

    async def trace(self) -> WorkspaceTrace:
        """Record the target's changes. The folder stays unchanged until `close`."""
        if self._trace is None:
            changes = await self._changes()
            kept = self._dir.is_kept(failed=False)
            hooks = dict(self._dir.hook_output)
            self._trace = WorkspaceTrace(
                path=self.folder,
                place=self._dir.place,
                kept=kept,
                changes=changes,
                hooks=hooks,
                filled_ns=self._dir.filled_ns,
            )
        return self._trace

    def is_kept(self, *, failed: bool) -> bool:
        """Return whether the folder stays after the sweep, given the outcome of the case."""
        return self._dir.is_kept(failed=failed)

    async def close(self, *, failed: bool, restore: bool = False) -> None:
        """Release the folder: reset, after_each, then the next case uses it, or it is removed or kept.

        `restore` is for an attempt that failed and will be repeated: all files are first reset to the baseline, or a
        folder of its own stays as it is, like that of any failed case. What is kept of a slot of the pool is copied
        before that. Nothing runs in a cancelled task.
        """
        if self._closed:
            return
        self._closed = True
        self._dir.failed = self._dir.failed or (is_per_case(self._spec) if restore else failed)
        if is_cancelled():
            await self._provider.cancel(self._dir)
            return
        try:
            await self._dir.end_case(failed=failed or restore)
            if restore and self._baseline is not None and not is_per_case(self._spec):
                await self._warn_on_failure(self._dir.restore(self._baseline))
            await self._warn_on_failure(self._run("after_each"))
        except BaseException:
            await self._provider.cancel(self._dir)
            raise
        await self._provider.release(self._dir, self._plan)

    async def _run(self, hook: str) -> None:
        payload = case_payload(self._plan.case, self.folder, self._manager.sweep_id, self._plan.runner.name)
        await self._dir.run(hook, self._spec, payload)

    async def _warn_on_failure(self, work: Awaitable[None]) -> None:
        """Turn a failure after the target's work into a warning."""
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
            first = self._dir.first if self._spec.adds_up else None
            return await self._dir.diff(first or self._baseline, await self._dir.snapshot())
        except FAILURES as error:
            self._warn(f"changes in the workspace are unknown: {error}")
            return None
