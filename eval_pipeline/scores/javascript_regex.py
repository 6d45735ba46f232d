r"""JavaScript patterns → the `regex` library's, with JavaScript's semantics. Source: ECMA-262, 22.2 and Annex B.1.2.

The translation is a single pass over: `$ ^ .` and line ends, `\d \w \s \b` (ASCII, except white space), classes and
their escapes, named groups, references to groups that did not participate (they match the empty text), legacy escapes,
modifiers. Without flag `u` JavaScript matches UTF-16 code units; pattern and text are converted to them.

Known differences, because the library lacks an equivalent: a group inside a repetition keeps its capture of an
earlier iteration; letters outside ASCII with more than two cases (ß, θ) and İ under `iu` compare more liberally; names
of properties (`\p{…}`) and repeated group names are accepted more liberally; set notation of flag `v` is rejected.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import regex

_FLAGS = frozenset("dgimsuvy")
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_SETS = {
    "d": "0-9",
    "w": "A-Za-z0-9_",
    "s": r"\t\n\x0b\f\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff",
}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_LINE_ENDS = r"\n\r\u2028\u2029"
_ANYTHING, _NOTHING = "(?s:.)", "(?!)"

_GROUPS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(\((?!\?))|\(\?<(?![=!])([^>]*)>", re.DOTALL)
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|\\u|\\x[89a-fA-F]|\\[23]\d\d")
_MOST_COPIES = 20_000
_LONGEST_UPPER_BOUND = 1_000_000


class PatternError(ValueError):
    """A pattern or flag that JavaScript rejects, or a pattern that is too large to match here."""


@dataclass(frozen=True, slots=True)
class JavaScriptPattern:
    """A compiled pattern. `by_units`: it matches UTF-16 code units; `sticky`: only at the start (flag y)."""

    compiled: regex.Pattern[Any]
    by_units: bool
    sticky: bool

    def search(self, text: str, timeout_s: float) -> str | None:
        """Return the text of the first match, or None. Raises TimeoutError."""
        subject = _as_units(text) if self.by_units else text
        find = self.compiled.match if self.sticky else self.compiled.search
        match = find(subject, timeout=timeout_s)
        return None if match is None else _as_text(match[0])


def compile_javascript(pattern: str, flags: str = "") -> JavaScriptPattern:
    """Compile a pattern. Raises PatternError."""
    _check_flags(flags)
    by_units = not {"u", "v"} & set(flags)
    bits = regex.VERSION0 | (regex.IGNORECASE if "i" in flags else 0)
    if by_units and not _BEYOND_ASCII.search(pattern):
        bits |= regex.ASCII  # without flag u, no letter outside ASCII equals one inside
    translated = _Translator(_as_units(pattern) if by_units else pattern, flags).translate()
    try:
        compiled = regex.compile(translated, bits)
    except (regex.error, RecursionError, OverflowError) as error:
        raise PatternError(str(error)) from None
    return JavaScriptPattern(compiled, by_units, "y" in flags)


def _check_flags(flags: str) -> None:
    for position, flag in enumerate(flags):
        if flag not in _FLAGS:
            raise PatternError(f"no flag '{flag}'; there are: {', '.join(sorted(_FLAGS))}")
        if flag in flags[:position]:
            raise PatternError(f"flag '{flag}' is given twice")
    if "u" in flags and "v" in flags:
        raise PatternError("flags 'u' and 'v' exclude each other")


@dataclass(frozen=True, slots=True)
class _Set:
    """An escape for many characters, in its form inside brackets; `inverted`: all except these."""

    inside: str
    inverted: bool = False

    @property
    def alone(self) -> str:
        return f"[{'^' if self.inverted else ''}{self.inside}]"


@dataclass(frozen=True, slots=True)
class _Open:
    """An open group: its number if it captures, its flags, and the minimum number of copies read in it so far."""

    number: int | None
    dotall: bool
    multiline: bool
    lookbehind: bool
    repeatable: bool = True
    copies: int = 0


class _Translator:
    """Translates a pattern in one pass, character by character.

    `_term` is the size, in minimum copies, of the term that a quantifier at this position would repeat; 0 without a
    term.
    """

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._sets = "v" in flags
        self._strict = self._sets or "u" in flags
        self._here = _Open(None, dotall="s" in flags, multiline="m" in flags, lookbehind=False)
        self._outer: list[_Open] = []
        groups = [match for match in _GROUPS.finditer(pattern) if match[1] or match[2] is not None]
        self._names: list[str | None] = [match[2] for match in groups]
        self._opened = 0
        self._closed: set[int] = set()
        self._term = 0
        self._table: dict[str, Callable[[], str]] = {
            "\\": self._escape, "[": self._class, "(": self._open, ")": self._close, "|": self._alternative,
            "$": self._line_end, "^": self._line_begin, ".": self._dot,
            "{": self._brace, "}": lambda: self._lone("}"), "]": lambda: self._lone("]"),
            "*": lambda: self._repeated("*"), "+": lambda: self._repeated("+"), "?": lambda: self._repeated("?"),
        }  # fmt: skip

    def translate(self) -> str:
        out: list[str] = []
        while (char := self._next()) is not None:
            translate = self._table.get(char)
            out.append(translate() if translate is not None else self._atom(_shown(ord(char))))
        if self._outer:
            raise PatternError("a group is not closed")
        return "".join(out)

    def _next(self) -> str | None:
        if self._at >= len(self._pattern):
            return None
        char = self._pattern[self._at]
        self._at += 1
        return char

    def _take(self, pattern: str) -> re.Match[str] | None:
        """Consume text that matches `pattern` at the current position."""
        match = re.compile(pattern).match(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _wrong(self, problem: str) -> PatternError:
        return PatternError(f"{problem} at position {self._at}")

    # Terms and quantifiers.

    def _atom(self, translated: str, copies: int = 1) -> str:
        self._count(copies)
        self._term = max(copies, 1)
        return translated

    def _assertion(self, translated: str) -> str:
        self._term = 0
        return translated

    def _count(self, copies: int) -> None:
        self._here = replace(self._here, copies=self._here.copies + copies)

    def _lone(self, char: str) -> str:
        if self._strict:
            raise self._wrong(f"a lone '{char}'")
        return self._atom(_shown(ord(char)))

    def _brace(self) -> str:
        """Translate a quantifier, or a literal brace."""
        bounds = self._take(r"([0-9]+)(,([0-9]*))?\}")
        if bounds is None:
            return self._lone("{")
        least = int(bounds[1])
        most = least if bounds[2] is None else int(bounds[3]) if bounds[3] else None
        if most is not None and most < least:
            raise self._wrong(f"a quantifier whose bounds {least} and {most} are out of order")
        upper = "" if most is None or most > _LONGEST_UPPER_BOUND else str(most)
        return self._repeated(f"{{{least},{upper}}}", least)

    def _repeated(self, quantifier: str, least: int = 1) -> str:
        if not self._term:
            raise self._wrong("nothing to repeat")
        self._count(self._term * (max(least, 1) - 1))
        if self._term * least > _MOST_COPIES:
            raise self._wrong(f"a repetition of more than {_MOST_COPIES:,} copies")
        self._term = 0
        return quantifier + ("?" if self._take(r"\?") else "")

    def _dot(self) -> str:
        return self._atom(_ANYTHING if self._here.dotall else f"[^{_LINE_ENDS}]")

    def _line_end(self) -> str:
        return self._assertion(rf"(?=[{_LINE_ENDS}]|\Z)" if self._here.multiline else r"\Z")

    def _line_begin(self) -> str:
        return self._assertion(rf"(?<=[{_LINE_ENDS}]|\A)" if self._here.multiline else r"\A")

    def _alternative(self) -> str:
        return self._assertion("|")

    # Groups.

    def _open(self) -> str:
        inner = replace(self._here, number=None, repeatable=True, copies=0)
        opening = "("
        if self._take(r"\?:"):
            opening = "(?:"
        elif look := self._take(r"\?(<?)[=!]"):
            opening += look[0]
            behind = bool(look[1])
            inner = replace(inner, lookbehind=inner.lookbehind or behind, repeatable=not behind and not self._strict)
        elif modifiers := self._take(r"\?([ims]*)(?:-([ims]*))?:"):
            opening, inner = self._modified(inner, modifiers[1], modifiers[2] or "")
        else:
            inner = replace(inner, number=self._capture())
        self._outer.append(self._here)
        self._here, self._term = inner, 0
        return opening

    def _capture(self) -> int:
        name = self._take(r"\?<([^>]*)>")
        if name is not None and not name[1].replace("$", "_").isidentifier():
            raise self._wrong(f"'{name[1]}' is not a valid group name")
        if name is None and self._take(r"\?"):
            raise self._wrong("an unknown kind of group")
        self._opened += 1
        return self._opened

    def _modified(self, inner: _Open, on: str, off: str) -> tuple[str, _Open]:
        """Return a group that changes flags. The library handles i; the translation handles m and s."""
        if not on + off or len(set(on + off)) < len(on + off):
            raise self._wrong("empty or duplicate modifiers")
        opening = "(?i:" if "i" in on else "(?-i:" if "i" in off else "(?:"
        dotall = "s" in on or (inner.dotall and "s" not in off)
        multiline = "m" in on or (inner.multiline and "m" not in off)
        return opening, replace(inner, dotall=dotall, multiline=multiline)

    def _close(self) -> str:
        if not self._outer:
            raise self._wrong("a ')' without its '('")
        closed, self._here = self._here, self._outer.pop()
        if closed.number is not None:
            self._closed.add(closed.number)
        self._atom("", closed.copies)
        if not closed.repeatable:
            self._term = 0
        return ")"

    # Escapes outside classes.

    def _escape(self) -> str:
        char = self._next()
        if char is None:
            raise PatternError("a backslash at the end")
        if char in "bB":
            return self._assertion(rf"(?a:\{char})")
        if char in "123456789":
            return self._atom(self._numbered(char))
        if char == "k" and (self._strict or any(self._names)):
            return self._atom(self._named())
        set_ = self._set(char)
        return self._atom(set_.alone if set_ is not None else _shown(self._character(char)))

    def _numbered(self, digit: str) -> str:
        """Translate a reference to a group; without such a group, a legacy octal escape or the literal digit."""
        start = self._at
        number = int(digit + (self._take("[0-9]*") or [""])[0])
        if number <= len(self._names):
            return self._reference(number)
        if self._strict:
            raise self._wrong(f"no group {number}")
        self._at = start
        return _shown(self._legacy(digit))

    def _named(self) -> str:
        name = self._take("<([^>]*)>")
        numbers = [number for number, known in enumerate(self._names, start=1) if name and known == name[1]]
        if not numbers:
            raise self._wrong("a reference to no group")
        return f"(?:{''.join(self._reference(number) for number in numbers)})"

    def _reference(self, number: int) -> str:
        """Return a reference to a group's capture; it matches the empty text if the group did not participate or cannot
        have yet."""
        still_open = number in [group.number for group in (self._here, *self._outer)]
        if number in self._closed or (self._here.lookbehind and not still_open):
            return r"(?(@)(?:\@)|)".replace("@", str(number))
        return "(?:)"

    def _set(self, char: str) -> _Set | None:
        """Return the set of an escape for many characters, inside or outside a class."""
        if char.lower() in _SETS:
            return _Set(_SETS[char.lower()], inverted=char.isupper())
        if char in "pP" and self._strict:
            name = self._take(r"\{[A-Za-z0-9_=]+\}")
            if name is None:
                raise self._wrong("a property without its name")
            return _Set(f"\\{char}{name[0]}")
        return None

    def _character(self, char: str) -> int:
        """Return the code point of an escape for one character, inside or outside a class."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0" and self._strict and not self._take("(?=[0-9])"):
            return 0
        if char in "01234567" and not self._strict:
            return self._legacy(char)
        if char == "x" and (digits := self._take("[0-9a-fA-F]{2}")):
            return int(digits[0], 16)
        if char == "c" and (letter := self._take("[A-Za-z]")):
            return ord(letter[0]) % 32
        if char == "u" and (code := self._unicode()) is not None:
            return code
        return self._itself(char)

    def _unicode(self) -> int | None:
        if self._strict and (braced := self._take(r"\{([0-9a-fA-F]+)\}")):
            code = int(braced[1], 16)
            if code > 0x10FFFF:
                raise self._wrong("a code point above 10FFFF")
            return code
        if self._strict and (pair := self._take(r"([dD][89abAB]..)\\u([dD][c-fC-F][0-9a-fA-F]{2})")):
            return 0x10000 + ((int(pair[1], 16) - 0xD800) << 10) + int(pair[2], 16) - 0xDC00
        digits = self._take("[0-9a-fA-F]{4}")
        return int(digits[0], 16) if digits else None

    def _legacy(self, digit: str) -> int:
        """Read up to three octal digits, at most 377; 8 and 9 are literal."""
        if digit in "89":
            return ord(digit)
        more = self._take("[0-7]{0,2}" if digit in "0123" else "[0-7]?")
        return int(digit + (more[0] if more else ""), 8)

    def _itself(self, char: str) -> int:
        """Return an escaped literal character. Under flag u only syntax characters may be escaped."""
        if self._strict and char not in _SYNTAX:
            raise self._wrong(f"an escape '\\{char}' without meaning")
        if char == "k" and any(self._names):
            raise self._wrong("a reference without its name")
        if char == "c":
            self._at -= 1
            return ord("\\")
        return ord(char)

    # Classes.

    def _class(self) -> str:
        inverted = self._take(r"\^") is not None
        members: list[str] = []
        others: set[str] = set()
        while not self._take(r"\]"):
            for member in self._members():
                if isinstance(member, _Set) and member.inverted:
                    others.add(member.inside)
                else:
                    members.append(member.inside if isinstance(member, _Set) else member)
        return self._atom(_joined(members, others, inverted))

    def _members(self) -> list[str | _Set]:
        """Return one character, set or range of a class. The hyphen of a range with a set as an end is literal."""
        low = self._member()
        if not self._take(r"-(?!\])"):
            return [low if isinstance(low, _Set) else _shown(low)]
        high = self._member()
        if isinstance(low, int) and isinstance(high, int):
            if low > high:
                raise self._wrong("a range out of order")
            return [f"{_shown(low)}-{_shown(high)}"]
        if self._strict:
            raise self._wrong("a range with a set for an end")
        return [each if isinstance(each, _Set) else _shown(each) for each in (low, ord("-"), high)]

    def _member(self) -> int | _Set:
        char = self._next()
        if char is None:
            raise PatternError("a character class is not closed")
        if self._sets and (char in "()[{}/|-" or self._take(f"{re.escape(char)}(?=[&!#$%*+,.:;<=>?@^`~])")):
            raise self._wrong("set notation of flag 'v', which is not supported,")
        return self._class_escape() if char == "\\" else ord(char)

    def _class_escape(self) -> int | _Set:
        char = self._next()
        if char is None:
            raise PatternError("a character class is not closed")
        if char == "b":
            return 8
        if char == "-" and self._strict:
            return ord(char)
        if char == "c" and not self._strict and (digit := self._take("[0-9_]")):
            return ord(digit[0]) % 32
        set_ = self._set(char)
        return set_ if set_ is not None else self._character(char)


def _joined(members: list[str], others: set[str], inverted: bool) -> str:
    """Return a class of `members` and of all characters outside one of `others`."""
    if others & set(members):
        return _NOTHING if inverted else _ANYTHING
    if not others:
        return f"[{'^' if inverted else ''}{''.join(members)}]" if members else (_ANYTHING if inverted else _NOTHING)
    any_of = "|".join([*(f"[^{inside}]" for inside in sorted(others)), *([f"[{''.join(members)}]"] if members else [])])
    return f"(?:(?!{any_of}){_ANYTHING})" if inverted else f"(?:{any_of})"


def _shown(code: int) -> str:
    """Return a literal character, valid inside and outside a class."""
    if code < 128 and chr(code).isalnum():
        return chr(code)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _as_units(text: str) -> str:
    """Return the text with one character per UTF-16 code unit, as JavaScript reads it without flag u."""
    if text.isascii():
        return text
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) == 2 * len(text):
        return text
    return "".join(map(chr, struct.unpack(f"<{len(units) // 2}H", units)))


def _as_text(units: str) -> str:
    """Join code units to text; a lone surrogate stays unchanged."""
    return units if units.isascii() else units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
