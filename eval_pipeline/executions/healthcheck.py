"""A check that runs once before a runner is used: an address to request, or a command to run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, UnknownName
from eval_pipeline.executions import settings
from eval_pipeline.executions.command_line import CommandLine, read_command_line
from eval_pipeline.executions.output_guard import OutputLimitExceeded
from eval_pipeline.executions.process import run_program
from eval_pipeline.failures import CONNECTION, OUTPUT_LIMIT, TARGET_CRASH, FailureClass
from eval_pipeline.parsing.tables import POSITIVE, TEXT, TEXT_LIST, Field, FieldTable, either

DEFAULT_TIMEOUT_S = 30.0
HEALTHCHECK = FieldTable(
    "healthcheck",
    (
        Field("url", TEXT, "An address that must answer a GET with a status below 400."),
        Field("command", either(TEXT, TEXT_LIST), "A program that must end with exit code 0."),
        Field("cwd", TEXT, "The folder in which the command runs (default: the runner's)."),
        Field("timeout_seconds", POSITIVE, "The time limit, in seconds.", DEFAULT_TIMEOUT_S),
        Field("type", TEXT, "Ignored: `url` or `command` determines the kind."),
    ),
    "A check that runs once before the first case; it has either a URL or a command.",
)
_SHOWN = 500
_VALUES = {"PROMPT": "", "EVAL_ID": "healthcheck", "CASE_ID": "healthcheck", "ATTEMPT": "0", "RETRY": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Healthcheck:
    """Either `url`, whose GET must return a status below 400, or `command`, whose exit code must be 0."""

    url: str | None = None
    command: CommandLine | None = None
    cwd: Path = Path()
    timeout_s: float = DEFAULT_TIMEOUT_S

    async def problem(self, env: Mapping[str, str]) -> tuple[FailureClass, str] | None:
        """Return the reason why the runner cannot be used, or None."""
        try:
            async with asyncio.timeout(self.timeout_s):
                return await (self._check_command(self.command, env) if self.command else self._check_url())
        except TimeoutError:
            return CONNECTION, f"healthcheck failed: no answer within {self.timeout_s:g} s"

    async def _check_url(self) -> tuple[FailureClass, str] | None:
        import httpx  # noqa: PLC0415 — takes 35 ms, and programs need none of it

        try:
            async with (
                httpx.AsyncClient(timeout=None, follow_redirects=True) as client,
                client.stream("GET", str(self.url)) as response,  # its body is not read
            ):
                pass
        except httpx.HTTPError as error:
            return CONNECTION, f"healthcheck failed: {error or type(error).__name__}"
        if response.is_success:
            return None
        return CONNECTION, f"healthcheck failed: HTTP {response.status_code} {response.reason_phrase}".rstrip()

    async def _check_command(self, line: CommandLine, env: Mapping[str, str]) -> tuple[FailureClass, str] | None:
        with tempfile.TemporaryDirectory(prefix="eval-pipeline-healthcheck-") as name:
            folder = Path(name)
            words, variables = line.words({**_VALUES, "OUTPUT_FILE": str(folder / "output")}, (), {})
            try:
                completed = await run_program(words, folder=folder, cwd=self.cwd, env={**env, **variables})
            except OutputLimitExceeded as error:
                return OUTPUT_LIMIT, f"healthcheck failed: {error}"
            except (OSError, ValueError) as error:
                return TARGET_CRASH, f"healthcheck failed: it cannot be started: {error}"
            if completed.exit_code == 0:
                return None
            output = (
                completed.stderr.read_text(errors="replace") or completed.stdout.read_text(errors="replace")
            ).strip()
        return (
            TARGET_CRASH,
            f"healthcheck failed: exit code {completed.exit_code}{f': {output[-_SHOWN:]}' if output else ''}",
        )


def read_healthcheck(config: Mapping[str, Any], folder: Path, cwd: Path) -> Healthcheck | None:
    """Read the `healthcheck` setting. Raises InputError.

    A command runs in `cwd` unless it sets its own; a relative folder is resolved against `folder`.
    """
    raw = config.get("healthcheck")
    if raw is None:
        return None
    if not isinstance(raw, Mapping) or ("url" in raw) == ("command" in raw):
        raise InputError("expected a mapping with either url or command", SourceLocation(field="healthcheck"))
    for key in raw:
        if key not in HEALTHCHECK:
            raise UnknownName("setting", str(key), HEALTHCHECK, SourceLocation(field=f"healthcheck.{key}"))
    try:
        return Healthcheck(
            url=_address(raw) if "url" in raw else None,
            command=read_command_line(raw) if "command" in raw else None,
            cwd=Path(os.path.realpath(folder / (settings.optional_text(raw, "cwd") or cwd))),
            timeout_s=settings.seconds(raw, "timeout_seconds", DEFAULT_TIMEOUT_S),
        )
    except InputError as error:
        raise error.at(SourceLocation(field=f"healthcheck.{error.place.field}")) from None


def _address(raw: Mapping[str, Any]) -> str:
    address = settings.text(raw, "url")
    if not address.startswith(("http://", "https://")):
        raise InputError(f"expected an http:// or https:// address, got '{address}'", SourceLocation(field="url"))
    return address
