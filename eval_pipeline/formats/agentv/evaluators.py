"""The evaluators of a suite, a test or a turn: `assertions` in all of AgentV's spellings → EvaluatorSpecs.

`suites/evaluator_lists.py` defines the syntax of a list; this module adds templates, scripts and placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.preprocessors import KEY as PREPROCESSORS
from eval_pipeline.formats.agentv.preprocessors import read_preprocessors
from eval_pipeline.formats.agentv.templates import template_entries
from eval_pipeline.parsing.compatibility import todays_evaluator_name
from eval_pipeline.parsing.fields import FieldCursor, Interpolated, Map, kind
from eval_pipeline.parsing.yaml_text import plain_scalar
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.arguments import argument_fields, has_argument, unknown_arguments
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.grading.criteria import CRITERION
from eval_pipeline.scores.programs.payload import Shape
from eval_pipeline.suites.evaluator_lists import EvaluatorReader
from eval_pipeline.suites.fields import EVALUATOR
from eval_pipeline.suites.model import EvaluatorSpec

SPELLINGS = (("assertions",), ("assert",), ("execution", "evaluators"), ("evaluators",))
MEMBERS = ("assertions", "assert", "evaluators")
"""The names of a composite's list of members; the first present one is read."""
BLIND_TO_CRITERIA = frozenset({
    "contains", "contains-any", "contains-all", "icontains", "icontains-any", "icontains-all", "starts-with",
    "ends-with", "regex", "is-json", "equals", "latency", "cost", "token-usage", "execution-metrics",
    "tool-trajectory", "field-accuracy", "skill-trigger", "skill-used", "similar", "trajectory:tool-used",
    "trajectory:tool-args-match", "trajectory:tool-sequence", "trajectory:step-count",
})  # fmt: skip
_GROUPS = ("composite", "assert-set")
_OF_A_CALL = ("tool", "kind", "args", "args_match", "max_duration_ms")
_TIMES = frozenset({"max_duration_ms", "maxDurationMs"})
_CALL = frozenset({*_OF_A_CALL, "argsMatch", *_TIMES})
_TIMED_MODES = ("in_order", "exact")
_MEANT = frozenset({"criteria"})
"""Arguments whose author wants something else graded without them: an error where the evaluator has none."""
_CRITERIA = ("rubrics", "criteria")
_COMMENTS = frozenset({"description", "comment", "note", "notes"})
_MEASURE = re.compile(
    r"(max|min)_|threshold|budget|tolerance|ratio|temperature|weight|required|negate|should_trigger|_(ms|usd|s|steps)\Z"
)


def read_evaluators(raw: Map, cursor: FieldCursor, context: LoadContext) -> tuple[EvaluatorSpec, ...]:
    """Return the evaluators of a suite or a test, by the first present spelling of `assertions`.

    `rubrics` come before them, as one grader.
    """
    rubric = _rubric(raw, cursor, context)
    steps = listed_under(raw)
    if steps is None:
        return rubric
    if steps != SPELLINGS[0]:
        problem = f"an older spelling of 'assertions': '{'.'.join(steps)}'"
        context.diagnostics.add(problem, lambda: cursor.place(*steps))
    holder = raw if len(steps) == 1 else raw[steps[0]]
    return rubric + evaluator_list(holder[steps[-1]], cursor.at(*steps), context)


def listed_under(raw: Map) -> tuple[str, ...] | None:
    """Return the spelling under which a suite or a test lists evaluators; None without evaluators."""
    for steps in SPELLINGS:
        holder = raw if len(steps) == 1 else raw.get(steps[0])
        if isinstance(holder, Mapping) and holder.get(steps[-1]) is not None:
            return steps
    return None


def evaluator_list(raw: Any, cursor: FieldCursor, context: LoadContext) -> tuple[EvaluatorSpec, ...]:
    """The specs of a list of assertions, including templates and the author's own scripts."""
    return _reader(context).read_list(raw, cursor)


@contextmanager
def checking_evaluators(context: LoadContext) -> Iterator[None]:
    """Within the context, an evaluator that is unknown or has unusable arguments is an error of its list.

    Nothing is checked while the registered types are unknown: another type may be the author's own script.
    """
    usual = _reader(context)
    context.evaluator_reader = replace(usual, check=_check if context.load_options.evaluators else None)
    try:
        yield
    finally:
        context.evaluator_reader = usual


def _check(spec: EvaluatorSpec, cursor: FieldCursor) -> None:
    try:
        build(spec)
    except InputError as error:
        steps = (error.place.field or "").removeprefix(spec.type).strip().split(".")
        raise cursor.error(
            error.problem, *(int(step) if step.isdecimal() else step for step in steps if step)
        ) from None


