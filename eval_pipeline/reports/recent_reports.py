"""Reports of sessions that were just read: how a session ended is asked before its report is stored.

A report is passed on only while the files that it was read from are unchanged: a secret replaced in between makes it
another one. Each is passed on once, and few are held.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.model import SessionReport

_MOST = 8
_turn = threading.Lock()
_recent: OrderedDict[Hashable, SessionReport] = OrderedDict()


def remember(raw: RawExecution, report: SessionReport) -> None:
    """Hold the report of a raw execution; one without files is read again at no cost."""
    key = _key(raw)
    if key is None:
        return
    with _turn:
        _recent[key] = report
        while len(_recent) > _MOST:
            _recent.popitem(last=False)


def recall(raw: RawExecution) -> SessionReport | None:
    """Return the report of a raw execution, and hold it no longer; None where it has to be read."""
    with _turn:
        if not _recent:
            return None
    key = _key(raw)
    with _turn:
        return _recent.pop(key, None) if key is not None else None


def _key(raw: RawExecution) -> Hashable | None:
    if not raw.files:
        return None
    try:
        files = tuple((role, str(path), _state(path.stat())) for role, path in sorted(raw.files.items()))
    except OSError:
        return None
    return raw.format, raw.exit_code, fingerprint(raw.payload), files


def _state(stat: object) -> Hashable:
    return tuple(getattr(stat, name) for name in ("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns"))
