"""What the warehouse knows of a suite × runner: which executions can be reused, and what was decided about them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.stored_pairs import Rebind, joined_tags, rebind, select_again, stored_executions
from eval_pipeline_tests.builders import NOON

CELL = PairKey("s", "r")


def execution(
    execution_id: str, key: str = "k", *, completed: bool = True, at: int = 0, **fields: Any
) -> dict[str, Any]:
    return {"execution_id": execution_id, "key": key, "suite": "s", "runner": "r", "case_id": "c1", "repetition": 1,
            "completed": completed, "format": "replay", "sweep_id": "1", "selected_at": NOON + timedelta(minutes=at),
            **fields}  # fmt: skip


def verdict(execution_id: str, status: str = "passed", *, at: int = 0, **fields: Any) -> dict[str, Any]:
    return {"verdict_id": f"{execution_id}-{at}", "execution_id": execution_id, "suite": "s", "runner": "r",
            "case_id": "c1", "repetition": 1, "status": status, "suite_revision": "old",
            "decided_at": NOON + timedelta(minutes=at), **fields}  # fmt: skip


def test_nothing_is_known_without_a_warehouse(tmp_path: Path) -> None:
    assert stored_executions(DuckDBWarehouse(tmp_path), [CELL]) == {CELL: {}}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("executions", "known", "valid"),
    [
        pytest.param([execution("e1")], "e1", True, id="one"),
        pytest.param([execution("old", at=0), execution("new", at=1)], "new", True, id="newest"),
        pytest.param(
            [execution("good", at=0), execution("bad", completed=False, at=1)], "good", True, id="newest-valid-one"
        ),
        pytest.param(
            [execution("bad", completed=False, at=0), execution("worse", completed=False, at=1)], "worse", False,
            id="newest-when-none-is-valid",
        ),
    ],
)  # fmt: skip
def test_the_newest_valid_execution_of_a_key_is_the_one_to_reuse(
    warehouse: DuckDBWarehouse, executions: list[dict[str, Any]], known: str, valid: bool
) -> None:
    warehouse.write("target_executions", executions)

    stored = stored_executions(warehouse, [CELL])[CELL]["k"]

    assert (stored.execution_id, stored.valid) == (known, valid)


def test_each_pair_knows_its_own_executions(warehouse: DuckDBWarehouse) -> None:
    other, absent = PairKey("s", "other"), PairKey("absent", "r")
    warehouse.write("target_executions", [execution("e1"), execution("e2", runner="other")])

    stored = stored_executions(warehouse, [CELL, other, absent])

    assert {pair: [each.execution_id for each in known.values()] for pair, known in stored.items()} == {
        CELL: ["e1"], other: ["e2"], absent: [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("failure_class", "valid"),
    [
        pytest.param(None, True, id="completed"),
        pytest.param("max-steps", False, id="the-session-did-not-complete"),
        pytest.param("normalization", True, id="only-our-reading-failed"),
    ],
)
def test_an_execution_is_worth_reusing_when_its_session_completed(
    warehouse: DuckDBWarehouse, failure_class: str | None, valid: bool
) -> None:
    warehouse.write("target_executions", [execution("e1")])
    warehouse.write(
        "session_reports", [{"execution_id": "e1", "failure_class": failure_class, "normalizer": "replay/1"}]
    )

    stored = stored_executions(warehouse, [CELL])[CELL]["k"]

    assert (stored.valid, stored.report_normalizer) == (valid, "replay/1")


def test_a_cost_of_one_dollar_is_no_truth_value(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("target_executions", [execution("e1")])
    warehouse.write("session_reports", [{"execution_id": "e1", "suite": "s", "runner": "r", "cost_usd": 1.0}])

    stored = stored_executions(warehouse, [CELL])[CELL]["k"]

    assert repr((stored.valid, stored.cost_usd)) == "(True, 1.0)"


def test_an_execution_comes_with_its_newest_verdict(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("target_executions", [execution("e1"), execution("e2", "k2")])
    warehouse.write("verdicts", [verdict("e1", "failed", at=0), verdict("e1", "passed", at=1, decision_key="d")])

    stored = stored_executions(warehouse, [CELL])[CELL]

    assert (stored["k"].status, stored["k"].decision_key) == ("passed", "d")
    assert (stored["k2"].status, stored["k2"].decision_key) == (None, None)


def test_other_suites_and_runners_are_not_looked_at(warehouse: DuckDBWarehouse) -> None:
    others = [execution("e1", suite="t"), execution("e2", runner="q")]
    warehouse.write("target_executions", others)

    assert stored_executions(warehouse, [CELL])[CELL] == {}


def test_unchanged_verdicts_are_repeated_for_the_new_revision_of_their_suite(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("verdicts", [verdict("e1", "failed", at=0), verdict("e1", "passed", at=1), verdict("e2")])

    rebind(warehouse, [Rebind("e1", "new", joined_tags(["t", "u"]))], "2", NOON + timedelta(minutes=5))

    rows = warehouse.frame("SELECT execution_id, status, sweep_id, tags FROM verdicts WHERE suite_revision = 'new'")
    assert rows.rows() == [("e1", "passed", "2", ["t", "u"])]
    assert len(warehouse.frame("SELECT DISTINCT verdict_id FROM verdicts")) == 4


def test_a_reused_execution_becomes_current_again_where_another_one_stood(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("target_executions", [execution("e1", "old", at=0), execution("e2", "new", at=1)])

    select_again(warehouse, ["e1"], NOON + timedelta(minutes=2))

    current = warehouse.frame("SELECT execution_id FROM current_executions")
    assert current["execution_id"].to_list() == ["e1"]


def test_an_execution_is_deselected_where_a_later_one_of_its_plan_was_selected(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("target_executions", [execution("e1", "old", at=0), execution("e2", "new", at=1)])

    stored = stored_executions(warehouse, [CELL])[CELL]

    assert {key: known.deselected for key, known in stored.items()} == {"old": True, "new": False}


def test_an_execution_is_displaced_where_another_one_has_the_newest_verdict_of_its_plan_and_revisions(
    warehouse: DuckDBWarehouse,
) -> None:
    warehouse.write("target_executions", [execution(id_, id_) for id_ in ("e1", "e2", "e3")])
    verdicts = [verdict("e1"), verdict("e2", at=1), verdict("e3", at=2, suite_revision="new")]
    warehouse.write("verdicts", [{"runner_revision": "1", **row} for row in verdicts])

    stored = stored_executions(warehouse, [CELL])[CELL]

    assert {key: known.displaced for key, known in stored.items()} == {"e1": True, "e2": False, "e3": False}
