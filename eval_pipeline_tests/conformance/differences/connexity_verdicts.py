"""Differences about the judge of Connexity: what is no score here, and what is asked for again."""

from __future__ import annotations

from typing import Any

from eval_pipeline_tests.conformance.connexity_judging import (
    PROVIDER,
    check_values,
    has_no_weight,
    has_unclear_verdicts,
)
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Difference, Observations, refuses
from eval_pipeline_tests.conformance.recorded_facts import Row


def _judges(row: Row) -> bool:
    is_one = row.data.get("op") == "evaluate_transcript" or row.kind == "judge.outcomes"
    return row.family == "connexity" and is_one


def _fails(row: Row) -> bool:
    if row.kind == "case.pass_rule":
        return row.data["input"]["verdict"] is None
    if not _judges(row):
        return False
    expected: dict[str, Any] = row.data["expected"]
    is_zero = expected.get("overall_score") == 0.0 and not expected.get("scores")
    return "$raises" in expected or is_zero


def _gives_no_score(row: Row, observations: Observations) -> None:
    observation = observations[AS_WRITTEN]
    assert observation.problems == ()
    assert (observation.values["value"], observation.values["passes"]) == (None, None)
    assert observation.values["reason"]


def _of_the_call(row: Row) -> bool:
    return _judges(row) and PROVIDER in row.data["expected"]


def _has_the_rest(row: Row, observations: Observations) -> None:
    expected = row.data["expected"]
    check_values(observations[AS_WRITTEN], {name: expected[name] for name in expected if name != PROVIDER})


def _has_the_key_as_well(row: Row, observations: Observations) -> None:
    names = "json_schema.schema.properties.keys"
    expected = row.data["expected"]
    assert observations[AS_WRITTEN].problems == ()
    assert observations[AS_WRITTEN].values == {**expected, names: sorted([*expected[names], "key"])}


def _has_its_rubric(row: Row, observations: Observations) -> None:
    assert observations[AS_WRITTEN].problems == ()
    assert observations[AS_WRITTEN].values == {"rubric": row.data["expected"]["description"]}


VERDICTS = (
    Difference(
        "metrics whose weights are all 0 are an error before anything runs",
        "all of them count alike there, although nothing was to count",
        lambda row: _judges(row) and has_no_weight(row.data["input"]),
        refuses(lambda row: [("metrics", "^every weight is 0; give at least one metric a weight$")]),
    ),
    Difference(
        "a verdict on an outcome that is neither true nor false is asked for again",
        "it counts as not met there; a reply that cannot be read says nothing of the agent",
        lambda row: _judges(row) and has_unclear_verdicts(row.data["input"]),
        _gives_no_score,
    ),
    Difference(
        "a judge that fails, or has nothing to judge, gives no score; it is never 0",
        "a failed judge is a score of 0 there, which counts against the agent",
        _fails,
        _gives_no_score,
    ),
    Difference(
        "the provider of a judge is the wire of its runner, and no part of its verdict",
        "a provider is a name of the library of the reference; here a runner's wire is its provider",
        _of_the_call,
        _has_the_rest,
    ),
    Difference(
        "a reply repeats the key of its question",
        "an object that is quoted in a reply is no judgement: only one with the key of the question is",
        lambda row: row.kind == "judge.response_schema",
        _has_the_key_as_well,
    ),
    Difference(
        "a metric is described by its rubric",
        "a description is made of the rubric there, and stored beside it; here the rubric is all there is",
        lambda row: row.kind == "generator.metric",
        _has_its_rubric,
    ),
)
