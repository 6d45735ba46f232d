"""What may be meant by a field that is not read: its newer name, its place, the nearest name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from eval_pipeline.errors import did_you_mean, nearest
from eval_pipeline.suites.fields import CASE_EXECUTION, SUITE_EXECUTION

_REFERENCE = (
    "; references are not followed: name the file as the value (`workspace: FILE`), or as an entry of the list"
    " (`- file://FILE` among tests, `- include: FILE` among assertions)"
)
RENAMED = {
    "input_messages": "input",
    "inputs": "input",
    "prompt": "input",
    "expected_messages": "expected_output",
    "expected": "expected_output",
    "expectedOutput": "expected_output",
}
"""Older and other names of fields."""


def hint(key: str, known: Collection[str]) -> str:
    """Return what may be meant by an unknown field, as the end of a message; nothing where that is not known."""
    return _REFERENCE if key == "$ref" else _renamed(key, known) or _outside(key, known) or did_you_mean(key, known)


def rename(name: str, key: str) -> str:
    """Return how a field that is required is to be written in place of another name, as the end of a message."""
    return f"; write '{name}' instead of '{key}'"


def misspelling_of(name: str, raw: Iterable[object], known: Collection[str]) -> str:
    """Return the hint for a required field that is missing, where an unknown one is a misspelling of it."""
    key = nearest(name, [str(key) for key in raw if key not in known])
    return rename(name, key) if key is not None else ""


def _renamed(key: str, known: Collection[str]) -> str:
    name = RENAMED.get(key)
    return f"; its name is '{name}'" if name in known else ""


def _outside(key: str, known: Collection[str]) -> str:
    """Return a hint for a field of `execution` that is beside it instead of in it: ignored, its limit does not hold."""
    inside = SUITE_EXECUTION.names | CASE_EXECUTION.names
    return "; it belongs under 'execution'" if "execution" in known and key in inside else ""
