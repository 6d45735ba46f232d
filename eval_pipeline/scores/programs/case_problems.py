"""What is wrong with the fields of a case in a Python suite: nothing else checks what a module makes.

Light, because it is imported where a module is loaded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

from eval_pipeline.suites.model import INCOMPLETE, Case, EvaluatorSpec
from eval_pipeline.suites.triggers import read_triggers

_SHOWN = 60


def wrong_fields(case: Case) -> Iterator[tuple[str, str]]:
    """Yield field and problem of each field that cannot be used."""
    if not case.input:
        yield "prompt", "required"
    elif not all(isinstance(message.content, str) and message.content for message in case.input):
        yield "prompt", f"expected a text that is not empty, got {_shown(case.input[0].content)}"
    for name, (is_right, expected) in _FIELDS.items():
        value = getattr(case, name)
        if not is_right(value):
            yield _WRITTEN.get(name, name), f"expected {expected}, got {_shown(value)}"
    try:
        read_triggers(case.should_trigger)
    except ValueError as error:
        yield "should_trigger", str(error)
    if case.check is None and not case.evaluators:
        yield "check", "required: a function of the report and the context"
    for name in ("check", "classify_failure"):
        value = getattr(case, name)
        if value is not None and not callable(value):
            yield name, f"expected a function, got {type(value).__name__}"
    for name in _unread(case):
        yield name, "is no field of a case in Python; a case in YAML has it"


def _shown(value: Any) -> str:
    return f"{value!r:.{_SHOWN}}"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_text, value))


def _is_json(value: Any) -> bool:
    """Return whether a value is a mapping of JSON: the text of anything else may be another in each process."""
    try:
        return isinstance(value, Mapping) and bool(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return False


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: value is None or (type(value) is int and least <= value < 2**31)


def _is_share(value: Any) -> bool:
    return value is None or (type(value) in (int, float) and 0 <= value <= 1)


def _are_specs(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(spec, EvaluatorSpec) for spec in value)


_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_text, "a text that is not empty"),
    "tags": (lambda value: isinstance(value, tuple) and _are_texts(value), "a list of texts that are not empty"),
    "timeout_s": (lambda value: value is None or math.isfinite(value), "a number above 0"),
    "max_steps": (_whole(1), "a whole number of at least 1"),
    "incomplete": (lambda value: value is None or value in list(INCOMPLETE), f"one of {', '.join(INCOMPLETE)}"),
    "expected_fail": (lambda value: isinstance(value, bool), "true or false"),
    "criteria": (lambda value: value is None or isinstance(value, str), "a text"),
    "metadata": (_is_json, "a mapping of texts, numbers, lists and mappings"),
    "runners": (lambda value: value is None or _are_texts(value), "a list of names of runners"),
    "repetitions": (_whole(1), "a whole number of at least 1"),
    "on_failure": (_whole(0), "a whole number of at least 0"),
    "threshold": (_is_share, "a number between 0 and 1"),
    "evaluators": (_are_specs, "a list of EvaluatorSpec"),
    "line": (_whole(1), "the number of a line"),
}
_WRITTEN = {"timeout_s": "timeout_ms"}
"""Fields by the name that a module gives them."""
_READ = {*_FIELDS, "input", "should_trigger", "check", "classify_failure"}


_UNREAD = {
    each.name: each.default if each.default_factory is MISSING else each.default_factory()
    for each in fields(Case)
    if each.name not in _READ
}
"""Fields that a Python suite does not have, with their usual values."""


def _unread(case: Case) -> Iterator[str]:
    """Yield the fields that are set and that a Python suite does not have."""
    return (name for name, usual in _UNREAD.items() if getattr(case, name) != usual)
