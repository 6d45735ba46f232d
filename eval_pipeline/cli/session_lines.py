"""One line for each session of an agent that runs: steps, the last action, tokens, USD, and its time so far."""

from __future__ import annotations

import time

from eval_pipeline.executions.live_sessions import LIVE_SESSIONS, LiveSession
from eval_pipeline.leaderboards.show import counted, money
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.progress import duration


def session_lines(most: int) -> list[str]:
    """Return a line for each running session, for the first `most` of them."""
    sessions = LIVE_SESSIONS.now()
    now = time.monotonic()
    lines = [session_line(session, now) for session in sessions[:most]]
    return [*lines, f"… and {len(sessions) - most} more sessions"] if len(sessions) > most else lines


def session_line(session: LiveSession, now: float) -> str:
    """Return the line of a session; what is not known is left out. What an agent does may name a secret."""
    repetition = f" #{session.repetition}" if session.repetition > 1 else ""
    parts = [counted(session.steps, "step")]
    parts += [redact_text(session.action, cut=True)] if session.action else []
    parts += [counted(session.tokens, "token")] if session.tokens is not None else []
    parts += [money(session.cost_usd)] if session.cost_usd is not None else []
    parts += [duration(now - session.started)]
    place = f"{session.suite} × {session.runner}: {session.case_id}{repetition}"
    return escape_controls(f"{place}: {', '.join(parts)}")
