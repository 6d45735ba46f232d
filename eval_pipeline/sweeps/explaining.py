"""Asks kept sessions why checks failed: each question goes to the session as it ended, which may only read."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, error_text
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.kept_sessions import SESSION_FILE, KeptSession
from eval_pipeline.executions.model import Plan, Runner, TargetFailure
from eval_pipeline.executions.runners import require_environment
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case, Message
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.explanations import AskedExecution, store_answers
from eval_pipeline.warehouse.journal import PairKey

TIME_LIMIT_S = 300.0
"""How long an answer may take where nothing is set."""


def explain(
    session: ProjectSession,
    asked: AskedExecution,
    *,
    anew: bool = False,
    timeout_s: float = TIME_LIMIT_S,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> list[Row]:
    """Return an answer to each question of an execution, with `error` where there is none.

    Questions that were answered before are not asked again, unless `anew`. New answers are stored.
    """
    open_ = [each for each in asked.questions if anew or _unanswered(asked, each[0])]
    answers = list(_answers(session, asked, open_, timeout_s, now)) if open_ else []
    if answers:
        store_answers(session.warehouse, asked, answers)
    new = {answer["question"]: answer for answer in answers}
    return [new.get(question) or asked.answers[question] for question, _ in asked.questions]


def _unanswered(asked: AskedExecution, question: str) -> bool:
    stored = asked.answers.get(question)
    return stored is None or stored["answer"] is None


def _answers(
    session: ProjectSession, asked: AskedExecution, questions: list[tuple[str, str | None]], timeout_s: float,
    now: Callable[[], datetime],
) -> Iterator[Row]:  # fmt: skip
    for question, source in questions:
        begun = time.monotonic()
        answer: Row = {"question": question, "source": source, "session_id": asked.session_id, "asked_at": now(),
                       "answer": None, "error": None, "cost_usd": None}  # fmt: skip
        try:
            answer |= _answer(session, asked, question, timeout_s)
        except (InputError, TargetFailure) as error:
            answer["error"] = str(error)
        except OSError as error:
            answer["error"] = error_text(error)
        yield answer | {"duration_ms": (time.monotonic() - begun) * 1000}


def _answer(session: ProjectSession, asked: AskedExecution, question: str, timeout_s: float) -> Row:
    """Return the answer of a session and what it cost. Raises InputError, TargetFailure, OSError."""
    runner = session.runner_of(PairKey(suite=asked.suite, runner=asked.runner))
    require_environment([runner])
    adapter = ADAPTERS.get(runner.adapter)(runner)
    ask = getattr(adapter, "ask", None)
    if not inspect.iscoroutinefunction(ask):
        raise InputError(f"a runner of the adapter '{runner.adapter}' has no sessions to ask; coding agents have")
    kept = _kept_session(asked, session.warehouse.storage.artifacts)
    return asyncio.run(_asked(adapter, kept, runner, question, timeout_s))


async def _asked(adapter: Any, kept: KeptSession, runner: Runner, question: str, timeout_s: float) -> Row:
    case = Case(id="explain", input=(Message(role="user", content=question),))
    plan = Plan(suite="explain", case=case, runner=runner, repetition=1, key=fingerprint([runner.name, question]))
    with tempfile.TemporaryDirectory() as folder:
        call = Call(plan=plan, attempt=1, timeout_s=timeout_s, files=lambda: Path(folder))
        try:
            async with asyncio.timeout(timeout_s):
                raw = await adapter.ask(kept, call)
        except TimeoutError:
            raise InputError(f"no answer within {timeout_s:g} s") from None
        finally:
            await adapter.close()
        report = normalize_raw(RawSession(execution_id="explain", raw=raw, case=case))
    if not report.final_output:
        raise InputError(f"no answer: {report.error or 'the session ended without a text'}")
    return {"answer": report.final_output, "cost_usd": report.cost_usd}


def _kept_session(asked: AskedExecution, artifacts: Path) -> KeptSession:
    """Return what is kept of an execution's session. Raises InputError."""
    if asked.session_id is None:
        raise InputError("the report names no session")
    workspace = Path(asked.workspace) if asked.workspace is not None else None
    if workspace is not None and not workspace.is_dir():
        raise InputError(f"the workspace is not kept (keep_workspaces): {workspace}")
    log = asked.artifacts.get("session")
    path = artifacts / log if log is not None else None
    if path is not None and not path.is_file():
        raise InputError(f"the session's log was deleted: {path}")
    return KeptSession(
        session_id=asked.session_id, log=path, log_name=asked.payload.get(SESSION_FILE), workspace=workspace
    )
