"""Copilot's records: their data, who caused them, and the status that an error names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from eval_pipeline.reports.jsonl_records import JsonMap, Record, count, mapping, moment, text

_STATUS_IN_TEXT = re.compile(r"\b(?:HTTP |status:? |Last error: )([45]\d\d)\b")
TURNING_POINTS = frozenset({"user.message", "assistant.message", "tool.execution_start", "session.error", "abort"})


def data_of(record: Record) -> JsonMap:
    """The data of a record; empty without any."""
    return mapping(record.value.get("data"))


def time_of(record: Record) -> str | None:
    """The time of a record as it is written (ISO 8601); None without one."""
    return moment(record.value.get("timestamp"))


def first_text(rows: Iterable[Record], *names: str) -> str | None:
    """The first text that a record has under one of these names, in its data or beside them."""
    places = ((data_of(row), row.value) for row in rows)
    return next(
        (value for place in places for part in place for name in names if (value := text(part.get(name)))), None
    )


def is_by_main_agent(record: Record) -> bool:
    """Whether a record comes from the main agent, not from a subagent."""
    return not data_of(record).get("parentToolCallId") and not record.value.get("agentId")


def error_status(data: JsonMap, error: str = "") -> int | None:
    """The HTTP status of an error, as its data report it, else as its text names it."""
    status, match = count(data.get("statusCode")), _STATUS_IN_TEXT.search(error)
    if status is not None and 400 <= status <= 599:
        return status
    return int(match[1]) if match is not None else None
