"""What a caller has to know of a user's function before it calls it; light, because every worker process imports it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from eval_pipeline.executions.fields_read import fields_read

BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


class FunctionFacts(NamedTuple):
    """The file of a function's module (None: it has none), its parameters with their kinds, and the fields that it may
    read of its parameter `case`."""

    file: str | None
    parameters: tuple[tuple[str, int], ...]
    case_fields: tuple[str, ...] = ()


def facts_from(value: Any) -> FunctionFacts:
    """Return facts from their JSON. Raises TypeError and ValueError for what a hostile worker sent."""
    file, parameters, case_fields = value
    known = tuple((str(name), int(kind)) for name, kind in parameters)
    return FunctionFacts(None if file is None else str(file), known, tuple(map(str, case_fields)))


def describe(function: Callable[..., Any]) -> FunctionFacts:
    """Return the facts of a function. Raises ValueError for a function of C without a signature."""
    parameters = inspect.signature(function).parameters
    return FunctionFacts(
        file=getattr(sys.modules.get(function.__module__), "__file__", None),
        parameters=tuple((item.name, int(item.kind)) for item in parameters.values()),
        case_fields=fields_read(function, "case") if "case" in parameters else (),
    )
