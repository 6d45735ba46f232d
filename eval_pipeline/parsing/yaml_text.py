"""YAML text → plain values, safely, by the YAML 1.2 core schema, and the lines of its fields.

`yes` and `2025-01-15` stay text, as in the tools whose files we read. Only plain data comes out: unknown tags are
errors, duplicate keys are errors, and the expansion of aliases is bounded in size and depth.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml
from yaml.reader import ReaderError

from eval_pipeline.errors import InputError, SourceLocation

try:
    from yaml import CLoader as _Loader
except ImportError:  # PyYAML without libyaml: slower, same events
    from yaml import Loader as _Loader  # type: ignore[assignment]

MAX_DEPTH = 100
MAX_VALUES = 5_000_000
_MAX_COMPOSED = 1_000_000
_LONG_TEXT = 64  # this many characters of a text count as one value
_MAX_DIGITS = 1_000
_MERGE = object()

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_WORDS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".inf": float("inf"), ".Inf": float("inf"), ".INF": float("inf"),
    "+.inf": float("inf"), "+.Inf": float("inf"), "+.INF": float("inf"),
    "-.inf": float("-inf"), "-.Inf": float("-inf"), "-.INF": float("-inf"),
    ".nan": float("nan"), ".NaN": float("nan"), ".NAN": float("nan"),
}  # fmt: skip
_STARTS_NUMBER = frozenset("0123456789+-.")
_TAG = "tag:yaml.org,2002:"
_KINDS: dict[str, tuple[str, type | tuple[type, ...]]] = {
    f"{_TAG}int": ("a whole number", int),
    f"{_TAG}float": ("a number", (int, float)),
    f"{_TAG}bool": ("true or false", bool),
    f"{_TAG}null": ("null", type(None)),
}
_INDENTATION = "the indentation does not fit the lines above"
_WITH_TABS = "indent with spaces, not with tabs (→)"
_NO_NODE = "did not find expected node content"
_IN_WORDS = {
    "did not find expected '-' indicator": _INDENTATION,
    "did not find expected key": _INDENTATION,
    "did not find expected <document start>": _INDENTATION,
    "found character that cannot start any token": "a text that begins with @ ` or % has to be quoted",
    "mapping values are not allowed in this context": "a text that holds ': ' has to be quoted",
    "could not find expected ':'": "a name without a ':' after it",
    "did not find expected ',' or ']'": "a list in [ ] lacks a ',' or its ']'",
    "did not find expected ',' or '}'": "a mapping in { } lacks a ',' or its '}'",
    _NO_NODE: "a text that begins with ] } or , has to be quoted",
    "did not find expected comment or line break": "a text of several lines begins on the line after its | or >",
    "block sequence entries are not allowed in this context": "the '- ' of a list begins a line of its own",
    "mapping keys are not allowed in this context": "a text that begins with '? ' has to be quoted",
    "found unknown directive name": "a text that begins with % has to be quoted",
    "found unknown escape character": r"an unknown escape in double quotes; write \\ for \, or use single quotes",
    "found a tab character that violates indentation": _WITH_TABS,
}
_AFTER_QUOTE = re.compile(r"""(?:[:-] |^)\s*(?:'[^']*'|"[^"\\]*")\s*[^\s#,\]}:]""")
_FIELD = re.compile(r"\s*(?:- )?[^\s:][^:]*:(?:\s|\Z)")
_UNCLOSED = frozenset({"found unexpected end of stream", "found unexpected document indicator"})
_SHOWN = 80


def parse_yaml(text: str, file: str | None = None) -> Any:
    """The value of a YAML document (the first one; a second document is an error). Raises InputError with the line."""
    return read_yaml(text, file)[0]


def read_yaml(text: str, file: str | None = None) -> tuple[Any, Lines]:
    """The value of a YAML document, and the lines of its fields. Raises InputError with the line."""
    try:
        reader = _Reader(text, file)
        return reader.read(), Lines(text, reader.item_lines)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, file) from None
    except UnicodeEncodeError:
        raise InputError("not valid YAML: holds a lone surrogate (half a character)", SourceLocation(file)) from None


class _ItemLine(NamedTuple):
    line: int
    steps: int


