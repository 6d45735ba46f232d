"""Plain chat messages → turns for providers whose format differs from OpenAI's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.llm.model import ChatMessage
from eval_pipeline.llm.reading import json_or_text, mapping, mappings, text

_DATA_URL = re.compile(r"data:(?P<media>[^;,]*)[^,]*?;base64,(?P<data>.*)\Z", re.DOTALL)
_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a message: its address, and media type and base64 data if the address is a `data:` URL."""

    url: str
    media_type: str | None = None
    data: str | None = None


def pieces(content: Any) -> list[str | Image]:
    """Return the texts and images of a message's content in order. Empty texts are skipped: providers refuse them."""
    if isinstance(content, str):
        return [content] if content else []
    return list(_pieces(mappings(content)))


def _pieces(parts: Iterable[Mapping[str, Any]]) -> Iterator[str | Image]:
    for part in parts:
        url = text(mapping(part.get("image_url")).get("url"))
        if url:
            match = _DATA_URL.match(url)
            yield Image(url, match["media"], match["data"]) if match else Image(url)
        elif content := text(part.get("text")):
            yield content


def plain_text(content: Any) -> str:
    """Return the texts of a message's content, joined by line breaks."""
    return "\n".join(piece for piece in pieces(content) if isinstance(piece, str))


def split_system(messages: Sequence[ChatMessage]) -> tuple[str, Sequence[ChatMessage]]:
    """Return the text of the leading system messages and the messages after them.

    If no message follows, the text becomes a user message: no provider answers to instructions alone.
    """
    leading = next((at for at, message in enumerate(messages) if not is_system(message)), len(messages))
    system = "\n\n".join(filter(None, (plain_text(message.get("content")) for message in messages[:leading])))
    return (system, messages[leading:]) if leading < len(messages) else ("", [{"role": "user", "content": system}])


def is_system(message: ChatMessage) -> bool:
    """Return whether a message is an instruction of the application."""
    return message["role"] in _SYSTEM


def late_system(message: ChatMessage) -> list[str | Image]:
    """Return a system message inside a conversation as marked user content, for providers without such messages."""
    return [f"@[System]:\n{plain_text(message.get('content'))}"]


def calls_of(message: ChatMessage) -> Iterator[tuple[str, str, Any]]:
    """Yield the tool calls of an assistant message: id, name and arguments as a JSON object (empty when unreadable)."""
    for call in mappings(message.get("tool_calls") or []):
        function = mapping(call.get("function"))
        arguments = json_or_text(function.get("arguments"))
        yield str(call.get("id")), str(function.get("name")), arguments if isinstance(arguments, Mapping) else {}


def in_turns(turns: Iterable[tuple[str, list[Any]]]) -> Iterator[tuple[str, list[Any]]]:
    """Merge consecutive turns (role, parts) of one role. Empty turns are skipped."""
    role, parts = "", list[Any]()
    for next_role, more in turns:
        if next_role == role or not more:
            parts = parts + more
            continue
        if parts:
            yield role, parts
        role, parts = next_role, more
    if parts:
        yield role, parts
