"""A log kept by an agent CLI → the recorded session: its report and facts.

Finding logs is in `session_store.py`. How a report becomes a transcript is in `formats/`, how it becomes a suite in
`cli/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from eval_pipeline.agents.agent_cli import all_agents
from eval_pipeline.agents.session_store import FileSessions, SessionLog, SessionStore
from eval_pipeline.executions.model import Execution, RawExecution, Runner
from eval_pipeline.reports.jsonl_records import read_records
from eval_pipeline.reports.model import MessageEvent, SessionReport
from eval_pipeline.reports.moments import milliseconds_between, parse_time, span_of
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case


class SessionOwner(Protocol):
    """Whose sessions are imported: an agent CLI, or a format of files that several programs write."""

    @property
    def name(self) -> str: ...
    @property
    def sessions(self) -> SessionStore: ...


@dataclass(frozen=True, slots=True)
class SessionFormat:
    """A format of files, one session each, that belongs to no CLI."""

    name: str
    sessions: SessionStore


SESSION_FORMATS: Mapping[str, SessionOwner] = {"atif": SessionFormat("atif", FileSessions(format="atif"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A recorded session: its report and the facts of its log. `cwd` is the folder that the agent was started in."""

    agent: str
    session_id: str
    report: SessionReport
    cwd: str | None = None
    git_branch: str | None = None

    @property
    def prompt(self) -> str | None:
        """The user's first message; None without one."""
        return self.report.prompt


def read_head(agent: SessionOwner, log: SessionLog) -> Session:
    """Return the session by the beginning of its log, which has its folder and first message. Raises OSError."""
    return _read(agent, log, agent.sessions.read(log, head=True))


def read_session(agent: SessionOwner, log: SessionLog) -> Session:
    """The whole session of a log. Raises OSError."""
    return _read(agent, log, agent.sessions.read(log))


def read_folder(agent: SessionOwner, log: SessionLog) -> str | None:
    """The folder that the agent was started in, without normalizing the log. Raises OSError."""
    return agent.sessions.facts(agent.sessions.read(log, head=True)).cwd


def agents_of(agent: SessionOwner, log: SessionLog) -> list[str]:
    """Return the agents whose store finds a session id in the beginning of the log. Raises OSError."""
    head = agent.sessions.read(log, head=True)
    return [other.name for other in all_agents() if other.sessions.facts(head).session_id]


def _read(agent: SessionOwner, log: SessionLog, content: str) -> Session:
    facts = agent.sessions.facts(content)
    session_id = facts.session_id or log.session_id
    report = _report(agent, log, session_id, content)
    started_at, ended_at = span_of(read_records(content).rows)
    report = replace(
        report,
        prompt=next(_user_words(report), None),
        session_id=session_id,
        agent_version=report.agent_version or facts.agent_version,
        started_at=started_at or _known_time(report.started_at, log),
        ended_at=ended_at or _known_time(report.ended_at, log),
        duration_ms=milliseconds_between(started_at, ended_at) or report.duration_ms or None,  # 0: nobody timed it
    )
    return Session(agent=agent.name, session_id=session_id, report=report, cwd=facts.cwd, git_branch=facts.git_branch)


def _known_time(at: str | None, log: SessionLog) -> str | None:
    """Return a time that the log has; None for the placeholder of a log without times."""
    return at if at is not None and parse_time(at) != log.changed_at else None


def _report(agent: SessionOwner, log: SessionLog, session_id: str, content: str) -> SessionReport:
    """Return the report of a log; as for executions, an exception of a normalizer becomes its failure."""
    execution = Execution(
        execution_id=session_id,
        key="",
        suite="",
        case_id=session_id,
        runner=agent.name,
        repetition=1,
        started_at=log.changed_at,
        finished_at=log.changed_at,
        duration_ms=0.0,
        attempts=(),
        raw=RawExecution(format=agent.sessions.format, payload={"session": content}),
    )
    return normalize(execution, Case(id=session_id, input=()), Runner(name=agent.name, adapter="replay"))


def _user_words(report: SessionReport) -> Iterator[str]:
    for event in report.events:
        if isinstance(event, MessageEvent) and event.role == "user" and not event.injected and event.text.strip():
            yield event.text
