"""The evaluators that a suite, a test or a turn asks for: `assertions` in all their spellings → EvaluatorSpecs.

What an evaluator's own arguments mean is the evaluator's business: they go on as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.templates import template_entries
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each, problems_of
from eval_pipeline.parsing.fields import FieldCursor, Interpolated, Map, kind
from eval_pipeline.parsing.yaml_text import plain_scalar
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.model import EvaluatorSpec

DEFAULT_GATE = 0.8
SPELLINGS = (("assertions",), ("assert",), ("execution", "evaluators"), ("evaluators",))
RENAMED = {"llm-judge": "llm-grader", "code-judge": "code-grader"}
BLIND_TO_CRITERIA = frozenset({
    "contains", "contains-any", "contains-all", "icontains", "icontains-any", "icontains-all", "starts-with",
    "ends-with", "regex", "is-json", "equals", "latency", "cost", "token-usage", "execution-metrics",
    "tool-trajectory", "field-accuracy", "skill-trigger", "skill-used", "similar", "trajectory:tool-used",
    "trajectory:tool-args-match", "trajectory:tool-sequence", "trajectory:step-count",
})  # fmt: skip
_GROUPS = ("composite", "assert-set")
_MEASURE = re.compile(
    r"(max|min)_|threshold|budget|tolerance|ratio|temperature|weight|required|negate|should_trigger|_(ms|usd|s|steps)\Z"
)
_COMMON_KEYS = frozenset({"type", "name", "weight", "required", "min_score", "negate", "failure_class"})
_NAMED_BY_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals"})
_NAMED_BY_COUNT = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
_METRICS = (
    "max_tool_calls", "max_llm_calls", "max_tokens", "max_cost_usd", "max_duration_ms", "target_exploration_ratio",
    "exploration_tolerance",
)  # fmt: skip


def read_evaluators(raw: Map, cursor: FieldCursor, context: LoadContext) -> tuple[EvaluatorSpec, ...]:
    """The evaluators of a suite or a test: of the spellings of `assertions` the first present.

    `rubrics` come before them, as one grader.
    """
    rubric = _rubric(raw, cursor)
    steps = listed_under(raw)
    if steps is None:
        return rubric
    if steps != SPELLINGS[0]:
        problem = f"an older spelling of 'assertions': '{'.'.join(steps)}'"
        context.diagnostics.add(problem, lambda: cursor.place(*steps))
    holder = raw if len(steps) == 1 else raw[steps[0]]
    return rubric + evaluator_list(holder[steps[-1]], cursor.at(*steps), context)


def listed_under(raw: Map) -> tuple[str, ...] | None:
    """The spelling under which a suite or a test lists its evaluators; None when it lists none."""
    for steps in SPELLINGS:
        holder = raw if len(steps) == 1 else raw.get(steps[0])
        if isinstance(holder, Mapping) and holder.get(steps[-1]) is not None:
            return steps
    return None


def evaluator_list(raw: Any, cursor: FieldCursor, context: LoadContext) -> tuple[EvaluatorSpec, ...]:
    """A list of assertions. Its texts are the criteria of one `rubrics`, which stands where the first of them stood."""
    if not isinstance(raw, list):
        raise cursor.error(f"expected a list of evaluators, got {kind(raw)}")
    specs: list[EvaluatorSpec | None] = []
    errors: list[InputError] = []
    criteria: list[str] = []
    first_text = 0
    for entry, at in _entries(raw, cursor, context):
        if not isinstance(entry, str):
            try:
                specs.append(read_evaluator(entry, at, context))
            except InputError as error:
                errors += problems_of(error)
        elif not entry.strip():
            context.diagnostics.add("an empty text is no criterion, ignored", at.place, kind="empty criterion")
        else:
            if not criteria:
                first_text = len(specs)
                specs.append(None)
            criteria.append(str(entry))
    if errors:
        raise first_of_each(errors)
    if criteria:
        specs[first_text] = EvaluatorSpec(type="rubrics", name="rubrics", config={"criteria": criteria})
    return tuple(spec for spec in specs if spec is not None)


def read_evaluator(raw: Any, cursor: FieldCursor, context: LoadContext) -> EvaluatorSpec:
    """One assertion with a type."""
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected an evaluator with a type, got {kind(raw)}")
    if not isinstance(raw.get("type"), str):
        raise cursor.error(f"expected an evaluator with a type, got {kind(raw.get('type'))}", "type")
    written = canonical_name(raw["type"])
    type_ = RENAMED.get(written, written)
    if type_ != written:
        context.diagnostics.add(f"'{written}' is called '{type_}' now", lambda: cursor.place("type"))
    if type_ == "execution-metrics":
        raw = fields.with_snake_case_keys(raw, _METRICS)
    config = {key: value for key, value in raw.items() if key not in _COMMON_KEYS}
    if context.has_filled:
        config = {key: _settled(key, value) for key, value in config.items()}
    name = fields.text(raw, "name", cursor) or auto_name(type_, config)
    command = context.script_command(type_)
    if command is not None:
        type_, config = "code-grader", {"command": command, **({"config": config} if config else {})}
    return EvaluatorSpec(
        type=type_,
        name=name,
        weight=fields.weight(raw, "weight", cursor),
        minimum=_gate(raw, cursor),
        negate=fields.flag(raw, "negate", cursor) or False,
        failure_class=fields.text(raw, "failure_class", cursor),
        config=config,
    )


def default_grader(kind_: str | None) -> EvaluatorSpec:
    """The grader of a test that lists no evaluators: it reads the test's criteria and expected output."""
    type_ = canonical_name(kind_ or "llm-grader")
    type_ = RENAMED.get(type_, type_)
    return EvaluatorSpec(type=type_, name=type_)


