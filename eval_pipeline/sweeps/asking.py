"""One question to one runner, outside a sweep: an execution of its own, with the limits and retries of the runner."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.model import Plan, Runner
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case, Message
from eval_pipeline.sweeps.grader_settings import accepted_settings


def with_settings(runner: Runner, settings: Mapping[str, Any]) -> Runner:
    """Return a runner with these settings where it takes them and has none of its own."""
    return replace(runner, settings={**accepted_settings(runner, settings).used, **runner.settings})


def ask(runner: Runner, prompt: str, name: str) -> SessionReport:
    """Return the report of a runner's answer to a prompt, of which `name` is the case id.

    Raises InputError when it does not answer.
    """
    report = asyncio.run(_answer(runner, prompt, name))
    if report.failure_class is not None or not report.final_output:
        raise InputError(f"runner '{runner.name}' did not answer: {report.error or report.failure_class or 'no text'}")
    return report


async def _answer(runner: Runner, prompt: str, name: str) -> SessionReport:
    case = Case(id=name, input=(Message(role="user", content=prompt),))
    plan = Plan(suite=name, case=case, runner=runner, repetition=1, key=fingerprint([runner.name, prompt]))
    with tempfile.TemporaryDirectory() as folder:
        environment = AttemptEnvironment(folder_of=lambda _: Path(folder))
        caller = OnDemand(runner, ADAPTERS.get(runner.adapter)(runner), environment)
        try:
            execution = without_secrets(await caller.execute(plan), runner.secrets, lambda: Path(folder))
            return normalize(execution, case, runner)
        finally:
            await caller.close()
