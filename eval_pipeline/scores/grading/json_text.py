"""JSON objects in a model's reply: among prose, in code fences, with trailing commas, bare words, Python's quotes.

Numbers stay exact; `NaN` and other bare words become text. The caller validates the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_MAX_DEPTH = 60
_MAX_STARTS = 400  # the first and the last ones, so that a flood of braces costs little
_START = re.compile(r"""\{(?=\s*["'}/])""")
_SPACE = re.compile(r"(?:\s|//[^\n]*(?=\n)|/\*.*?\*/)*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?(?=[\s,\]}])")
_WORD = re.compile(r"[^\s,\[\]{}\"']+")
_TEXTS = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS = {"true": True, "True": True, "false": False, "False": False, "null": None, "None": None}


class FoundObject(NamedTuple):
    """An object and its position in the text."""

    value: dict[str, Any]
    begin: int
    end: int


class _NotJson(Exception):
    """The text at this position is not a value."""


def objects_in(text: str) -> Iterator[FoundObject]:
    """Yield the outermost complete objects of a text, in order."""
    end = 0
    starts = [match.start() for match in _START.finditer(text)]
    for start in starts[:1] + starts[1:][-_MAX_STARTS:]:
        if start < end:
            continue  # inside the previous object
        try:
            value, end = _object(text, start, 0)
        except (_NotJson, RecursionError):
            continue
        yield FoundObject(value, start, end)


def _value(text: str, at: int, depth: int) -> tuple[Any, int]:
    at = _skip(text, at)
    if depth > _MAX_DEPTH or at >= len(text):
        raise _NotJson
    character = text[at]
    if character == "{":
        return _object(text, at, depth)
    if character == "[":
        return _list(text, at, depth)
    if character in _TEXTS:
        return _text(text, at)
    number = _NUMBER.match(text, at)
    if number:
        return _number(number[0]), number.end()
    word = _WORD.match(text, at)
    if word is None:
        raise _NotJson
    return _WORDS.get(word[0], word[0]), word.end()


def _object(text: str, at: int, depth: int) -> tuple[dict[str, Any], int]:
    result: dict[str, Any] = {}
    at = _skip(text, at + 1)
    while not text.startswith("}", at):
        if at >= len(text) or text[at] not in _TEXTS:
            raise _NotJson
        key, at = _text(text, at)
        at = _skip(text, at)
        if not text.startswith(":", at):
            raise _NotJson
        result[key], at = _value(text, at + 1, depth + 1)
        at = _separator(text, at, "}")
    return result, at + 1


def _list(text: str, at: int, depth: int) -> tuple[list[Any], int]:
    result: list[Any] = []
    at = _skip(text, at + 1)
    while not text.startswith("]", at):
        value, at = _value(text, at, depth + 1)
        result.append(value)
        at = _separator(text, at, "]")
    return result, at + 1


def _separator(text: str, at: int, end: str) -> int:
    """Return the position after a comma, or of the end. A comma before the end is accepted."""
    at = _skip(text, at)
    if text.startswith(",", at):
        return _skip(text, at + 1)
    if text.startswith(end, at):
        return at
    raise _NotJson


def _text(text: str, at: int) -> tuple[str, int]:
    match = _TEXTS[text[at]].match(text, at)
    if match is None:
        raise _NotJson
    return _whole_characters(_ESCAPE.sub(_unescaped, match[1])), match.end()


def _unescaped(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)


def _whole_characters(text: str) -> str:
    """Join surrogate pairs (`\\ud83d\\ude00`) into characters; a lone surrogate becomes U+FFFD."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(digits: str) -> int | float:
    if digits.lstrip("-").isdigit():
        return int(digits) if len(digits) <= 18 else float(digits)
    return float(digits)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
