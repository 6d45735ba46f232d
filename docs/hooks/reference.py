"""A hook of mkdocs: replaces `<!-- generated: NAME -->` in a page by tables made from the code.

Pages hold the prose; what the code knows (fields, arguments, options, columns) is never written by hand.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

import eval_pipeline
from eval_pipeline.cli.json_schemas import described, evaluator_arguments, names_by_part, opposites
from eval_pipeline.cli.main import COMMANDS, cli
from eval_pipeline.executions.adapters import ADAPTERS, settings_of
from eval_pipeline.executions.runner_fields import runner_fields
from eval_pipeline.exports import EXPORTS
from eval_pipeline.failures import FAILURE_CLASSES
from eval_pipeline.llm.wires import WIRES
from eval_pipeline.parsing.tables import Field, FieldTable
from eval_pipeline.plugins import Registry
from eval_pipeline.reports.normalize import NORMALIZERS
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.fields import EVALUATOR, suite_fields
from eval_pipeline.suites.load import FORMATS
from eval_pipeline.sweeps.named_sweeps import NamedSweep
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.project import ProjectFile
from eval_pipeline.sweeps.retention import Retention, SweepLimit
from eval_pipeline.warehouse.macros import MACROS
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline.warehouse.views import VIEWS

MARK = re.compile(r"<!-- generated: ([a-z-]+) -->")
FIELD_HEAD = ("field", "type", "default", "meaning")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page that mkdocs renders; mkdocs calls this for each page."""
    return with_tables(markdown)


def with_tables(markdown: str) -> str:
    """Return a page with its marks replaced. Raises KeyError for an unknown mark."""
    return MARK.sub(lambda mark: "\n".join(GENERATORS[mark[1]]()), markdown)


# Markdown


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell_text(cell) for cell in row)} |"
    yield ""


