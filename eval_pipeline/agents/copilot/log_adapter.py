"""`copilot-log`: a session that GitHub Copilot CLI has recorded, to score interactive sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.agents.copilot.agent import COPILOT
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.failures import RECORDING_MISSING
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.tables import TEXT, Field, FieldTable, one_of

EVENTS = "events.jsonl"
_CHOICES = ("session_dir", "session_id", "discover")


@ADAPTERS.register("copilot-log")
class CopilotLog:
    """Returns the same recorded session for every case; no model is called.

    Settings, one of: `session_dir` (a session's folder, or its `events.jsonl`), `session_id`, `discover: latest`.
    Sessions are looked for in `session_state_dir` (default: `session-state` in $COPILOT_HOME, else in `~/.copilot`);
    with `cwd` only those that worked in that folder.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "copilot-log",
        (
            Field("session_dir", TEXT, "The folder of a session, or its `events.jsonl`."),
            Field("session_id", TEXT, "The id of a session in `session_state_dir`."),
            Field("discover", one_of("latest"), "Takes the newest session."),
            Field("session_state_dir", TEXT, "Where sessions are looked for (default: Copilot's own folder)."),
            Field("cwd", TEXT, "Only sessions that worked in this folder are considered."),
            MODEL,
        ),
        "Returns a session that GitHub Copilot CLI has recorded.",
    )
    default_timeout_s: ClassVar[float] = 60.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        given = runner.settings
        chosen = [key for key in _CHOICES if given.get(key) is not None]
        if len(chosen) != 1:
            raise InputError(f"expected one of: {', '.join(_CHOICES)}", SourceLocation(field=_CHOICES[0]))
        if chosen == ["discover"]:
            settings.choice(given, "discover", ("latest",), "latest")
        self._folder = _sessions_folder(given, runner.folder)
        self._session = self._named(given, runner.folder)
        cwd = settings.optional_text(given, "cwd")
        self._cwd = (runner.folder / cwd).resolve() if cwd is not None else None

    def content(self) -> Mapping[str, str]:
        """Return the fingerprint of the session: the one that the settings name, else the newest."""
        events = self._events()
        return {events.parent.name: file_fingerprint(events)} if events is not None else {}

    async def execute(self, call: Call) -> RawExecution:
        events = self._events()
        if events is None:
            where = f" that worked in {self._cwd}" if self._cwd is not None else ""
            raise TargetFailure(RECORDING_MISSING, f"no session{where} in {show_path(self._folder)}")
        return RawExecution(format="copilot", payload={"elapsed_ms": None}, files={"session": events})

    async def close(self) -> None:
        return None

    def _named(self, given: Mapping[str, Any], folder: Path) -> Path | None:
        """The events of the session that the settings name; None when they name none."""
        path, id_ = settings.optional_text(given, "session_dir"), settings.optional_text(given, "session_id")
        if path is None and id_ is None:
            return None
        session = folder / Path(path).expanduser() if path is not None else self._folder / str(id_)
        events = next((path for path in (session / EVENTS, session) if is_file(path)), None)
        if events is None:
            field = "session_dir" if path is not None else "session_id"
            raise InputError(f"no session at {show_path(session)}", SourceLocation(field=field))
        return events.resolve()

    def _events(self) -> Path | None:
        if self._session is not None:
            return self._session
        paths = self._folder.glob(f"*/{EVENTS}")
        matching = [path for path in paths if self._cwd is None or _worked_in(path) == self._cwd]
        return max(matching, key=lambda path: (path.stat().st_mtime_ns, path.parent.name), default=None)


def _sessions_folder(given: Mapping[str, Any], folder: Path) -> Path:
    named = settings.optional_text(given, "session_state_dir")
    if named is not None:
        return folder / Path(named).expanduser()
    return COPILOT.sessions.folder(Path.home(), os.environ) / "session-state"


def _worked_in(events: Path) -> Path | None:
    """Return the folder that a session was started in."""
    log = COPILOT.sessions.log_at(events)
    cwd = COPILOT.sessions.facts(COPILOT.sessions.read(log, head=True)).cwd if log is not None else None
    return Path(cwd).resolve() if cwd is not None else None
