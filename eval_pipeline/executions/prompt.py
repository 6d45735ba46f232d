"""Case → one text for a program or a function, with attached files and images.

A single message is its text. A conversation becomes blocks, each headed `@[Role]:`, separated by blank lines. An
attached file is inlined for a model (`<file path="…">` … `</file>`) and referenced for a program, which opens it itself
(`<file: path="…">`); an image is referenced in every text (`<image: path="…">`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from eval_pipeline.suites.model import Case, Message, content_text

Files = Literal["inline", "reference"]


def prompt_text(case: Case, files: Files = "inline") -> str:
    """Return the case's input as one text, with files inlined (`inline`) or referenced (`reference`)."""
    if len(case.input) == 1:
        return message_text(case.input[0], files)
    said = (message for message in case.input if message.content or not message.tool_calls)
    return "\n\n".join(f"@[{message.role.capitalize()}]:\n{message_text(message, files)}" for message in said)


def message_text(message: Message, files: Files = "inline") -> str:
    """Return the text of one message: text parts line by line, files and images as separate blocks."""
    content = message.content
    if not isinstance(content, list) or not any(map(is_attachment, content)):
        return content_text(content)
    blocks = (attachment_text(part, files) if is_attachment(part) else content_text([part]) for part in content)
    return "\n\n".join(block for block in blocks if block)


def is_attachment(part: Any) -> bool:
    """Return whether a part of a message is a file or an image."""
    return isinstance(part, Mapping) and part.get("type") in ("file", "image")


def attachment_text(part: Mapping[str, Any], files: Files) -> str:
    """Return the text form of a file or an image. A file that is not text can only be referenced."""
    kind, path, text = part["type"], part.get("value", ""), part.get("text")
    if kind == "file" and files == "inline" and isinstance(text, str):
        ending = "" if text.endswith("\n") else "\n"
        return f'<file path="{path}">\n{text}{ending}</file>'
    return f'<{kind}: path="{path}">'
