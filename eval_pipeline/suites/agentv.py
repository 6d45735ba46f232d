"""AgentV's fields → Suite and Case: the meaning that its YAML and JSONL files share.

Source of the meaning: the AgentV *Tests* page (seed 001). Every problem is an InputError of the field it stands in;
a case that cannot be read becomes an entry of `Suite.errors` and the others go on.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.model import (
    Case,
    EvaluatorSpec,
    Message,
    Suite,
    SuiteSettings,
    content_revision,
)
from eval_pipeline.suites.source import FieldPath, Source

DEFAULT_GATE = 0.8
ROLES = ("system", "user", "assistant", "tool")
TEST_KEYS = ("tests", "eval_cases", "evalcases")
ASSERTION_KEYS = ("assertions", "assert", "evaluators")
EVALUATOR_PATHS = (("assertions",), ("assert",), ("execution", "evaluators"), ("evaluators",))
SUITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")

_COMMON_EVALUATOR_KEYS = frozenset({"type", "name", "weight", "required", "min_score", "negate", "failure_class"})
_CASE_KEYS = frozenset({
    "id", "criteria", "expected_outcome", "input", "expected_output", "execution", "metadata", "tags", "note",
    "expected_fail", "timeout_s", "conversation_id", "suite", *ASSERTION_KEYS,
})  # fmt: skip
_SUITE_KEYS = frozenset({
    *TEST_KEYS, *ASSERTION_KEYS, "$schema", "name", "description", "version", "author", "license", "tags", "metadata",
    "requires", "input", "execution", "target", "evaluator",
})  # fmt: skip
_NOT_YET = frozenset({"workspace", "turns", "mode", "vars", "depends_on", "rubrics", "input_files", "preprocessors"})
_NAMED_BY_VALUE = frozenset({"contains", "icontains", "starts-with", "ends-with", "equals"})
_NAMED_BY_COUNT = frozenset({"contains-any", "contains-all", "icontains-any", "icontains-all"})


@dataclass(slots=True)
class _Reading:
    """One suite being read: where it stands and what its tests inherit."""

    source: Source
    input: tuple[Message, ...] = ()
    evaluators: tuple[EvaluatorSpec, ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    errors: list[InputError] = field(default_factory=list)


def read_suite(
    document: Mapping[str, Any], tests: Iterable[tuple[FieldPath, Any]], source: Source, format_: str
) -> Suite:
    """The suite of a document of suite-level fields and its tests, each with the path it stands at.

    Raises InputError when a suite-level field is wrong; a wrong test is counted in `Suite.errors` instead.
    """
    reading = _Reading(source)
    _warn_unknown(document, _SUITE_KEYS, (), reading, "suite")
    execution = _mapping(document, "execution", (), source)
    reading.input = _messages(document["input"], ("input",), source) if "input" in document else ()
    reading.tags = _texts(document, "tags", (), source)
    reading.metadata = _mapping(document, "metadata", (), source)
    reading.evaluators = _evaluators(document, (), reading)
    settings = _settings(document, execution, source)
    cases, content = _read_cases(tests, reading)
    return Suite(
        name=_suite_name(document, reading),
        path=source.path,
        format=format_,
        revision=content_revision({key: value for key, value in document.items() if key not in TEST_KEYS}, content),
        cases=cases,
        description=_text(document, "description", (), source),
        tags=reading.tags,
        metadata=reading.metadata,
        settings=settings,
        errors=tuple(reading.errors),
        warnings=tuple(reading.warnings),
    )


def _read_cases(tests: Iterable[tuple[FieldPath, Any]], reading: _Reading) -> tuple[tuple[Case, ...], list[str]]:
    cases: dict[str, Case] = {}
    content: list[str] = []
    for path, raw in tests:
        content.append(content_revision(raw))
        try:
            case = _case(raw, path, reading)
            if case.id in cases:
                first = cases[case.id].line
                raise reading.source.error((*path, "id"), f"case id '{case.id}' is taken (first at line {first})")
        except InputError as error:
            reading.errors.append(error)
            continue
        cases[case.id] = case
    return tuple(cases.values()), content


def _case(raw: Any, path: FieldPath, reading: _Reading) -> Case:
    source = reading.source
    if isinstance(raw, InputError):
        raise raw
    if not isinstance(raw, Mapping):
        raise source.error(path, f"expected a test (a mapping), got {_kind(raw)}")
    if not _CASE_KEYS.issuperset(raw):
        _warn_unknown(raw, _CASE_KEYS, path, reading, "test")
    id_ = _case_id(raw, path, source)
    execution = _mapping(raw, "execution", path, source)
    inherits = execution.get("skip_defaults") is not True
    own_input = _case_input(raw, path, source)
    evaluators = _evaluators(raw, path, reading)
    _need_something_to_judge(raw, path, source)
    return Case(
        id=id_,
        input=reading.input + own_input if inherits else own_input,
        criteria=_text(raw, "criteria", path, source) or _text(raw, "expected_outcome", path, source),
        expected_output=_expected_output(raw.get("expected_output"), (*path, "expected_output"), source),
        evaluators=evaluators + reading.evaluators if inherits else evaluators,
        tags=tuple(dict.fromkeys(reading.tags + _texts(raw, "tags", path, source))),
        metadata={**reading.metadata, **_mapping(raw, "metadata", path, source)}
        if "metadata" in raw
        else reading.metadata,
        threshold=_share(execution, "threshold", (*path, "execution"), source),
        runners=_wanted_runners(execution, (*path, "execution"), source) or None,
        timeout_s=_positive(raw, "timeout_s", path, source),
        expected_fail=_flag(raw, "expected_fail", path, source),
        line=source.line_at(path),
    )


def _case_id(raw: Mapping[str, Any], path: FieldPath, source: Source) -> str:
    value = raw.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise source.error((*path, "id"), f"every test needs an id (a text), got {_kind(value)}")
    return value.strip()


def _case_input(raw: Mapping[str, Any], path: FieldPath, source: Source) -> tuple[Message, ...]:
    if "input" not in raw:
        raise source.error(path, f"test '{raw.get('id', '?')}' has no input{did_you_mean('input', raw)}")
    return _messages(raw["input"], (*path, "input"), source)


def _need_something_to_judge(raw: Mapping[str, Any], path: FieldPath, source: Source) -> None:
    if raw.get("criteria") or raw.get("expected_outcome") or raw.get("expected_output") is not None:
        return
    if not any(raw.get(key) for key in (*ASSERTION_KEYS, "execution")):
        raise source.error(path, f"test '{raw.get('id', '?')}' needs criteria, expected_output or assertions")


def _messages(raw: Any, path: FieldPath, source: Source) -> tuple[Message, ...]:
    """Input in any of its forms: a text, an object (a message, or one user message's content) or a list of messages."""
    if isinstance(raw, str):
        return (Message(role="user", content=raw),)
    if isinstance(raw, Mapping):
        return (_message(raw, path, source) if "role" in raw else Message(role="user", content=raw),)
    if isinstance(raw, list) and raw:
        return tuple(_message(item, (*path, index), source) for index, item in enumerate(raw))
    raise source.error(path, f"expected a text, an object or a list of messages, got {_kind(raw)}")


def _message(raw: Any, path: FieldPath, source: Source) -> Message:
    if not isinstance(raw, Mapping):
        raise source.error(path, f"expected a message with role and content, got {_kind(raw)}")
    role = raw.get("role")
    if role not in ROLES:
        hint = did_you_mean(role, ROLES) if isinstance(role, str) else ""
        raise source.error((*path, "role"), f"no role '{role}'; there are: {', '.join(ROLES)}{hint}")
    calls = raw.get("tool_calls") or ()
    if not isinstance(calls, (list, tuple)) or not all(isinstance(call, Mapping) for call in calls):
        raise source.error((*path, "tool_calls"), f"expected a list of tool calls, got {_kind(calls)}")
    if "content" not in raw and not calls:
        raise source.error(path, "a message needs content")
    return Message(
        role=role,
        content=_content(raw.get("content"), (*path, "content"), source),
        name=_text(raw, "name", path, source),
        tool_calls=tuple(calls),
    )


def _content(raw: Any, path: FieldPath, source: Source) -> Any:
    if isinstance(raw, list):
        for index, part in enumerate(raw):
            if isinstance(part, str):
                continue
            if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
                raise source.error((*path, index), f"expected a content part with a type, got {_kind(part)}")
            if part["type"] != "text":
                raise source.error(
                    (*path, index, "type"), f"content parts of type '{part['type']}' are not supported yet"
                )
        return raw
    if raw is None or isinstance(raw, (str, Mapping)):
        return raw
    return str(raw)


def _expected_output(raw: Any, path: FieldPath, source: Source) -> tuple[Message, ...]:
    if raw is None:
        return ()
    if isinstance(raw, Mapping) and "role" in raw:
        return (_message(raw, path, source),)
    if isinstance(raw, list) and raw and isinstance(raw[0], Mapping) and "role" in raw[0]:
        return tuple(_message(item, (*path, index), source) for index, item in enumerate(raw))
    return (Message(role="assistant", content=raw if isinstance(raw, (str, list, Mapping)) else str(raw)),)


def _evaluators(raw: Mapping[str, Any], path: FieldPath, reading: _Reading) -> tuple[EvaluatorSpec, ...]:
    """The evaluators of a suite or test, by the first of their spellings that is present."""
    for steps in EVALUATOR_PATHS:
        holder = raw if len(steps) == 1 else raw.get(steps[0])
        if isinstance(holder, Mapping) and holder.get(steps[-1]) is not None:
            return _evaluator_list(holder[steps[-1]], (*path, *steps), reading)
    return ()


def _evaluator_list(raw: Any, path: FieldPath, reading: _Reading) -> tuple[EvaluatorSpec, ...]:
    if not isinstance(raw, list):
        raise reading.source.error(path, f"expected a list of evaluators, got {_kind(raw)}")
    criteria = [item for item in raw if isinstance(item, str) and item.strip()]
    specs: list[EvaluatorSpec] = []
    for index, item in enumerate(raw):
        if not isinstance(item, str):
            specs.append(_evaluator(item, (*path, index), reading.source))
        elif criteria:
            specs.append(EvaluatorSpec(type="rubrics", name="rubrics", config={"criteria": criteria}))
            criteria = []
    return tuple(specs)


def _evaluator(raw: Any, path: FieldPath, source: Source) -> EvaluatorSpec:
    if not isinstance(raw, Mapping) or not isinstance(raw.get("type"), str):
        raise source.error(path, f"expected an evaluator with a type, got {_kind(raw)}")
    type_ = canonical_name(raw["type"])
    config = {key: value for key, value in raw.items() if key not in _COMMON_EVALUATOR_KEYS}
    return EvaluatorSpec(
        type=type_,
        name=_text(raw, "name", path, source) or _auto_name(type_, config),
        weight=_weight(raw, path, source),
        minimum=_gate(raw, path, source),
        negate=_flag(raw, "negate", path, source),
        failure_class=_text(raw, "failure_class", path, source),
        config=config,
    )


def _auto_name(type_: str, config: Mapping[str, Any]) -> str:
    value = config.get("value")
    if type_ in _NAMED_BY_VALUE:
        return f"{type_}-{value}"
    if type_ in _NAMED_BY_COUNT and isinstance(value, Sequence):
        return f"{type_}-{len(value)}"
    if type_ == "skill-trigger":
        return f"{type_}-{config.get('skill')}"
    if type_ == "regex":
        return f"regex-{str(value)[:30]}"
    return type_


def _weight(raw: Mapping[str, Any], path: FieldPath, source: Source) -> float:
    value = raw.get("weight", 1.0)
    if not _is_number(value) or value < 0:
        raise source.error((*path, "weight"), f"expected a number of at least 0, got {_kind(value)}")
    return float(value)


def _gate(raw: Mapping[str, Any], path: FieldPath, source: Source) -> float | None:
    """The least score a required evaluator must reach: `min_score`, else a numeric `required`, else 0.8."""
    required = raw.get("required")
    minimum = _share(raw, "min_score", path, source)
    if required is None or required is False:
        return None
    if required is True:
        return DEFAULT_GATE if minimum is None else minimum
    number = _share(raw, "required", path, source)
    return number if minimum is None else minimum


def _settings(document: Mapping[str, Any], execution: Mapping[str, Any], source: Source) -> SuiteSettings:
    at: FieldPath = ("execution",)
    trials = _mapping(execution, "trials", at, source)
    runners = _wanted_runners(execution, at, source)
    if not runners and isinstance(document.get("target"), str):
        runners = (document["target"],)
    return SuiteSettings(
        runners=runners,
        repetitions=_count(trials, "count", (*at, "trials"), source),
        threshold=_share(execution, "threshold", at, source),
        concurrency=_count(execution, "workers", at, source),
        budget_usd=_positive(execution, "total_budget_usd", at, source)
        or _positive(execution, "budget_usd", at, source),
    )


def _wanted_runners(execution: Mapping[str, Any], path: FieldPath, source: Source) -> tuple[str, ...]:
    single = _text(execution, "target", path, source)
    return _texts(execution, "targets", path, source) or ((single,) if single else ())


def _suite_name(document: Mapping[str, Any], reading: _Reading) -> str:
    given = document.get("name")
    name = given.strip() if isinstance(given, str) and given.strip() else default_name(reading.source.path)
    if SUITE_NAME.match(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "suite"
    reading.warnings.append(
        f"{reading.source.place(('name',))}: '{name}' is kept as '{plain}' (letters, digits, . _ -)"
    )
    return plain


def default_name(path: Path) -> str:
    """A suite's name by its file: without `.yaml`, `.jsonl` and a trailing `.eval`."""
    return path.stem.removesuffix(".eval") or path.stem


def _warn_unknown(raw: Mapping[str, Any], known: frozenset[str], path: FieldPath, reading: _Reading, what: str) -> None:
    for key in raw:
        if key in _NOT_YET:
            raise reading.source.error((*path, key), f"'{key}' is not supported yet")
        if key not in known:
            place = reading.source.place((*path, key))
            reading.warnings.append(f"{place}: unknown {what} field, ignored{did_you_mean(str(key), known)}")


def _mapping(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> Mapping[str, Any]:
    value = raw.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise source.error((*path, key), f"expected a mapping, got {_kind(value)}")
    return value


def _text(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> str | None:
    value = raw.get(key)
    if value is None or isinstance(value, str):
        return value
    raise source.error((*path, key), f"expected a text, got {_kind(value)}")


def _texts(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> tuple[str, ...]:
    value = raw.get(key)
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise source.error((*path, key), f"expected a list of texts, got {_kind(value)}")


def _flag(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise source.error((*path, key), f"expected true or false, got {_kind(value)}")
    return value


def _share(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> float | None:
    value = raw.get(key)
    if value is None:
        return None
    if not _is_number(value) or not 0 <= value <= 1:
        raise source.error((*path, key), f"expected a number from 0 to 1, got {_kind(value)}")
    return float(value)


def _positive(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> float | None:
    value = raw.get(key)
    if value is None:
        return None
    if not _is_number(value) or value <= 0:
        raise source.error((*path, key), f"expected a number above 0, got {_kind(value)}")
    return float(value)


def _count(raw: Mapping[str, Any], key: str, path: FieldPath, source: Source) -> int | None:
    value = raw.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise source.error((*path, key), f"expected a whole number of at least 1, got {_kind(value)}")
    return value


def _is_number(value: Any) -> bool:
    """Whether a value is a number, and one that a float can hold (`true`, infinity and 10^400 are not)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _kind(value: Any) -> str:
    """A wrong value as a message shows it: its kind, and the value itself when it is short."""
    if value is None:
        return "nothing"
    names = {
        dict: "a mapping",
        list: "a list",
        str: "a text",
        bool: "a truth value",
        int: "a number",
        float: "a number",
    }
    kind = names.get(type(value), type(value).__name__)
    shown = repr(value)
    return f"{kind} ({shown})" if len(shown) <= 40 and not isinstance(value, (dict, list)) else kind
