"""`oracle` and `nop`: the solution of each case, and nothing at all. They check a suite without any agent."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.process import run_program
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import copy_file
from eval_pipeline.failures import TARGET_CRASH, WORKSPACE
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.suites.solutions import Solution

_STDERR_CHARS = 500


class _WithoutTarget:
    """What adapters that call nobody have in common."""

    version: ClassVar[str] = "1"
    retries_timeouts: ClassVar[bool] = False
    reports_cost: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        pass

    def content(self) -> Mapping[str, str]:
        return {}

    async def close(self) -> None:
        return None


@ADAPTERS.register("oracle")
class Oracle(_WithoutTarget):
    """Apply the `solution` of the case to its workspace: the patch, the files, then the command.

    A case without a solution, and a solution that cannot be applied, fail. The answer says so. Use it to check that
    every case can be solved (`eval-pipeline validate --oracle` does).
    """

    settings: ClassVar[FieldTable] = FieldTable("oracle", (), "Applies the solution of each case.")
    reads: ClassVar[tuple[str, ...]] = ("solution",)
    default_timeout_s: ClassVar[float] = 600.0

    async def execute(self, call: Call) -> RawExecution:
        solution, workspace = call.plan.case.solution, call.workspace
        if workspace is None:
            raise TargetFailure(WORKSPACE, f"case '{call.plan.case.id}' has no workspace that a solution could change")
        if solution is None:
            raise TargetFailure(TARGET_CRASH, f"case '{call.plan.case.id}' has no solution")
        if solution.patch is not None:
            await _apply_patch(solution.patch, workspace, call)
        await in_thread(_lay_over, solution, workspace)
        if solution.command:
            await _run(solution.command, workspace, call, "the solution's command")
        return RawExecution(format="mock", payload={"output": "The solution is applied.", "elapsed_ms": None})


@ADAPTERS.register("nop")
class Nop(_WithoutTarget):
    """Do nothing, and say so. A case that it passes is solved by doing nothing."""

    settings: ClassVar[FieldTable] = FieldTable("nop", (), "Does nothing.")
    default_timeout_s: ClassVar[float] = 60.0

    async def execute(self, call: Call) -> RawExecution:
        return RawExecution(format="mock", payload={"output": "Nothing was done.", "elapsed_ms": None})


async def _apply_patch(patch: str, workspace: Path, call: Call) -> None:
    """Apply a unified diff by git, which needs no repository for it. Raises TargetFailure."""
    file = call.folder / "solution.patch"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(patch if patch.endswith("\n") else f"{patch}\n", encoding="utf-8")
    command = ("git", "apply", "--whitespace=nowarn", "--recount", str(file.absolute()))
    await _run(command, workspace, call, "the solution's patch")


def _lay_over(solution: Solution, workspace: Path) -> None:
    for file in solution.files:
        copy_file(file.origin, workspace, file.path)


async def _run(command: tuple[str, ...], workspace: Path, call: Call, what: str) -> None:
    """Run a program in the workspace; git finds no repository above it. Raises TargetFailure."""
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(workspace.parent)}
    try:
        done = await run_program(command, folder=call.folder / "solution", cwd=workspace, env=environment)
    except (OSError, ValueError) as error:
        raise TargetFailure(TARGET_CRASH, f"{what} cannot be started: {error}") from error
    if done.exit_code:
        printed = (done.stderr.read_text("utf-8", "replace") or done.stdout.read_text("utf-8", "replace")).strip()
        why = printed[-_STDERR_CHARS:] or "it printed nothing"
        raise TargetFailure(TARGET_CRASH, f"{what} ended with {done.exit_code}: {why}")
