"""Stores of session logs: the location of logs, the search for one, and the facts in its records.

`SessionStore` is the seam; `JsonlSessions` serves every CLI that keeps one JSONL file a session.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from eval_pipeline.reports.jsonl_records import JsonMap, Record, mapping, read_records, text

HEAD_BYTES = 1_000_000
"""How much of a log is read for an overview; the first words of a user come well within it."""
_COPIED_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class RecordField:
    """The position of a text in a record: a path of keys, and the type of the record (None: any)."""

    keys: tuple[str, ...]
    type: str | None = None

    def value(self, rows: Sequence[Record]) -> str | None:
        """The first text at this place; None without one."""
        texts = (_text_at(row.value, self.keys) for row in rows if self.type in (None, row.type))
        return next((value for value in texts if value is not None), None)


def first_value(rows: Sequence[Record], fields: Sequence[RecordField]) -> str | None:
    """Return the first text at these positions, in their order."""
    return next((value for field in fields if (value := field.value(rows)) is not None), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionLog:
    """The log of one session: its id in the store, its path, and its last change (UTC)."""

    session_id: str
    path: Path
    changed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """Facts of a session by its log. `cwd` is the folder that the CLI was started in."""

    session_id: str | None = None
    cwd: str | None = None
    git_branch: str | None = None
    agent_version: str | None = None


class SessionStore(Protocol):
    """The sessions that a CLI keeps.

    `format` names the normalizer that reads what `read` returns; the environment `variable` moves the folder.
    """

    @property
    def format(self) -> str: ...

    @property
    def variable(self) -> str: ...

    def folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        """The folder that the CLI keeps its things in; `home` is the user's home folder."""

    def logs(self, home: Path, environment: Mapping[str, str]) -> list[SessionLog]:
        """Yield all logs, newest first."""

    def log_at(self, path: Path) -> SessionLog | None:
        """Return the log at a path that a user names; None without one. Raises OSError."""

    def read(self, log: SessionLog, *, head: bool = False) -> str:
        """Return a log as text, or the beginning that an overview needs. Raises OSError."""

    def copy(self, log: SessionLog, path: Path, begin: int = 0) -> None:
        """Write a log to a file of ours, from a byte on. Raises OSError."""

    def facts(self, content: str) -> SessionFacts:
        """Return the facts of a session by the text of its log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonlSessions:
    """Sessions of one JSONL file each, below a folder that the environment `variable` moves.

    `default_folder` is a folder of the user's home folder; `subfolder` is a folder inside the one that `variable`
    names, for a variable that several programs share. `patterns` are globs below; `excluded_prefix` begins the names of
    files that hold no session of the user. A file called `log_name` takes its id from its folder. The name of a file
    ends with the first `id_length` characters of the session's id (None: the name is the id).
    """

    format: str
    variable: str
    default_folder: str
    subfolder: str = ""
    patterns: tuple[str, ...]
    excluded_prefix: str | None = None
    log_name: str | None = None
    id_length: int | None = None
    session_id: tuple[RecordField, ...]
    cwd: tuple[RecordField, ...] = ()
    git_branch: tuple[RecordField, ...] = ()
    agent_version: tuple[RecordField, ...] = field(default=())

    def folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        moved = environment.get(self.variable)
        return (Path(moved) / self.subfolder if moved else home / self.default_folder).expanduser()

    def logs(self, home: Path, environment: Mapping[str, str]) -> list[SessionLog]:
        folder = self.folder(home, environment)
        paths = {path for pattern in self.patterns for path in folder.glob(pattern)}
        return sorted(self._logs_at(paths), key=lambda log: (log.changed_at, log.path), reverse=True)

    def log_at(self, path: Path) -> SessionLog | None:
        if self.log_name is not None and (path / self.log_name).is_file():
            path = path / self.log_name
        return self._log(path.absolute()) if path.is_file() else None

    def read(self, log: SessionLog, *, head: bool = False) -> str:
        with log.path.open("rb") as file:
            content = file.read(HEAD_BYTES if head else -1)
        if head and len(content) == HEAD_BYTES:
            content = content.rpartition(b"\n")[0] or content
        return content.decode("utf-8", "replace")

    def copy(self, log: SessionLog, path: Path, begin: int = 0) -> None:
        with log.path.open("rb") as source, path.open("wb") as target:
            source.seek(begin)
            shutil.copyfileobj(source, target, _COPIED_BYTES)

    def facts(self, content: str) -> SessionFacts:
        rows = read_records(content).rows
        return SessionFacts(
            session_id=first_value(rows, self.session_id),
            cwd=first_value(rows, self.cwd),
            git_branch=first_value(rows, self.git_branch),
            agent_version=first_value(rows, self.agent_version),
        )

    def _logs_at(self, paths: set[Path]) -> Iterator[SessionLog]:
        for path in paths:
            if self.excluded_prefix is not None and path.name.startswith(self.excluded_prefix):
                continue
            with contextlib.suppress(OSError):  # a running CLI may have removed it meanwhile
                yield self._log(path)

    def _log(self, path: Path) -> SessionLog:
        changed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return SessionLog(session_id=self._id_of(path), path=path, changed_at=changed_at)

    def _id_of(self, path: Path) -> str:
        """The session's id by the name of its file or folder: its last `id_length` characters."""
        name = path.parent.name if path.name == self.log_name else path.stem
        return name if self.id_length is None else name[-self.id_length :]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSessions:
    """Files that a user names, one session each; there is no folder of all."""

    format: str
    variable: str = ""

    def folder(self, home: Path, environment: Mapping[str, str]) -> Path:
        return Path.cwd()

    def logs(self, home: Path, environment: Mapping[str, str]) -> list[SessionLog]:
        return []

    def log_at(self, path: Path) -> SessionLog | None:
        if not path.is_file():
            return None
        changed_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return SessionLog(session_id=path.stem, path=path.absolute(), changed_at=changed_at)

    def read(self, log: SessionLog, *, head: bool = False) -> str:
        return log.path.read_text("utf-8", "replace")

    def copy(self, log: SessionLog, path: Path, begin: int = 0) -> None:
        path.write_bytes(log.path.read_bytes()[begin:])

    def facts(self, content: str) -> SessionFacts:
        return SessionFacts()


