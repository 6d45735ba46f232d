"""Notifications of how a sweep ended: a command that reads a document, and a webhook that is posted it.

What cannot be delivered is reported and changes no result. The address of a webhook is a secret: no message has it.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import orjson

from eval_pipeline.parsing.interpolation import filled_in, unset_names
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.sweeps.notify_rules import Notify

TRIES = 4
FIRST_PAUSE_S = 1.0
TIMEOUT_S = 30.0
_RETRIED = frozenset({408, 425, 429, *range(500, 600)})


def notify(
    rules: Notify,
    document: Mapping[str, Any],
    root: Path,
    environment: Mapping[str, str],
    pause_s: float = FIRST_PAUSE_S,
) -> Iterator[str]:
    """Send `document` (JSON values) to all that the rules name; yield what could not be delivered and why."""
    body = orjson.dumps(document)
    if rules.command is not None:
        problem = _run(rules.command, body, root, environment)
        if problem is not None:
            yield f"notify.command: {problem}"
    if rules.webhook is not None:
        problem = _post(rules.webhook, body, environment, pause_s)
        if problem is not None:
            yield f"notify.webhook: {problem}"


def _run(command: Sequence[str], body: bytes, root: Path, environment: Mapping[str, str]) -> str | None:
    try:
        done = subprocess.run(
            list(command), input=body, cwd=root, env={**os.environ, **environment}, capture_output=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {TIMEOUT_S:g} s"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror or error}"
    except ValueError as error:
        return f"the command cannot be started: {error}"
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        return redact_text(f"{command[0]} ended with {done.returncode}{': ' + said[-1] if said else ''}", cut=True)
    return None


def _post(webhook: str, body: bytes, environment: Mapping[str, str], pause_s: float) -> str | None:
    """Post a body, several times where the failure may pass; return why it was not taken."""
    unset = unset_names(webhook, environment)
    if unset:
        return f"needs the environment variable {', '.join(unset)}"
    problem: str | None = None
    for number in range(TRIES):
        if number:
            time.sleep(pause_s * 2 ** (number - 1))
        problem, passing = _try(filled_in(webhook, environment), body)
        if not passing:
            break
    return problem


def _try(address: str, body: bytes) -> tuple[str | None, bool]:
    """Post once; return why it was not taken, and whether another try may help."""
    try:
        headers = {"content-type": "application/json"}
        with httpx.stream("POST", address, content=body, headers=headers, timeout=TIMEOUT_S) as answer:
            status = answer.status_code  # what else it answers is not read
    except httpx.InvalidURL:
        return "is no address", False
    except httpx.TransportError as error:
        return f"not reached ({type(error).__name__})", not isinstance(error, httpx.UnsupportedProtocol)
    if 200 <= status < 300:
        return None, False
    return f"answered {status}", status in _RETRIED
