"""The sweep that is under way, as its process reports it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson


def live_document(progress: Path, version: str | None) -> dict[str, Any]:
    """Return the progress of the sweep that is under way, None without one, and the version of published results.

    `ended` is whether its process is gone: it was killed, and the next run goes on from there.
    """
    try:
        sweep = orjson.loads(_newest(progress).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {"version": version, "sweep": None}
    return {"version": version, "sweep": {**sweep, "ended": not _is_alive(sweep["pid"])}}


def _newest(progress: Path) -> Path:
    """Return the file that was written last: several processes may work in one folder."""
    files = progress.parent.glob(f"{progress.stem}*{progress.suffix}")
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=progress)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another account's
        return True
    return True
