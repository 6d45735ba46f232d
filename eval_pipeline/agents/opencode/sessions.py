"""The sessions that OpenCode keeps in its database: listed and exported by OpenCode itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from eval_pipeline.agents.session_store import JsonlSessions, SessionLog
from eval_pipeline.errors import InputError
from eval_pipeline.reports.jsonl_records import count, listing, mapping, parse_json, text

PROGRAM = "opencode"
_TIME_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCodeSessions(JsonlSessions):
    """Files of `opencode export`, and what `opencode session list` lists where the program is installed."""

    def listed(self, home: Path, environment: Mapping[str, str]) -> list[SessionLog]:
        """Return the sessions of the user, newest first. Raises InputError where OpenCode cannot list them."""
        folder = self.folder(home, environment)
        if shutil.which(PROGRAM) is None:
            cure = "only OpenCode itself lists its sessions: install it, or name files of `opencode export`"
            raise InputError(f"no '{PROGRAM}' on PATH; {cure}")
        try:
            entries = [mapping(entry) for entry in listing(parse_json(_printed("session", "list", "--format", "json")))]
        except ValueError:
            return []  # it prints nothing where there are none
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = getattr(error, "strerror", None) or error
            raise InputError(f"`{PROGRAM} session list` failed: {problem}") from None
        logs = [
            SessionLog(session_id=id_, path=folder / id_, changed_at=_moment(count(entry.get("updated")) or 0))
            for entry in entries
            if (id_ := text(entry.get("id"))) is not None
        ]
        return sorted(logs, key=lambda log: log.changed_at, reverse=True)

    def read(self, log: SessionLog, *, head: bool = False) -> str:
        if log.path.is_file():
            return JsonlSessions.read(self, log, head=head)
        return _printed("export", log.session_id)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _printed(*arguments: str) -> str:
    """Return what OpenCode prints. Raises OSError where it fails."""
    done = subprocess.run(
        [shutil.which(PROGRAM) or PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIME_LIMIT_S,
    )
    if done.returncode:
        raise OSError(done.returncode, done.stderr.strip()[-200:] or f"{PROGRAM} ended with {done.returncode}")
    return done.stdout
