"""What a suite asks of an evaluator: wrong arguments are errors that name field and cure, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.scores.evaluate import EvaluatorSet, bind, build
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.builders import a_case, a_suite, an_evaluator

WRONG = [
    pytest.param("contains", {}, "contains value: required", id="missing"),
    pytest.param("contains", {"value": 5}, "contains value: expected a text, got 5", id="number-for-text"),
    pytest.param("contains", {"value": None}, "contains value: expected a text, got None", id="nothing-for-text"),
    pytest.param("contains", {"value": ["a"]}, "contains value: expected a text, got list", id="list-for-text"),
    pytest.param(
        "contains", {"value": ""}, "contains value: expected a text that is not empty, got ''", id="empty-text"
    ),
    pytest.param("contains-any", {"value": "a"}, "contains-any value: expected a list, got 'a'", id="text-for-list"),
    pytest.param(
        "contains-any", {"value": []}, "contains-any value: expected a list that is not empty", id="empty-list"
    ),
    pytest.param(
        "contains-all", {"value": ["a", 2]}, "contains-all value.1: expected a text, got 2", id="item-of-a-list"
    ),
    pytest.param(
        "contains-all", {"value": {"a": 1}}, "contains-all value: expected a list, got dict", id="map-for-list"
    ),
    pytest.param("equals", {"value": True}, "equals value: expected a text, got True", id="truth-for-text"),
    pytest.param("regex", {"value": "("}, "regex: not a valid pattern: a group is not closed", id="pattern"),
    pytest.param("regex", {"value": "a", "flags": "q"}, "regex: not a valid pattern: no flag 'q'", id="flag"),
    pytest.param("regex", {"value": "a", "flags": 1}, "regex flags: expected a text, got 1", id="number-for-flags"),
    pytest.param("latency", {}, "latency threshold: required", id="limit-missing"),
    pytest.param(
        "latency", {"threshold": "10"}, "latency threshold: expected a number, got '10'", id="text-for-number"
    ),
    pytest.param(
        "latency", {"threshold": True}, "latency threshold: expected a number, got True", id="truth-for-number"
    ),
    pytest.param(
        "latency", {"threshold": -1}, "latency threshold: expected a number of at least 0, got -1", id="below"
    ),
    pytest.param("cost", {"budget": float("nan")}, "cost budget: expected a", id="not-a-number"),
    pytest.param("cost", {"budget": float("inf")}, "cost budget: expected a finite number, got inf", id="infinite"),
    pytest.param("token-usage", {}, "token-usage: needs at least one of max_total", id="no-limit-at-all"),
    pytest.param("token-usage", {"max_total": [1]}, "token-usage max_total: expected a number, got list", id="list"),
    pytest.param(
        "latency",
        {"threshold": 1, "on_missing": "skip"},
        "latency on_missing: expected one of 'unscored' or 'fail', got 'skip'",
        id="choice",
    ),
    pytest.param("is-json", {"value": "a"}, "is-json value: unknown argument; there are none", id="takes-none"),
    pytest.param(
        "contains",
        {"valeu": "a"},
        "contains valeu: unknown argument; there are: value; did you mean 'value'?",
        id="unknown-with-the-nearest",
    ),
    pytest.param(
        "latency",
        {"max_ms": 10},
        "latency max_ms: unknown argument; there are: threshold, on_missing",
        id="unknown-far-from-all",
    ),
    pytest.param("python", {"function": ""}, "python function: expected a text that is not empty", id="no-function"),
    pytest.param(
        "python", {"function": "a:b", "arguments": [1]}, "python arguments: expected a mapping", id="list-for-mapping"
    ),
]


@pytest.mark.parametrize(("type_", "config", "message"), WRONG)
def test_a_wrong_argument_names_the_field_and_what_was_expected(
    type_: str, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator(type_, **config))

    assert str(raised.value).startswith(message)


def test_an_unknown_evaluator_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(UnknownName, match=r"^type: no evaluator 'contians'; did you mean 'contains'\? there are "):
        build(an_evaluator("contians", value="a"))


def test_a_case_that_asks_for_something_unusable_is_named_with_its_place_and_the_others_are_not() -> None:
    good = a_case("good", evaluators=(an_evaluator("contains", value="a"),))
    bad = a_case("bad", evaluators=(an_evaluator("contains"),), line=7)

    errors = EvaluatorSet(a_suite(good, bad, path=Path("suites/math.yaml"))).check()

    assert {case: str(error) for case, error in errors.items()} == {
        "bad": "suites/math.yaml:7: case 'bad' contains value: required"
    }


def test_an_evaluator_that_cases_share_is_built_once() -> None:
    spec = an_evaluator("contains", value="a")
    first, second = a_case("c1", evaluators=(spec,)), a_case("c2", evaluators=(spec,))
    panel = EvaluatorSet(a_suite(first, second))

    ((item,), (other,)) = panel.of(first), panel.of(second)

    assert item.evaluator is other.evaluator


def test_every_case_of_a_large_suite_gets_its_own_evaluators() -> None:
    cases = [a_case(f"c{number}", evaluators=(an_evaluator("equals", value=str(number)),)) for number in range(1_000)]
    panel = EvaluatorSet(a_suite(*cases))

    bound = [panel.of(case)[0].evaluator for case in (*cases, *cases)]

    assert bound == [build(case.evaluators[0]) for case in (*cases, *cases)]


def key_of(spec: EvaluatorSpec, **case_fields: Any) -> str:
    return bind(spec, a_case(**case_fields), Path()).key


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"config": {"value": "b"}}, id="argument"),
        pytest.param({"type": "icontains"}, id="type"),
        pytest.param({"name": "other"}, id="name"),
        pytest.param({"weight": 2.0}, id="weight"),
        pytest.param({"minimum": 0.5}, id="gate"),
        pytest.param({"negate": True}, id="negate"),
        pytest.param({"failure_class": "wrong-alias"}, id="failure-class"),
    ],
)
def test_every_part_of_a_spec_is_part_of_its_scores_identity(change: dict[str, Any]) -> None:
    answers: dict[str, Any] = {"type": "contains", "name": "contains", "config": {"value": "a"}}

    assert key_of(EvaluatorSpec(**{**answers, **change})) != key_of(EvaluatorSpec(**answers))


def test_what_an_evaluator_does_not_read_of_a_case_is_no_part_of_its_scores_identity() -> None:
    spec = an_evaluator("contains", value="a")

    assert key_of(spec, id_="c1", criteria="be kind") == key_of(spec, id_="c2", tags=("x",))
