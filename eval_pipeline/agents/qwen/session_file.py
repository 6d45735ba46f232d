"""`qwen-session`: a chat that Qwen Code keeps → the records that its standard output would have had."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from eval_pipeline.agents.qwen.chat_log import ModelEvent, logged_usage, model_event, parts_of, sent_to_model
from eval_pipeline.agents.qwen.normalizer import report_of
from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.jsonl_records import JsonMap, Record, mapping, read_records, text
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession


class QwenSessionNormalizer:
    """A stored session of Qwen Code, all of its runs together."""

    version = "1"

    def normalize(self, material: RawSession) -> SessionReport:
        log = material.records("session").rows
        lines = b"".join(to_json(record) + b"\n" for record in _records(log)).decode()
        raw = replace(material.raw, payload={**material.raw.payload, "stdout": lines}, files={})
        return report_of(replace(material, raw=raw), read_records(lines), log)


def _records(log: Sequence[Record]) -> Iterator[JsonMap]:
    first = log[0].value if log else {}
    model = next((model for row in log if (model := text(row.value.get("model")))), None)
    common = {"session_id": first.get("sessionId")}
    if log:
        yield {"type": "system", "subtype": "init", "cwd": first.get("cwd"), "model": model,
               "qwen_code_version": first.get("version"), **common}  # fmt: skip
    for row in log:
        yield from ({**record, **common} for record in _message(row))
    answer = _answer(log)
    if answer is not None:
        usage = logged_usage(log)
        yield {"type": "result", "subtype": "success", "result": answer, **common,
               "usage": {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens,
                         "cache_read_input_tokens": usage.cached_input_tokens}}  # fmt: skip


def _message(row: Record) -> Iterator[JsonMap]:
    blocks = [block for part in parts_of(row) if (block := _block(row, part))]
    if not blocks or row.type not in ("assistant", "user", "tool_result"):
        return
    usage = mapping(row.value.get("usageMetadata"))
    tokens = {"input_tokens": usage.get("promptTokenCount"), "output_tokens": usage.get("candidatesTokenCount"),
              "cache_read_input_tokens": usage.get("cachedContentTokenCount")}  # fmt: skip
    role = "assistant" if row.type == "assistant" else "user"
    yield {"type": role, "message": {"role": role, "content": blocks, "usage": tokens if usage else {}}}


def _block(row: Record, part: JsonMap) -> JsonMap | None:
    words, call = text(part.get("text")), mapping(part.get("functionCall"))
    answered = mapping(part.get("functionResponse"))
    if words is not None:
        return (
            {"type": "thinking", "thinking": words} if part.get("thought") is True else {"type": "text", "text": words}
        )
    if call:
        return {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": call.get("args")}
    if not answered:
        return None
    result = mapping(row.value.get("toolCallResult"))
    display = result.get("resultDisplay")
    sent = sent_to_model(answered)
    is_command = answered.get("name") == "run_shell_command" and isinstance(display, str)
    return {"type": "tool_result", "tool_use_id": answered.get("id"), "is_error": result.get("status") == "error",
            "content": display if is_command else sent}  # fmt: skip


def _answer(log: Sequence[Record]) -> str | None:
    """Return what the session ended with: the last words, or the error of a call after them; None for one in the
    middle of its work."""
    ending = next((end for row in reversed(log) if (end := _ending(row)) is not None), None)
    if isinstance(ending, ModelEvent):
        return f"[API Error: {ending.error}]"
    if ending is None or ending.type != "assistant" or any(part.get("functionCall") for part in parts_of(ending)):
        return None
    return "\n".join(
        words for part in parts_of(ending) if not part.get("thought") and (words := text(part.get("text")))
    )


def _ending(row: Record) -> ModelEvent | Record | None:
    event = model_event(row)
    if event is not None and event.error is not None and not event.is_helper:
        return event
    return row if row.type in ("assistant", "user", "tool_result") else None
