"""Where coding agents keep the logs of their sessions, and what such a log says of its session.

Finding logs, and log → SessionReport (by the normalizer of its format). How a report becomes a transcript is in
`transcripts.py`. Sources: the CLIs' own folders as of Claude Code 2.1.330, Codex 0.169 and Copilot CLI 1.0.102.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from eval_pipeline.executions.model import Execution, RawExecution, Runner
from eval_pipeline.reports.jsonl_records import JsonMap, Record, mapping, read_records, text
from eval_pipeline.reports.model import MessageEvent, SessionReport
from eval_pipeline.reports.moments import milliseconds_between, span_of
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case

HEAD_BYTES = 1_000_000
"""How much of a log is read to say what it is about; the first words of a user stand well within it."""

Spot = tuple[str | None, tuple[str, ...]]
"""Where a fact stands: the type of the record (None: any), and the keys that lead to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A coding agent: its name, the format of its logs, and where it keeps them.

    `variable` names the environment variable that moves `home` (a folder of the user's home folder). `logs` are globs
    below it, `hidden` the beginning of names that are not sessions of the user's own.
    """

    name: str
    format: str
    variable: str
    home: str
    logs: tuple[str, ...]
    hidden: str | None = None
    session_id: tuple[Spot, ...]
    cwd: tuple[Spot, ...]
    git_branch: tuple[Spot, ...]
    version: tuple[Spot, ...]


AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        Agent(
            name="claude",
            format="claude-session",
            variable="CLAUDE_CONFIG_DIR",
            home=".claude",
            logs=("projects/*/*.jsonl",),
            hidden="agent-",
            session_id=((None, ("sessionId",)),),
            cwd=((None, ("cwd",)),),
            git_branch=((None, ("gitBranch",)),),
            version=((None, ("version",)),),
        ),
        Agent(
            name="codex",
            format="codex",
            variable="CODEX_HOME",
            home=".codex",
            logs=("sessions/*/*/*/rollout-*.jsonl", "archived_sessions/rollout-*.jsonl"),
            session_id=(("session_meta", ("payload", "id")), ("session_meta", ("payload", "session_id"))),
            cwd=(("session_meta", ("payload", "cwd")), ("turn_context", ("payload", "cwd"))),
            git_branch=(("session_meta", ("payload", "git", "branch")),),
            version=(("session_meta", ("payload", "cli_version")),),
        ),
        Agent(
            name="copilot",
            format="copilot",
            variable="COPILOT_HOME",
            home=".copilot",
            logs=("session-state/*/events.jsonl", "session-state/*.jsonl"),
            session_id=(("session.start", ("data", "sessionId")),),
            cwd=(("session.start", ("data", "context", "cwd")), ("session.resume", ("data", "context", "cwd"))),
            git_branch=(("session.start", ("data", "context", "branch")),),
            version=(("session.start", ("data", "copilotVersion")),),
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLog:
    """A log on disk: whose, where, and when it was last written to (UTC)."""

    agent: Agent
    path: Path
    changed_at: datetime

    @property
    def file_id(self) -> str:
        """The session's id as the file or its folder is named by it."""
        name = self.path.parent.name if self.path.name == "events.jsonl" else self.path.stem
        return name[-36:] if name.startswith("rollout-") else name


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a log says: the facts of its session, and its report. `cwd` is the folder that the agent was started in."""

    agent: str
    session_id: str
    report: SessionReport
    cwd: str | None = None
    git_branch: str | None = None

    @property
    def prompt(self) -> str | None:
        """The user's first own words; None when there are none."""
        return self.report.prompt


def log_at(agent: Agent, path: Path) -> SessionLog:
    """The log in a file. Raises OSError."""
    return SessionLog(agent=agent, path=path, changed_at=datetime.fromtimestamp(path.stat().st_mtime, UTC))


def find_logs(agent: Agent, home: Path, environment: Mapping[str, str]) -> list[SessionLog]:
    """The logs an agent keeps, the newest first; `home` is the user's home folder."""
    folder = logs_folder(agent, home, environment)
    paths = {path for pattern in agent.logs for path in folder.glob(pattern)}
    own = (path for path in paths if agent.hidden is None or not path.name.startswith(agent.hidden))
    return sorted(_logs_at(agent, own), key=lambda log: (log.changed_at, log.path), reverse=True)


def _logs_at(agent: Agent, paths: Iterable[Path]) -> Iterator[SessionLog]:
    for path in paths:
        with contextlib.suppress(OSError):  # an agent that is at work may have removed it by now
            yield log_at(agent, path)


def logs_folder(agent: Agent, home: Path, environment: Mapping[str, str]) -> Path:
    """The folder that an agent keeps its things in."""
    return Path(environment.get(agent.variable) or home / agent.home).expanduser()


def read_head(log: SessionLog) -> Session:
    """The session as the beginning of its log tells it: enough for its folder and its first words. Raises OSError."""
    with log.path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    whole, newline, cut = head.rpartition(b"\n")
    return _read(log, whole if newline and len(head) == HEAD_BYTES else whole + newline + cut)


def read_session(log: SessionLog) -> Session:
    """The whole session of a log. Raises OSError."""
    return _read(log, log.path.read_bytes())


def read_folder(log: SessionLog) -> str | None:
    """The folder that the agent was started in, without reading more than that. Raises OSError."""
    return _fact(_head_rows(log), log.agent.cwd)


def agents_of(log: SessionLog) -> list[str]:
    """Whose log this looks like: the agents that find a session's id in its beginning. Raises OSError."""
    rows = _head_rows(log)
    return [agent.name for agent in AGENTS.values() if _fact(rows, agent.session_id)]


def _head_rows(log: SessionLog) -> Sequence[Record]:
    with log.path.open("rb") as file:
        return read_records(file.read(HEAD_BYTES).decode("utf-8", "replace")).rows


def _read(log: SessionLog, content: bytes) -> Session:
    agent, told = log.agent, content.decode("utf-8", "replace")
    rows = read_records(told).rows
    cwd = _fact(rows, agent.cwd)
    session_id = _fact(rows, agent.session_id) or log.file_id
    report = _report(log, session_id, told)
    begun, ended = span_of(rows)
    report = replace(
        report,
        prompt=next(_user_words(report), None),
        session_id=session_id,
        agent_version=report.agent_version or _fact(rows, agent.version),
        started_at=begun,
        ended_at=ended,
        duration_ms=milliseconds_between(begun, ended),
    )
    branch = _fact(rows, agent.git_branch)
    return Session(agent=agent.name, session_id=session_id, report=report, cwd=cwd, git_branch=branch)


def _report(log: SessionLog, session_id: str, told: str) -> SessionReport:
    """The report of a log, made as the report of any execution is: what breaks a normalizer becomes its failure."""
    execution = Execution(
        execution_id=session_id,
        key="",
        suite="",
        case_id=session_id,
        runner=log.agent.name,
        repetition=1,
        started_at=log.changed_at,
        finished_at=log.changed_at,
        duration_ms=0.0,
        attempts=(),
        raw=RawExecution(format=log.agent.format, payload={"session": told}),
    )
    return normalize(execution, Case(id=session_id, input=()), Runner(name=log.agent.name, adapter="replay"))


def _user_words(report: SessionReport) -> Iterator[str]:
    for event in report.events:
        if isinstance(event, MessageEvent) and event.role == "user" and not event.injected and event.text.strip():
            yield event.text


def _fact(rows: Sequence[Record], spots: Sequence[Spot]) -> str | None:
    """The first text at one of these spots, the earlier spots first."""
    for type_, keys in spots:
        for row in rows:
            if (type_ is None or row.type == type_) and (value := _at(row.value, keys)) is not None:
                return value
    return None


def _at(value: JsonMap, keys: Sequence[str]) -> str | None:
    for key in keys[:-1]:
        value = mapping(value.get(key))
    return text(value.get(keys[-1]))
