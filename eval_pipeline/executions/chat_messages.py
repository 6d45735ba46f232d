"""Case → chat messages, for models and for agents behind an address (see `llm/model`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eval_pipeline.executions.prompt import attachment_text, is_attachment, message_text
from eval_pipeline.fingerprints import to_json
from eval_pipeline.suites.model import Case, Message, content_text


def wire_messages(case: Case) -> list[dict[str, Any]]:
    """Return a case's input as chat messages (see `llm/model`): files inlined, images as parts, tool turns as turns."""
    first = case.input[0] if len(case.input) == 1 else None
    if first is not None and isinstance(first.content, str) and not first.tool_calls and first.role != "tool":
        return [_wire_message(first)]
    return list(_WireTurns().of(case.input))


class _WireTurns:
    """Converts a conversation to wire messages; tracks tool calls without a result.

    Providers require every tool result to name its call. Where a suite names none, results belong to the preceding
    calls in order. A result without an open call becomes a marked user message.
    """

    def __init__(self) -> None:
        self._count = 0
        self._open: list[dict[str, Any]] = []

    def of(self, messages: tuple[Message, ...]) -> Iterator[dict[str, Any]]:
        for message in messages:
            if message.role != "tool":
                yield from self._inline_answers()
                yield self._turn(message)
                continue
            yield self._answer(message)
        yield from self._inline_answers()

    def _turn(self, message: Message) -> dict[str, Any]:
        wire = _wire_message(message)
        if message.tool_calls:
            calls = [self._call(raw) for raw in message.tool_calls]
            wire["tool_calls"] = [call for call, _ in calls]
            self._open = [
                {"id": call["id"], "name": call["function"]["name"], "output": output} for call, output in calls
            ]
        return wire

    def _call(self, raw: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return a call in the chat completions format, and its result if the suite gives one beside the call.

        The input is `{tool, input, output}` or the chat completions format itself.
        """
        self._count += 1
        function = raw["function"] if isinstance(raw.get("function"), Mapping) else raw
        name, arguments = function.get("name", raw.get("tool")), function.get("arguments", raw.get("input"))
        text = _json_text({} if arguments is None else arguments)
        call = {"id": raw.get("id") or f"call_{self._count}", "type": "function"}
        return {**call, "function": {"name": name, "arguments": text}}, raw.get("output")

    def _answer(self, message: Message) -> dict[str, Any]:
        matching = [call for call in self._open if message.name and message.name in (call["id"], call["name"])]
        call = next(iter(matching or self._open), None)
        text = message_text(message)
        if call is None:
            return {"role": "user", "content": f"@[Tool]:\n{text}"}
        self._open.remove(call)
        return {"role": "tool", "tool_call_id": call["id"], "content": text}

    def _inline_answers(self) -> Iterator[dict[str, Any]]:
        """Yield the inline results of calls that no message answered."""
        for call in self._open:
            if call["output"] is not None:
                yield {"role": "tool", "tool_call_id": call["id"], "content": _json_text(call["output"])}
        self._open = []


def _json_text(value: Any) -> str:
    """Return a text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value).decode()


def _wire_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": _content(message)}
    if message.name:
        wire["name"] = message.name
    return wire


def _content(message: Message) -> Any:
    """Return one text, or parts if the message has images."""
    content = message.content
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not any(map(_image_url, content)):
        return message_text(message)
    return [part for part in map(_part, content) if part.get("text") != ""]


def _image_url(part: Any) -> str | None:
    source = part.get("source") if isinstance(part, Mapping) and part.get("type") == "image" else None
    return source if isinstance(source, str) else None


def _part(part: Any) -> dict[str, Any]:
    if url := _image_url(part):
        return {"type": "image_url", "image_url": {"url": url}}
    text = attachment_text(part, "inline") if is_attachment(part) else content_text([part])
    return {"type": "text", "text": text}
