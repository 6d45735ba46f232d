"""What many tests begin with is carried out once for a process: later folders with the same files get a copy.

It is for the arrangement of a test, never for what it is about; in a process that runs one test nothing is copied.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEPT = 40
"""How many folders are kept; the one that was used longest ago goes first."""
_KEPT: OrderedDict[tuple[str, str], tuple[Path, Any]] = OrderedDict()


def carried_out_once(folder: Path, name: str, action: Callable[[], Any]) -> Any:
    """Return what the action returns, and leave the folder as it does.

    Args:
        folder: All that the action reads and writes.
        name: What the action does. It is carried out where no earlier one of this name found the same files.
    """
    key = name, _content(folder)
    if key in _KEPT:
        _KEPT.move_to_end(key)
        left, result = _KEPT[key]
        shutil.rmtree(folder)
        shutil.copytree(left, folder, symlinks=True)
        return result
    result = action()
    left = Path(tempfile.mkdtemp(prefix="carried-out-"))
    atexit.register(_remove, left, os.getpid())
    shutil.copytree(folder, left, symlinks=True, dirs_exist_ok=True)
    _KEPT[key] = left, result
    if len(_KEPT) > KEPT:
        _, (oldest, _) = _KEPT.popitem(last=False)
        shutil.rmtree(oldest)
    return result


def _content(folder: Path) -> str:
    """Return a hash of the names and the content of all files."""
    digest = hashlib.sha1(usedforsecurity=False)
    for path in sorted(folder.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        digest.update(f"{path.relative_to(folder)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _remove(folder: Path, maker: int) -> None:
    if os.getpid() == maker:  # no process that was forked from it
        shutil.rmtree(folder, ignore_errors=True)
