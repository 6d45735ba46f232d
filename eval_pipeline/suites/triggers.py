"""`should_trigger` of a case: the skills that an agent should use for it, and those that it should not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_triggers(raw: Any) -> dict[str, bool]:
    """Return whether each skill should be used: a name, a list of names, or a mapping to true and false; none where
    there is nothing. Raises ValueError."""
    if raw is None:
        return {}
    named = dict.fromkeys([raw] if isinstance(raw, str) else raw, True) if isinstance(raw, str | list | tuple) else raw
    if not isinstance(named, Mapping):
        raise ValueError(f"expected names of skills, or a mapping of names to true and false, got {raw!r:.60}")
    for name, expected in named.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"expected the name of a skill, got {name!r:.60}")
        if not isinstance(expected, bool):
            raise ValueError(f"{name}: expected true or false, got {expected!r:.60}")
    return dict(named)
