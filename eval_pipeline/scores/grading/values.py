"""Truth values and numbers in a grader's reply: which forms are accepted."""

from __future__ import annotations

import math
import re
from typing import Any

from eval_pipeline.scores.grading.criteria import MAX_SCORE
from eval_pipeline.scores.grading.replies import UnreadableReply

TRUE = frozenset({"true", "yes", "pass", "passed"})
FALSE = frozenset({"false", "no", "fail", "failed"})
_DECIMAL = re.compile(r"\s*[-+]?\d{1,9}(?:\.\d{1,18})?\s*\Z")


def read_bool(value: Any, field: str) -> bool:
    """Read a truth value, or a word for one. Raises UnreadableReply naming `field`."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else None
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise UnreadableReply(f"{field}: expected true or false, got {shown(value)}")


def read_number(value: Any, field: str, most: float) -> float:
    """Read a number from 0 to `most`; it is not clipped. Raises UnreadableReply."""
    number = _as_number(value)
    if number is None or not 0 <= number <= most:
        raise UnreadableReply(f"{field}: expected a number from 0 to {most:g}, got {shown(value)}")
    return number


def read_whole(value: Any, field: str) -> int:
    """Read a whole number from 0 to 10. Raises UnreadableReply."""
    number = _as_number(value)
    if number is None or not 0 <= number <= MAX_SCORE or number != int(number):
        raise UnreadableReply(
            f"{field}: expected a whole number from 0 to {MAX_SCORE} as its score, got {shown(value)}"
        )
    return int(number)


def _as_number(value: Any) -> float | None:
    """Return a number, or the number of a purely numeric text; None for anything else, truth values and infinities
    included."""
    if isinstance(value, str) and _DECIMAL.match(value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def shown(value: Any) -> str:
    """Return an invalid value as shown in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
