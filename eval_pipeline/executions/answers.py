"""Whether JSON holds an answer with facts about it, or is the answer itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANSWER_KEYS = frozenset({"output", "output_messages", "messages", "text"})
"""The keys of the answer in the command protocol; usage, cost and time may be beside it."""


def is_answer(value: Any) -> bool:
    """Whether a value holds an answer under one of its keys."""
    return isinstance(value, Mapping) and not ANSWER_KEYS.isdisjoint(value)
