"""Times that a session's records name: when it began and ended, and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from eval_pipeline.reports.jsonl_records import Record, moment


def span_of(rows: Sequence[Record]) -> tuple[str | None, str | None]:
    """When the first and the last of these records were written that say it (`timestamp`)."""
    first = next((at for row in rows if (at := moment(row.value.get("timestamp")))), None)
    last = next((at for row in reversed(rows) if (at := moment(row.value.get("timestamp")))), None)
    return first, last


def milliseconds_between(begun: str | None, ended: str | None) -> float | None:
    """The time between two ISO 8601 moments; None when one is unknown or no moment, or when they stand reversed."""
    if begun is None or ended is None:
        return None
    try:
        passed = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds() * 1000
    except (ValueError, TypeError):  # TypeError: one names its time zone and the other does not
        return None
    return round(passed, 3) if passed >= 0 else None
