"""Values in a grader's reply: what is taken for a truth value or a number, and what is not."""

from __future__ import annotations

import math
import re
from typing import Any

from eval_pipeline.scores.grading.criteria import BEST
from eval_pipeline.scores.grading.replies import Unreadable

TRUE = frozenset({"true", "yes", "pass", "passed"})
FALSE = frozenset({"false", "no", "fail", "failed"})
_DECIMAL = re.compile(r"\s*[-+]?\d{1,9}(?:\.\d{1,18})?\s*\Z")


def truth(value: Any, what: str) -> bool:
    """A truth value, or a word for one. Raises Unreadable, naming `what` it should have been."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else None
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise Unreadable(f"{what}: expected true or false, got {shown(value)}")


def within(value: Any, what: str, most: float) -> float:
    """A number from 0 to `most`, never cut to it. Raises Unreadable."""
    number = _as_number(value)
    if number is None or not 0 <= number <= most:
        raise Unreadable(f"{what}: expected a number from 0 to {most:g}, got {shown(value)}")
    return number


def whole(value: Any, what: str) -> int:
    """A whole number from 0 to 10. Raises Unreadable."""
    number = _as_number(value)
    if number is None or not 0 <= number <= BEST or number != int(number):
        raise Unreadable(f"{what}: expected a whole number from 0 to {BEST} as its score, got {shown(value)}")
    return int(number)


def _as_number(value: Any) -> float | None:
    """A number, or a text that is nothing but one; None for anything else, truth values and infinities among them."""
    if isinstance(value, str) and _DECIMAL.match(value):
        return float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def shown(value: Any) -> str:
    """A wrong value as a message shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
