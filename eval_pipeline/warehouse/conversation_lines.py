"""Published results → a stored conversation: its lines, and the tools that its agent called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from eval_pipeline.errors import UnknownName
from eval_pipeline.suites.case_formats import StoredConversation
from eval_pipeline.warehouse.store import Connection

_FOUND = """
    SELECT execution_id, case_id FROM target_executions WHERE starts_with(execution_id, $id)
    ORDER BY execution_id = $id DESC, started_at DESC"""
_NEWEST = "SELECT execution_id FROM target_executions ORDER BY started_at DESC LIMIT 20"
_EVENTS = """
    SELECT kind, text, tool, event FROM session_events WHERE execution_id = $id
      AND kind IN ('message', 'tool_call', 'tool_result') ORDER BY position"""
_SPEAKERS = {"user": "user", "assistant": "agent"}


def stored_conversation(connection: Connection, execution_id: str) -> StoredConversation:
    """Return the conversation of an execution (its id, or the start of one). Raises UnknownName."""
    found = connection.execute(_FOUND, {"id": execution_id}).fetchall()
    if not found or (len(found) > 1 and found[0][0] != execution_id):
        known = [id_ for id_, _ in found] or [id_ for (id_,) in connection.execute(_NEWEST).fetchall()]
        raise UnknownName("execution", execution_id, known)
    id_, case_id = found[0]
    events = [(*row[:3], orjson.loads(row[3])) for row in connection.execute(_EVENTS, {"id": id_}).fetchall()]
    return StoredConversation(
        execution_id=id_, case_id=case_id, lines=list(_lines(events)), calls=list(_calls(events))
    )  # fmt: skip


def _lines(events: list[tuple[str, str | None, str | None, Mapping[str, Any]]]) -> Iterator[tuple[str, str]]:
    for kind, text, _, event in events:
        speaker = _SPEAKERS.get(str(event.get("role")))
        if kind == "message" and speaker is not None and text and event.get("phase") != "thinking":
            yield speaker, text


def _calls(
    events: list[tuple[str, str | None, str | None, Mapping[str, Any]]],
) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Yield the calls of tools that were answered; two calls of one id are answered in their order."""
    results: dict[str, list[str | None]] = {}
    for kind, text, _, event in events:
        if kind == "tool_result":
            results.setdefault(str(event.get("call_id")), []).append(text)
    for kind, _, tool, event in events:
        answers = results.get(str(event.get("call_id"))) if kind == "tool_call" else None
        if answers and tool is not None:
            arguments = event.get("arguments")
            yield tool, arguments if isinstance(arguments, Mapping) else {}, answers.pop(0)
