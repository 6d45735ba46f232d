"""What tests of workspaces work with: specs, hooks that write down what they see, real git repositories."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from eval_pipeline.executions.model import Plan, Runner, TargetFailure, WorkspaceTrace
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.suites.workspace import Hook, Repository, WorkspaceSpec
from eval_pipeline_tests.builders import a_case, a_plan

Value = TypeVar("Value")
SWEEP = "sweep-1"


class SampleWorkspaces:
    """A folder with a suite, a template, a log that hooks write to, and the root of workspaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "workspaces"
        self.log = folder / "log.jsonl"

    def template(self, **files: str) -> Path:
        """A template with these files (`__` in a name stands for a dot)."""
        folder = self.folder / "template"
        for name, text in files.items():
            path = folder / name.replace("__", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    def spec(self, **fields: Any) -> WorkspaceSpec:
        return WorkspaceSpec(folder=self.folder, **fields)

    def recorder(self, name: str, *arguments: str, then: str = "true", **fields: Any) -> Hook:
        """A hook that appends its name, folder and standard input to the log, and then runs a shell line.

        Its arguments are in `arguments`.
        """
        line = f"""printf '%s\n' "$@" > '{self.folder}/arguments'
                   printf '{{"name":"{name}","cwd":"%s","stdin":%s}}\\n' "$PWD" "$(cat)" >> '{self.log}'; {then}"""
        return Hook(command=("sh", "-c", line, "hook", *arguments), **fields)

    def recorders(self, *names: str, **fields: Any) -> dict[str, Hook]:
        return {name: self.recorder(name, **fields) for name in names}

    @property
    def logged(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text(encoding="utf-8").splitlines()]

    @property
    def arguments(self) -> list[str]:
        return (self.folder / "arguments").read_text(encoding="utf-8").splitlines()

    @property
    def order(self) -> list[str]:
        """The hooks in the order they ran, each with the case it ran for."""
        return [f"{entry['name']} {entry['stdin']['test_id']}".replace(" __", " ").strip("_") for entry in self.logged]

    def workspaces(self, **settings: Any) -> Workspaces:
        return Workspaces(self.root, settings.pop("sweep_id", SWEEP), **settings)


def a_shell(line: str) -> Hook:
    return Hook(command=("sh", "-c", line))


def plan_for(spec: WorkspaceSpec, id_: str = "c1", *, runner: Runner | None = None, **fields: Any) -> Plan:
    return a_plan(a_case(id_, workspace=spec, **fields), runner)


Work = Callable[[Path], object]


async def worked(
    workspaces: Workspaces, plan: Plan, work: Work = lambda folder: None, *, failed: bool = False
) -> WorkspaceTrace:
    """Opens a workspace, works in it as a target would, and lets it go."""
    workspace = await workspaces.open(plan)
    work(workspace.folder)
    trace = await workspace.trace()
    await workspace.close(failed=failed)
    return trace


def in_sweep(workspaces: Workspaces, *steps: Callable[[Workspaces], Awaitable[Value]]) -> list[Value]:
    """Carries out steps one after another, as a sweep that ends well."""

    async def sweep() -> list[Value]:
        async with workspaces:
            return [await step(workspaces) for step in steps]

    return asyncio.run(sweep())


def one_case(
    workspaces: Workspaces, plan: Plan, work: Work = lambda folder: None, *, failed: bool = False
) -> WorkspaceTrace:
    """A sweep of one case."""
    return in_sweep(workspaces, lambda opened: worked(opened, plan, work, failed=failed))[0]


def failure_of(workspaces: Workspaces, plan: Plan) -> TargetFailure:
    """Why a workspace cannot be had."""

    async def sweep() -> TargetFailure:
        async with workspaces:
            try:
                await workspaces.open(plan)
            except TargetFailure as failure:
                return failure
        raise AssertionError("the workspace was prepared")

    return asyncio.run(sweep())


def run_git(folder: Path, *arguments: str) -> str:
    """Runs git as a user would, with a name to commit under."""
    named = (
        "-c",
        "user.name=A",
        "-c",
        "user.email=a@example.org",
        "-c",
        "init.defaultBranch=main",
        "-c",
        "commit.gpgsign=false",
    )
    return subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def a_repository(folder: Path, *commits: dict[str, str]) -> Path:
    """A git repository with a commit for each mapping of files, on branch `main`."""
    folder.mkdir(parents=True)
    run_git(folder, "init", "-q")
    for number, files in enumerate(commits, start=1):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-q", "-m", f"commit {number}")
    return folder


def cloned(origin: Path, path: str = "repo", **fields: Any) -> Repository:
    return Repository(path=path, url=str(origin), local=True, **fields)


def files_in(folder: Path) -> list[str]:
    """The files below a folder, without those of git."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(folder).parts
    )
