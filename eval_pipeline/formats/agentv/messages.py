"""Messages as eval files write them: texts, objects and lists of messages; parts of text, files and images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from eval_pipeline.errors import did_you_mean
from eval_pipeline.formats.agentv.field_hints import misspelling_of
from eval_pipeline.formats.agentv.load_context import MEDIA_TYPES, LoadContext
from eval_pipeline.parsing.fields import FieldCursor, kind, text
from eval_pipeline.suites.fields import MESSAGE
from eval_pipeline.suites.model import Message, content_text

ROLES = ("system", "user", "assistant", "tool")
_ROLE_MARKERS = tuple(f"@[{role.title()}]:" for role in ROLES)
_PARTS = ("text", "file", "image")


def read_messages(raw: Any, cursor: FieldCursor, context: LoadContext) -> tuple[Message, ...]:
    """Input in any of its forms: a text, an object (a message, or one user message's content) or a list of messages."""
    if isinstance(raw, str):
        return (Message(role="user", content=_content(raw, cursor, context)),)
    if isinstance(raw, Mapping):
        return (read_message(raw, cursor, context) if "role" in raw else Message(role="user", content=raw),)
    if isinstance(raw, list) and raw:
        return tuple(read_message(item, cursor.at(index), context) for index, item in enumerate(raw))
    raise cursor.error(f"expected a text, an object or a list of messages, got {kind(raw)}")


def read_expected(raw: Any, cursor: FieldCursor, context: LoadContext) -> tuple[Message, ...]:
    """An expected output in any of its forms; a value without a role is the content of an assistant message."""
    if raw is None:
        return ()
    if isinstance(raw, Mapping) and "role" in raw:
        return (read_message(raw, cursor, context),)
    if isinstance(raw, list) and raw and isinstance(raw[0], Mapping) and "role" in raw[0]:
        return tuple(read_message(item, cursor.at(index), context) for index, item in enumerate(raw))
    return (Message(role="assistant", content=raw if isinstance(raw, (str, list, Mapping)) else _scalar_text(raw)),)


def read_message(raw: Any, cursor: FieldCursor, context: LoadContext) -> Message:
    """One message: `role` and `content`, or the tool calls of an assistant."""
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a message with role and content, got {kind(raw)}")
    role = raw.get("role")
    if role not in ROLES:
        hint = did_you_mean(role, ROLES) if isinstance(role, str) else ""
        raise cursor.error(f"no role {_shown(role)}; there are: {', '.join(ROLES)}{hint}", "role")
    calls = raw.get("tool_calls") or ()
    if not isinstance(calls, (list, tuple)) or not all(isinstance(call, Mapping) for call in calls):
        raise cursor.error(f"expected a list of tool calls, got {kind(calls)}", "tool_calls")
    if "content" not in raw and not calls:
        raise cursor.error(f"a message needs content{misspelling_of('content', raw, MESSAGE.names)}", "content")
    content = _content(raw.get("content"), cursor.at("content"), context)
    return Message(role=str(role), content=content, name=text(raw, "name", cursor), tool_calls=tuple(calls))


def with_files(
    messages: Sequence[Message], names: Sequence[str], cursor: FieldCursor, context: LoadContext
) -> tuple[Message, ...]:
    """Return the messages with files attached to the last user message, before its content."""
    last = next((index for index in reversed(range(len(messages))) if messages[index].role == "user"), None)
    if last is None:
        raise cursor.error("there is no message of the user's to attach files to")
    parts: list[Any] = [attached(name, cursor.at(index), context) for index, name in enumerate(names)]
    content = messages[last].content
    parts_before = content if isinstance(content, list) else [{"type": "text", "value": content_text(content)}]
    return (*messages[:last], replace(messages[last], content=[*parts, *parts_before]), *messages[last + 1 :])


def attached(name: str, cursor: FieldCursor, context: LoadContext) -> dict[str, Any]:
    """Return the content part of an attached file: an image by its suffix, else a file."""
    suffix = PurePath(name).suffix.lower()
    return context.attachment("image" if suffix in MEDIA_TYPES and suffix != ".svg" else "file", name, cursor)


def _content(raw: Any, cursor: FieldCursor, context: LoadContext) -> Any:
    if isinstance(raw, str):
        if "@[" in raw:
            _warn_of_role_markers(raw, cursor, context)
        return raw if type(raw) is str else str(raw)
    if isinstance(raw, list):
        return [_part(part, cursor.at(index), context) for index, part in enumerate(raw)]
    if raw is None or isinstance(raw, Mapping):
        return raw
    return _scalar_text(raw)


def _part(raw: Any, cursor: FieldCursor, context: LoadContext) -> Any:
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, Mapping) or not isinstance(raw.get("type"), str):
        raise cursor.error(f"expected a content part with a type, got {kind(raw)}")
    type_ = raw["type"]
    if type_ not in _PARTS:
        hint = did_you_mean(type_, _PARTS)
        raise cursor.error(f"no content part '{type_}'; there are: {', '.join(_PARTS)}{hint}", "type")
    value = raw.get("value", raw.get("text") if type_ == "text" else None)
    if not isinstance(value, str) or (not value and type_ != "text"):
        what = "a text" if type_ == "text" else "the path of a file"
        raise cursor.error(f"a part of type '{type_}' needs {what}, got {kind(value)}", "value")
    if type_ == "text":
        _warn_of_role_markers(value, cursor, context)
        return raw
    return context.attachment(type_, value, cursor.at("value"))


def _warn_of_role_markers(text_: str, cursor: FieldCursor, context: LoadContext) -> None:
    marker = next((marker for marker in _ROLE_MARKERS if marker in text_), None)
    if marker is not None:
        problem = f"'{marker}' in a content may be taken for the beginning of another message"
        context.diagnostics.add(problem, cursor.place(), kind="role marker")


def _scalar_text(value: Any) -> str:
    """Return a number or boolean as JSON text."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _shown(role: Any) -> str:
    return f"'{role}'" if isinstance(role, (str, int, float, bool)) or role is None else kind(role)
