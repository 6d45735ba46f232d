"""`prepared`: work that was done outside of a run, in a folder that `eval-pipeline prepare` made."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.threads import in_thread
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.fingerprints import file_fingerprint, fingerprint
from eval_pipeline.parsing.tables import TEXT, Field, FieldTable

WORKSPACE_FOLDER = "workspace"
RESPONSE_FILE = "response.md"


@ADAPTERS.register("prepared")
class Prepared:
    """Return what a person or another program did: the files of a prepared workspace, and an answer.

    Settings: `folder` (with `workspace/`, which takes the place of the case's own workspace after its hooks ran), and
    `response` (a file with the answer, default `response.md`: a text, or JSON as a program writes it to
    `{OUTPUT_FILE}`, with messages and tool calls). Without an answer it is empty.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "prepared",
        (
            Field("folder", TEXT, "The folder that `prepare` made.", required=True),
            Field("response", TEXT, "The file with the answer.", RESPONSE_FILE),
            MODEL,
        ),
        "Returns work that was done outside of a run.",
    )
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False
    reports_cost: ClassVar[bool] = True

    def __init__(self, runner: Runner) -> None:
        self._folder = runner.folder / settings.text(runner.settings, "folder")
        self._response = self._folder / (settings.optional_text(runner.settings, "response") or RESPONSE_FILE)
        if not self._folder.is_dir():
            raise InputError(f"no folder '{self._folder}'", SourceLocation(field="folder"))

    def content(self) -> Mapping[str, str]:
        """Return fingerprints of the answer and of the files of the workspace."""
        files = {str(path.relative_to(self._folder)): _content(path) for path in self._files()}
        answer = {"response": file_fingerprint(self._response)} if self._response.is_file() else {}
        return {**answer, **({WORKSPACE_FOLDER: fingerprint(files)} if files else {})}

    async def execute(self, call: Call) -> RawExecution:
        if call.workspace is not None:
            source = self._folder / WORKSPACE_FOLDER
            if not source.is_dir():
                raise TargetFailure(WORKSPACE, f"'{source}' does not exist; run eval-pipeline prepare")
            await in_thread(_mirror, source, call.workspace)
        answer = self._response.read_bytes().decode("utf-8", "replace") if self._response.is_file() else ""
        return RawExecution(format="command", payload={"output": answer, "elapsed_ms": None})

    async def close(self) -> None:
        return None

    def _files(self) -> Iterator[Path]:
        paths = sorted((self._folder / WORKSPACE_FOLDER).rglob("*"))
        return (path for path in paths if path.is_symlink() or path.is_file())


def _content(path: Path) -> str:
    return str(path.readlink()) if path.is_symlink() else file_fingerprint(path)


def _mirror(source: Path, folder: Path) -> None:
    """Make a folder's content that of another."""
    for path in folder.iterdir():
        remove(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    shutil.copytree(source, folder, symlinks=True, dirs_exist_ok=True)