class Lines:
    """The lines of the fields of a YAML text.

    The items of the lists in the document (a suite's tests) are recorded while it is parsed, those of a root list under
    "". Other lines are needed for errors only: the first request composes the text, which keeps loading fast. In a
    large text the line of the enclosing item is returned instead.
    """

    def __init__(self, text: str, item_lines: Mapping[str, Sequence[int]] | None = None) -> None:
        self._text = text
        self._item_lines = item_lines or {}

    def of(self, path: Sequence[str | int]) -> int | None:
        """The 1-based line of the field at `path`, or of the nearest enclosing one; None for unreadable text."""
        item = self._item_line(path)
        if item is not None and (len(path) == item.steps or len(self._text) > _MAX_COMPOSED):
            return item.line
        if len(self._text) > _MAX_COMPOSED:
            return self._line_of_key(path[0]) if path else None
        node = self._root
        if node is None:
            return item.line if item is not None else None
        line = node.start_mark.line + 1
        for step in path:
            child = _child(node, step)
            if child is None:
                break
            line, node = child
        return line

    def _line_of_key(self, key: str | int) -> int | None:
        """Return the line of a top-level field by a text search, without parsing again."""
        match = re.search(rf"""^[ \t]*["']?{re.escape(str(key))}["']?\s*:""", self._text, re.MULTILINE)
        return self._text.count("\n", 0, match.end()) + 1 if match is not None else None

    def _item_line(self, path: Sequence[str | int]) -> _ItemLine | None:
        """Return the line of the list item that contains a path, in a top-level list or a root list."""
        match path:
            case (str(key), int(index), *_) if index < len(self._item_lines.get(key, ())):
                return _ItemLine(self._item_lines[key][index], 2)
            case (int(index), *_) if index < len(self._item_lines.get("", ())):
                return _ItemLine(self._item_lines[""][index], 1)
        return None

    @functools.cached_property
    def _root(self) -> yaml.Node | None:
        try:
            return yaml.compose(self._text, Loader=_Loader)
        except (yaml.YAMLError, UnicodeEncodeError, RecursionError):
            return None


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if getattr(key, "value", None) == step:
                return key.start_mark.line + 1, value
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line + 1, node.value[step]
    return None


def _syntax_error(error: yaml.YAMLError, text: str, file: str | None) -> InputError:
    if isinstance(error, ReaderError):
        line = text.encode()[: error.position].count(b"\n") + 1
        return InputError(
            f"not valid YAML: character U+{int(error.character):04X} is not allowed", SourceLocation(file, line)
        )
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return InputError(f"not valid YAML: {getattr(error, 'problem', None) or error}", SourceLocation(file))
    lines = text.splitlines()
    number, problem = _in_words(error, mark, lines)
    shown = lines[number].rstrip()[:_SHOWN].replace("\t", "→") if number < len(lines) else ""
    return InputError(
        f"not valid YAML: {problem}" + (f": '{shown}'" if shown else ""), SourceLocation(file, number + 1)
    )


def _in_words(error: yaml.YAMLError, mark: yaml.Mark, lines: Sequence[str]) -> tuple[int, str]:
    """Return the line (from 0) and the problem of a syntax error, as its author would put it."""
    problem, begun = str(getattr(error, "problem", None)), getattr(error, "context_mark", None)
    if begun is not None and "quoted scalar" in str(getattr(error, "context", None)) and problem in _UNCLOSED:
        return begun.line, "a quote is not closed"
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1] and problem in _IN_WORDS:
        return mark.line, _WITH_TABS
    if problem == _NO_NODE and mark.line >= len(lines):
        return mark.line, "the text ends within a list in [ ] or a mapping in { }"
    words = _IN_WORDS.get(problem, problem)
    if words == _INDENTATION and _AFTER_QUOTE.search(line):
        return mark.line, "a text in quotes goes on after its closing quote; use the other kind of quotes around it"
    if problem.startswith("mapping values") and mark.line and ":" not in line[: mark.column]:
        return mark.line, _INDENTATION if _FIELD.match(lines[mark.line - 1]) else "the line above lacks its ': '"
    return mark.line, words


_Built = tuple[Any, int, int]