def reads_criteria(spec: EvaluatorSpec) -> bool:
    """Whether an evaluator may make something of a case's criteria; one that we do not know may."""
    if spec.type not in _GROUPS:
        return spec.type not in BLIND_TO_CRITERIA
    members = spec.config.get("assertions") or spec.config.get("evaluators") or ()
    types = [member.get("type") for member in members if isinstance(member, Mapping)]
    return spec.config.get("aggregator") is not None or any(
        not isinstance(type_, str) or canonical_name(type_) not in BLIND_TO_CRITERIA for type_ in types
    )


def _entries(raw: Sequence[Any], cursor: FieldCursor, context: LoadContext) -> Iterator[tuple[Any, FieldCursor]]:
    """The entries of a list, those of included templates in the place of their `include`."""
    for index, entry in enumerate(raw):
        if isinstance(entry, Mapping) and "include" in entry and "type" not in entry:
            yield from template_entries(entry, cursor.at(index), context)
        else:
            yield entry, cursor.at(index)


def _rubric(raw: Map, cursor: FieldCursor) -> tuple[EvaluatorSpec, ...]:
    rubrics = raw.get("rubrics")
    if rubrics is None or rubrics == []:
        return ()
    if not isinstance(rubrics, list):
        raise cursor.error(f"expected a list of criteria, got {kind(rubrics)}", "rubrics")
    return (EvaluatorSpec(type="llm-grader", name="rubric", config={"rubrics": rubrics}),)


def auto_name(type_: str, config: Map) -> str:
    """The name of an evaluator that was not given one."""
    value = config.get("value")
    if type_ in _NAMED_BY_VALUE:
        return f"{type_}-{value}" if isinstance(value, (str, int, float)) else type_
    if type_ in _NAMED_BY_COUNT and isinstance(value, Sequence):
        return f"{type_}-{len(value)}"
    if type_ == "skill-trigger" and isinstance(config.get("skill"), str):
        return f"{type_}-{config['skill']}"
    if type_ == "regex" and isinstance(value, str):
        return f"regex-{value[:30]}"
    return type_


def _settled(key: str, value: Any) -> Any:
    """An argument as its evaluator expects it: what a placeholder became is a number where one belongs."""
    if type(value) is Interpolated:
        return plain_scalar(str(value)) if _MEASURE.search(key) else str(value)
    if type(value) is dict:
        return {name: _settled(f"{key}.{name}", item) for name, item in value.items()}
    return [_settled(key, item) for item in value] if type(value) is list else value


def _gate(raw: Map, cursor: FieldCursor) -> float | None:
    """The least score a required evaluator must reach: `min_score`, else a numeric `required`, else 0.8."""
    minimum = _above_zero(raw, "min_score", cursor)
    required = raw.get("required")
    if required is None or required is False:
        return None
    if required is True:
        return DEFAULT_GATE if minimum is None else minimum
    number = _above_zero(raw, "required", cursor)
    return number if minimum is None else minimum


def _above_zero(raw: Map, key: str, cursor: FieldCursor) -> float | None:
    value = fields.share(raw, key, cursor)
    if value == 0:
        raise _zero_gate(cursor, key)
    return value


def _zero_gate(cursor: FieldCursor, key: str) -> InputError:
    return cursor.error("expected a number above 0 and at most 1: a gate of 0 holds nothing back", key)
