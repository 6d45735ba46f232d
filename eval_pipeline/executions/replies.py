"""What a worker process sends: JSON with its length in front. Reading it runs no code of the user.

A message has a head, an array of its kind and what belongs to it, and a body: a text as it is, or the JSON of a value.
This module imports little: every worker process imports it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Any

HEADER = Struct("<IQ")
"""Bytes of the head, bytes of the body."""
MOST_HEAD_BYTES = 10_000
MOST_OTHER_BYTES = 1_000_000
"""The most bytes of a body that is not what a function returns: a printed text, an error."""
_OUTCOME = ("eval_pipeline.scores.model", "Outcome")
_INT64 = 2**63


def frame(head: Sequence[Any], body: bytes = b"") -> list[bytes]:
    """Return a message as bytes; those of a large body are not copied."""
    encoded = json.dumps(head).encode()
    start = HEADER.pack(len(encoded), len(body)) + encoded
    return [start + body] if len(body) < MOST_OTHER_BYTES else [start, body]


def text_body(text: str) -> bytes:
    """Return a text as a body; a very long one is cut."""
    return text.encode("utf-8", "surrogatepass")[:MOST_OTHER_BYTES]


def text_of(body: bytes | bytearray) -> str:
    """Return the text of a body."""
    try:
        return body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body.decode("utf-8", "replace")  # it was cut within a character


def value_body(value: Any, most_bytes: int, as_score: bool) -> tuple[str, bytes]:
    """Return the kind and the body of what a function returns: `text`, `value` (JSON), `outcome` (JSON of its fields),
    or `cut`, the beginning of what has more than `most_bytes`. `as_score`: what is no score is `foreign`, its repr."""
    if isinstance(value, str):
        text = str.__str__(value)
        return ("cut", cut_text(text, most_bytes)) if len(text) > most_bytes else ("text", _utf8(text))
    kind = type(value)
    if (kind.__module__, kind.__name__) == _OUTCOME:
        return _sized("outcome", _outcome_fields(value), most_bytes)
    if as_score and not _is_score(value):
        return "foreign", text_body(repr(value))
    return _sized("value", value, most_bytes)


def cut_text(text: str, most: int) -> bytes:
    """Return the beginning of a text."""
    return text[:most].encode("utf-8", "replace")


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _is_score(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, int | Mapping)


def _sized(kind: str, value: Any, most_bytes: int) -> tuple[str, bytes]:
    """Return the JSON of a value. It is counted first: one that is too large is not encoded as a whole."""
    if _exceeds(value, most_bytes):
        return "cut", _beginning(value, most_bytes)
    encoded = json_body(value)
    return (kind, encoded) if len(encoded) <= most_bytes else ("cut", encoded[:most_bytes])


def json_body(value: Any) -> bytes:
    """Return the JSON of a value as a body."""
    if value is None or isinstance(value, bool) or (type(value) is int and -_INT64 <= value < _INT64):
        return json.dumps(value).encode()
    # orjson takes 20 ms to import, and most functions return texts and numbers.
    from eval_pipeline.fingerprints import to_json  # noqa: PLC0415

    return to_json(value)


_MOST_LEVELS = 200


def _exceeds(value: Any, most: int) -> bool:
    """Return whether a value has more characters than `most` in its texts, or more values."""
    count, waiting = 0, [iter((value,))]
    while waiting and count <= most:
        for item in waiting[-1]:
            count += len(item) + 2 if isinstance(item, str | bytes) else 2
            if isinstance(item, Mapping | list | tuple | set | frozenset):
                waiting.append(_parts(item) if len(waiting) < _MOST_LEVELS else iter(()))
            break
        else:
            waiting.pop()
    return count > most


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield item
    else:
        yield from value


def _beginning(value: Any, most: int) -> bytes:
    """Return the beginning of the JSON of a value, as much as can be had without the rest."""
    pieces, size = list[str](), 0
    try:
        for piece in json.JSONEncoder(default=repr, separators=(",", ":"), check_circular=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size >= most:
                break
    except (TypeError, ValueError, RecursionError):
        pass  # what was encoded so far is the beginning
    return cut_text("".join(pieces), most)


def _outcome_fields(outcome: Any) -> list[Any]:
    value, reason, findings, details, members, passes, *failure = outcome
    if isinstance(value, float) and not math.isfinite(value):
        value = repr(value)  # JSON has no number for it
    return [value, reason, [[item.text, item.passed, item.evidence] for item in findings], details,
            [list(member) for member in members], passes, *failure]  # fmt: skip
