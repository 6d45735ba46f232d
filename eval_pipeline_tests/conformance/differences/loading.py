"""Differences about loading: what AgentV passes over, we report, at its place."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline.parsing.fields import camel_case
from eval_pipeline_tests.conformance.agentv_entries import is_at
from eval_pipeline_tests.conformance.agentv_loading import file_names
from eval_pipeline_tests.conformance.differences.model import (
    AS_WRITTEN,
    Difference,
    Expected,
    Observations,
    assert_errors,
    refuses,
)
from eval_pipeline_tests.conformance.differences.wrong_entries import (
    is_number,
    unknown_types,
    wrong_arguments,
    wrong_common_fields,
)
from eval_pipeline_tests.conformance.recorded_facts import Row

Json = Mapping[str, Any]
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


# Settings

_SETTING_KEYS = {
    "extractTrialsConfig": "trials",
    "extractFailOnError": "fail_on_error",
    "extractThreshold": "threshold",
    "extractTotalBudgetUsd": "total_budget_usd",
    "extractTargetsFromSuite": "targets",
    "extractTargetFromSuite": "target",
}
_STRATEGIES = ("pass_at_k", "pass_any", "pass_all", "mean", "confidence_interval")


def _wrong_setting(row: Row) -> Sequence[Expected]:
    """The error of a setting of the wrong type or size; none where it is right."""
    if row.kind not in _SETTING_KEYS:
        return []
    document = row.data["args"][0]
    execution = document.get("execution")
    if execution is not None and not isinstance(execution, Mapping):
        return [("execution", "^expected a mapping")]
    key, value = _written(row)
    where = f"execution.{key}" if key in (execution or {}) else key
    return [(f"{where}{place}", text) for place, text in _wrong_value(row.kind, value)] if value is not None else []


def _written(row: Row) -> tuple[str, Any]:
    """The key under which a row's setting is written, and its value; None when it is not."""
    document = row.data["args"][0]
    snake = _SETTING_KEYS[row.kind]
    execution = document.get("execution")
    for key in (snake, camel_case(snake)):
        if isinstance(execution, Mapping) and key in execution:
            return key, execution[key]
    return snake, document.get(snake) if snake == "target" else None


def _wrong_value(kind: str, value: Any) -> list[Expected]:
    if kind == "extractTrialsConfig":
        return _wrong_trials(value)
    if kind == "extractFailOnError":
        return [] if isinstance(value, bool) else [("", "^expected true or false, got")]
    if kind == "extractThreshold":
        return [] if is_number(value) and 0 <= value <= 1 else [("", "^expected a number from 0 to 1, got")]
    if kind == "extractTotalBudgetUsd":
        return [] if is_number(value) and value > 0 else [("", "^expected a number above 0, got")]
    if kind == "extractTargetFromSuite":
        return [] if isinstance(value, str) else [("", "^expected (a text|the name of a target)")]
    return _wrong_targets(value)


def _wrong_trials(value: Any) -> list[Expected]:
    if not isinstance(value, Mapping):
        return [("", "^expected a whole number of at least 1, got")]
    wrong: list[Expected] = []
    count, limit = value.get("count"), value.get("cost_limit_usd", value.get("costLimitUsd"))
    if count is not None and not (isinstance(count, int) and not isinstance(count, bool) and count >= 1):
        wrong.append((".count", "^expected a whole number of at least 1, got"))
    if value.get("strategy") not in (None, *_STRATEGIES):
        wrong.append((".strategy", "^expected one of |^no strategy "))
    if limit is not None and not (is_number(limit) and limit > 0):
        key = "cost_limit_usd" if "cost_limit_usd" in value else "costLimitUsd"
        wrong.append((f".{key}", "^expected a number above 0, got"))
    return wrong


def _wrong_targets(value: Any) -> list[Expected]:
    """The first entry of a list of targets that is no name."""
    if not isinstance(value, list):
        return [] if isinstance(value, str) else [("", "^expected ")]
    wrong = [at for at, name in enumerate(value) if not isinstance(name, (str, Mapping))]
    return [(f"[{at}]", "^expected the name of a target") for at in wrong[:1]]


def _one_target(row: Row) -> bool:
    return row.kind == "extractTargetsFromSuite" and isinstance(_written(row)[1], str)


