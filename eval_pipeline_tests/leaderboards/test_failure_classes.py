"""Verdicts → failure classes: why plans did not pass, how often, and where to look."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from eval_pipeline.failures import FAILURE_CLASSES
from eval_pipeline.leaderboards.failure_classes import EXAMPLES, describe_failures
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import failure_counts
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.leaderboards.sample_verdicts import many, verdict

ClassesOf = Callable[..., pl.DataFrame]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> DuckDBWarehouse:
    return DuckDBWarehouse(tmp_path_factory.mktemp("data"))


@pytest.fixture
def classes_of(warehouse: DuckDBWarehouse) -> ClassesOf:
    """Return a function from verdicts to the failure classes of the runners `a` and `b` on the suites `s` and `t`."""

    def classes(*rows: dict[str, Any]) -> pl.DataFrame:
        named = [{"verdict_id": str(number), "decided_at": NOW, **row} for number, row in enumerate(rows)]
        revisions = {"suite_revision": "1", "runner_revision": "1", "finished_at": NOW, "sweep_id": "1"}
        pairs = [PairKey(suite, runner) for suite in ("s", "t") for runner in ("a", "b")]
        with warehouse.transaction() as connection:
            connection.execute("DELETE FROM verdicts")
            warehouse.write("verdicts", named)
            warehouse.write(
                "sweep_pairs", [{"suite": pair.suite, "runner": pair.runner, **revisions} for pair in pairs]
            )
            return describe_failures(failure_counts(warehouse, pairs, EXAMPLES))

    return classes


def failed(runner: str, case: str, class_: str = "assertion", status: str = "failed", **fields: Any) -> dict[str, Any]:
    return verdict(runner, case, status, failure_class=class_, **fields)


def test_classes_are_counted_per_suite_and_runner_most_frequent_first(classes_of: ClassesOf) -> None:
    rows = [failed("a", "c1", "timeout", "error"), failed("a", "c2"), failed("a", "c3"), failed("b", "c1", "gate")]

    classes = classes_of(*rows, verdict("a", "c4"))

    assert classes.select("runner", "failure_class", "count", "share").rows() == [
        ("a", "assertion", 2, 0.5),
        ("a", "timeout", 1, 0.25),
        ("b", "gate", 1, 1.0),
    ]


def test_equally_frequent_classes_are_in_the_order_of_their_names(classes_of: ClassesOf) -> None:
    classes = classes_of(failed("a", "c1", "timeout"), failed("a", "c2", "gate"))

    assert classes["failure_class"].to_list() == ["gate", "timeout"]


def test_every_class_has_its_label_and_origin(classes_of: ClassesOf) -> None:
    rows = classes_of(*(failed("a", f"c{number}", class_) for number, class_ in enumerate(FAILURE_CLASSES))).to_dicts()

    described = {row["failure_class"]: (row["label"], row["origin"]) for row in rows}
    assert described == {id_: (known.label, known.origin.value) for id_, known in FAILURE_CLASSES.items()}


def test_a_class_of_the_suites_own_is_one_of_quality(classes_of: ClassesOf) -> None:
    (row,) = classes_of(failed("a", "c1", "wrong-alias")).to_dicts()

    assert (row["label"], row["origin"]) == ("Wrong alias", "quality")


def test_examples_are_the_first_cases_each_once(classes_of: ClassesOf) -> None:
    rows = [
        failed("a", f"c{case}", repetition=rep, reason=f"{case}.{rep}") for case in range(9, 0, -1) for rep in (2, 1)
    ]

    (row,) = classes_of(*rows).to_dicts()

    assert row["examples"] == [f"c{case}" for case in range(1, EXAMPLES + 1)]
    assert row["example_reason"] == "1.1"


def test_a_failure_that_was_expected_is_nobodys_business(classes_of: ClassesOf) -> None:
    classes = classes_of(failed("a", "c1", status="expected-failed"), failed("a", "c2"))

    assert classes["examples"].to_list() == [["c2"]]


def test_the_same_class_of_two_suites_is_two_rows(classes_of: ClassesOf) -> None:
    classes = classes_of(failed("a", "c1"), failed("a", "c1", suite="t"))

    assert classes["suite"].to_list() == ["s", "t"]


@pytest.mark.parametrize("rows", [pytest.param([], id="no-verdicts"), pytest.param(many("a", 2), id="all-passed")])
def test_without_failures_there_are_no_rows_but_all_columns(rows: list[dict[str, Any]], classes_of: ClassesOf) -> None:
    classes = classes_of(*rows)

    assert classes.height == 0
    assert set(classes.columns) == set(BY_NAME["failure_classes"].column_names) - {"computed_at"}
    assert classes.schema == classes_of(failed("a", "c1")).schema
