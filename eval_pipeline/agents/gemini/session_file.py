"""The chat log of Gemini CLI (`~/.gemini/tmp/*/chats/session-*.jsonl`) → the records that standard output has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from eval_pipeline.agents.gemini.normalizer import GeminiNormalizer
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, count, listing, mapping, read_records, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession

_CONTEXT = "<session_context>"
"""What the CLI itself says in the user's place, first of all."""


class GeminiSessionNormalizer:
    """A stored session of Gemini CLI. A message is written anew when its tools have answered: the last one counts."""

    version = "2"

    def normalize(self, material: RawSession) -> SessionReport:
        rows = [row.value for row in read_records(material.text("session")).rows]
        lines = b"".join(to_json(record) + b"\n" for record in _records(rows)).decode()
        raw = replace(material.raw, payload={"stdout": lines}, files={})
        return GeminiNormalizer().normalize(replace(material, raw=raw))


def _records(rows: list[JsonMap]) -> Iterator[JsonMap]:
    messages = _messages(rows)
    answers = [message for message in messages if message.get("type") == "gemini"]
    model = next((name for message in answers if (name := text(message.get("model")))), None)
    session_id = next((id_ for row in rows if (id_ := text(row.get("sessionId")))), None)
    yield {"type": "init", "session_id": session_id, "model": model, "timestamp": _begin(rows)}
    for message in messages:
        yield from _answer(message) if message.get("type") == "gemini" else _user(message)
    if answers:
        yield {
            "type": "result",
            "status": "success",
            "timestamp": answers[-1].get("timestamp"),
            "stats": _stats(answers),
        }


def _begin(rows: list[JsonMap]) -> str | None:
    return next((at for row in rows if (at := text(row.get("startTime")))), None)


def _messages(rows: list[JsonMap]) -> list[JsonMap]:
    """Return the last version of each message, in the order in which they came first."""
    latest: dict[str, JsonMap] = {}
    for row in rows:
        for message in [row, *map(mapping, listing(mapping(row.get("$set")).get("messages")))]:
            id_ = text(message.get("id"))
            if id_ is not None and "type" in message:
                latest[id_] = message
    return list(latest.values())


def _user(message: JsonMap) -> Iterator[JsonMap]:
    """Yield the words of the user; results of tools are with their calls."""
    content = message.get("content")
    parts = [text(mapping(part).get("text")) for part in listing(content)]
    words = content if isinstance(content, str) else "\n".join(part for part in parts if part)
    if message.get("type") == "user" and words and not words.startswith(_CONTEXT):
        yield {"type": "message", "role": "user", "content": words, "timestamp": message.get("timestamp")}


def _answer(message: JsonMap) -> Iterator[JsonMap]:
    at, content = message.get("timestamp"), text(message.get("content"))
    if content:
        yield {"type": "message", "role": "assistant", "content": content, "delta": True, "timestamp": at}
    for call in map(mapping, listing(message.get("toolCalls"))):
        yield {"type": "tool_use", "tool_name": call.get("name"), "tool_id": call.get("id"),
               "parameters": call.get("args"), "timestamp": at}  # fmt: skip
        yield {"type": "tool_result", "tool_id": call.get("id"), "status": call.get("status") or "success",
               "output": "\n".join(_outputs(call)), "timestamp": call.get("timestamp") or at}  # fmt: skip


def _outputs(call: JsonMap) -> Iterator[str]:
    for part in map(mapping, listing(call.get("result"))):
        response = mapping(mapping(part.get("functionResponse")).get("response"))
        output = text(response.get("output")) or text(response.get("error"))
        if output is not None:
            yield output


def _stats(answers: list[JsonMap]) -> dict[str, Any]:
    names = {"input_tokens": "input", "output_tokens": "output", "cached": "cached", "total_tokens": "total"}
    tokens = [mapping(answer.get("tokens")) for answer in answers]
    return {name: sum(count(part.get(field)) or 0 for part in tokens) for name, field in names.items() if any(tokens)}