def _is_that_target(row: Row, observations: Observations) -> None:
    seen = observations[AS_WRITTEN]

    assert not seen.errors
    assert seen.values["value"] == [_written(row)[1].strip()]


def _one_repetition(row: Row) -> bool:
    value = _written(row)[1] if row.kind == "extractTrialsConfig" else None
    return isinstance(value, Mapping) and value.get("count") == 1 and not _wrong_setting(row)


def _is_carried_out_once(row: Row, observations: Observations) -> None:
    seen = observations[AS_WRITTEN]

    assert not seen.errors
    assert seen.values["value"][0] == 1


_WITHOUT_EFFECT = {
    "verbose": "^has no effect: ",
    **dict.fromkeys(
        ("export_otel", "otel_file", "otel_backend", "otel_capture_content", "otel_group_turns"),
        "^a run exports no traces; ",
    ),
}


def _without_effect(row: Row) -> list[str]:
    """The settings of AgentV's project file that it reads, and that have no effect here."""
    result = (row.data["result"] or {}) if row.kind == "parseExecutionDefaults" else {}
    return [name for name in result if name in _WITHOUT_EFFECT]


def _is_warned_of(row: Row, observations: Observations) -> None:
    seen = observations[AS_WRITTEN]

    assert not seen.errors
    assert {problem.field for problem in seen.problems} == {f"execution.{name}" for name in _without_effect(row)}
    for problem in seen.problems:
        assert re.search(_WITHOUT_EFFECT[problem.field.removeprefix("execution.")], problem.text), problem


# Messages and files


def _wrong_messages(row: Row) -> Sequence[Expected]:
    """The first message of an input that has no known role, or no content."""
    value = row.data["args"][0] if row.kind == "expandInputShorthand" else None
    listed = value if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value) else []
    wrong = [
        at for at, message in enumerate(listed) if message.get("role") not in ("system", "user", "assistant", "tool")
    ]
    return [(f"tests[0].input[{at}].role", "^no role ") for at in wrong[:1]]


def _object_input(row: Row) -> bool:
    value = row.data["args"][0] if row.kind == "expandInputShorthand" else None
    return isinstance(value, Mapping) and row.data["result"] is None


def _is_a_message(row: Row, observations: Observations) -> None:
    (value,) = row.data["args"]
    expected = value if "role" in value else {"role": "user", "content": value}

    assert observations[AS_WRITTEN].values["value"] == [dict(expected)]


def _scalar_expected(row: Row) -> bool:
    value = row.data["args"][0] if row.kind == "expandExpectedOutputShorthand" else None
    return isinstance(value, (bool, int, float)) and row.data["result"] is None


def _is_its_text(row: Row, observations: Observations) -> None:
    text = json.dumps(row.data["args"][0])

    assert observations[AS_WRITTEN].values["value"] == [{"role": "assistant", "content": text}]


def _wrong_files(row: Row) -> Sequence[Expected]:
    """The error of a list of attached files that are not all names."""
    files = row.data["args"][0] if row.kind == "expandInputFilesShorthand" else None
    listed = isinstance(files, list) and not all(isinstance(name, str) for name in files)
    return [("tests[0].input_files", "^expected a list of texts")] if listed else []


def _attached_beside_messages(row: Row) -> bool:
    """Files that AgentV ignores: a single name, or names beside a list of messages."""
    if row.kind != "expandInputFilesShorthand" or _wrong_files(row):
        return False
    files, value = row.data["args"]
    return bool(files) and (isinstance(files, str) or isinstance(value, list)) and row.data["result"] is None


def _are_attached(row: Row, observations: Observations) -> None:
    seen = observations[AS_WRITTEN]

    assert not seen.errors
    assert seen.values["files"] == [Path(name).name for name in file_names(row.data["args"][0])]


def _is_image(part: Json) -> bool:
    return part["type"] == "file" and Path(part["value"]).suffix.lower() in IMAGES


def _images_attached(row: Row) -> bool:
    messages = row.data["result"] if row.kind == "expandInputFilesShorthand" else None
    return any(_is_image(part) for part in (messages or [{"content": ()}])[0]["content"])


