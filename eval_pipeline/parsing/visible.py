r"""Text of others made safe to show: what a terminal would obey, and what reorders or hides text, becomes visible.

An answer, a name or an error message may hold escape sequences that recolor a terminal, set its title, write to the
clipboard (OSC 52) or move over earlier lines, and bidirectional controls that show text in another order. Each such
character is replaced by its escape, as in source code: ESC by `\x1b`, U+202E by `\u202e`. Tabs and line ends stay.
"""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line end, DEL, C1
_BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f"  # separators, annotations, tag characters
_HALVES = "\ud800-\udfff"  # no terminal can be sent half a character
_HIDDEN = re.compile(f"\r\n|[{_CONTROLS}{_BIDIRECTIONAL}{_INVISIBLE}{_HALVES}]")
_FORMULA = re.compile(r"\s*[=+\-@\uff0b\uff0d\uff1d\uff20]")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\Z")


def escape_controls(text: str) -> str:
    """Return the text with control characters as visible escapes; a text without any is returned unchanged."""
    return _HIDDEN.sub(lambda match: "\n" if match[0] == "\r\n" else _escape(ord(match[0])), text)


def has_hidden(text: str) -> bool:
    """Return whether a text has a character that `escape_controls` replaces."""
    return _HIDDEN.search(text) is not None


def visible_json(text: str) -> str:
    """Return a JSON text whose strings hold no control character except as an escape; its value stays the same."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] == "\r\n" else _json_escape(ord(match[0])), text)


def visible_xml(text: str) -> str:
    """Return XML text, or the value of an attribute, with control characters as character references."""
    return _HIDDEN.sub(lambda match: match[0] if match[0] == "\r\n" else f"&#x{ord(match[0]):x};", text)


def visible_cell(value: object) -> object:
    """Return a value of a CSV file: control characters in a text as escapes, and a leading `'` where a spreadsheet
    would take the text for a formula (`=`, `+`, `-`, `@`); numbers and texts that are numbers stay."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = escape_controls(str(value))
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def _escape(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(code: int) -> str:
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