def with_distinct_ids(logs: Sequence[SessionLog]) -> list[SessionLog]:
    """Return logs whose ids are the names of their files; files of one name have those of their folders before it."""
    paths = {log.path for log in logs}
    ids = {path: path.stem for path in paths}
    for depth in range(1, max((len(path.parts) for path in paths), default=0)):
        counts = Counter(ids.values())
        if len(counts) == len(paths):
            break
        for path in paths:
            if counts[ids[path]] > 1 and depth < len(path.parts) - 1:
                ids[path] = f"{path.parts[-1 - depth]}-{ids[path]}"
    return [replace(log, session_id=ids[log.path]) for log in logs]


def find_log(
    store: SessionStore, home: Path, environment: Mapping[str, str], *, session_id: str | None, cwd: Path, since: float
) -> SessionLog | None:
    """Return the newest log of a finished run: by its session id, else the only one since `since` that worked in `cwd`.

    `since` is in seconds of the Unix epoch. None without such a log, or with several.
    """
    logs = store.logs(home, environment)
    if session_id is not None:
        return next((log for log in logs if is_log_of(store, log, session_id)), None)
    folder, begin = cwd.resolve(), datetime.fromtimestamp(since, UTC)
    recent = [log for log in logs if log.changed_at >= begin and _worked_in(store, log) == folder]
    return recent[0] if len(recent) == 1 else None


def is_log_of(store: SessionStore, log: SessionLog, session_id: str) -> bool:
    """Return whether a log is of a session; the name of a log may have only the beginning of its id."""
    known: int | None = getattr(store, "id_length", None)
    return log.session_id == session_id[:known]


def newest_log(store: SessionStore, home: Path, environment: Mapping[str, str], since: float) -> Path | None:
    """Return the log that changed last since `since` (seconds of the Unix epoch); None without one."""
    begin = datetime.fromtimestamp(since, UTC)
    return next((log.path for log in store.logs(home, environment) if log.changed_at >= begin), None)


def _worked_in(store: SessionStore, log: SessionLog) -> Path | None:
    try:
        cwd = store.facts(store.read(log, head=True)).cwd
    except OSError:
        return None
    return Path(cwd).resolve() if cwd is not None else None


def _text_at(value: JsonMap, keys: Sequence[str]) -> str | None:
    for key in keys[:-1]:
        value = mapping(value.get(key))
    return text(value.get(keys[-1]))