def _reader(context: LoadContext) -> EvaluatorReader:
    if context.evaluator_reader is None:
        context.evaluator_reader = _make_reader(context)
    return context.evaluator_reader


def _make_reader(context: LoadContext) -> EvaluatorReader:
    return EvaluatorReader(
        diagnostics=context.diagnostics,
        entries=partial(_entries, context=context),
        arguments=partial(_arguments, context=context),
        command=partial(_script, context=context),
        texts_weigh=context.grader_versions.weighs_texts(context.roots.folder),
    )


def default_grader(kind_: str | None) -> EvaluatorSpec:
    """The grader of a test that lists no evaluators: it reads the test's criteria and expected output."""
    type_ = todays_evaluator_name(canonical_name(kind_ or "llm-grader"))
    return EvaluatorSpec(type=type_, name=type_)


def reads_criteria(spec: EvaluatorSpec) -> bool:
    """Return whether an evaluator may read a case's criteria; true for unknown evaluators."""
    if spec.type not in _GROUPS:
        return spec.type not in BLIND_TO_CRITERIA
    members = next((spec.config[key] for key in MEMBERS if isinstance(spec.config.get(key), list)), ())
    types = [member.get("type") for member in members if isinstance(member, Mapping)]
    return spec.config.get("aggregator") is not None or any(
        not isinstance(type_, str) or canonical_name(type_) not in BLIND_TO_CRITERIA for type_ in types
    )


def _entries(raw: Sequence[Any], cursor: FieldCursor, context: LoadContext) -> Iterator[tuple[Any, FieldCursor]]:
    """Yield the entries of a list; an `include` is replaced by the entries of its template."""
    for index, entry in enumerate(raw):
        if _is_include(entry):
            yield from template_entries(entry, cursor.at(index), context)
        else:
            yield _with_members(entry, cursor.at(index), context), cursor.at(index)


