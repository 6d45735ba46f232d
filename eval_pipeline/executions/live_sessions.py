"""The sessions of programs that run now, for whoever shows them: steps, the last action, tokens and USD.

A session is added when its program starts and removed when it ends. Nothing here is stored.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True, kw_only=True)
class LiveSession:
    """A session while it runs. `started` is in seconds of the monotonic clock; None: not known so far."""

    suite: str
    runner: str
    case_id: str
    repetition: int = 1
    started: float = field(default_factory=time.monotonic)
    steps: int = 0
    action: str | None = None
    tokens: int | None = None
    cost_usd: float | None = None


class LiveSessions:
    """The running sessions, in the order in which they started."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._sessions: dict[int, LiveSession] = {}

    @contextmanager
    def shown(self, session: LiveSession) -> Iterator[LiveSession]:
        """Show a session inside the block."""
        with self._turn:
            self._sessions[id(session)] = session
        try:
            yield session
        finally:
            with self._turn:
                self._sessions.pop(id(session), None)

    def now(self) -> list[LiveSession]:
        """Return the sessions that run now."""
        with self._turn:
            return list(self._sessions.values())


LIVE_SESSIONS = LiveSessions()
