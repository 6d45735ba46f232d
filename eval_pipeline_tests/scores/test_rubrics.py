"""`rubrics`: what criteria may look like, and what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.grader_client import FakeGraderClient
from eval_pipeline.scores.grading.criteria import Band, Criterion, read_criteria
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

BANDS = [Band(0, 2, "wrong"), Band(3, 6, "partly"), Band(7, 9, "right"), Band(10, 10, "perfect")]
READ = [
    pytest.param(["says A", " says B "], [Criterion(id="rubric-1", outcome="says A"),
                                          Criterion(id="rubric-2", outcome="says B")], id="texts"),
    pytest.param([{"outcome": "says A"}], [Criterion(id="rubric-1", outcome="says A")], id="mapping"),
    pytest.param([{"criteria": "says A"}], [Criterion(id="rubric-1", outcome="says A")], id="criteria"),
    pytest.param([{"description": "says A"}], [Criterion(id="rubric-1", outcome="says A")], id="description"),
    pytest.param(
        [{"id": "a", "outcome": "says A", "weight": None}],
        [Criterion(id="a", outcome="says A", weight=1.0)],
        id="empty-weight",
    ),
    pytest.param(
        [{"id": "a", "outcome": "says A", "weight": 0.5, "required": False, "operator": "contradiction"}],
        [Criterion(id="a", outcome="says A", weight=0.5, required=False, operator="contradiction")],
        id="everything",
    ),
    pytest.param(
        [{"id": "a", "score_ranges": {0: "wrong", 3: "partly", 7: "right", 10: "perfect"}}],
        [Criterion(id="a", outcome="", bands=tuple(BANDS))],
        id="bands-in-short",
    ),
    pytest.param(
        [{"id": "a", "score_ranges": {"10": "perfect", "0": "wrong", "7": "right", "3": "partly"}}],
        [Criterion(id="a", outcome="", bands=tuple(BANDS))],
        id="bands-in-short-in-any-order",
    ),
    pytest.param(
        [{"id": "a", "min_score": 0.6, "score_ranges": [{"score_range": [b.low, b.high], "outcome": b.outcome}
                                                        for b in reversed(BANDS)]}],
        [Criterion(id="a", outcome="", bands=tuple(BANDS), min_share=0.6)],
        id="bands-as-a-list",
    ),
    pytest.param([{"id": "a", "outcome": "x", "required_min_score": 7}],
                 [Criterion(id="a", outcome="x", min_share=0.7)], id="old-share"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "criteria"), READ)
def test_criteria_are_read_in_any_of_their_forms(raw: list[Any], criteria: list[Criterion]) -> None:
    assert list(read_criteria(raw)) == criteria


def bands(*limits: tuple[Any, Any]) -> list[dict[str, Any]]:
    return [{"score_range": [low, high], "outcome": "x"} for low, high in limits]


WRONG = [
    pytest.param([], "criteria: expected a list that is not empty", id="none"),
    pytest.param("says A", "criteria: expected a list of texts and mappings, got 'says A'", id="one-text"),
    pytest.param([5], "criterion 1: expected a text or a mapping, got 5", id="number"),
    pytest.param(["a", " "], "criterion 2: expected a text or a mapping, got ' '", id="blank"),
    pytest.param([{"id": "a"}], "criterion 1 ('a'): needs an outcome, or score_ranges", id="no-outcome"),
    pytest.param(
        [{"outcom": "x"}], "criterion 1: unknown field 'outcom'; there are: id, outcome", id="unknown-with-the-nearest"
    ),
    pytest.param([{"outcome": 3}], "outcome: expected a text that is not empty, got a number", id="no-text"),
    pytest.param(["a", {"id": "rubric-1", "outcome": "x"}], "duplicate id 'rubric-1'", id="same-id"),
    pytest.param(
        [{"outcome": "x", "weight": -1}], "weight: expected a number of at least 0, got a number", id="weight"
    ),
    pytest.param([{"outcome": "x", "weight": True}], "weight: expected a number of at least 0", id="true-weight"),
    pytest.param([{"outcome": "x", "required": "yes"}], "required: expected true or false, got a text", id="required"),
    pytest.param(
        [{"outcome": "x", "min_score": 7}], "min_score: expected a number from 0 to 1, got a number", id="share"
    ),
    pytest.param(
        [{"outcome": "x", "operator": "like"}],
        "operator: expected one of correctness, contradiction",
        id="operator",
    ),
    pytest.param([{"score_ranges": "0-10"}], "score_ranges: expected a list or a mapping", id="bands-as-text"),
    pytest.param([{"score_ranges": {3: "x"}}], "score_ranges: they leave a gap at 0", id="not-from-0"),
    pytest.param([{"score_ranges": {0: "x", 12: "y"}}], "whole numbers from 0 to 10 as keys, got 12", id="beyond-10"),
    pytest.param([{"score_ranges": {0: ""}}], "score_ranges 0: expected a text", id="band-without-words"),
    pytest.param([{"score_ranges": bands((0, 3), (7, 10))}], "score_ranges: they leave a gap at 4", id="gap"),
    pytest.param([{"score_ranges": bands((0, 5), (5, 10))}], "score_ranges: they overlap at 5", id="overlap"),
    pytest.param([{"score_ranges": bands((0, 9))}], "score_ranges: they end at 9", id="not-to-10"),
    pytest.param([{"score_ranges": bands((0, 4.5), (5, 10))}], "expected score_range [low, high]", id="no-whole"),
    pytest.param([{"score_ranges": bands((5, 0))}], "expected score_range [low, high]", id="the-wrong-way-round"),
    pytest.param([{"score_ranges": [{"range": [0, 10], "outcome": "x"}]}], "entries with score_range", id="other-key"),
]


@pytest.mark.parametrize(("raw", "problem"), WRONG)
def test_a_wrong_criterion_is_named_with_what_was_expected(raw: Any, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator("rubrics", criteria=raw))

    assert str(raised.value).startswith("rubrics: ")
    assert problem in str(raised.value)


def test_a_rubric_shows_its_criteria_and_scores_what_is_met() -> None:
    client = FakeGraderClient(['{"checks": [{"id": "a", "satisfied": true}, {"id": "rubric-2", "satisfied": false}]}'])
    criteria = [{"id": "a", "outcome": "says four", "weight": 3}, {"outcome": "is polite", "operator": "contradiction"}]

    score = graded(an_evaluator("rubrics", criteria=criteria), a_report("four"), client=client)

    assert (score.value, score.passes) == (0.75, False)
    payload = client.requests[0][1].content
    assert "- [a], weight 3: says four\n- [rubric-2]: is polite (met unless the answer contradicts this)" in payload
    assert "One check for each criterion: a, rubric-2." in client.requests[0][0].content


def test_bands_are_shown_to_the_grader() -> None:
    client = FakeGraderClient(['{"checks": [{"id": "a", "score": 10}]}'])
    criteria = [{"id": "a", "outcome": "clear", "score_ranges": {0: "muddled", 10: "crystal"}}]

    score = graded(an_evaluator("rubrics", criteria=criteria), a_report("four"), client=client)

    assert score.value == 1.0
    assert "- [a]: clear\n    0 to 9: muddled\n    10: crystal" in client.requests[0][1].content


def test_a_grader_that_leaves_a_criterion_out_is_asked_again() -> None:
    partial = '{"checks": [{"id": "rubric-1", "satisfied": true}]}'
    whole = '{"checks": [{"id": "rubric-1", "satisfied": true}, {"id": "rubric-2", "satisfied": false}]}'

    score = graded(
        an_evaluator("rubrics", criteria=["a", "b"]), a_report("x"), client=FakeGraderClient([partial, whole])
    )

    assert (score.value, score.details["tries"]) == (0.5, 2)


def test_a_criterion_that_need_not_be_met_and_is_never_judged_does_not_count_and_that_is_said() -> None:
    partial = '{"checks": [{"id": "rubric-1", "satisfied": true}]}'
    criteria = ["a", {"id": "b", "outcome": "b", "required": False}]

    score = graded(an_evaluator("rubrics", criteria=criteria), a_report("x"), client=FakeGraderClient([partial] * 4))

    assert score.value == 1.0
    assert score.reason.endswith("no check for b")


def test_a_required_criterion_that_is_never_judged_leaves_the_score_open() -> None:
    partial = '{"checks": [{"id": "rubric-1", "satisfied": true}]}'

    score = graded(an_evaluator("rubrics", criteria=["a", "b"]), a_report("x"), client=FakeGraderClient([partial] * 4))

    assert score.value is None
    assert "the required rubric-2 was not graded" in score.reason


def test_the_cases_criteria_are_part_of_what_a_rubric_shows() -> None:
    client = FakeGraderClient(['{"checks": [{"id": "rubric-1", "satisfied": true}]}'])

    graded(
        an_evaluator("rubrics", criteria=["a"]),
        a_report("x"),
        case=a_case(criteria="Answers the question"),
        client=client,
    )

    assert "Answers the question" in client.requests[0][1].content
