"""Sessions that ended and can be gone on with: what is kept of one, and its folder, made once more."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.session_folders import of_sessions, session_folder

SESSION_FILE = "session_file"
"""The entry of a payload with the place of the session's log among the files of the CLI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSession:
    """What is kept of a session that ended.

    `log` is the copy of the log that its CLI kept, `log_name` the place of the original in the CLI's folder (None: the
    CLI has it itself). `workspace` is the folder as the session left it, None where it worked in the runner's own.
    """

    session_id: str
    log: Path | None = None
    log_name: str | None = None
    workspace: Path | None = None


@contextmanager
def workspace_again(kept: Path, worked_in: Path | None) -> Iterator[Path]:
    """Yield a copy of a kept workspace, at the path where the session worked if nothing is there now; else elsewhere.

    CLIs find their sessions by this path. The copy is removed at the end: whatever is done in it changes nothing.
    """
    if worked_in is None or not of_sessions(worked_in) or worked_in.exists() or worked_in.parent.exists():
        with session_folder() as folder:
            yield _copied(kept, folder / "workspace")
        return
    worked_in.parent.mkdir(mode=0o700, parents=True)
    try:
        yield _copied(kept, worked_in)
    finally:
        remove(worked_in.parent)


def _copied(kept: Path, to: Path) -> Path:
    shutil.copytree(kept, to, symlinks=True)
    return to