def filled_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table without the columns that are empty in every row; nothing without rows."""
    kept = list(rows)
    columns = [index for index in range(len(head)) if any(row[index] for row in kept)]
    if columns:
        yield from table([head[index] for index in columns], ([row[index] for index in columns] for row in kept))


def cell_text(value: object) -> str:
    """Return a value as one cell: no line breaks, no bare `|`."""
    return " ".join(str(value).split()).replace("|", "\\|")


def code(names: Iterable[str]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)


# Types and defaults of JSON Schema, in words

_WORDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "object": "mapping"}
_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


def type_text(schema: Mapping[str, Any]) -> str:
    """Return a schema's type in words."""
    if "enum" in schema:
        return code(map(str, schema["enum"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(type_text(option) for option in options if option.get("type") != "null"))
    return _plain_type(schema) + _bounds(schema)


def _plain_type(schema: Mapping[str, Any]) -> str:
    kinds = schema.get("type", "any")
    if kinds == "array":
        return f"list of {type_text(schema.get('items', {}))}"
    return " or ".join(_WORDS.get(kind, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _bounds(schema: Mapping[str, Any]) -> str:
    bounds = [f"{sign} {schema[key]:g}" for key, sign in _SIGNS.items() if key in schema]
    return f" ({', '.join(bounds)})" if bounds else ""


def default_text(name: str, schema: Mapping[str, Any], holder: Mapping[str, Any]) -> str:
    """Return a field's default; `required` for a field without one that must be given."""
    if name in holder.get("required", []):
        return "required"
    value = schema.get("default")
    if value is None or value in ([], {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def property_rows(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield name, type, default and description of each property."""
    for name, property_ in schema.get("properties", {}).items():
        yield f"`{name}`", type_text(property_), default_text(name, property_, schema), property_.get("description", "")


# What the marks stand for


def evaluators() -> Iterator[str]:
    """Yield every evaluator with its arguments."""
    skipped = set(opposites())
    for names in names_by_part(EVALUATORS).values():
        if skipped.issuperset(names):
            continue
        schema = evaluator_arguments(names[0])
        yield from (f"### {code(names)}", "", schema["description"], "")
        yield from filled_table(FIELD_HEAD, property_rows(schema))
        for name, inner in schema.get("$defs", {}).items():
            yield from (f"{name}: {inner.get('description', '')}", "")
            yield from filled_table(FIELD_HEAD, property_rows(inner))


def adapters() -> Iterator[str]:
    """Yield every adapter with its settings."""
    for part, names in names_by_part(ADAPTERS).items():
        yield from (f"### {code(names)}", "", described(part), "")
        yield from (f"Time limit of an attempt, where `timeout_s` is not set: {part.default_timeout_s:g} s.", "")
        settings = settings_of(part)
        yield from fields_of(settings)
        for title, inner in list(tables_within(settings))[1:]:
            yield from (f"{title}: {inner.doc}", "")
            yield from fields_of(inner)


def fields_of(table_: FieldTable) -> Iterator[str]:
    """Yield the fields of a table."""
    rows = ((field_name(each), type_of(each), field_default(each), each.doc) for each in table_.fields)
    yield from filled_table(FIELD_HEAD, rows)


def field_name(field: Field) -> str:
    """Return a field's name with its other spellings."""
    return f"`{field.name}`" + (f" (also {code(field.aliases)})" if field.aliases else "")


def type_of(field: Field) -> str:
    """Return what a field may hold, and the table with the fields of its mappings."""
    inner = field.kind.table
    return field.kind.title + (f": *{inner.title}*" if inner is not None else "")


def field_default(field: Field) -> str:
    """Return a field's default; `required` for a field that must be given."""
    return "required" if field.required else default_text(field.name, {"default": field.default}, {})


def sections(root: FieldTable) -> Callable[[], Iterator[str]]:
    """Return a generator of a table and those of the mappings in it, each once."""

    def made() -> Iterator[str]:
        for title, table_ in tables_within(root):
            yield from (f"### {title}", "", table_.doc, "")
            yield from fields_of(table_)

    return made


def tables_within(root: FieldTable) -> Iterator[tuple[str, FieldTable]]:
    """Yield a table and those of the mappings in it with a heading each; two of one title differ by their holder."""
    waiting = [(root.title, root)]
    headings: set[str] = set()
    done: set[FieldTable] = set()
    while waiting:
        holder, table_ = waiting.pop(0)
        if table_ in done:
            continue
        done.add(table_)
        heading = table_.title if table_.title not in headings else f"{table_.title} of a {holder}"
        headings.add(heading)
        yield heading, table_
        waiting += [(table_.title, each.kind.table) for each in table_.fields if each.kind.table is not None]


def project_fields() -> Iterator[str]:
    """Yield the fields of the project file."""
    yield from filled_table(FIELD_HEAD, property_rows(ProjectFile.model_json_schema()))


def default_fields() -> Iterator[str]:
    """Yield the fields under `defaults` of the project file."""
    yield from filled_table(FIELD_HEAD, property_rows(Defaults.model_json_schema()))


def sweep_fields() -> Iterator[str]:
    """Yield the fields of an entry of `sweeps` of the project file."""
    yield from filled_table(FIELD_HEAD, property_rows(NamedSweep.model_json_schema()))


def retention_fields() -> Iterator[str]:
    """Yield the kinds under `retention` of the project file."""
    rows = ((f"`{name}`", field.description or "") for name, field in Retention.model_fields.items())
    yield from table(("kind", "what is deleted"), rows)


def limit_fields() -> Iterator[str]:
    """Yield the limits of a kind under `retention`."""
    yield from filled_table(FIELD_HEAD, property_rows(SweepLimit.model_json_schema()))


def commands() -> Iterator[str]:
    """Yield every command with its arguments and options."""
    context = click.Context(cli, info_name="eval-pipeline")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        if command is None:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        usage = " ".join(command.collect_usage_pieces(inner))
        yield from (f"## {name}", "", f"`eval-pipeline {name} {usage}`", "")
        yield from (" ".join((command.help or "").split()), "")
        records = (parameter.get_help_record(inner) for parameter in command.params)
        yield from table(("option", "meaning"), ((f"`{record[0]}`", record[1]) for record in records if record))


def tables() -> Iterator[str]:
    """Yield every table with its columns."""
    for each in TABLES:
        yield from (f"### `{each.name}`", "", f"{each.comment} Key: {code(each.key)}.", "")
        yield from table(("column", "type", "holds"), ((f"`{c.name}`", c.type, c.comment) for c in each.columns))


def views() -> Iterator[str]:
    """Yield every view."""
    yield from table(("view", "answers"), ((f"`{view.name}`", view.comment) for view in VIEWS))


def macros() -> Iterator[str]:
    """Yield every macro."""
    yield from table(("macro", "answers"), ((f"`{macro.signature}`", macro.comment) for macro in MACROS))


def failure_classes() -> Iterator[str]:
    """Yield every failure class."""
    rows = ((f"`{each.id}`", each.label, each.origin.value) for each in FAILURE_CLASSES.values())
    yield from table(("class", "meaning", "origin"), rows)


def public_names() -> Iterator[str]:
    """Yield every name of the public face with the first line of its docstring."""
    described_names = ((name, inspect.getdoc(getattr(eval_pipeline, name)) or "") for name in eval_pipeline.__all__)
    yield from table(("name", "what it is"), ((f"`{name}`", text.split("\n\n")[0]) for name, text in described_names))


def parts_of(registry: Registry[Any]) -> Callable[[], Iterator[str]]:
    """Return a generator of the table of a registry's parts."""
    return lambda: table(
        ("name", "what it is"),
        ((code(names), described(part).split("\n\n")[0]) for part, names in names_by_part(registry).items()),
    )


GENERATORS: Mapping[str, Callable[[], Iterable[str]]] = {
    "suite-fields": sections(suite_fields()),
    "runner-fields": sections(runner_fields()),
    "evaluator-fields": lambda: fields_of(EVALUATOR),
    "evaluators": evaluators,
    "opposites": lambda: [code(opposites())],
    "adapters": adapters,
    "project-fields": project_fields,
    "default-fields": default_fields,
    "sweep-fields": sweep_fields,
    "retention-fields": retention_fields,
    "limit-fields": limit_fields,
    "commands": commands,
    "tables": tables,
    "views": views,
    "macros": macros,
    "failure-classes": failure_classes,
    "public-names": public_names,
    "formats": parts_of(FORMATS),
    "normalizers": parts_of(NORMALIZERS),
    "wires": parts_of(WIRES),
    "exports": parts_of(EXPORTS),
}
