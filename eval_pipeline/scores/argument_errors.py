"""What pydantic refuses of an evaluator's arguments → an InputError that names the argument and what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import ValidationError

from eval_pipeline.errors import InputError, SourceLocation, nearest
from eval_pipeline.scores.near_words import nearest_word
from eval_pipeline.suites.fields import EVALUATOR
from eval_pipeline.suites.model import EvaluatorSpec

_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "tuple_type": "a list",
    "list_type": "a list",
    "too_short": "a list that is not empty",
    "dict_type": "a mapping",
    "dataclass_type": "a mapping",
    "bool_type": "true or false",
    "float_type": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than_equal": "a number of at most {le:g}",
    "finite_number": "a finite number",
    "literal_error": "one of {expected}",
}


def argument_error(spec: EvaluatorSpec, class_: type[Any], error: ValidationError) -> InputError:
    """Return pydantic's error as an InputError: the argument and the expected type.

    An unknown argument takes precedence.
    """
    errors = error.errors(include_url=False)
    first = next((item for item in errors if item["type"] == "unexpected_keyword_argument"), errors[0])
    name = ".".join(str(step) for step in first["loc"])
    place = SourceLocation(field=f"{spec.type} {name}".strip())
    if first["type"] == "unexpected_keyword_argument":
        arguments = [field.name for field in fields(_owner_class(class_, first["loc"][:-1]))]
        common = EVALUATOR.names if len(first["loc"]) == 1 else ()
        return InputError(f"unknown argument; {_listing(str(first['loc'][-1]), arguments, common)}", place)
    if first["type"] == "missing":
        return InputError(f"required{_misspelled(str(first['loc'][-1]), spec, class_)}", place)
    if first["type"] == "value_error":
        return InputError(first["msg"].removeprefix("Value error, "), place)
    expected = _EXPECTED.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    value = first["input"]
    text = repr(value) if isinstance(value, (str, int, float, bool, type(None))) else type(value).__name__
    near = nearest_word(text[1:-1], first["ctx"]["expected"].split("'")) if first["type"] == "literal_error" else None
    return InputError(f"expected {expected}, got {text}" + (f"; did you mean '{near}'?" if near else ""), place)


def _misspelled(name: str, spec: EvaluatorSpec, class_: type[Any]) -> str:
    """Return the cure where an argument that is required is there under a name that no argument has."""
    near = nearest(name, spec.config.keys() - {field.name for field in fields(class_)})
    return f"; write '{name}' instead of '{near}'" if near is not None else ""


def _listing(name: str, arguments: Sequence[str], common: Iterable[str]) -> str:
    """Return the arguments that there are, with the nearest one; of those of every evaluator only the nearest one."""
    near = nearest_word(name, arguments) or nearest(name, common)
    listed = [*arguments, *([near] if near is not None and near not in arguments else ())]
    hint = f"; did you mean '{near}'?" if near is not None else ""
    return (f"there are: {', '.join(listed)}" if listed else "there are none") + hint


def _owner_class(class_: Any, steps: Iterable[int | str]) -> Any:
    """Return the dataclass that declares an argument: the evaluator, or the type of one of its arguments."""
    for step in steps:
        if isinstance(step, str):
            class_ = next(_dataclasses_in(get_type_hints(class_)[step]))
    return class_


def _dataclasses_in(type_: Any) -> Iterator[Any]:
    if is_dataclass(type_):
        yield type_
    for inner in get_args(type_):
        yield from _dataclasses_in(inner)
