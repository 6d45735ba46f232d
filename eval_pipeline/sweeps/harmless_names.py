"""Names of folders that Dagster's SQLite storage can open: it makes an address of a path and escapes nothing, where `?`
begins the options and `%` an escape."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from eval_pipeline.errors import InputError

_IN_ADDRESSES = frozenset("?%")
_DIGITS = 16


def by_harmless_name(folder: Path) -> Path:
    """Return a folder by a name without such characters: through a link, where it needs one.

    The links are in a folder of this user among temporary files; one that is removed is made again. Raises
    InputError where another user owns it.
    """
    if not set(str(folder)) & _IN_ADDRESSES:
        return folder
    link = _links() / hashlib.sha256(os.fsencode(folder)).hexdigest()[:_DIGITS]
    if not link.is_symlink() or link.readlink() != folder:
        new = link.with_suffix(f".{os.getpid()}")
        new.unlink(missing_ok=True)  # of a killed process that had this id
        new.symlink_to(folder, target_is_directory=True)
        new.replace(link)
    return link


def _links() -> Path:
    links = Path(tempfile.gettempdir(), f"eval-pipeline-{os.getuid()}")
    links.mkdir(mode=0o700, exist_ok=True)
    if links.is_symlink() or links.lstat().st_uid != os.getuid():
        raise InputError(f"{links} belongs to another user: name another folder for temporary files (TMPDIR)")
    return links
