"""`field-accuracy`: fields of a JSON answer against what the case expects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import bind, build
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score


def compare(output: str, expected: object, *fields: dict[str, Any], **config: Any) -> Score:
    """The score of an answer whose case expects a value of the assistant."""
    case = a_case(expected_output=(Message(role="assistant", content=expected),) if expected is not None else ())
    return score(an_evaluator("field-accuracy", fields=list(fields), **config), a_report(output), case=case)


def compare_one(actual: object, expected: object, **rule: Any) -> Score:
    return compare(json.dumps({"v": actual}), {"v": expected}, {"path": "v", **rule})


@pytest.mark.parametrize(
    ("actual", "expected", "value"),
    [
        pytest.param("a", "a", 1, id="text"),
        pytest.param("a", "A", 0, id="another-case"),
        pytest.param(1500.0, 1500, 1, id="whole-and-float"),
        pytest.param("1500", 1500, 0, id="text-of-a-number"),
        pytest.param(1, True, 0, id="true-is-not-1"),
        pytest.param({"a": [1, 2]}, {"a": [1, 2]}, 1, id="deep"),
        pytest.param({"a": [2, 1]}, {"a": [1, 2]}, 0, id="lists-have-an-order"),
        pytest.param(None, None, 1, id="null"),
        pytest.param(None, "a", 0, id="null-for-text"),
    ],
)
def test_exact_is_deep_equality(actual: object, expected: object, value: float) -> None:
    assert compare_one(actual, expected, match="exact").value == value


@pytest.mark.parametrize(
    ("actual", "expected", "rule", "value"),
    [
        pytest.param(1.1, 1.0, {"tolerance": 0.1}, 1, id="at-the-tolerance"),
        pytest.param(1.2, 1.0, {"tolerance": 0.1}, 0, id="beyond"),
        pytest.param("12.5 EUR", 12.5, {}, 1, id="text-that-begins-with-the-number"),
        pytest.param("EUR 12.5", 12.5, {}, 0, id="text-that-does-not"),
        pytest.param(True, 1, {}, 0, id="true-is-no-number"),
        pytest.param(105, 100, {"tolerance": 0.05, "relative": True}, 1, id="relative"),
        pytest.param(-105, -100, {"tolerance": 0.04, "relative": True}, 0, id="relative-beyond"),
        pytest.param(0.5, 0, {"tolerance": 0.5, "relative": True}, 1, id="relative-to-0-is-absolute"),
        pytest.param(10**400, 1, {"tolerance": 1}, 0, id="beyond-what-a-float-holds"),
    ],
)
def test_numbers_may_differ_by_the_tolerance(
    actual: object, expected: object, rule: dict[str, Any], value: float
) -> None:
    assert compare_one(actual, expected, match="numeric_tolerance", **rule).value == value


@pytest.mark.parametrize(
    ("text", "formats", "day"),
    [
        pytest.param("2025-02-01T23:30:00Z", None, "2025-02-01", id="iso-time-as-written"),
        pytest.param("2025/2/1", None, "2025-02-01", id="year-first"),
        pytest.param("01-FEB-2025", None, "2025-02-01", id="month-by-name"),
        pytest.param("Sat, 1st February 2025", None, "2025-02-01", id="weekday-and-ordinal"),
        pytest.param("February 1, 2025", None, "2025-02-01", id="american-with-name"),
        pytest.param("02/01/2025", None, "2025-02-01", id="month-first-without-formats"),
        pytest.param("02/01/2025", ["MM/DD/YYYY", "DD/MM/YYYY"], "2025-02-01", id="month-first-with-both-formats"),
        pytest.param("02/01/2025", ["MM/DD/YYYY"], "2025-02-01", id="month-first-as-the-formats-say"),
        pytest.param("01/02/2025", ["DD/MM/YYYY"], "2025-02-01", id="day-first-as-the-formats-say"),
        pytest.param("1.2.25", ["DD.MM.YYYY"], "2025-02-01", id="two-digits-of-a-year"),
        pytest.param("15/01/2025", None, "2025-01-15", id="15-is-no-month"),
        pytest.param("01/15/2025", ["DD/MM/YYYY"], "2025-01-15", id="15-is-no-month-whatever-the-formats-say"),
    ],
)
def test_dates_are_compared_by_calendar_day(text: str, formats: list[str] | None, day: str) -> None:
    rule = {"match": "date", **({"formats": formats} if formats else {})}

    assert compare_one(text, day, **rule).value == 1
    assert compare_one(text, "2025-03-03", **rule).value == 0


@pytest.mark.parametrize("text", ["soon", "2025-02-30", "31/31/2025", "", 20250201, None])
def test_what_is_no_date_is_wrong(text: object) -> None:
    result = compare_one(text, "2025-02-01", match="date")

    assert result.value == 0
    assert result.reason == f"v: {text!r} is not a date"


@pytest.mark.parametrize(
    ("answer", "expected", "value"),
    [
        pytest.param({"items": [{"n": "a"}, {"n": "b"}]}, {"items": [{"n": "x"}, {"n": "b"}]}, 1, id="index"),
        pytest.param({"items": [{"n": "a"}]}, {"items": [{"n": "x"}, {"n": "b"}]}, 0, id="index-beyond-the-list"),
        pytest.param({"items": "text"}, {"items": [0, {"n": "b"}]}, 0, id="no-list"),
        pytest.param({}, {"items": []}, 1, id="nothing-expected-there"),
    ],
)
def test_a_path_leads_through_lists_and_objects(answer: object, expected: object, value: float) -> None:
    assert compare(json.dumps(answer), expected, {"path": "items[1].n", "match": "exact"}).value == value


@pytest.mark.parametrize(
    ("output", "value"),
    [
        pytest.param('{"a": 1}', 1, id="plain"),
        pytest.param('```json\n{"a": 1}\n```', 1, id="in-a-fence"),
        pytest.param('Here it is: {"a": 1}. Done.', 1, id="in-words"),
        pytest.param("no braces", 0, id="no-object"),
        pytest.param("} {", 0, id="braces-the-wrong-way-round"),
        pytest.param('{"a": 1', 0, id="cut-off"),
        pytest.param("", 0, id="nothing"),
    ],
)
def test_the_object_is_found_in_the_answer(output: str, value: float) -> None:
    assert compare(output, {"a": 1}, {"path": "a", "match": "exact"}).value == value


A, B = {"path": "a", "match": "exact", "weight": 3}, {"path": "b", "match": "exact"}


@pytest.mark.parametrize(
    ("answer", "b", "config", "value"),
    [
        pytest.param({"a": 1, "b": 0}, B, {}, 3 / 4, id="weighted"),
        pytest.param({"a": 1}, B, {}, 3 / 4, id="a-required-field-is-missing"),
        pytest.param({"a": 1}, {**B, "required": False}, {}, 1, id="an-optional-field-is-missing"),
        pytest.param({"a": 0}, {**B, "required": False}, {}, 0, id="only-the-optional-one-is-not-wrong"),
        pytest.param({"a": 1, "b": 0}, B, {"aggregation": "all_or_nothing"}, 0, id="all-or-nothing"),
        pytest.param({"a": 1, "b": 2}, B, {"aggregation": "all_or_nothing"}, 1, id="all"),
    ],
)
def test_fields_count_by_their_weight(answer: object, b: dict[str, Any], config: dict[str, Any], value: float) -> None:
    result = compare(json.dumps(answer), {"a": 1, "b": 2}, A, b, **config)

    assert result.value == value
    assert len(result.findings) == 2


@pytest.mark.parametrize("expected", [None, "no JSON", "[1]", [1, 2]], ids=["none", "text", "list-as-text", "list"])
@pytest.mark.parametrize(("on_missing", "value"), [("unscored", None), ("fail", 0.0)])
def test_without_expected_data_the_score_is_unknown(expected: object, on_missing: str, value: float | None) -> None:
    result = compare('{"a": 1}', expected, B, on_missing=on_missing)

    assert result.value == value
    reason = "the expected output of the case is no JSON object"
    assert result.reason == (f"unknown: {reason}" if on_missing == "fail" else reason)


def test_the_last_object_of_the_assistant_is_expected_even_as_text() -> None:
    messages = (
        Message(role="assistant", content={"b": 1}),
        Message(role="assistant", content='{"b": 2}'),
        Message(role="user", content={"b": 3}),
    )

    result = score(
        an_evaluator("field-accuracy", fields=[B]), a_report('{"b": 2}'), case=a_case(expected_output=messages)
    )

    assert result.value == 1


def test_the_expected_output_is_part_of_the_scores_identity(tmp_path: Any) -> None:
    spec = an_evaluator("field-accuracy", fields=[B])
    cases = [a_case(expected_output=(Message(role="assistant", content={"b": b}),)) for b in (1, 2)]

    assert bind(spec, cases[0], tmp_path).key != bind(spec, cases[1], tmp_path).key


@pytest.mark.parametrize(
    ("config", "message"),
    [
        pytest.param({}, "fields: required", id="no-fields"),
        pytest.param({"fields": []}, "fields: expected a list that is not empty", id="empty"),
        pytest.param({"fields": [{"match": "exact"}]}, "fields.0.path: required", id="no-path"),
        pytest.param({"fields": [{"path": "a"}]}, "fields.0.match: required", id="no-match"),
        pytest.param({"fields": [{"path": "a", "match": "like"}]}, "fields.0.match: expected one of", id="match"),
        pytest.param(
            {"fields": [{**B, "weight": -1}]}, "fields.0.weight: expected a number of at least 0", id="weight"
        ),
        pytest.param({"fields": [{**B, "required": 1}]}, "fields.0.required: expected true or false", id="required"),
        pytest.param({"fields": [{**B, "tol": 1}]}, "fields.0.tol: unknown argument; there are: path, ", id="unknown"),
        pytest.param({"fields": [B], "aggregation": "mean"}, "aggregation: expected one of 'weighted_", id="aggregate"),
    ],
)
def test_a_wrong_argument_is_named(config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("field-accuracy", **config))

    assert str(raised.value).startswith(f"field-accuracy {message}")
