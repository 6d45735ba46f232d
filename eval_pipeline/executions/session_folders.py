"""Folders that sessions of programs work in, outside of every project: private, and with names that tell nothing.

A folder belongs to a process. Once that is gone, the next process ends the programs that it left, then removes the
folder.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.executions.removal import remove
from eval_pipeline.executions.started_programs import end_programs_of
from eval_pipeline.processes import ProcessMark, parse_mark, this_process

SESSIONS_VARIABLE = "EVAL_PIPELINE_SESSIONS"
"""Names the folder for the folders of sessions; default: that for temporary files."""
_OWNER = ".owner"
"""The suffix of the file that names the process of a folder."""
_DIGITS = 16
_WRITTEN_WITHIN_S = 60.0
"""An owner's file without a mark that is older than this was left by a process that was killed while writing it."""


@contextmanager
def session_folder() -> Iterator[Path]:
    """Yield an empty folder that only this user can read; it is removed at the end."""
    _remove_abandoned_once(_base())
    folder = claim_folder()
    try:
        yield folder
    finally:
        release_folder(folder)


def claim_folder() -> Path:
    """Return an empty folder of this process that only this user can read. Raises InputError, OSError."""
    folder = _base() / secrets.token_hex(_DIGITS // 2)
    folder.with_suffix(_OWNER).write_text(str(this_process()), encoding="utf-8")
    folder.mkdir(mode=0o700)
    return folder


def release_folder(folder: Path) -> None:
    """Remove a claimed folder with what is in it."""
    remove(folder)
    folder.with_suffix(_OWNER).unlink(missing_ok=True)


def of_sessions(folder: Path) -> bool:
    """Return whether a path is that of a folder in a session's folder."""
    return folder.is_absolute() and folder.parent.parent == sessions_path() and ".." not in folder.parts


def lasting_folder(owner: Path) -> Path:
    """Return the path of a folder that outlives processes, for what belongs to `owner`, a folder of a project."""
    digits = hashlib.sha256(os.fsencode(owner.resolve())).hexdigest()[:_DIGITS]
    return _base() / f"{digits}-0"


def remove_abandoned() -> None:
    """End what processes that are gone left working in their folders, then remove the folders."""
    base = sessions_path()
    for owner in base.glob(f"*{_OWNER}") if _is_ours(base) else ():
        with suppress(OSError):
            mark = parse_mark(owner.read_text(encoding="utf-8"))
            if _is_abandoned(owner, mark):
                if mark is not None:
                    end_programs_of(mark)
                release_folder(owner.with_suffix(""))


def _is_abandoned(owner: Path, mark: ProcessMark | None) -> bool:
    if mark is None:
        return time.time() - owner.stat().st_mtime > _WRITTEN_WITHIN_S
    return mark.is_gone


def _base() -> Path:
    """Return the folder of all sessions of this user. Raises InputError where it belongs to another one."""
    base = sessions_path()
    base.mkdir(mode=0o700, exist_ok=True)
    if not _is_ours(base):
        raise InputError(f"{base} belongs to another user: name another folder for sessions ({SESSIONS_VARIABLE})")
    return base


def sessions_path() -> Path:
    """Return the path of the folder of all sessions of this user."""
    above = os.environ.get(SESSIONS_VARIABLE) or tempfile.gettempdir()
    return Path(above).expanduser().absolute() / f"sessions-{os.getuid()}"


def _is_ours(base: Path) -> bool:
    return base.is_dir() and not base.is_symlink() and base.lstat().st_uid == os.getuid()


@cache
def _remove_abandoned_once(base: Path) -> None:
    """Remove abandoned folders, once per process and folder of sessions."""
    remove_abandoned()
