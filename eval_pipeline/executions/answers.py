"""How an answer with what is known of it is told from JSON that is the answer itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ANSWER_KEYS = frozenset({"output", "output_messages", "messages", "text"})
"""What holds the answer in the command protocol; usage, cost and time may stand beside it."""


def is_answer(value: Any) -> bool:
    """Whether a value holds an answer under one of its keys."""
    return isinstance(value, Mapping) and not ANSWER_KEYS.isdisjoint(value)
