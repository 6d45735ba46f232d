"""The sweep that is under way, as its process reports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.processes import parse_mark


def live_document(progress: Path, version: str | None) -> dict[str, Any]:
    """Return the progress of the sweep that is under way, None without one, and the version of published results.

    `ended` is whether its process is gone: it was killed, and the next run goes on from there.
    """
    try:
        sweep = orjson.loads(_newest(progress).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {"version": version, "sweep": None}
    process = parse_mark(sweep.get("process", ""))
    return {"version": version, "sweep": {**sweep, "ended": process is None or process.is_gone}}


def _newest(progress: Path) -> Path:
    """Return the file that was written last: several processes may work in one folder."""
    files = progress.parent.glob(f"{progress.stem}*{progress.suffix}")
    return max(files, key=lambda path: path.stat().st_mtime_ns, default=progress)
