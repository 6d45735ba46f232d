"""Times in the records of a session: parsing, spans and differences. An unknown time is None."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from eval_pipeline.reports.jsonl_records import Record, moment


def span_of(rows: Sequence[Record]) -> tuple[str | None, str | None]:
    """Return the first and the last `timestamp` of these records."""
    first = next((at for row in rows if (at := moment(row.value.get("timestamp")))), None)
    last = next((at for row in reversed(rows) if (at := moment(row.value.get("timestamp")))), None)
    return first, last


def milliseconds_between(begun: str | None, ended: str | None) -> float | None:
    """Return the time between two ISO 8601 moments; None when one is unknown or invalid, or when they are reversed."""
    if begun is None or ended is None:
        return None
    try:
        passed = (datetime.fromisoformat(ended) - datetime.fromisoformat(begun)).total_seconds() * 1000
    except (ValueError, TypeError):  # TypeError: one of them has a time zone and the other does not
        return None
    return round(passed, 3) if passed >= 0 else None


def parse_time(text: str | None) -> datetime | None:
    """Parse an ISO 8601 time into UTC (a time without a zone is UTC); None when it is invalid."""
    if not text:
        return None
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None


def later(time: datetime, duration_ms: float) -> datetime | None:
    """Return the time after a reported duration; None when no datetime can represent it."""
    try:
        return time + timedelta(milliseconds=duration_ms)
    except (ValueError, OverflowError):
        return None


def iso(time: datetime | None) -> str | None:
    """Format a time as ISO 8601 in UTC with milliseconds: `2026-03-01T10:00:00.000Z`; None for None."""
    if time is None:
        return None
    return time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