class _Reader:
    """Builds values from the parser's events: one pass, no node tree, bounded.

    Each value is returned with its size (number of values with aliases expanded; long texts count more) and its
    height in levels.
    """

    def __init__(self, text: str, file: str | None) -> None:
        self._loader = _Loader(text)
        self._file = file
        self._anchors: dict[str, _Built] = {}
        self._written = 0
        self.item_lines: dict[str, list[int]] = {}

    def read(self) -> Any:
        loader = self._loader
        try:
            loader.get_event()  # stream start
            if isinstance(loader.peek_event(), yaml.StreamEndEvent):
                return None
            loader.get_event()  # document start
            value, _, _ = self._value(loader.get_event(), 0, "")
            loader.get_event()  # document end
            extra = loader.get_event()
            if not isinstance(extra, yaml.StreamEndEvent):
                raise self._error("expected one YAML document, found a second one", extra)
            return value
        finally:
            loader.dispose()

    def _value(self, event: Any, depth: int, key: str | None = None) -> _Built:
        """Return the value that `event` begins; `key` is its top-level field."""
        if isinstance(event, yaml.ScalarEvent):
            size = 1 + len(event.value) // _LONG_TEXT
            built = self._scalar(event), size, 0
            self._written += size
        elif isinstance(event, yaml.AliasEvent):
            built = self._alias(event)
        elif isinstance(event, yaml.MappingStartEvent):
            built = self._mapping(event, depth)
        else:
            built = self._sequence(event, depth, key)
        if depth + built[2] > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", event)
        if event.anchor is not None:
            self._anchors[event.anchor] = built
        return built

    def _enter(self, start: Any, depth: int, kind: str) -> None:
        """Check depth and tag of a collection before its content is read."""
        if depth > MAX_DEPTH:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels", start)
        if start.tag not in (None, "!", f"{_TAG}{kind}"):
            raise self._error(f"tag '{start.tag}' is not plain data", start)
        self._written += 1

    def _count(self, size: int, event: Any) -> None:
        """Raise when aliases expand too far; values written in the file are not limited."""
        if size > MAX_VALUES + self._written:
            raise self._error(f"aliases expand to more than {MAX_VALUES:,} values", event)

    def _alias(self, event: Any) -> _Built:
        if event.anchor not in self._anchors:
            raise self._error(f"alias '*{event.anchor}' refers to nothing before it", event)
        return self._anchors[event.anchor]

    def _sequence(self, start: Any, depth: int, key: str | None) -> _Built:
        self._enter(start, depth, "seq")
        items: list[Any] = []
        total, height = 1, 0
        lines = self.item_lines.setdefault(key, []) if key is not None else None
        while not isinstance(event := self._loader.get_event(), yaml.SequenceEndEvent):
            if lines is not None:
                lines.append(_line(event))
            item, size, levels = self._value(event, depth + 1)
            items.append(item)
            total += size
            height = max(height, levels)
        self._count(total, start)
        return items, total, height + 1

    def _mapping(self, start: Any, depth: int) -> _Built:
        self._enter(start, depth, "map")
        fields: dict[str, Any] = {}
        merged: list[Any] = []
        total, height = 1, 0
        while not isinstance(event := self._loader.get_event(), yaml.MappingEndEvent):
            key = self._key(event)
            field = key if depth == 0 and isinstance(key, str) else None
            value, size, levels = self._value(self._loader.get_event(), depth + 1, field)
            total += size
            height = max(height, levels)
            if key is _MERGE:
                merged += value if isinstance(value, list) else [value]
            elif key in fields:
                raise self._error(f"key '{key}' appears twice in one mapping", event)
            else:
                fields[key] = value
        self._count(total, start)
        return (self._merge(fields, merged, start) if merged else fields), total, height + 1

    def _merge(self, fields: dict[str, Any], merged: list[Any], start: Any) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for mapping in reversed(merged):
            if not isinstance(mapping, dict):
                raise self._error("'<<' takes a mapping or a list of mappings", start)
            result |= mapping
        return result | fields

    def _key(self, event: Any) -> Any:
        if isinstance(event, yaml.AliasEvent):
            value, _, _ = self._alias(event)
            if not isinstance(value, str):
                raise self._error("a key must be a single text", event)
            return value
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error("a key must be a single text", event)
        if event.value == "<<" and event.implicit[0]:
            return _MERGE
        if event.anchor is not None:
            self._anchors[event.anchor] = (event.value, 1, 0)
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
        if event.tag not in _KINDS:
            raise self._error(f"tag '{event.tag}' is not plain data", event)
        what, kind = _KINDS[event.tag]
        value = plain_scalar(event.value)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self._error(f"'{event.value}' is not {what}", event)
        return value

    def _error(self, problem: str, event: Any) -> InputError:
        return InputError(problem, SourceLocation(self._file, _line(event)))


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def plain_scalar(text: str) -> Any:
    """An unquoted scalar by the YAML 1.2 core schema: null, bool, int, float or the text itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _STARTS_NUMBER or len(text) > _MAX_DIGITS:
        return text
    if _INTEGER.match(text):
        return int(text)
    if _OCTAL.match(text):
        return int(text, 8)
    if _HEXADECIMAL.match(text):
        return int(text, 16)
    return float(text) if _FLOAT.match(text) else text
