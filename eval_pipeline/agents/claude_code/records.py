"""Claude Code's records: the content of a message, who wrote it, and the status that an error names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from eval_pipeline.reports.jsonl_records import JsonMap, Record, count, first, listing, mapping, moment, text

SYNTHETIC = "<synthetic>"
THINKING = ("thinking", "redacted_thinking")
_STATUS_IN_TEXT = re.compile(r"API Error: (?:[^\n]{0,40}\()?([45]\d\d)\b")


def time_of(record: Record) -> str | None:
    """The time of a record as it is written (ISO 8601); None without one."""
    return moment(record.value.get("timestamp"))


def first_text(records: Iterable[Record], *names: str) -> str | None:
    """The first text that a record has under one of these names."""
    return next((value for record in records for name in names if (value := text(record.value.get(name)))), None)


def content_blocks(record: Record) -> Iterator[JsonMap]:
    """The blocks of a message; a text in their place is one block of text."""
    content = mapping(record.value.get("message")).get("content")
    if isinstance(content, str):
        yield {"type": "text", "text": content}
    yield from (mapping(block) for block in listing(content))


def message_blocks(records: Iterable[Record]) -> Iterator[tuple[Record, JsonMap]]:
    """Yield every block of every message, with its record."""
    messages = (record for record in records if record.type in ("assistant", "user"))
    return ((record, block) for record in messages for block in content_blocks(record))


def message_text(record: Record) -> str:
    """The text of a message, its blocks of text joined by newlines."""
    return "\n".join(content for block in content_blocks(record) if (content := text(block.get("text"))))


def is_api_error(record: Record) -> bool:
    """Whether an assistant record is the CLI's own text about an API error."""
    if record.type != "assistant" or mapping(record.value.get("message")).get("model") != SYNTHETIC:
        return False
    flagged = first(record.value, "is_api_error_message", "isApiErrorMessage") is True
    return flagged or message_text(record).startswith("API Error")


def is_by_main_model(record: Record) -> bool:
    """Whether the main model wrote a record: not a subagent, not the CLI."""
    if record.type != "assistant" or mapping(record.value.get("message")).get("model") == SYNTHETIC:
        return False
    return not record.value.get("parent_tool_use_id") and not record.value.get("isSidechain")


def without_repeats(rows: Iterable[Record]) -> Iterator[Record]:
    """Return records without repetitions of the same `uuid`."""
    seen: set[str] = set()
    for record in rows:
        uuid = text(record.value.get("uuid"))
        if uuid is None or uuid not in seen:
            yield record
        seen.update([uuid] if uuid is not None else [])


def error_status(value: Any) -> int | None:
    """The value as an HTTP status of an error; None when it is none."""
    status = count(value)
    return status if status is not None and 400 <= status <= 599 else None


def status_in_text(error: str) -> int | None:
    """The HTTP status that the text of an API error names."""
    match = _STATUS_IN_TEXT.search(error)
    return int(match[1]) if match is not None else None
