"""Plain chat messages → turns as other providers than OpenAI have them."""

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
    """An image of a message: its address, and media type and base64 data where the address is a `data:` URL."""

    url: str
    media_type: str | None = None
    data: str | None = None


def pieces(content: Any) -> list[str | Image]:
    """The texts and images of a message's content, in order; empty texts, which providers refuse, are left out."""
    if isinstance(content, str):
        return [content] if content else []
    return list(_pieces(mappings(content)))


def _pieces(parts: Iterable[Mapping[str, Any]]) -> Iterator[str | Image]:
    for part in parts:
        url = text(mapping(part.get("image_url")).get("url"))
        if url:
            match = _DATA_URL.match(url)
            yield Image(url, match["media"], match["data"]) if match else Image(url)
        elif said := text(part.get("text")):
            yield said


def plain_text(content: Any) -> str:
    """The texts of a message's content, one below the other."""
    return "\n".join(piece for piece in pieces(content) if isinstance(piece, str))


def split_system(messages: Sequence[ChatMessage]) -> tuple[str, Sequence[ChatMessage]]:
    """The text of the system messages that come first, and the messages after them.

    Where there are none after, the text is what the user says: no provider answers to instructions alone.
    """
    leading = next((at for at, message in enumerate(messages) if not is_system(message)), len(messages))
    said = "\n\n".join(filter(None, (plain_text(message.get("content")) for message in messages[:leading])))
    return (said, messages[leading:]) if leading < len(messages) else ("", [{"role": "user", "content": said}])


def is_system(message: ChatMessage) -> bool:
    """Whether a message is an instruction of the application's."""
    return message["role"] in _SYSTEM


def late_system(message: ChatMessage) -> list[str | Image]:
    """A system message inside a conversation, for providers that know none there: marked, in the user's place."""
    return [f"@[System]:\n{plain_text(message.get('content'))}"]


def calls_of(message: ChatMessage) -> Iterator[tuple[str, str, Any]]:
    """The tool calls of an assistant's message: id, name, arguments as JSON (an object; empty when they are none)."""
    for call in mappings(message.get("tool_calls") or []):
        function = mapping(call.get("function"))
        arguments = json_or_text(function.get("arguments"))
        yield str(call.get("id")), str(function.get("name")), arguments if isinstance(arguments, Mapping) else {}


def in_turns(turns: Iterable[tuple[str, list[Any]]]) -> Iterator[tuple[str, list[Any]]]:
    """Turns of (role, parts) with those of one role that follow one another made one; empty ones are left out."""
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
