"""Folders for one session of a program, outside of every project: fresh, private, and gone with the session.

Their names tell nothing. What a killed process left is removed by the next one that makes a folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.processes import parse_mark, this_process

_OWNER = ".owner"
"""The suffix of the file that names the process of a folder."""


@contextmanager
def session_folder() -> Iterator[Path]:
    """Yield an empty folder that only this user can read; it is removed at the end."""
    base = _swept(_base())
    folder = Path(tempfile.mkdtemp(dir=base, prefix=""))
    owner = folder.with_suffix(_OWNER)
    try:
        owner.write_text(str(this_process()), encoding="utf-8")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        owner.unlink(missing_ok=True)


def _base() -> Path:
    """Return the folder of all sessions of this user. Raises InputError where it belongs to another one."""
    base = Path(tempfile.gettempdir(), f"sessions-{os.getuid()}")
    base.mkdir(mode=0o700, exist_ok=True)
    if base.is_symlink() or base.lstat().st_uid != os.getuid():
        raise InputError(f"{base} belongs to another user: name another folder for temporary files (TMPDIR)")
    return base


@cache
def _swept(base: Path) -> Path:
    """Return a folder after the folders of processes that are gone were removed from it, once per process."""
    for owner in base.glob(f"*{_OWNER}"):
        with suppress(OSError):
            mark = parse_mark(owner.read_text(encoding="utf-8"))
            if mark is None or mark.is_gone:
                shutil.rmtree(owner.with_suffix(""), ignore_errors=True)
                owner.unlink(missing_ok=True)
    return base
