"""The export of an OpenCode session → the records that standard output would have had."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval_pipeline.reports.jsonl_records import JsonMap, Record, listing, mapping, parse_json, text

_TYPES: Mapping[str, str] = {"tool": "tool_use", "step-start": "step_start", "step-finish": "step_finish"}


def records_of_export(source: str | None) -> tuple[Record, ...]:
    """The records of an export; none when the text holds no JSON object."""
    session = mapping(_json_in(source or ""))
    rows: list[JsonMap] = []
    for message in listing(session.get("messages")):
        rows.extend(_message_records(mapping(message), mapping(session.get("info"))))
    return tuple(Record(number, row) for number, row in enumerate(rows, start=1))


def _json_in(source: str) -> Any:
    """The JSON object in a text: OpenCode prints notes around it."""
    begin, end = source.find("{"), source.rfind("}")
    try:
        return parse_json(source[begin : end + 1]) if 0 <= begin < end else None
    except (ValueError, RecursionError):
        return None


def _message_records(message: JsonMap, session: JsonMap) -> Iterator[JsonMap]:
    info, parts = mapping(message.get("info")), [mapping(part) for part in listing(message.get("parts"))]
    common = {
        "sessionID": text(info.get("sessionID")) or text(session.get("id")),
        "timestamp": mapping(info.get("time")).get("created"),
        "cwd": mapping(info.get("path")).get("cwd"),
        "model": info.get("modelID"),
        "version": session.get("version"),
    }
    if info.get("role") == "user":
        yield from ({"type": "user", "part": part, **common} for part in parts if part.get("type") == "text")
        return
    kinds = [text(part.get("type")) or "" for part in parts]
    yield from (
        {"type": _TYPES.get(kind, kind), "part": part, **common} for kind, part in zip(kinds, parts, strict=True)
    )
    if "step-finish" not in kinds:
        usual = "stop" if kinds[-1:] == ["text"] else "tool-calls"
        finish = {"reason": text(info.get("finish")) or usual, "tokens": info.get("tokens"), "cost": info.get("cost")}
        yield {"type": "step_finish", "part": finish, **common}
    if info.get("error"):
        yield {"type": "error", "error": info["error"], **common}
