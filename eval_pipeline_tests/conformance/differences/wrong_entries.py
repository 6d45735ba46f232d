"""What is wrong with an entry of `assertions`, as the error that we report: its field, and a pattern of its text.

AgentV leaves out what it cannot use of an entry, or the entry, or reads on without it. Each rule names one wrong field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eval_pipeline.parsing.fields import camel_case
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline_tests.conformance.differences.model import Expected

Json = Mapping[str, Any]
LIMITS: Mapping[str, Sequence[str]] = {
    "latency": ("threshold",),
    "cost": ("budget",),
    "token-usage": ("max_total", "max_input", "max_output"),
    "execution-metrics": ("max_tool_calls", "max_llm_calls", "max_tokens", "max_cost_usd", "max_duration_ms",
                          "target_exploration_ratio", "exploration_tolerance"),
}  # fmt: skip
_ONE_REQUIRED = frozenset({"latency", "cost"})
_TEXT_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals", "regex"})
_LIST_VALUE = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})
_MODES = ("any_order", "in_order", "exact", "superset", "subset")
_MATCHES = ("exact", "numeric_tolerance", "date")
_FLAGS = frozenset("dgimsuvy")
_OPEN = {"(": "a group is not closed", "[": "a character class is not closed"}


def kind_of(entry: Json) -> str:
    return canonical_name(str(entry.get("type")))


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def errors_of(entries: Sequence[Any], case_id: str, key: str = "assertions") -> list[Expected]:
    """Return the errors of a test's entries. Those of common fields are found first, and alone."""
    listed = [(at, entry) for at, entry in enumerate(entries) if isinstance(entry, Mapping)]
    common = [
        (f"tests[0].{key}[{at}].{name}", text) for at, entry in listed for name, text in wrong_common_fields(entry)
    ]
    if common:
        return common
    return [
        (f"case '{case_id}' {place}", text)
        for _, entry in listed
        for place, text in [*unknown_types(entry), *wrong_arguments(entry)]
    ]


def unknown_types(entry: Json) -> Iterator[Expected]:
    if EVALUATORS.find(kind_of(entry)) is None:
        yield "type", f"^no evaluator '{re.escape(kind_of(entry))}'"


def wrong_common_fields(entry: Json) -> Iterator[Expected]:
    """Yield wrong fields that every evaluator has."""
    weight, required, minimum = entry.get("weight"), entry.get("required"), entry.get("min_score")
    if weight is not None and not (is_number(weight) and weight >= 0):
        yield "weight", "^expected a number of at least 0"
    if not isinstance(entry.get("negate", False), bool):
        yield "negate", "^expected true or false"
    if not (required is None or isinstance(required, bool) or (_is_share(required) and required > 0)):
        yield "required", "^expected a number (from 0 to 1|above 0 and at most 1)"
    if minimum is not None and not (_is_share(minimum) and minimum > 0):
        yield "min_score", "^expected a number (from 0 to 1|above 0 and at most 1)"
    if not isinstance(entry.get("name"), str | None):
        yield "name", "^expected a text"


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1


def wrong_arguments(entry: Json) -> Iterator[Expected]:
    """Yield wrong arguments of an entry's own kind, as `kind argument`."""
    kind = kind_of(entry)
    for rule in _RULES:
        for place, text in rule(kind, entry):
            yield f"{kind} {place}".rstrip(), text


def _values(kind: str, entry: Json) -> Iterator[Expected]:
    value = entry.get("value")
    if kind in _TEXT_VALUE | _LIST_VALUE and value is None:
        yield "value", "^required$"
    elif kind in _TEXT_VALUE and not isinstance(value, str):
        yield "value", "^expected a text, got"
    elif kind in _TEXT_VALUE - {"equals"} and value == "":
        yield "value", "^expected a text that is not empty"
    elif kind in _LIST_VALUE and not isinstance(value, list):
        yield "value", "^expected a list, got"
    elif kind in _LIST_VALUE and not value:
        yield "value", "^expected a list that is not empty"
    elif kind in _LIST_VALUE:
        yield from (
            _wrong_item(at, item) for at, item in enumerate(value or ()) if not isinstance(item, str) or not item
        )


def _wrong_item(at: int, item: Any) -> Expected:
    return f"value.{at}", "^expected a text that is not empty" if item == "" else "^expected a text, got"


