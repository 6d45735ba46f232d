"""The nearest known word to a wrong one, for words of checks that mean the same."""

from __future__ import annotations

from collections.abc import Collection

from eval_pipeline.errors import nearest

_HOLDS = ("has", "includes", "include", "contains", "contain", "matches", "match")
"""Words for "there is one that matches": which of them a kind of check has differs."""


def nearest_word(name: str, known: Collection[str]) -> str | None:
    """Return the known word that means what a wrong one does, else the one that is close to it; None without any."""
    cure = next((word for word in _HOLDS if word in known), None) if name in _HOLDS else None
    return cure or nearest(name, known)