def _are_images(row: Row, observations: Observations) -> None:
    parts = row.data["result"][0]["content"]
    expected = [{**part, "type": "image" if _is_image(part) else part["type"]} for part in parts]

    assert observations[AS_WRITTEN].values["value"] == [{"role": "user", "content": expected}]


# Entries of assertions


def _entries(row: Row) -> Sequence[tuple[str, Any]]:
    """The entries that a parsing row's test evaluates by, each with its place."""
    test, suite = row.data["raw_test"], row.data["suite_execution"] or {}
    execution = test.get("execution") or {}
    listed = _first_listed([("assertions", test), ("assert", test), ("evaluators", execution), ("evaluators", test)],
                        ["", "", "execution.", ""])  # fmt: skip
    inherited = [] if execution.get("skip_defaults") is True else _first_listed(
        [("assertions", suite), ("evaluators", suite)], ["", "execution."])  # fmt: skip
    return [*((f"tests[0].{place}", entry) for place, entry in listed), *inherited]


def _first_listed(candidates: Sequence[tuple[str, Json]], prefixes: Sequence[str]) -> list[tuple[str, Any]]:
    for (key, holder), prefix in zip(candidates, prefixes, strict=True):
        if isinstance(holder.get(key), list):
            return [(f"{prefix}{key}[{at}]", entry) for at, entry in enumerate(holder[key])]
    return []


def _wrong_entries(row: Row) -> Sequence[Expected]:
    """The errors of the entries of a parsing or validation row: those of common fields alone, else one per entry."""
    listed = _entries(row) if row.kind == "parsing" else _written_entries(row) if row.kind == "validation" else ()
    common = [(f"{place}.{field}", text) for place, entry in listed for field, text in _wrong_in_common(entry)]
    return common or [error for place, entry in listed for error in _first_wrong_argument(place, entry)]


def _wrong_in_common(entry: Any) -> list[Expected]:
    return list(wrong_common_fields(entry)) if isinstance(entry, Mapping) else []


def _first_wrong_argument(place: str, entry: Any) -> list[Expected]:
    if isinstance(entry, str):
        return []
    if not isinstance(entry, Mapping):
        return [(place, "^expected an evaluator with a type, got")]
    if not isinstance(entry.get("type"), str):
        return [(f"{place}.type", "^expected an evaluator with a type, got")]
    wrong = [*unknown_types(entry), *((_argument(name), text) for name, text in wrong_arguments(entry))]
    return [(f"{place}.{name}".rstrip("."), text) for name, text in wrong[:1]]


def _argument(name: str) -> str:
    """`kind minimums.tool` is the field `minimums.tool`, and `kind fields.0.path` is `fields[0].path`."""
    _, _, argument = name.partition(" ")
    return re.sub(r"\.(\d+)", r"[\1]", argument)


def _written_entries(row: Row) -> Sequence[tuple[str, Any]]:
    """The entries of a validation row's file; it is plain YAML that its authors wrote by hand."""
    document = _document(row)
    tests = document.get("tests")
    return [
        (f"tests[{number}].assertions[{at}]", entry)
        for number, test in enumerate(tests if isinstance(tests, list) else ())
        for at, entry in enumerate(test.get("assertions") or ())
    ]


def _document(row: Row) -> Json:
    import yaml

    document = yaml.safe_load(row.data["file"])
    return document if isinstance(document, dict) else {}


def _described_criterion(row: Row) -> bool:
    """A criterion with a `description` in place of its outcome, which AgentV's parser of `rubrics` drops."""
    if row.kind != "parsing":
        return False
    entries = [entry for _, entry in _entries(row) if isinstance(entry, Mapping)]
    rubrics = [rubric for entry in entries for rubric in entry.get("rubrics") or () if isinstance(rubric, Mapping)]
    return any("description" in rubric and "outcome" not in rubric for rubric in rubrics)


def _is_kept(row: Row, observations: Observations) -> None:
    seen = observations[AS_WRITTEN]
    (entry,), (parsed,) = [entry for _, entry in _entries(row)], row.data["parsed_observed"]

    assert not seen.errors
    (ours,) = seen.values["evaluators"]
    assert [criterion["id"] for criterion in ours["rubrics"]] == [rubric["id"] for rubric in entry["rubrics"]]
    assert (ours["name"], ours["weight"]) == (parsed["name"], float(parsed.get("weight", 1)))


