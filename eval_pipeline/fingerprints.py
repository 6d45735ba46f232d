"""Identity by content: canonical JSON, its hash, and JSON encoding that never fails on odd strings.

Canonical JSON is UTF-8 with sorted keys and without white space, as orjson writes it. Lone surrogates are valid in JSON
text but not in UTF-8; they become U+FFFD. A value nested deeper than 200 levels is replaced by a text that reports it.
"""

from __future__ import annotations

import errno
import hashlib
import stat
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import orjson

_CANONICAL = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z
_MAX_DEPTH = 200  # orjson writes up to 254 levels; the rest is left for the value around ours
_PLAIN = orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z


class HiddenTexts:
    """Texts that fingerprints do not depend on, each with what is hashed in its place: secrets that suites take from
    the environment. A rotated key is no other content, and its hash could be guessed."""

    def __init__(self) -> None:
        self._instead: dict[bytes, bytes] = {}

    def add(self, text: str, instead: str) -> None:
        """Hash `instead` in place of a text."""
        self._instead[_dump(text, _PLAIN)[1:-1]] = _dump(instead, _PLAIN)[1:-1]

    def clear(self) -> None:
        """Hide nothing any more."""
        self._instead.clear()

    def hidden(self, content: bytes) -> bytes:
        """Return JSON with the hidden texts replaced."""
        if not self._instead:
            return content
        for text, instead in self._instead.items():
            if text in content:
                content = content.replace(text, instead)
        return content


hide_in_fingerprints = HiddenTexts()


def to_json(value: object) -> bytes:
    """Encode `value` (JSON types, dataclasses, datetimes) as compact JSON."""
    return _dump(value, _PLAIN)


def canonical_json(value: object) -> bytes:
    """Encode `value` as canonical JSON: equal values give equal bytes. Hidden texts are replaced."""
    return hide_in_fingerprints.hidden(_dump(value, _CANONICAL))


def fingerprint(value: object) -> str:
    """Return the SHA-256 of the canonical JSON of `value` as 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def require_regular_file(path: Path) -> None:
    """Raise OSError for a pipe, a socket or a device, whose reading may never end, and for what does not exist."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, "it is a pipe, socket or device, not a file", str(path))


def file_fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file's bytes as 64 hex digits. Raises OSError."""
    require_regular_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _dump(value: object, options: int) -> bytes:
    try:
        return orjson.dumps(value, option=options)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(value), option=options)


def _encodable(value: Any, levels: int = _MAX_DEPTH) -> Any:
    """Convert everything that orjson refuses (lone surrogates, huge integers, sets, depth) to plain values."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if levels == 0:
        return f"nested deeper than {_MAX_DEPTH} levels"
    if isinstance(value, Mapping):
        return {_encodable(str(key)): _encodable(item, levels - 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encodable(item, levels - 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_encodable(item, levels - 1) for item in value), key=repr)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _encodable(getattr(value, field.name), levels - 1) for field in fields(value)}
    if value is None or isinstance(value, (bool, int, float)) or hasattr(value, "isoformat"):
        return value
    return str(value)
