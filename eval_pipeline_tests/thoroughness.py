"""How thorough the tests are: with `EXHAUSTIVE=1` they try all of what they try a part of otherwise."""

from __future__ import annotations

import os
from typing import TypeVar

EXHAUSTIVE = bool(os.environ.get("EXHAUSTIVE"))
T = TypeVar("T")


def part_or_all(part: T, all_: T) -> T:
    """Return the first of two extents of a test, with `EXHAUSTIVE=1` the second."""
    return all_ if EXHAUSTIVE else part
