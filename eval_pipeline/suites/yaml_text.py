"""YAML text → plain values, safely, by the YAML 1.2 core schema, and the line at which a field stands.

`yes` and `2025-01-15` stay text, as in the tools whose files we read. Only plain data comes out: unknown tags are
errors, duplicate keys are errors, and aliases cannot blow up (their expansion is bounded).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import yaml

from eval_pipeline.errors import InputError, Place

try:
    from yaml import CLoader as _Loader
except ImportError:  # a PyYAML built without libyaml: slower, same events
    from yaml import Loader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 100
MAX_VALUES = 5_000_000
_MERGE = object()

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": float("inf"), ".Inf": float("inf"), ".INF": float("inf"),
    "+.inf": float("inf"), "-.inf": float("-inf"), "-.Inf": float("-inf"), "-.INF": float("-inf"),
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
}  # fmt: skip
_STARTS_NUMBER = frozenset("0123456789+-.")
_TAG = "tag:yaml.org,2002:"


def parse_yaml(text: str, file: str | None = None) -> Any:
    """The value of a YAML document (the first one; a second document is an error). Raises InputError with the line."""
    try:
        return _Reader(text, file).read()
    except yaml.YAMLError as error:
        raise _syntax_error(error, file) from None


def line_of(text: str, path: Sequence[str | int]) -> int | None:
    """The 1-based line where the field at `path` stands, or the nearest enclosing one; None for unreadable text.

    Only errors ask this, so it composes the document anew instead of charging every load for line numbers.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError):
        return None
    if node is None:
        return None
    line = node.start_mark.line + 1
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        line, node = found
    return line


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if getattr(key, "value", None) == step:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


def _syntax_error(error: yaml.YAMLError, file: str | None) -> InputError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    line = mark.line + 1 if mark is not None else None
    return InputError(f"not valid YAML: {problem}", Place(file, line))


class _Reader:
    """Builds values straight from the parser's events: no node tree, one pass, bounded."""

    def __init__(self, text: str, file: str | None) -> None:
        self._loader = _Loader(text)
        self._file = file
        self._anchors: dict[str, tuple[Any, int]] = {}

    def read(self) -> Any:
        loader = self._loader
        try:
            loader.get_event()  # stream start
            if isinstance(loader.peek_event(), yaml.StreamEndEvent):
                return None
            loader.get_event()  # document start
            value, _ = self._value(loader.get_event(), 0)
            loader.get_event()  # document end
            extra = loader.get_event()
            if not isinstance(extra, yaml.StreamEndEvent):
                raise self._error("expected one YAML document, found a second one", extra)
            return value
        finally:
            loader.dispose()

    def _value(self, event: Any, depth: int) -> tuple[Any, int]:
        """The value that `event` begins, and how many values it stands for with its aliases expanded."""
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event)
        if isinstance(event, yaml.ScalarEvent):
            value, size = self._scalar(event), 1
        elif isinstance(event, yaml.MappingStartEvent):
            value, size = self._mapping(event, depth)
        elif isinstance(event, yaml.SequenceStartEvent):
            value, size = self._sequence(event, depth)
        else:
            return self._alias(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, size)
        return value, size

    def _count(self, size: int, event: Any) -> None:
        if size > MAX_VALUES:
            raise self._error(f"aliases expand to more than {MAX_VALUES:,} values", event)

    def _alias(self, event: Any) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise self._error(f"alias '*{event.anchor}' refers to nothing before it", event)
        return self._anchors[event.anchor]

    def _sequence(self, start: Any, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        total = 1
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            item, size = self._value(event, depth + 1)
            items.append(item)
            total += size
        self._count(total, start)
        return items, total

    def _mapping(self, start: Any, depth: int) -> tuple[dict[str, Any], int]:
        own: dict[str, Any] = {}
        merged: list[Any] = []
        total = 1
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._key(event)
            value, size = self._value(self._loader.get_event(), depth + 1)
            total += size
            if key is _MERGE:
                merged += value if isinstance(value, list) else [value]
            elif key in own:
                raise self._error(f"key '{key}' appears twice in one mapping", event)
            else:
                own[key] = value
        self._count(total, start)
        return (self._merge(own, merged, start) if merged else own), total

    def _merge(self, own: dict[str, Any], merged: list[Any], start: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for mapping in reversed(merged):
            if not isinstance(mapping, dict):
                raise self._error("'<<' takes a mapping or a list of mappings", start)
            result |= mapping
        return result | own

    def _key(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            value, _ = self._alias(event)
            if not isinstance(value, str):
                raise self._error("a key must be a single text", event)
            return value
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error("a key must be a single text", event)
        if event.value == "<<" and event.implicit[0]:
            return _MERGE
        if event.anchor is not None:
            self._anchors[event.anchor] = (event.value, 1)
        return event.value

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None and event.tag != "!":
            return self._tagged(event)
        if not event.implicit[0]:
            return event.value
        return plain_scalar(event.value)

    def _tagged(self, event: Any) -> Any:
        if event.tag == f"{_TAG}str":
            return event.value
        kind = {f"{_TAG}int": int, f"{_TAG}float": (int, float), f"{_TAG}bool": bool, f"{_TAG}null": type(None)}
        value = plain_scalar(event.value)
        if event.tag not in kind:
            raise self._error(f"tag '{event.tag}' is not plain data", event)
        if not isinstance(value, kind[event.tag]):  # type: ignore[arg-type]
            raise self._error(f"'{event.value}' is not a {event.tag.removeprefix(_TAG)}", event)
        return value

    def _error(self, problem: str, event: Any) -> InputError:
        return InputError(problem, Place(self._file, event.start_mark.line + 1))


def plain_scalar(text: str) -> Any:
    """An unquoted scalar by the YAML 1.2 core schema: null, bool, int, float or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if _INTEGER.match(text):
        return int(text) if len(text) < 4000 else text
    if _OCTAL.match(text):
        return int(text, 8)
    if _HEXADECIMAL.match(text):
        return int(text, 16)
    return float(text) if _FLOAT.match(text) else text
