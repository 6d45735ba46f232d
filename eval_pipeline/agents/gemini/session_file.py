"""`gemini-session`: a chat that Gemini CLI keeps → the records that its standard output would have had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eval_pipeline.agents.gemini.chat_log import calls_of, message_words, messages_of, result_of, stats_of
from eval_pipeline.agents.gemini.normalizer import report_of
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, read_records, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession

_CONTEXT = "<session_context>"
"""What the CLI itself says in the user's place, first of all."""


class GeminiSessionNormalizer:
    """A stored session of Gemini CLI, all of its runs together."""

    version = "3"

    def normalize(self, material: RawSession) -> SessionReport:
        rows = [row.value for row in read_records(material.text("session")).rows]
        lines = b"".join(to_json(record) + b"\n" for record in _records(rows)).decode()
        answers = [message for message in messages_of(rows) if message.get("type") == "gemini"]
        raw = replace(material.raw, payload={**material.raw.payload, "stdout": lines}, files={})
        return report_of(replace(material, raw=raw), read_records(lines), answers)


def _records(rows: list[JsonMap]) -> Iterator[JsonMap]:
    messages = messages_of(rows)
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
            "stats": stats_of(answers),
        }


def _begin(rows: list[JsonMap]) -> str | None:
    return next((at for row in rows if (at := text(row.get("startTime")))), None)


def _user(message: JsonMap) -> Iterator[JsonMap]:
    """Yield the words of the user; results of tools are with their calls."""
    words = message_words(message)
    if message.get("type") == "user" and words and not words.startswith(_CONTEXT):
        yield {"type": "message", "role": "user", "content": words, "timestamp": message.get("timestamp")}


def _answer(message: JsonMap) -> Iterator[JsonMap]:
    at, content = message.get("timestamp"), text(message.get("content"))
    if content:
        yield {"type": "message", "role": "assistant", "content": content, "delta": True, "timestamp": at}
    for call in calls_of(message):
        yield {"type": "tool_use", "tool_name": call.get("name"), "tool_id": call.get("id"),
               "parameters": call.get("args"), "timestamp": at}  # fmt: skip
        yield {"type": "tool_result", "tool_id": call.get("id"), "status": call.get("status") or "success",
               "output": result_of(call), "timestamp": call.get("timestamp") or at}  # fmt: skip
