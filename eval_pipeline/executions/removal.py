"""Removing folders that programs wrote in, which may be write-protected."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a folder (write-protected ones included) or a file. Never raises for a missing path."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if path.exists():
        _make_writable(path)
        shutil.rmtree(path, ignore_errors=True)


def _make_writable(path: Path) -> None:
    for parent, folders, _ in os.walk(path):
        for name in (".", *folders):
            with contextlib.suppress(OSError):
                (Path(parent) / name).chmod(0o700, follow_symlinks=False)
