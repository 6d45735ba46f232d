"""`preprocessors` of a suite or a grader: programs that print the text of files that an answer consists of.

Those of a suite are arguments of each of its graders, after the grader's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from eval_pipeline.formats.agentv.field_hints import misspelling_of
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.arguments import has_argument
from eval_pipeline.suites.model import EvaluatorSpec

KEY = "preprocessors"
_FIELDS = frozenset({"type", "command"})
_LISTS = ("assertions", "assert", "evaluators", "turns")
"""Arguments of evaluators that hold other evaluators, at any depth."""


def read_preprocessors(raw: Map, cursor: FieldCursor, context: LoadContext) -> tuple[Map, ...]:
    """Return the preprocessors of a suite or a grader, each with the path of its script. Raises InputError."""
    listed = raw.get(KEY)
    if listed is None:
        return ()
    if not isinstance(listed, list):
        raise cursor.error(f"expected a list of preprocessors, got {kind(listed)}", KEY)
    return tuple(_preprocessor(each, cursor.at(KEY, index), context) for index, each in enumerate(listed))


def _preprocessor(raw: Any, cursor: FieldCursor, context: LoadContext) -> Map:
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a preprocessor with type and command, got {kind(raw)}")
    for name in (name for name in ("type", "command") if name not in raw):
        raise cursor.error(f"a preprocessor needs a {name}{misspelling_of(name, raw, _FIELDS)}", name)
    for key in raw.keys() - _FIELDS:
        context.warn_of_unknown(str(key), _FIELDS, cursor, "field of a preprocessor")
    type_ = fields.text(raw, "type", cursor)
    command = raw["command"]
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        command = [*command[:-1], context.from_suite(context.find(command[-1], cursor, "command"))]
    elif not isinstance(command, str) or not command.strip():
        raise cursor.error(f"expected a program with its arguments, got {kind(command)}", "command")
    return {"type": type_, "command": command}


def with_preprocessors(specs: Sequence[EvaluatorSpec], shared: Sequence[Map]) -> tuple[EvaluatorSpec, ...]:
    """Return the evaluators with the suite's preprocessors in each that reads files of answers, members included."""
    if not shared:
        return tuple(specs)
    return tuple(replace(spec, config=_added(spec.type, spec.config, shared)) for spec in specs)


def _added(type_: str, config: Mapping[str, Any], shared: Sequence[Map]) -> dict[str, Any]:
    nested = {key: _in_list(config[key], shared) for key in _LISTS if isinstance(config.get(key), list)}
    own = [*config.get(KEY, ()), *shared]
    return {**config, **nested, **({KEY: own} if has_argument(type_, KEY) else {})}


def _in_list(entries: Sequence[Any], shared: Sequence[Map]) -> list[Any]:
    return [_in_entry(each, shared) if isinstance(each, Mapping) else each for each in entries]


def _in_entry(entry: Mapping[str, Any], shared: Sequence[Map]) -> dict[str, Any]:
    """Return a nested evaluator (its spec's fields, or as it is written), or a turn with evaluators."""
    type_ = entry.get("type")
    if isinstance(type_, str) and isinstance(entry.get("config"), Mapping) and "minimum" in entry:
        return {**entry, "config": _added(type_, entry["config"], shared)}
    return _added(canonical_name(type_) if isinstance(type_, str) else "", entry, shared)
