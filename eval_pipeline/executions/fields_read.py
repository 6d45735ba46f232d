"""Which fields of a case a function of the user may read, found in its source."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

ALL = ("conversation_id", "criteria", "depends_on", "expected_output", "group", "metadata", "tags")
"""The fields that a target may depend on. Its id, input, conversation and workspace are part of every plan; how it is
scored, repeated and scheduled is no matter of a target."""
_BY_PROPERTY = {"reference_answer": "expected_output"}
_OF_EVERY_PLAN = frozenset({"id", "input", "files", "question", "conversation", "workspace"})


def fields_read(function: Callable[..., Any], parameter: str) -> tuple[str, ...]:
    """Return the fields of a case that a function may read of its parameter, sorted.

    Where the parameter is only used as `parameter.field`, those fields; all of them where it is passed on or stored,
    where an attribute is no field, and where the source cannot be read.
    """
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ALL
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == parameter]
    attributes = [
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == parameter
    ]
    named = {_BY_PROPERTY.get(name, name) for name in attributes if name not in _OF_EVERY_PLAN}
    return tuple(sorted(named)) if len(uses) == len(attributes) and named <= set(ALL) else ALL
