"""JSON Schema (draft 2020-12) of the files that people write, made from the models that read them.

Evaluators and adapters of installed plug-ins are included: every registry is asked. `eval-pipeline schema` prints the
schemas, editors complete and check files with them, and the reference pages of the documentation are made from them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from pydantic.alias_generators import to_snake

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.runner_arms import ARMS
from eval_pipeline.executions.runner_fields import RUNNER, runner_fields
from eval_pipeline.executions.tool_sets import IMPLEMENTATION, TERMINATING
from eval_pipeline.executions.tools import TOOLS
from eval_pipeline.llm.wires import WIRES
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.normalize import NORMALIZERS
from eval_pipeline.scores.arguments import argument_fields
from eval_pipeline.scores.evaluate import EVALUATORS, argument_adapter
from eval_pipeline.suites.fields import EVALUATOR, suite_fields
from eval_pipeline.sweeps.project import ProjectFile

Schema = dict[str, Any]
DIALECT = "https://json-schema.org/draft/2020-12/schema"
_PLACEHOLDER = {"type": "string", "pattern": r"\{\{.*\}\}"}
_SCALARS = frozenset({"number", "integer", "boolean"})
_COMPOUND = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "if", "oneOf"})
_NAMES_OF_PARTS: Mapping[str, Mapping[str, Registry[Any]]] = {
    "agent": {"agent": AGENTS},
    "chat": {"wire": WIRES},
    "command": {"format": NORMALIZERS},
}
"""The settings of adapters that name a part of a registry."""
_EVALUATOR_REFERENCE = {"$ref": "#/$defs/evaluator"}


def suite_schema() -> Schema:
    """Return the schema of a suite file."""
    schema = _with_references(suite_fields().json_schema())
    schema["$defs"] = {"evaluator": _evaluator(), **_evaluator_definitions()}
    return {"$schema": DIALECT, **_merged(_with_placeholders(schema)), "title": "Suite file"}


def runners_schema() -> Schema:
    """Return the schema of a runners file."""
    schema = {
        "type": "object",
        "description": "The systems under test. Relative paths begin at the file's folder.",
        "properties": {"runners": {"type": "array", "items": {"$ref": "#/$defs/runner"}}},
        "required": ["runners"],
        "$defs": {"runner": _runner()},
    }
    return {"$schema": DIALECT, **_merged(_with_placeholders(schema)), "title": "Runners file"}


def project_schema() -> Schema:
    """Return the schema of a project file."""
    schema = ProjectFile.model_json_schema()
    for _, property_ in _properties(schema):
        property_.pop("title", None)
    return {"$schema": DIALECT, **schema, "title": "Project file"}


SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "suite": suite_schema,
    "runners": runners_schema,
    "project": project_schema,
}


# Evaluators


def _evaluator() -> Schema:
    """An evaluator in a list, or a text: a criterion. The arguments depend on the type."""
    entry = EVALUATOR.json_schema()
    names = [spelling for name in EVALUATORS.names() for spelling in _spellings(name)]
    entry["properties"]["type"] = {**entry["properties"]["type"], "anyOf": [{"enum": names}, {"type": "string"}]}
    entry["properties"]["type"].pop("type", None)
    entry["type"] = ["object", "string"]
    entry.pop("required", None)  # an `include` has no type
    entry["anyOf"] = [{"required": ["type"]}, {"required": ["include"]}]
    entry["allOf"] = [
        _when("type", [spelling for name in names_ for spelling in _spellings(name)], _arguments(names_[0]))
        for names_ in names_by_part(EVALUATORS).values()
    ]
    return entry


def _arguments(type_: str) -> Schema:
    """What an evaluator of this type may hold: the fields of every evaluator and its own arguments."""
    arguments = evaluator_arguments(type_)
    common: Schema = {name: {} for name in EVALUATOR.names}
    closed = {
        "description": arguments["description"],
        "properties": {**common, **arguments["properties"], **_camel_case(arguments)},
        "additionalProperties": arguments.get("additionalProperties", False),
    }
    if arguments.get("required"):
        closed["required"] = arguments["required"]
    if "if" in arguments:  # the condition under which further arguments are accepted
        return {"if": arguments["if"], "then": {**closed, "additionalProperties": True}, "else": closed}
    return closed


def _camel_case(schema: Schema) -> Schema:
    """The camelCase spellings of arguments that have one."""
    aliases = schema.get("x-aliases", {})
    return {alias: {**schema["properties"][name], "deprecated": True} for alias, name in aliases.items()}


def _evaluator_definitions() -> Schema:
    """The definitions that arguments of evaluators refer to."""
    return {
        name: definition
        for type_, *_ in names_by_part(EVALUATORS).values()
        for name, definition in evaluator_arguments(type_).get("$defs", {}).items()
    }


@cache
def evaluator_arguments(type_: str) -> Schema:
    """Return the schema of an evaluator's own arguments, under their names in snake case.

    `x-aliases` maps further spellings to names.
    """
    part: Any = EVALUATORS.get(type_)
    schema = argument_adapter(part).json_schema()
    for holder in (schema, *schema.get("$defs", {}).values()):
        _rename_to_snake_case(holder)
    for name, property_ in _properties(schema):
        property_.pop("title", None)
        if name == "assertions" and "type" not in property_:
            property_.update({"type": "array", "items": _EVALUATOR_REFERENCE})
    for name, field in argument_fields(type_).items():
        if field.doc and name in schema.get("properties", {}):
            schema["properties"][name]["description"] = field.doc
    schema["description"] = described(part)
    return schema


def _rename_to_snake_case(holder: Schema) -> None:
    if "properties" not in holder:
        return
    names = {name: to_snake(name) for name in holder["properties"]}
    aliases = {alias: name for alias, name in names.items() if alias != name}
    holder["properties"] = {names[name]: value for name, value in holder["properties"].items()}
    holder["required"] = [names[name] for name in holder.get("required", []) if name not in aliases]
    if aliases:
        holder["x-aliases"] = aliases


def opposites() -> list[str]:
    """Return the names of evaluators that are the opposite of another (`not-contains`)."""
    names = EVALUATORS.names()
    return [name for name in names if name.startswith("not-") and name.removeprefix("not-") in names]


# Runners


def _runner() -> Schema:
    """An entry of the runners file; its settings depend on its adapter."""
    entry = {**RUNNER.json_schema(), "additionalProperties": True}
    names = [spelling for name in ADAPTERS.names() for spelling in _spellings(name)]
    entry["properties"]["adapter"] = {**entry["properties"]["adapter"], "enum": names}
    entry["required"] = ["name"]
    entry["anyOf"] = [{"required": ["adapter"]}, {"required": ["use"]}]
    entry["allOf"] = [_when("adapter", _spellings(name), _settings(name)) for name in ADAPTERS.names()]
    return entry


def _settings(adapter: str) -> Schema:
    """What a runner of this adapter may hold. Settings may be missing where another runner's are used, or
    where its arms have them."""
    schema = runner_fields(adapter).json_schema()
    required = schema.pop("required", [])
    properties = schema["properties"]
    for name, registry in _NAMES_OF_PARTS.get(adapter, {}).items():
        properties[name] = _name_in(registry, properties[name])
    if adapter == "chat":
        properties["tools"] = {**properties["tools"], "items": _tool()}
    return {
        "description": described(ADAPTERS.get(adapter)),
        "properties": properties,
        "additionalProperties": schema["additionalProperties"],
        "if": {"not": {"anyOf": [{"required": ["use"]}, {"required": [ARMS]}]}},
        "then": {"required": required},
    }


def _name_in(registry: Registry[Any], setting: Schema) -> Schema:
    """A setting whose value is a name in a registry, or a placeholder."""
    names = [spelling for name in registry.names() for spelling in _spellings(name)]
    kept = {key: value for key, value in setting.items() if key != "type"}
    return {**kept, "anyOf": [{"enum": names}, _PLACEHOLDER]}


def _tool() -> Schema:
    """A tool of a model: its declaration is the provider's; what carries out its calls is ours."""
    kinds = {name: TOOLS.get(name).settings.json_schema() for name in TOOLS.names()}
    implementation = {
        "description": "What carries out the calls.",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": list(kinds)}},
        "allOf": [_when("type", [name], _implementation(settings)) for name, settings in kinds.items()],
    }
    terminating = {"description": "Whether a call ends the conversation.", "type": "boolean"}
    return {"properties": {IMPLEMENTATION: implementation, TERMINATING: terminating}}


