"""Case → the one text that a program or a function is given, and how attached files and images stand in a text.

A single message is its text. A conversation becomes blocks, each headed `@[Role]:`, separated by blank lines. An
attached file is written out for a model (`<file path="…">` … `</file>`) and pointed at for a program, which opens it
itself (`<file: path="…">`); an image is pointed at in every text (`<image: path="…">`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from eval_pipeline.suites.model import Case, Message, content_text

Files = Literal["inline", "reference"]


def prompt_text(case: Case, files: Files = "inline") -> str:
    """The case's input as one text, its files written out (`inline`) or pointed at (`reference`)."""
    if len(case.input) == 1:
        return message_text(case.input[0], files)
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message_text(message, files)}" for message in case.input)


def message_text(message: Message, files: Files = "inline") -> str:
    """The text of one message. Its text parts follow one another line by line, files and images stand apart."""
    content = message.content
    if not isinstance(content, list) or not any(map(is_attachment, content)):
        return content_text(content)
    blocks = (attachment_text(part, files) if is_attachment(part) else content_text([part]) for part in content)
    return "\n\n".join(block for block in blocks if block)


def is_attachment(part: Any) -> bool:
    """Whether a part of a message is a file or an image."""
    return isinstance(part, Mapping) and part.get("type") in ("file", "image")


def attachment_text(part: Mapping[str, Any], files: Files) -> str:
    """A file or an image as it stands in a text; a file that is not text can only be pointed at."""
    kind, path, text = part["type"], part.get("value", ""), part.get("text")
    if kind == "file" and files == "inline" and isinstance(text, str):
        ending = "" if text.endswith("\n") else "\n"
        return f'<file path="{path}">\n{text}{ending}</file>'
    return f'<{kind}: path="{path}">'
