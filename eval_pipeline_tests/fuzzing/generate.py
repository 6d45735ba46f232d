"""Random files: made from the JSON Schemas of what people write, by changing the values of examples, or by cutting and
pasting in their text. The same random source gives the same files."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from eval_pipeline.cli.json_schemas import evaluator_arguments, project_schema, runners_schema, suite_schema
from eval_pipeline.executions.adapters import ADAPTERS
from eval_pipeline.executions.runner_fields import runner_fields
from eval_pipeline.scores.evaluate import EVALUATORS

ROOT = Path(__file__).parents[2]
WORDS = (
    "", " ", "a", "user", "text", "echo", "contains", "notes.md", "../notes.md", "/nowhere", ".", "**", "file://*",
    "\0", "{{ a }}", "file://notes.md", "file://cases.csv", "${{ NAME }}", "${{ NOWHERE }}", "a" * 300, "0.5", "true",
    "[", "(", "a:b", "%", "prompt.py", "checks:check", "1 +", "\x1b[31m", "é", "~nobody/a",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 5, 0.5, -0.5, 10**30, 1e308, float("inf"), float("nan"), [], {}, [[]], [None],
    {"": 1}, [1, "a", {}], {"a": {"b": []}}, ["a", "a"], {"type": "contains"}, [{"type": 5}], {1: 2}, [{}],
    {"name": "a", "value": 1},
)  # fmt: skip
MOST_DEPTH = 6


def random_files(rng: random.Random) -> dict[str, str]:
    """Return the files of a project by name: those that are not there are plain ones."""
    names = rng.choice([list(_KIND), *([name] for name in _KIND), ["suites/fuzz.yaml"]])
    files = {name: _random_file(_KIND[name], rng) for name in names}
    if rng.random() < 0.15:
        tests = _document("suite", rng).get("tests")
        rows = [json.dumps(test, default=str) for test in (tests if isinstance(tests, list) else [tests])]
        files["suites/rows.jsonl"] = "\n".join(rows)
    return files


_KIND = {"eval-pipeline.yaml": "project", "runners.yaml": "runners", "suites/fuzz.yaml": "suite"}


def _random_file(kind: str, rng: random.Random) -> str:
    if rng.random() < 0.25:
        return _cut_and_pasted(rng.choice(_texts(kind)), rng)
    document = _document(kind, rng)
    return json.dumps(document, default=str) if rng.random() < 0.5 else yaml.safe_dump(document, allow_unicode=True)


def _document(kind: str, rng: random.Random) -> dict[str, Any]:
    if kind != "project" and rng.random() < 0.4:
        return _one_part(kind, rng)
    if rng.random() < 0.5:
        document: Any = copy.deepcopy(yaml.safe_load(rng.choice(_texts(kind))))
        for _ in range(rng.randint(1, 4)):
            _change(document, rng)
    else:
        document = _from_schema(_schema(kind), _schema(kind), rng, 0)
    return document if isinstance(document, dict) else {"tests": document}


def _one_part(kind: str, rng: random.Random) -> dict[str, Any]:
    """A good suite with one random evaluator, or good runners with one random runner."""
    if kind == "suite":
        part = _evaluator(rng)
        if rng.random() < 0.3:
            members = rng.choice([part, [part], [part, _evaluator(rng)]])
            part = {"type": rng.choice(["composite", "assert-set", "conversation", "turn"]), "assertions": members}
            part |= {"aggregator": {"type": "weighted_average"}} if part["type"] == "composite" else {}
        return {"tests": [{"id": "a", "input": "x", "criteria": "c", "assertions": [part]}]}
    part = _from_schema({"type": "object", **_runner_schema(rng)}, _schema("runners"), rng, 0)
    return {"runners": [part, {"name": "echo", "adapter": "mock", "response": "x"}]}


def _evaluator(rng: random.Random) -> Any:
    type_ = rng.choice(EVALUATORS.names())
    arguments = evaluator_arguments(type_)
    part = _from_schema(arguments, {**_schema("suite"), **arguments}, rng, 1)
    return {**part, "type": type_} if isinstance(part, dict) else part


def _runner_schema(rng: random.Random) -> dict[str, Any]:
    adapter = rng.choice(ADAPTERS.names())
    schema = runner_fields(adapter).json_schema()
    return {**schema, "properties": {**schema["properties"], "adapter": {"const": adapter}, "name": {"const": "r"}}}


@cache
def _texts(kind: str) -> list[str]:
    """The text of every example of a kind."""
    marks = {"suite": ("tests:", "turns:"), "runners": ("runners:", "targets:"), "project": ("suites:",)}[kind]
    examples = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.yaml")))
    texts = [text for text in examples if any(f"\n{mark}" in f"\n{text}" for mark in marks)]
    return [text for text in texts if isinstance(yaml.safe_load(text), dict)]


@cache
def _schema(kind: str) -> dict[str, Any]:
    return {"suite": suite_schema, "runners": runners_schema, "project": project_schema}[kind]()


def _from_schema(schema: Any, root: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    """Return a value that a schema describes, more or less: every tenth value is an odd one."""
    if rng.random() < 0.1 or depth > MOST_DEPTH or not isinstance(schema, Mapping):
        return _odd(rng)
    if "$ref" in schema:
        return _from_schema(_resolved(schema["$ref"], root), root, rng, depth + 1)
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return _from_schema({**_plain(schema), **rng.choice(schema[key])}, root, rng, depth + 1)
    if "allOf" in schema:
        merged = _plain(schema)
        for part in schema["allOf"]:
            merged = _joined(merged, part.get("then", part), root)
        return _from_schema(merged, root, rng, depth + 1)
    if "const" in schema or "enum" in schema:
        return schema.get("const", rng.choice(list(schema.get("enum") or [None])))
    return _of_type(schema, root, rng, depth)


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("anyOf", "oneOf", "allOf")}


def _joined(schema: Mapping[str, Any], part: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    part = _resolved(part["$ref"], root) if "$ref" in part else part
    properties = {**schema.get("properties", {}), **part.get("properties", {})}
    return {**schema, **_plain(part), "properties": properties}


def _resolved(reference: str, root: Mapping[str, Any]) -> Any:
    value: Any = root
    for step in reference.removeprefix("#/").split("/"):
        value = value.get(step, {})
    return value


def _of_type(schema: Mapping[str, Any], root: Mapping[str, Any], rng: random.Random, depth: int) -> Any:
    type_ = schema.get("type", "object" if "properties" in schema else "string")
    type_ = rng.choice(type_) if isinstance(type_, list) else type_
    if type_ == "object":
        properties = schema.get("properties", {})
        chosen = set(rng.sample(list(properties), min(len(properties), rng.randint(0, 5)))) | set(
            schema.get("required", ())
        )
        value = {name: _from_schema(properties.get(name, {}), root, rng, depth + 1) for name in sorted(chosen)}
        if rng.random() < 0.1:
            value[rng.choice(WORDS)] = _odd(rng)
        return value
    if type_ == "array":
        return [_from_schema(schema.get("items", {}), root, rng, depth + 1) for _ in range(rng.randint(0, 3))]
    makers: dict[str, Callable[[], Any]] = {
        "string": lambda: rng.choice(WORDS),
        "integer": lambda: rng.randint(1, 5),
        "number": rng.random,
        "boolean": lambda: rng.random() < 0.5,
    }
    return makers[type_]() if type_ in makers else _odd(rng)


def _odd(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(ODD)) if rng.random() < 0.6 else rng.choice(WORDS)


def _change(document: Any, rng: random.Random) -> None:
    """Change one value somewhere in a document: replace, remove, rename or wrap it."""
    places = list(_places(document))
    if not places:
        return
    holder, key = rng.choice(places)
    action = rng.randrange(6)
    if action == 0:
        del holder[key]
    elif action == 1 and isinstance(holder, dict):
        holder[rng.choice(WORDS)] = holder.pop(key)
    elif action == 2:
        holder[key] = rng.choice([[holder[key]], {"value": holder[key]}, {rng.choice(WORDS): holder[key]}])
    elif action == 3:
        other, name = rng.choice(places)
        holder[key] = copy.deepcopy(other[name]) if name in other or isinstance(other, list) else None
    else:
        holder[key] = _odd(rng)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _places(inner)


def _cut_and_pasted(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        start, length = rng.randint(0, len(text)), rng.randint(0, 12)
        piece = rng.choice(
            [*WORDS, "\n", "  ", "\t", "- ", ": ", "[", "]", "{", "}", '"', "'", "*d", "&d", "|\n", "#", text[40:90]]
        )
        text = text[:start] + piece + text[start + length :]
    return text
