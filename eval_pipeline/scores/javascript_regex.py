"""JavaScript patterns → the `regex` library's, with JavaScript's meaning.

What differs and is translated: `$` (never before a final newline), `.` (also stops at \\r, U+2028, U+2029),
`\\d \\w \\b` (ASCII), `\\s` (Unicode white space and U+FEFF), `[^]` and `[]`, named groups and references, `\\uXXXX`,
`\\u{…}`, `\\cX`, `\\/` and other escapes of letters without a meaning. Source: ECMA-262, 22.2 (RegExp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import regex

_FLAGS = {"i": regex.IGNORECASE, "m": regex.MULTILINE, "s": regex.DOTALL, "g": 0, "y": 0, "u": 0, "v": 0, "d": 0}
_SPACES = r"\t\n\x0b\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_CLASSES = {"d": "0-9", "w": "A-Za-z0-9_", "s": _SPACES}
_LINE_ENDS = r"\n\r\u2028\u2029"
_CONTROLS = {"t": r"\t", "n": r"\n", "v": r"\x0b", "f": r"\f", "r": r"\r", "0": r"\x00"}
_SPECIAL = frozenset("\\^$.*+?()[]{}|/-#&~ ")


class PatternError(ValueError):
    """A pattern or a flag that JavaScript would not take."""


def compile_javascript(pattern: str, flags: str = "") -> regex.Pattern[Any]:
    """The compiled pattern. Raises PatternError."""
    bits = regex.VERSION0
    for flag in flags:
        if flag not in _FLAGS:
            raise PatternError(f"no flag '{flag}'; there are: {', '.join(_FLAGS)}")
        bits |= _FLAGS[flag]
    try:
        translated = _Translator(pattern, multiline="m" in flags, dotall="s" in flags).translate()
        return regex.compile(translated, bits)
    except regex.error as error:
        raise PatternError(str(error)) from None


class _Translator:
    """One pass over a pattern, character by character."""

    def __init__(self, pattern: str, *, multiline: bool, dotall: bool) -> None:
        self._pattern = pattern
        self._at = 0
        self._end_of_line = rf"(?=[{_LINE_ENDS}]|\Z)" if multiline else r"\Z"
        self._begin_of_line = rf"(?<=[{_LINE_ENDS}]|\A)" if multiline else r"\A"
        self._dot = r"(?s:.)" if dotall else rf"[^{_LINE_ENDS}]"

    def translate(self) -> str:
        out: list[str] = []
        table: dict[str, Callable[[], str]] = {
            "\\": self._escape,
            "[": self._class,
            "(": self._group,
            "$": lambda: self._end_of_line,
            "^": lambda: self._begin_of_line,
            ".": lambda: self._dot,
            "{": self._brace,
        }
        while (char := self._next()) is not None:
            translate = table.get(char)
            out.append(translate() if translate is not None else _literal_outside(char))
        return "".join(out)

    def _next(self) -> str | None:
        if self._at >= len(self._pattern):
            return None
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _take(self, pattern: str) -> str | None:
        """What stands here if it matches `pattern`, taken."""
        match = regex.compile(pattern).match(self._pattern, self._at)
        if match is None:
            return None
        self._at = match.end()
        return str(match[0])

    def _brace(self) -> str:
        """A quantifier, or a brace that means itself."""
        quantifier = self._take(r"\d+(,\d*)?\}")
        return "{" + quantifier if quantifier is not None else r"\{"

    def _group(self) -> str:
        name = self._take(r"\?<[A-Za-z_$][\w$]*>")
        if name is not None:
            return f"(?P<{name[2:-1].replace('$', '_')}>"
        for opening in ("?:", "?=", "?!", "?<=", "?<!"):
            if self._pattern.startswith(opening, self._at):
                self._at += len(opening)
                return f"({opening}"
        modifiers = self._take(r"\?[ims]*(-[ims]+)?:")
        if modifiers is not None:
            return f"({modifiers}"
        if self._pattern.startswith("?", self._at):
            raise PatternError(f"invalid group at position {self._at - 1}")
        return "("

    def _escape(self) -> str:
        char = self._next()
        if char is None:
            raise PatternError("a backslash at the end")
        if char in "dws":
            return f"[{_CLASSES[char]}]"
        if char in "DWS":
            return f"[^{_CLASSES[char.lower()]}]"
        if char in "bB":
            return rf"(?a:\{char})"
        if char == "k" and (name := self._take(r"<[\w$]+>")) is not None:
            return f"(?P={name[1:-1].replace('$', '_')})"
        if char in "pP" and (name := self._take(r"\{[^}]*\}")) is not None:
            return f"\\{char}{name}"
        if char in "123456789":
            return rf"(?:\{char}{self._take(r'[0-9]*') or ''})"
        return self._character(char)

    def _character(self, char: str) -> str:
        """An escape that stands for one character, in or outside a class."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x" and (digits := self._take("[0-9a-fA-F]{2}")) is not None:
            return f"\\x{digits}"
        if char == "u" and (digits := self._take(r"[0-9a-fA-F]{4}")) is not None:
            return f"\\u{digits}"
        if char == "u" and (braced := self._take(r"\{[0-9a-fA-F]+\}")) is not None:
            return f"\\U{int(braced[1:-1], 16):08x}"
        if char == "c" and (letter := self._take("[A-Za-z]")) is not None:
            return f"\\x{ord(letter) % 32:02x}"
        return str(regex.escape(char, special_only=False) if char in _SPECIAL else regex.escape(char))

    def _class(self) -> str:
        inverted = self._take(r"\^") is not None
        if self._take(r"\]") is not None:
            return "(?s:.)" if inverted else r"(?!)"
        out: list[str] = []
        while (char := self._next()) != "]":
            if char is None:
                raise PatternError("a character class is not closed")
            out.append(self._class_escape() if char == "\\" else _literal_inside(char))
        return f"[{'^' if inverted else ''}{''.join(out)}]"

    def _class_escape(self) -> str:
        char = self._next()
        if char is None:
            raise PatternError("a character class is not closed")
        if char in _CLASSES:
            return _CLASSES[char]
        if char in "DWS":
            return rf"\{char}" if char != "S" else r"\S"
        if char == "b":
            return r"\x08"
        if char == "-":
            return r"\-"
        return self._character(char)


def _literal_outside(char: str) -> str:
    return rf"\{char}" if char in "#}" else char


def _literal_inside(char: str) -> str:
    """Characters that mean themselves in a JavaScript class but not in ours."""
    return rf"\{char}" if char in "[&~|" else char
