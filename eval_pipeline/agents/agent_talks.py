"""Conversations with agents: each goes on with the agent's own session, in one home, from turn to turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.agents.session_environment import SessionEnvironment
from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.normalize import RawSession, normalize_raw
from eval_pipeline.suites.model import Case

_SESSION_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,127}")


@dataclass(slots=True, kw_only=True)
class AgentTalk:
    """The session of one conversation: its environment, its id once a turn ended, and how much of which log was read.

    `usage_before` are the measures that the CLI counts over all turns, as they were before the next one.
    """

    environment: Mapping[str, str]
    closing: AsyncExitStack
    session_id: str | None = None
    log: Path | None = None
    log_bytes: int = 0
    usage_before: Mapping[str, Any] = field(default_factory=dict)

    def read_before(self, log: Path, size: int) -> int:
        """Return how many bytes of a log earlier turns had; from now on all of them are read."""
        before = self.log_bytes if self.log == log and self.log_bytes <= size else 0
        self.log, self.log_bytes = log, size
        return before

    def note(self, raw: RawExecution, cli: AgentCli) -> None:
        """Remember the session of a turn that ended well; the next turn goes on with it."""
        session_id = cli.printed_session(raw.files.get("stdout"))
        if session_id is not None and _SESSION_ID.fullmatch(session_id):
            self.session_id = session_id
        if cli.cumulative:
            whole = normalize_raw(
                RawSession(execution_id="", raw=_without_before(raw), case=Case(id="turn", input=()))
            ).usage
            values = {name: getattr(whole, name) for name in cli.cumulative}
            self.usage_before = {name: value for name, value in values.items() if value is not None}


class AgentTalks:
    """The conversations of a runner that are being held, by the key of their plan."""

    def __init__(self, environment: SessionEnvironment) -> None:
        self._environment = environment
        self._talks: dict[str, AgentTalk] = {}

    async def at(self, call: Call) -> AgentTalk:
        """Return the conversation of a call; its first turn begins it."""
        key = call.plan.key
        if call.turn == 1:
            await self.end(key)
        if key not in self._talks:
            closing = AsyncExitStack()
            environment = await closing.enter_async_context(self._environment.session())
            self._talks[key] = AgentTalk(environment=environment, closing=closing)
        return self._talks[key]

    async def end(self, key: str) -> None:
        """Release the home of a conversation, if there is one."""
        talk = self._talks.pop(key, None)
        if talk is not None:
            await talk.closing.aclose()

    async def close(self) -> None:
        """Release every home."""
        for key in list(self._talks):
            await self.end(key)


def _without_before(raw: RawExecution) -> RawExecution:
    payload = {name: value for name, value in raw.payload.items() if name != "usage_before"}
    return RawExecution(format=raw.format, payload=payload, files=raw.files, exit_code=raw.exit_code)
