"""JSON Schema (draft 2020-12) of the files that people write, made from the models that read them.

Evaluators and adapters of installed plug-ins are included: every registry is asked. `eval-pipeline schema` prints the
schemas, editors complete and check files with them, and the reference pages of the documentation are made from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic.alias_generators import to_snake

from eval_pipeline.plugins import Registry
from eval_pipeline.scores.evaluate import EVALUATORS

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def described(part: object) -> str:
    """Return the docstring of a part as paragraphs without line breaks inside them."""
    paragraphs = (inspect.getdoc(part) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def names_by_part(registry: Registry[Any]) -> Mapping[Any, list[str]]:
    """Return the parts of a registry with all their names, ordered by the first name."""
    parts: dict[Any, list[str]] = {}
    for name, part in registry:
        parts.setdefault(part, []).append(name)
    return parts


@cache
def evaluator_arguments(part: Any) -> Schema:
    """Return the schema of an evaluator's own arguments, under their names in snake case."""
    schema = TypeAdapter(part).json_schema(by_alias=True, ref_template="#/$defs/{model}")
    _rename_camel_case(schema)
    for name, property_ in _properties(schema):
        property_.pop("title", None)
        if name == "assertions" and "type" not in property_:
            property_.update({"type": "array", "items": {"$ref": "#/$defs/evaluator"}})
    schema["description"] = described(part)
    return schema


def _properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for holder in (schema, *schema.get("$defs", {}).values()):
        yield from holder.get("properties", {}).items()


def _rename_camel_case(schema: Schema) -> None:
    """Rename aliases such as `argsMatch` to the names that the documentation uses."""
    for holder in (schema, *schema.get("$defs", {}).values()):
        if "properties" in holder:
            holder["properties"] = {to_snake(name): value for name, value in holder["properties"].items()}
            holder["required"] = [to_snake(name) for name in holder.get("required", [])]


def opposites() -> list[str]:
    """Return the names of evaluators that are the opposite of another (`not-contains`)."""
    names = EVALUATORS.names()
    return [name for name in names if name.startswith("not-") and name.removeprefix("not-") in names]