def _missing_file_of_tests(row: Row) -> Sequence[Expected]:
    """The error of a list of tests in a file that cannot hold one."""
    tests = _document(row).get("tests") if row.kind == "validation" else None
    wrong = isinstance(tests, str) and not re.search(r"\.(ya?ml|jsonl)$", tests)
    return [("tests", "^no file or folder ")] if wrong else []


def _nothing_to_judge_by(row: Row) -> Sequence[Expected]:
    """The errors of tests that have an input, and nothing that they are judged by."""
    document = _document(row) if row.kind == "validation" else {}
    tests = document.get("tests")
    names = ("criteria", "expected_outcome", "expected_output", "assertions", "assert", "rubrics", "evaluators")
    if "assertions" in document or not isinstance(tests, list):
        return []
    return [
        (f"tests[{at}]", "needs criteria, expected_output or assertions")
        for at, test in enumerate(tests)
        if "input" in test and not any(test.get(name) is not None for name in names)
    ]


def _reported_at_once(row: Row, observations: Observations) -> None:
    """Everything that AgentV finds is found, too."""
    seen = observations[AS_WRITTEN]

    assert_errors(seen, _nothing_to_judge_by(row))
    for issue in row.data["issues_observed"]:
        assert any(is_at(problem, issue["location"]) for problem in seen.problems), seen.problems


LOADING = (
    Difference(
        "setting refused",
        "AgentV ignores a setting of the wrong type or size: a budget or a number of trials that somebody wrote down "
        "would silently not hold",
        lambda row: bool(_wrong_setting(row)),
        refuses(_wrong_setting),
    ),
    Difference(
        "one target",
        "AgentV ignores `targets` that is one name and not a list; what is meant is plain",
        _one_target,
        _is_that_target,
    ),
    Difference(
        "carried out once",
        "AgentV has no trials when their count is 1; one repetition is the same",
        _one_repetition,
        _is_carried_out_once,
    ),
    Difference(
        "setting without effect",
        "a run exports no traces and has no verbose form; other commands do, which the warning names",
        lambda row: bool(_without_effect(row)),
        _is_warned_of,
    ),
    Difference(
        "broken message",
        "AgentV drops messages without a role or content from the input; another question would be asked",
        lambda row: bool(_wrong_messages(row)),
        refuses(_wrong_messages),
    ),
    Difference(
        "object input",
        "the seed page says that input may be an object; AgentV's code of that version skips the test",
        _object_input,
        _is_a_message,
    ),
    Difference(
        "scalar expected",
        "AgentV expects nothing where a number or truth value is expected; we expect it as a text",
        _scalar_expected,
        _is_its_text,
    ),
    Difference(
        "file that is no name",
        "AgentV attaches the names of a list and ignores the rest; the rest was meant to be attached, too",
        lambda row: bool(_wrong_files(row)),
        refuses(_wrong_files),
    ),
    Difference(
        "files attached",
        "AgentV ignores a single name, and all files beside a list of messages (a defect)",
        _attached_beside_messages,
        _are_attached,
    ),
    Difference(
        "image attached",
        "AgentV attaches an image by `input_files` as if it were text; a model that can see is to see it",
        _images_attached,
        _are_images,
    ),
    Difference(
        "entry refused",
        "AgentV reads on without what it cannot use of an evaluator, or without the evaluator, and its validation only "
        "warns: less is measured than was asked",
        lambda row: bool(_wrong_entries(row)),
        refuses(_wrong_entries),
    ),
    Difference(
        "criterion described",
        "AgentV drops a criterion of `rubrics` that has a `description` and no `outcome`; it is the older spelling",
        _described_criterion,
        _is_kept,
    ),
    Difference(
        "no file of tests",
        "AgentV's validation warns of a file of tests that it cannot read; a suite without tests is an error",
        lambda row: bool(_missing_file_of_tests(row)),
        refuses(_missing_file_of_tests),
    ),
    Difference(
        "nothing to judge by",
        "AgentV's validation passes a test that its run then skips; it is an error at once",
        lambda row: bool(_nothing_to_judge_by(row)),
        _reported_at_once,
    ),
)
