"""Running the hooks of a workspace: the suite author's own programs, told by stdin and arguments what they work on."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.executions.process import run_program
from eval_pipeline.fingerprints import to_json
from eval_pipeline.parsing.compatibility import WORKSPACE_VARIABLE, program_variables
from eval_pipeline.suites.model import Case
from eval_pipeline.suites.workspace import Hook

BEFORE_LIMIT_S = 60.0
AFTER_LIMIT_S = 30.0
MOST_OUTPUT = 64 * 1024
_PLACEHOLDER = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_TAIL = 1_000


class HookFailure(Exception):
    """A hook that could not be run, failed or ran out of time; the text says which and why."""


@dataclass(frozen=True, slots=True)
class HookPayload:
    """What a hook is told, by the names it reads them under."""

    workspace_path: str
    test_id: str
    eval_run_id: str
    case_input: str | None = None
    case_metadata: Mapping[str, Any] | None = None

    def filled(self, text: str) -> str:
        """A text with its `{{placeholders}}` replaced, in one pass; an unknown one stays."""
        return _PLACEHOLDER.sub(lambda match: self._value(match[1], match[0]), text)

    def _value(self, name: str, otherwise: str) -> str:
        if name not in self.__slots__:
            return otherwise
        value = getattr(self, name)
        return value if isinstance(value, str) else "" if value is None else to_json(value).decode()


def told_of_all(name: str, folder: Path, sweep_id: str, case: Case | None = None) -> HookPayload:
    """What before_all or after_all is told: of `case` only when the workspace is made for that one."""
    if case is None:
        return HookPayload(str(folder), f"__{name}__", sweep_id)
    return HookPayload(str(folder), f"__{name}__", sweep_id, case.question, case.metadata or None)


def case_payload(case: Case, folder: Path, sweep_id: str) -> HookPayload:
    """What before_each or after_each is told."""
    return HookPayload(str(folder), case.id, sweep_id, case.question, case.metadata or None)


def environment(folder: Path) -> dict[str, str]:
    """The environment variables that programs in a workspace have besides the pipeline's own."""
    return program_variables({WORKSPACE_VARIABLE: str(folder)})


async def run_hook(name: str, hook: Hook, payload: HookPayload, *, folder: Path, scratch: Path) -> str:
    """What a hook printed (its last 64 KiB). `folder` is the suite's, `scratch` takes its output for a moment.

    Raises HookFailure.
    """
    cwd = Path(payload.filled(str(hook.cwd))) if hook.cwd is not None else folder
    limit_s = hook.timeout_s or (BEFORE_LIMIT_S if name.startswith("before") else AFTER_LIMIT_S)
    try:
        async with asyncio.timeout(limit_s):
            finished = await run_program(
                [payload.filled(word) for word in hook.command],
                folder=scratch,
                cwd=cwd,
                env={**os.environ, **environment(Path(payload.workspace_path))},
                stdin=to_json({key: getattr(payload, key) for key in payload.__slots__}),
            )
        if finished.exit_code != 0:
            raise HookFailure(f"{name} hook failed: {_ended(finished.exit_code)}{_last_words(scratch)}")
        return _end(finished.stdout, MOST_OUTPUT)
    except TimeoutError:
        raise HookFailure(f"{name} hook did not end within {limit_s:g} s{_last_words(scratch)}") from None
    except (OSError, ValueError) as error:
        raise HookFailure(f"{name} hook cannot be started in {cwd}: {error}") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _ended(exit_code: int) -> str:
    return f"exit code {exit_code}" if exit_code >= 0 else f"signal {-exit_code}"


def _last_words(scratch: Path) -> str:
    """The end of what a program said, to standard output when it is silent otherwise, after a colon."""
    said = next((text for name in ("stderr", "stdout") if (text := _end(scratch / name, _TAIL).strip())), "")
    return f": {said}" if said else ""


def _end(path: Path, most: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