def _patterns(kind: str, entry: Json) -> Iterator[Expected]:
    """Patterns that no JavaScript engine compiles: an unknown flag, a group of Python's, something left open."""
    pattern, flags = entry.get("value"), str(entry.get("flags") or "")
    if kind != "regex" or not isinstance(pattern, str) or not pattern:
        return
    unknown = [flag for flag in flags if flag not in _FLAGS]
    if unknown:
        yield "", f"^not a valid pattern: no flag '{unknown[0]}'"
    elif re.search(r"(?<!\\)\(\?(?:P[<=>]|[aiLmsux-]+\)|#|>)", pattern):
        yield "", "^not a valid pattern: an unknown kind of group"
    else:
        yield from (("", f"^not a valid pattern: {text}") for text in _left_open(pattern))


def _left_open(pattern: str) -> Iterator[str]:
    try:
        re.compile(pattern)
    except re.error as error:
        yield next((text for start, text in _OPEN.items() if start in pattern and "unterminated" in str(error)), "")


def _limits(kind: str, entry: Json) -> Iterator[Expected]:
    names = LIMITS.get(kind, ())
    values = {name: entry.get(name, entry.get(camel_case(name))) for name in names}
    given = [name for name in names if values[name] is not None]
    for name in given:
        if not is_number(values[name]):
            yield name, "^expected a number, got"
        elif values[name] < 0:
            yield name, "^expected a number of at least 0, got"
    if names and not [name for name in given if name != "exploration_tolerance"]:
        yield (names[0], "^required$") if kind in _ONE_REQUIRED else ("", "^needs at least one of ")


def _calls(kind: str, entry: Json) -> Iterator[Expected]:
    if kind != "tool-trajectory":
        return
    mode = entry.get("mode")
    if mode is None:
        yield "mode", "^required$"
    elif mode not in _MODES:
        yield "mode", "^expected one of "
    elif mode == "any_order":
        yield from _minimums(entry.get("minimums"))
    else:
        yield from _expected_calls(mode, entry.get("expected"))


def _minimums(least: Any) -> Iterator[Expected]:
    if least is None:
        yield "", "^mode any_order needs minimums"
    elif isinstance(least, Mapping):
        for tool, count in least.items():
            if not isinstance(count, int) or isinstance(count, bool):
                yield f"minimums.{tool}", "^expected a whole number, got"
            elif count < 0:
                yield f"minimums.{tool}", "^expected a number of at least 0"


def _expected_calls(mode: str, expected: Any) -> Iterator[Expected]:
    if expected is None:
        yield "", f"^mode {mode} needs expected"
        return
    calls = [call for call in expected if isinstance(call, Mapping)] if isinstance(expected, list) else []
    for at, call in enumerate(calls):
        if not isinstance(call.get("tool"), str):
            yield f"expected.{at}", "^tool: expected the name of a tool"
    if mode in ("superset", "subset") and any("max_duration_ms" in call for call in calls):
        yield "", f"^mode {mode} checks no max_duration_ms"


def _fields(kind: str, entry: Json) -> Iterator[Expected]:
    if kind != "field-accuracy":
        return
    fields = entry.get("fields")
    if fields is None:
        yield "fields", "^required$"
    elif not fields:
        yield "fields", "^expected a list that is not empty"
    for at, field in enumerate(fields if isinstance(fields, list) else ()):
        if isinstance(field, Mapping) and not field.get("path"):
            yield f"fields.{at}.path", "^(required$|expected a text that is not empty)"
        if isinstance(field, Mapping) and field.get("match") not in _MATCHES:
            yield f"fields.{at}.match", "^(required$|expected one of )"


def _skills(kind: str, entry: Json) -> Iterator[Expected]:
    if kind == "skill-trigger" and entry.get("skill") is None:
        yield "skill", "^required$"
    elif kind == "skill-trigger" and not entry["skill"]:
        yield "skill", "^expected a text that is not empty"


def _rubrics(kind: str, entry: Json) -> Iterator[Expected]:
    if kind == "rubrics" and entry.get("criteria") is None:
        yield "criteria", "^required$"
    elif kind == "rubrics" and not entry["criteria"]:
        yield "", "^criteria: expected a list that is not empty"


def _composites(kind: str, entry: Json) -> Iterator[Expected]:
    if kind == "composite" and entry.get("aggregator") is None:
        yield "aggregator", "^required$"


_RULES: tuple[Callable[[str, Json], Iterator[Expected]], ...] = (
    _values, _patterns, _limits, _calls, _fields, _skills, _rubrics, _composites,
)  # fmt: skip