def _implementation(settings: Schema) -> Schema:
    """What an implementation of one type may hold."""
    kept: Schema = {
        key: settings[key] for key in ("description", "required", "additionalProperties") if key in settings
    }
    return {**kept, "properties": {"type": {}, **settings["properties"]}}


# Shared


def names_by_part(registry: Registry[Any]) -> Mapping[Any, list[str]]:
    """Return the parts of a registry with all their names, ordered by the first name."""
    parts: dict[Any, list[str]] = {}
    for name, part in registry:
        parts.setdefault(part, []).append(name)
    return parts


def described(part: object) -> str:
    """Return the docstring of a part as paragraphs without line breaks inside them."""
    paragraphs = (inspect.getdoc(part) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _spellings(name: str) -> list[str]:
    """A name as registries accept it: `is-json` and `is_json`."""
    return list(dict.fromkeys([name, name.replace("-", "_")]))


def _when(field: str, values: list[str], then: Schema) -> Schema:
    return {"if": {"properties": {field: {"enum": values}}, "required": [field]}, "then": then}


def _properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for holder in (schema, *schema.get("$defs", {}).values()):
        yield from holder.get("properties", {}).items()


def _with_references(schema: Any) -> Any:
    """The schema with a reference wherever the fields of an evaluator are written out."""
    if isinstance(schema, list):
        return [_with_references(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("title") == EVALUATOR.title and "properties" in schema:
        return _EVALUATOR_REFERENCE
    options = schema.get("anyOf")
    if isinstance(options, list) and _EVALUATOR_REFERENCE in _with_references(options):
        return _EVALUATOR_REFERENCE  # the definition accepts a text, too
    return {key: _with_references(value) for key, value in schema.items()}


def _merged(schema: Any) -> Any:
    """The schema with alternatives of different types as one, so that a mistake is reported where it is.

    Keywords of JSON Schema apply to one type each: `{type: [string, object], properties: …}` says the same as `anyOf`.
    """
    if isinstance(schema, list):
        return [_merged(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: _merged(value) for key, value in schema.items()}
    options = schema.get("anyOf")
    if not isinstance(options, list) or not _are_disjoint(options):
        return schema
    outer = {key: value for key, value in schema.items() if key != "anyOf"}
    types = [type_ for option in options for type_ in _types(option)]
    return {**{key: value for option in options for key, value in option.items()}, **outer, "type": types}


def _are_disjoint(options: list[Any]) -> bool:
    types = [type_ for option in options for type_ in _types(option)]
    simple = all(_types(option) and not _COMPOUND & option.keys() for option in options)
    return simple and len(types) == len(set(types))


def _types(schema: Schema) -> list[str]:
    types = schema.get("type", [])
    return [types] if isinstance(types, str) else types if isinstance(types, list) else []


def _with_placeholders(schema: Any) -> Any:
    """The schema with `${{ NAME }}` and `{{ name }}` accepted where a number or a truth value is expected."""
    if isinstance(schema, list):
        return [_with_placeholders(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("type"), str) and schema["type"] in _SCALARS:
        outer = {key: schema[key] for key in ("description", "default", "deprecated") if key in schema}
        return {**outer, "anyOf": [{key: value for key, value in schema.items() if key not in outer}, _PLACEHOLDER]}
    return {key: _with_placeholders(value) for key, value in schema.items()}