def _is_include(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "include" in entry and "type" not in entry


def _with_members(entry: Any, cursor: FieldCursor, context: LoadContext) -> Any:
    """Return a composite evaluator with one list of members, and its included templates expanded."""
    keys = [key for key in MEMBERS if entry.get(key) is not None] if _is_group(entry) else []
    if not keys:
        return entry
    for key in keys[1:]:
        problem = f"'{keys[0]}' of the same {entry['type']} is read instead; ignored"
        context.diagnostics.add(problem, partial(cursor.place, key), kind=f"second list of members {key}")
    inner = entry[keys[0]]
    if isinstance(inner, list):
        inner = [_member(each, at, context) for each, at in _entries(inner, cursor.at(keys[0]), context)]
    return {key: inner if key == keys[0] else value for key, value in entry.items() if key not in keys[1:]}


def _member(entry: Any, cursor: FieldCursor, context: LoadContext) -> Any:
    """Return a member of a composite with the arguments that its evaluator has, and the project's."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("type"), str):
        return entry
    if _is_group(entry):
        return _with_members(entry, cursor, context)
    type_ = todays_evaluator_name(canonical_name(entry["type"]))
    own = {key: value for key, value in entry.items() if key not in EVALUATOR.names}
    known = _known_arguments(own, type_, cursor, context)
    known = _for_its_program(known, type_, context)
    common = {key: value for key, value in entry.items() if key in EVALUATOR.names}
    return {**common, **(_defaults(type_, context) if context.load_options.arguments else {}), **known}


def _is_group(entry: Any) -> bool:
    return (
        isinstance(entry, Mapping) and isinstance(entry.get("type"), str) and canonical_name(entry["type"]) in _GROUPS
    )


def _rubric(raw: Map, cursor: FieldCursor, context: LoadContext) -> tuple[EvaluatorSpec, ...]:
    rubrics = raw.get("rubrics")
    if rubrics is None or rubrics == []:
        return ()
    if not isinstance(rubrics, list):
        raise cursor.error(f"expected a list of criteria, got {kind(rubrics)}", "rubrics")
    config = {"rubrics": _known_criteria(rubrics, cursor.at("rubrics"), context)}
    return (EvaluatorSpec(type="llm-grader", name="rubric", config=config),)


def _arguments(config: dict[str, Any], type_: str, cursor: FieldCursor, context: LoadContext) -> dict[str, Any]:
    config = _known_arguments(config, type_, cursor, context)
    if config.get(PREPROCESSORS) is not None:
        config = {**config, PREPROCESSORS: list(read_preprocessors(config, cursor, context))}
    config = {key: _settled(key, value) for key, value in config.items()} if context.has_filled else config
    config = _for_its_program(config, type_, context)
    return {**_defaults(type_, context), **config} if context.load_options.arguments else config


def _defaults(type_: str, context: LoadContext) -> dict[str, Any]:
    """Return the project's arguments of an evaluator of this type."""
    return {name: value for name, value in context.load_options.arguments.items() if has_argument(type_, name)}


def _for_its_program(config: dict[str, Any], type_: str, context: LoadContext) -> dict[str, Any]:
    """Return the arguments of an evaluator, with what its program reads."""
    if type_ == "code-grader":
        return {**config, **_payload(config, context)}
    if isinstance(config.get("prompt"), Mapping):
        return {**config, "prompt": _prompt_program(config["prompt"], context)}
    return config


def _prompt_program(prompt: Map, context: LoadContext) -> dict[str, Any]:
    """Return a program that prints a prompt, with what it reads and what becomes of the score when it fails."""
    arguments = context.load_options.arguments
    of_project = {name: value for name, value in arguments.items() if name == "on_error"}
    return {**of_project, **prompt, **_payload(prompt, context)}


def _script(type_: str, context: LoadContext) -> dict[str, Any] | None:
    """Return the author's own script of this name as a `code-grader`."""
    command = context.script_command(type_)
    if command is None:
        return None
    return {"command": command, **_payload({"command": command}, context), **_defaults("code-grader", context)}


def _payload(config: Map, context: LoadContext) -> dict[str, str]:
    """Return the payload that a program expects where it is not the usual one and the suite does not set it."""
    if config.get("payload") in get_args(Shape):
        return {}
    command, cwd = config.get("command", config.get("script")), config.get("cwd")
    folder = context.roots.folder / cwd if isinstance(cwd, str) else context.roots.folder
    return context.grader_versions.payload(command, folder)


def _known_arguments(config: dict[str, Any], type_: str, cursor: FieldCursor, context: LoadContext) -> dict[str, Any]:
    """Return the arguments that an evaluator has; others are warned of, as AgentV passes over them."""
    for key in sorted(set(unknown_arguments(type_, frozenset(config))) - _MEANT):
        context.diagnostics.add(partial(_ignored, type_, key), partial(cursor.place, key), kind=f"{type_} {key}")
        config = {name: value for name, value in config.items() if name != key}
    for key in _CRITERIA:
        if isinstance(config.get(key), list):
            config = {**config, key: _known_criteria(config[key], cursor.at(key), context)}
    expected = config.get("expected")
    if type_ != "tool-trajectory" or not isinstance(expected, list):
        return config
    fields = _CALL if config.get("mode") in _TIMED_MODES else _CALL - _TIMES
    return {
        **config,
        "expected": [_known_call(call, fields, cursor.at("expected", at), context) for at, call in enumerate(expected)],
    }


def _known_criteria(criteria: list[Any], cursor: FieldCursor, context: LoadContext) -> list[Any]:
    """Return the criteria with the fields that criteria have; others are warned of, as AgentV passes over them."""
    if not any(_beyond(each, CRITERION.names) for each in criteria):
        return criteria
    for index, each in enumerate(criteria):
        for key in _beyond(each, CRITERION.names):
            context.warn_of_unknown(str(key), CRITERION.names, cursor.at(index), "field of a criterion")
    return [
        {key: value for key, value in each.items() if key in CRITERION.names} if isinstance(each, Mapping) else each
        for each in criteria
    ]


def _beyond(mapping: Any, known: frozenset[str]) -> list[Any]:
    """Return the keys of a mapping that are not known, in its order."""
    return [key for key in mapping if key not in known] if isinstance(mapping, Mapping) else []


def _ignored(type_: str, key: str) -> str:
    if key in _COMMENTS:
        return f"a note on '{type_}', without effect"
    known = [field.name for field in argument_fields(type_).values()]
    there_are = f"there are: {', '.join(known)}" if known else "there are none"
    return f"unknown argument of '{type_}', ignored; {there_are}{did_you_mean(key, (*known, *EVALUATOR.names))}"


def _known_call(call: Any, known: frozenset[str], cursor: FieldCursor, context: LoadContext) -> Any:
    """Return an expected call with the fields that are compared."""
    unknown = [key for key in call if key not in known] if isinstance(call, Mapping) else []
    for key in unknown:
        compared = ", ".join(field for field in _OF_A_CALL if field in known)
        where = f"; only the modes {' and '.join(_TIMED_MODES)} compare durations" if key in _TIMES else ""
        problem = f"of an expected call only {compared} are compared; ignored{where}"
        context.diagnostics.add(problem, partial(cursor.place, key), kind=f"expected call {key}")
    return {key: value for key, value in call.items() if key in known} if unknown else call


def _settled(key: str, value: Any) -> Any:
    """Return an argument with replaced placeholders converted to numbers where the evaluator expects numbers."""
    if type(value) is Interpolated:
        return plain_scalar(str(value)) if _MEASURE.search(key) else str(value)
    if type(value) is dict:
        return {name: _settled(f"{key}.{name}", item) for name, item in value.items()}
    return [_settled(key, item) for item in value] if type(value) is list else value
