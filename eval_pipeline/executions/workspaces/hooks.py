"""Run the hooks of a workspace: programs of the suite author, with a JSON payload on standard input."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.executions.output_guard import OutputLimitExceeded
from eval_pipeline.executions.process import run_program
from eval_pipeline.failures import WORKSPACE, WORKSPACE_BOOTSTRAP, FailureClass
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.compatibility import WORKSPACE_VARIABLE, program_variables
from eval_pipeline.parsing.interpolation import read_environment
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.workspace import Hook

BEFORE_LIMIT_S = 60.0
AFTER_LIMIT_S = 30.0
MOST_OUTPUT = 64 * 1024
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TAIL = 1_000
_NOT_SENT = ("runner_id", "output_dir", "artifact_dir")


class HookFailure(Exception):
    """A hook failed, timed out or could not be started; the message names the hook and the cause.

    `output` is what it printed: the last 64 KiB of standard output, then of standard error.
    """

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


class BootstrapFailure(HookFailure):
    """A hook that prepares a workspace failed: its bootstrap, before_all, or before_each."""


def failure_of_workspace(error: Exception) -> FailureClass:
    """Return the failure class of a workspace that could not be prepared."""
    return WORKSPACE_BOOTSTRAP if isinstance(error, BootstrapFailure) else WORKSPACE


@dataclass(frozen=True, slots=True)
class HookPayload:
    """The payload of a hook; field names are placeholder names and, but for those in `_NOT_SENT`, JSON keys that hooks
    read."""

    workspace_path: str
    test_id: str
    eval_run_id: str
    case_input: str | None = None
    case_metadata: Mapping[str, Any] | None = None
    runner_id: str | None = None
    output_dir: str | None = None
    artifact_dir: str | None = None

    def interpolate(self, text: str) -> str:
        """Replace `{{placeholders}}` in one pass. Unknown placeholders stay."""
        return _PLACEHOLDER.sub(lambda match: self._value(match[1], match[0]), text)

    def _value(self, name: str, otherwise: str) -> str:
        if name not in self.__slots__:
            return otherwise
        value = getattr(self, name)
        return value if isinstance(value, str) else "" if value is None else to_json(value).decode()


def suite_payload(name: str, folder: Path, sweep_id: str, case: Case | None = None) -> HookPayload:
    """Return the payload of before_all or after_all. `case` is set only for a workspace of one case."""
    if case is None:
        return HookPayload(str(folder), f"__{name}__", sweep_id)
    return HookPayload(str(folder), f"__{name}__", sweep_id, case.question, case.metadata or None)


def case_payload(case: Case, folder: Path, sweep_id: str, runner_id: str | None = None) -> HookPayload:
    """Return the payload of before_each or after_each."""
    return HookPayload(str(folder), case.id, sweep_id, case.question, case.metadata or None, runner_id)


def environment(folder: Path) -> dict[str, str]:
    """Return the additional environment variables of programs in a workspace."""
    return program_variables({WORKSPACE_VARIABLE: str(folder)})


async def run_hook(name: str, hook: Hook, payload: HookPayload, *, prepares: bool, folder: Path, scratch: Path) -> str:
    """Run a hook and return its output (the last 64 KiB). `scratch` is a temporary folder for its output.

    `prepares` is whether it runs before the target's work. A hook without `cwd` runs in `folder`, the suite's.
    Raises HookFailure, of one that prepares BootstrapFailure.
    """
    limit_s = hook.timeout_s or (BEFORE_LIMIT_S if prepares else AFTER_LIMIT_S)
    try:
        return await _run_hook(name, hook, payload, limit_s, folder=folder, scratch=scratch)
    except HookFailure as error:
        if hook.bootstrap:
            raise BootstrapFailure(f"bootstrap: {error}", error.output) from error
        if prepares:
            raise BootstrapFailure(str(error), error.output) from error
        raise


async def _run_hook(name: str, hook: Hook, payload: HookPayload, limit_s: float, *, folder: Path, scratch: Path) -> str:
    cwd = Path(payload.interpolate(str(hook.cwd))) if hook.cwd is not None else folder
    try:
        async with asyncio.timeout(limit_s):
            completed = await run_program(
                [payload.interpolate(word) for word in hook.command],
                folder=scratch,
                cwd=cwd,
                env={
                    **read_environment(folder),
                    **environment(Path(payload.workspace_path)),
                    **{variable: payload.interpolate(value) for variable, value in hook.env.items()},
                },
                stdin=to_json({key: getattr(payload, key) for key in payload.__slots__ if key not in _NOT_SENT}),
            )
        if completed.exit_code != 0:
            problem = f"failed: {_exit_text(completed.exit_code)}"
            raise HookFailure(f"{name} hook {problem}{_output_tail(scratch)}", _output(scratch))
        return _end(completed.stdout, MOST_OUTPUT)
    except TimeoutError:
        problem = f"did not end within {limit_s:g} s"
        raise HookFailure(f"{name} hook {problem}{_output_tail(scratch)}", _output(scratch)) from None
    except OutputLimitExceeded as error:
        raise HookFailure(f"{name} hook: {error}", _output(scratch)) from None
    except (OSError, ValueError) as error:
        raise HookFailure(f"{name} hook cannot be started in {cwd}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _exit_text(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _output_tail(scratch: Path) -> str:
    """Return `: ` and the end of standard error, or of standard output if that is empty."""
    tail = next((text for name in ("stderr", "stdout") if (text := _end(scratch / name, _TAIL).strip())), "")
    return f": {tail}" if tail else ""


def _output(scratch: Path) -> str:
    """Return the ends of both outputs, 64 KiB of each."""
    return "".join(_end(scratch / name, MOST_OUTPUT) for name in ("stdout", "stderr"))


def _end(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
