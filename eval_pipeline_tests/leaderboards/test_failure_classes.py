"""Verdicts → failure classes: why cells did not pass, how often, and where to look."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.failures import FAILURE_CLASSES
from eval_pipeline.leaderboards.failure_classes import EXAMPLES, summarize_failures
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.leaderboards.sample_verdicts import frame, many, verdict


def failed(runner: str, case: str, class_: str = "assertion", status: str = "failed", **fields: Any) -> dict[str, Any]:
    return verdict(runner, case, status, failure_class=class_, **fields)


def test_classes_are_counted_per_suite_and_runner_most_frequent_first() -> None:
    rows = [failed("a", "c1", "timeout", "error"), failed("a", "c2"), failed("a", "c3"), failed("b", "c1", "gate")]

    classes = summarize_failures(frame(*rows, *many("a", 1)))

    assert classes.select("runner", "failure_class", "count", "share").rows() == [
        ("a", "assertion", 2, 0.5),
        ("a", "timeout", 1, 0.25),
        ("b", "gate", 1, 1.0),
    ]


def test_equally_frequent_classes_are_in_the_order_of_their_names() -> None:
    classes = summarize_failures(frame(failed("a", "c1", "timeout"), failed("a", "c2", "gate")))

    assert classes["failure_class"].to_list() == ["gate", "timeout"]


@pytest.mark.parametrize("class_", sorted(FAILURE_CLASSES))
def test_every_class_has_its_label_and_origin(class_: str) -> None:
    (row,) = summarize_failures(frame(failed("a", "c1", class_))).to_dicts()

    known = FAILURE_CLASSES[class_]
    assert (row["label"], row["origin"]) == (known.label, known.origin.value)


def test_a_class_of_the_suites_own_is_one_of_quality() -> None:
    (row,) = summarize_failures(frame(failed("a", "c1", "wrong-alias"))).to_dicts()

    assert (row["label"], row["origin"]) == ("Wrong alias", "quality")


def test_examples_are_the_first_cases_each_once() -> None:
    rows = [
        failed("a", f"c{case}", repetition=rep, reason=f"{case}.{rep}") for case in range(9, 0, -1) for rep in (2, 1)
    ]

    (row,) = summarize_failures(frame(*rows)).to_dicts()

    assert row["examples"] == [f"c{case}" for case in range(1, EXAMPLES + 1)]
    assert row["example_reason"] == "1.1"


def test_a_failure_that_was_expected_is_nobodys_business() -> None:
    classes = summarize_failures(frame(failed("a", "c1", status="expected-failed"), failed("a", "c2")))

    assert classes["examples"].to_list() == [["c2"]]


def test_the_same_class_of_two_suites_is_two_rows() -> None:
    classes = summarize_failures(frame(failed("a", "c1"), failed("a", "c1", suite="t")))

    assert classes["suite"].to_list() == ["s", "t"]


@pytest.mark.parametrize("rows", [pytest.param([], id="no-verdicts"), pytest.param(many("a", 2), id="all-passed")])
def test_without_failures_there_are_no_rows_but_all_columns(rows: list[dict[str, Any]]) -> None:
    classes = summarize_failures(frame(*rows))

    assert classes.height == 0
    assert set(classes.columns) == set(BY_NAME["failure_classes"].column_names) - {"computed_at"}
    assert classes.schema == summarize_failures(frame(failed("a", "c1"))).schema
