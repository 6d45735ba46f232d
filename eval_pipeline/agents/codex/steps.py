"""Codex's records → steps, with the same kinds for every generation of the format.

The generations are: events printed by `codex exec --json` (`item.…`, before them `msg`), and items and history kept in
a rollout file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.reports.jsonl_records import JsonMap, Record, first, listing, mapping, moment, shown, text

_STATUS = re.compile(r"\bstatus:? (?:code )?([45]\d\d)\b", re.IGNORECASE)
_TWO_PART_ITEMS = frozenset({"command_execution", "file_change", "mcp_tool_call"})
_RESPONSE_TYPES = frozenset({
    "custom_tool_call", "custom_tool_call_output", "function_call", "function_call_output", "local_shell_call",
    "message", "reasoning", "web_search_call",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One record: its kind (`item/…` printed, `response/…`, `kept/…` and `event/…` in a rollout), content, time and
    line."""

    kind: str
    body: JsonMap
    at: str | None
    line: int


def step_of(record: Record) -> Step:
    """A record as a step."""
    value = record.value
    body = mapping(first(value, "payload", "msg", "item")) or value
    kind = _kind(record, body)
    if kind.startswith("kept/"):
        body = mapping(body.get("item"))
    return Step(kind, body, moment(value.get("timestamp")), record.line)


def _kind(record: Record, body: JsonMap) -> str:
    type_ = record.type
    inner = text(first(body, "type", "item_type")) or "no type"
    if type_ in ("item.started", "item.updated", "item.completed"):
        return f"item/{inner}" if type_ == "item.completed" or inner in _TWO_PART_ITEMS else "item/in progress"
    if type_ == "event_msg" and inner == "item_completed":
        return f"kept/{text(mapping(body.get('item')).get('type')) or 'no type'}"
    if type_ == "event_msg" or (not type_ and "msg" in record.value):
        return f"event/{inner}"
    if type_ == "response_item" or type_ in _RESPONSE_TYPES:
        return f"response/{inner}"
    return type_ or "no type"


def own_turns(kept: Sequence[Step], printed: Sequence[Step]) -> Sequence[Step]:
    """Return the steps of this run: the rollout of a resumed thread begins with earlier turns."""
    begins = [index for index, step in enumerate(kept) if step.kind == "event/task_started"]
    if not printed or not begins:
        return kept
    turns = max(1, sum(step.kind == "turn.started" for step in printed))
    return kept[begins[max(0, len(begins) - turns)] :]


def call_id_of(step: Step) -> str | None:
    """The id of the call that a step describes."""
    return text(first(step.body, "call_id", "callId", "id"))


def status_in(message: str) -> int | None:
    """The HTTP status that an error's text names."""
    match = _STATUS.search(message)
    return int(match[1]) if match is not None else None


def text_of(step: Step, *names: str) -> str:
    """The text of a step under one of these names, else its content as text."""
    return text(first(step.body, *names)) or shown(listing(step.body.get("content")))


def error_text(step: Step) -> str:
    """The message of an error; empty without one."""
    return text(step.body.get("message")) or shown(mapping(step.body.get("error")).get("message"))
