"""The arguments of evaluators as tables of fields, for reference docs and JSON Schemas.

Names, kinds and defaults come from an evaluator's own dataclass, which is what checks a suite; the sentences about them
come from a field's `description`, else from here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

from eval_pipeline.errors import NOWHERE, SourceLocation
from eval_pipeline.parsing.tables import Field, FieldTable, Kind
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.evaluate import EVALUATORS, argument_adapter

_DOCS: Mapping[str, str] = {
    "aggregation": "How the scores become one.",
    "aggregator": "How the scores become one: `type`, and the fields of that type.",
    "at_least": "The least number of matches: `match` and `number`, or a list of them.",
    "at_most": "The most matches: `match` and `number`, or a list of them.",
    "before": "Two matchers: the first match of one comes before the first match of the other.",
    "args_match": "How the arguments of tool calls are compared: `exact`, `superset`, `subset`, `ignore`, or paths.",
    "arguments": "Further arguments of the function.",
    "assertions": "The evaluators whose scores are combined.",
    "budget": "The most that the execution may cost, in USD.",
    "classifies": "Whether the case has a function `classify_failure`.",
    "command": "The program: a list of arguments, or a shell line.",
    "config": "Free-form configuration that the program or prompt receives.",
    "count": "The exact number of matches: `match` (for skills: `skill`) and `number`, or a list of them.",
    "criteria": "What a good answer does.",
    "cwd": "The folder in which the program runs (default: the suite's).",
    "exactly_one": "What is matched once and only once; a list: each of them.",
    "explain": "The question that `eval-pipeline explain` asks the agent about a failure.",
    "expected": "The expected tool calls, in order: `tool` or `kind`, `args` and `max_duration_ms` of each.",
    "expected_output": "The expected messages of the turn.",
    "exploration_tolerance": "How far the exploration ratio may be from its target.",
    "first": "What the first one matches.",
    "has": "What there is; a list: each of them.",
    "includes": "What there is; a list: each of them.",
    "last": "What the last one matches.",
    "file": "The Python suite, a path from the suite's folder.",
    "fields": "The fields to compare: `path`, `match`, `weight`, `required` and the options of each.",
    "flags": "Flags of the pattern, as JavaScript has them.",
    "function": "The function, as `module:function`; modules beside the suite's file come first.",
    "graders": "Runners that grade, each of them once per vote.",
    "grades": "The score of each grade that the grader may give.",
    "max_files": "The most files that may change.",
    "max_lines": "The most lines that may be added and removed.",
    "message": "What a failure is called in messages.",
    "min_confidence": "The least sign of a skill that counts: `weak`, `medium`, `strong` or `explicit`.",
    "must_change": "Patterns of paths; each matches a changed file.",
    "must_not_change": "Patterns of paths that no changed file matches.",
    "not_empty": "Whether an output is required.",
    "not_has": "Skills that must not be used.",
    "not_includes": "What there must not be; a list: none of them.",
    "only": "What everything observed has to match: a list, one of which is enough.",
    "sequence": "Matchers that match in this order, with others between.",
    "size": "How many there are.",
    "max_cost_usd": "The most that the execution may cost, in USD.",
    "max_duration_ms": "The longest that the execution may take, in milliseconds.",
    "labels": "The scores of what the other system wrote in place of numbers: each from 0 to 1.",
    "isolation": "Where the code runs: in a worker `process`, or `in-process`, in that of the sweep.",
    "max_input": "The most input tokens, without those from a cache.",
    "max_llm_calls": "The most calls of a model.",
    "max_output": "The most output tokens.",
    "max_steps": "The most turns of the grader, for an agent with such a limit; other graders are refused.",
    "max_tokens": "The most input and output tokens, without those from a cache.",
    "max_tool_calls": "The most tool calls.",
    "max_total": "The most input and output tokens.",
    "minimums": "The least number of calls of each tool, for `any_order`.",
    "mode": "How calls are compared: `any_order`, `in_order`, `exact`, `superset` or `subset`.",
    "model": "The model that grades, in place of the one of the grader's runner.",
    "on_error": "What becomes of the score when the program or code fails: `unscored`, or `fail` (0).",
    "on_missing": "What becomes of the score when the session lacks the facts: `unscored`, or `fail` (0).",
    "usual_payload": "What the program reads as `output` where neither `payload` nor the runner decides.",
    "payload": "What the program reads as `output`: the `messages` of the session, or the answer's `text`.",
    "plain": "Takes the exit code for the answer of a program that prints no JSON.",
    "preprocessors": "Programs that print the text of files that an answer consists of: `type` (a suffix or a media"
    " type) and `command` of each.",
    "prompt": "The prompt: a text, `file://` and a path, or a `command` that prints it.",
    "provider": "Another name for `target`.",
    "rubrics": "Criteria that the grader checks one by one.",
    "should_trigger": "Set to false to require that the skill is not used.",
    "calls": "The calls that are expected: `tool`, and `arguments` that the call has among its own (`[]`: none).",
    "custom_metrics": "Further metrics: `name`, `rubric`, `default_weight`, `score_type`, `include_in_defaults`.",
    "expected_calls": "The tool calls that the judge is told to expect.",
    "forbidden": "Tools that must not be called.",
    "in_order": "Whether the calls have to follow each other.",
    "metrics": "The metrics: names, or mappings with `metric` and `weight` (default: the eight scored ones).",
    "outcomes": "What the conversation is to achieve: statements, or mappings with `outcome` and `expected`.",
    "pass_threshold": "The least score out of 100 that passes.",
    "pass_when": "What decides: `outcomes`, `score` or `both` (default: the outcomes, where there are any).",
    "skill": "The name of the skill.",
    "target": "The runner that grades (default: the run's grader).",
    "target_exploration_ratio": "The share of tool calls that only look.",
    "temperature": "The sampling temperature of the grader.",
    "threshold": "The least score that passes.",
    "timeout_s": "The time limit, in seconds.",
    "turn": "The number of the turn, from 1.",
    "turns": "The evaluators of each turn.",
    "value": "What the answer is compared with.",
    "vote": "How the votes become one score.",
    "votes": "How often each grader is asked.",
}
_SPECIAL: Mapping[tuple[str, str], str] = {
    ("code-grader", "target"): "Whether the program may call models: true, or `max_calls` and `targets`.",
    ("script", "target"): "Whether the program may call models: true, or `max_calls` and `targets`.",
    ("javascript", "value"): "An expression of `output` and `context`, a function's body, or `file://` and a path.",
    ("python", "value"): "An expression of `output` and `context`, a function's body, or `file://` and a path.",
    ("judge", "criteria"): "Criteria in place of the metrics.",
    ("tests", "files"): "What is laid over the copy: a folder, a file, a list, or files by path in the workspace.",
    ("tests", "junit"): "The path of the JUnit XML that the command writes; without one its exit code decides.",
    ("tests", "fail_to_pass"): "The tests that count because the solution makes them pass.",
    ("tests", "pass_to_pass"): "The tests that count because they passed before, and have to pass still.",
    ("tests", "pass_env"): "Names of variables of the environment that the command gets.",
    ("tool-state", "expected"): "The state that is expected: a document, whole or in part.",
    ("tool-state", "match"): "Whether others are allowed beside the expected entries (`part`), or none (`whole`).",
    ("tool-state", "calls"): "Reference calls in place of `expected`: what they leave behind is expected.",
    ("tool-state", "tools"): "Functions that carry out reference calls: `module:function` by name of the tool.",
    ("latency", "threshold"): "The longest that the target may take, in milliseconds.",
    ("regex", "value"): "The pattern, in JavaScript's syntax.",
    ("rubrics", "criteria"): "The criteria: texts, or mappings with `outcome`, `weight`, `required`, `score_ranges`.",
    ("similar", "config"): "Where embeddings come from: `embedding_provider` with `base_url`, `model` and `api_key`.",
    ("skill-used", "value"): "The skills: a name, a list of names, or `name` or `pattern` with `min` and `max`.",
    ("trajectory:goal-success", "value"): "The goal: a text, or a mapping with `goal` (default: the criteria).",
    ("trajectory:step-count", "value"): "The steps to count: `type`, `pattern`, `min` and `max`.",
    ("trajectory:tool-args-match", "value"): "The tool and its arguments: `name`, `args`, `mode`, `ignore` and more.",
    ("trajectory:tool-sequence", "value"): "The tools in order: a list of names, or `steps` and `mode`.",
    ("trajectory:tool-used", "value"): "The tools: a name, a list of names, or `pattern`, `type`, `min` and `max`.",
    ("webhook", "value"): "The address of the service.",
    **{(name, "value"): "What a good answer does (default: the case's criteria)."
       for name in ("agent-rubric", "llm-grader", "llm-rubric")},
}  # fmt: skip


def argument_fields(type_: str, place: SourceLocation = NOWHERE) -> FieldTable:
    """The arguments of an evaluator. Raises UnknownName.

    An argument that nobody describes gets the sentence of the evaluator's docstring that names it, or none.
    """
    class_ = EVALUATORS.get(type_, place)
    adapter = argument_adapter(class_)
    schema, aliased = adapter.json_schema(by_alias=False), adapter.json_schema()
    summary = (class_.__doc__ or "").strip()
    arguments = tuple(
        replace(_argument(canonical_name(type_), name, schema, summary), aliases=(alias,) if alias != name else ())
        for name, alias in zip(schema.get("properties", {}), aliased.get("properties", {}), strict=True)
        if not schema["properties"][name].get("deprecated")  # an older spelling of another argument
    )
    return FieldTable(canonical_name(type_), arguments, summary.partition("\n\n")[0])


@cache
def has_argument(type_: str, name: str) -> bool:
    """Return whether a registered evaluator has an argument of this name."""
    class_ = EVALUATORS.find(type_)
    return class_ is not None and is_dataclass(class_) and name in {field.name for field in fields(class_)}


@cache
def unknown_arguments(type_: str, written: frozenset[str]) -> tuple[str, ...]:
    """Return which of these names an evaluator has no argument for.

    None where an argument that it needs is missing, which one of them may be meant for, and for an unregistered one.
    """
    class_ = EVALUATORS.find(type_)
    if class_ is None:
        return ()
    adapter = argument_adapter(class_)
    schemas = (adapter.json_schema(by_alias=False), adapter.json_schema())
    takes_any = any(schema.get("additionalProperties") is not False for schema in schemas)
    lacks_one = all(not written.issuperset(schema.get("required") or ()) for schema in schemas)
    known = {name for schema in schemas for name in schema.get("properties", {})}
    return () if takes_any or lacks_one else tuple(sorted(written - known))


def _argument(type_: str, name: str, schema: Mapping[str, Any], summary: str) -> Field:
    described = schema["properties"][name]
    plain = type_.removeprefix("not-")
    doc = described.get("description") or _SPECIAL.get((plain, name)) or _DOCS.get(name) or _sentence(name, summary)
    shown = {key: value for key, value in described.items() if key not in ("title", "default", "description")}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema and "$ref" in str(shown) else {}
    return Field(
        name,
        Kind(_title(shown), {**shown, **definitions}),
        doc,
        default=described.get("default"),
        required=name in schema.get("required", ()),
    )


def _title(schema: Mapping[str, Any]) -> str:
    """What a value may be, in words."""
    if "enum" in schema or "const" in schema:
        return f"one of {', '.join(map(str, schema.get('enum', [schema.get('const')])))}"
    if "anyOf" in schema:
        titles = [_title(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(titles))
    return _TITLES.get(str(schema.get("type")), "a mapping" if "$ref" in schema else "any value")


_TITLES = {
    "string": "a text", "boolean": "true or false", "integer": "a whole number", "number": "a number",
    "array": "a list", "object": "a mapping",
}  # fmt: skip


def _sentence(name: str, text: str) -> str:
    """The sentence of a docstring that names an argument."""
    sentences = re.split(r"(?<=[.:])\s+", " ".join(text.split()))
    return next((sentence for sentence in sentences if f"`{name}`" in sentence), "")
