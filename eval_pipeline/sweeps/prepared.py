"""A case whose work is done outside of a run: its workspace and prompt in a folder, and the runner that returns the
work to be graded."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.adapters.prepared import RESPONSE_FILE, WORKSPACE_FOLDER
from eval_pipeline.executions.model import Plan, Runner, TargetFailure
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.parsing.source import show_path

MANIFEST = "prepared.json"
PROMPT_FILE = "prompt.md"
_FIELDS = ("suite", "case", "runner")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCase:
    """A prepared case: its folder, the file of its suite, its id, and the runner whose work it is."""

    folder: Path
    suite: Path
    case: str
    runner: str

    @property
    def runner_name(self) -> str:
        """The name of the runner that returns the work; results of the runner itself stay apart."""
        return f"{self.runner}-prepared"

    def as_runner(self, original: Runner, response: Path | None) -> Runner:
        """Return the runner that returns the work, graded as the original is."""
        given = {} if response is None else {"response": str(response.absolute())}
        values: dict[str, Any] = {"folder": str(self.folder.absolute()), **given}
        return Runner(
            name=self.runner_name,
            adapter="prepared",
            settings=values,
            public_settings=values,
            folder=original.folder,
            grader=original.grader,
            place=original.place,
            stands_for=original.name,
        )


def prepare_case(plan: Plan, suite: Path, folder: Path, sweep_id: str) -> PreparedCase:
    """Make the workspace of a plan in a new folder, up to the target's work, and write the prompt.

    Raises InputError for a folder that exists, a conversation, and a workspace that cannot be prepared.
    """
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{show_path(folder)} is not empty; name a new folder")
    if plan.case.is_conversation:
        raise InputError(f"case '{plan.case.id}' is a conversation: it cannot be carried out outside of a run")
    folder.mkdir(parents=True, exist_ok=True)
    if plan.case.workspace is None:
        (folder / WORKSPACE_FOLDER).mkdir()
    else:
        asyncio.run(_make_workspace(plan, folder, sweep_id))
    (folder / PROMPT_FILE).write_text(prompt_text(plan.case) + "\n", encoding="utf-8", errors="replace")
    prepared = PreparedCase(folder=folder, suite=suite, case=plan.case.id, runner=plan.runner.name)
    manifest = {"suite": str(suite), "case": prepared.case, "runner": prepared.runner, "response": RESPONSE_FILE}
    (folder / MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return prepared


async def _make_workspace(plan: Plan, folder: Path, sweep_id: str) -> None:
    scratch = folder / ".preparing"
    workspaces = Workspaces(scratch, sweep_id, keep="never")
    try:
        workspace = await workspaces.open(plan)
        shutil.copytree(workspace.folder, folder / WORKSPACE_FOLDER, symlinks=True)
    except TargetFailure as failure:
        raise InputError(f"the workspace of case '{plan.case.id}' cannot be prepared: {failure}") from None
    finally:
        await workspaces.discard()
        shutil.rmtree(scratch, ignore_errors=True)


def read_prepared(folder: Path) -> PreparedCase:
    """Return the prepared case of a folder. Raises InputError."""
    path = folder / MANIFEST
    try:
        values = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{show_path(folder)} is no prepared case: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", SourceLocation(show_path(path))) from None
    if not isinstance(values, Mapping) or not all(isinstance(values.get(name), str) for name in _FIELDS):
        raise InputError(f"expected a mapping with {', '.join(_FIELDS)}", SourceLocation(show_path(path)))
    return PreparedCase(folder=folder, suite=Path(values["suite"]), case=values["case"], runner=values["runner"])
