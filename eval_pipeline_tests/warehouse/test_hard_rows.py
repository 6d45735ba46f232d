"""Rows that are hard to store: long ones, odd ones, odd places, and a sweep that still runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eval_pipeline.fingerprints import to_json
from eval_pipeline.reports.model import ErrorEvent, SessionReport
from eval_pipeline.scores.model import Score
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import Journal, PairKey, journal_folder, recover
from eval_pipeline_tests.builders import an_execution
from eval_pipeline_tests.warehouse.test_rows import put, take

EXECUTION = an_execution(execution_id="e0")


def test_recovering_leaves_the_journal_of_a_sweep_that_still_runs_alone(warehouse: DuckDBWarehouse) -> None:
    cell = PairKey("s", "r")
    running = Journal(journal_folder(warehouse.storage, "1", cell), warehouse)
    running.append("target_executions", {"execution_id": "e1"})

    recover(warehouse, cell)
    running.append("target_executions", {"execution_id": "e2"})
    running.ingest()

    rows = warehouse.frame("SELECT execution_id FROM target_executions ORDER BY 1")
    assert rows["execution_id"].to_list() == ["e1", "e2"]


def test_a_data_folder_may_have_brackets_in_its_name(tmp_path: Path) -> None:
    warehouse = DuckDBWarehouse(tmp_path / "data [1]")

    warehouse.write("sweeps", [{"sweep_id": "a"}])

    assert warehouse.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["a"]


def test_a_number_that_does_not_fit_is_unknown_and_keeps_no_cell_out(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("session_reports", [{"execution_id": "e0", "input_tokens": 2**63, "exit_code": 2**31}])

    rows = warehouse.frame("SELECT input_tokens, exit_code FROM session_reports")
    assert rows.rows() == [(None, None)]


def test_an_answer_of_any_length_can_be_stored(warehouse: DuckDBWarehouse) -> None:
    warehouse.write("session_reports", [{"execution_id": "e0", "final_output": "x" * (40 * 2**20)}])

    assert len(warehouse.frame("SELECT execution_id FROM session_reports")) == 1


def test_a_report_made_anew_has_its_own_events_only(warehouse: DuckDBWarehouse) -> None:
    first = SessionReport(execution_id="e0", events=(ErrorEvent(message="1"), ErrorEvent(message="2")))
    put(warehouse, (EXECUTION, first, ()))
    put(warehouse, (EXECUTION, replace(first, events=(ErrorEvent(message="new"),)), ()))

    ((_, report, _),) = take(warehouse, "e0")

    assert report is not None
    assert report.events == (ErrorEvent(message="new"),)


def test_details_may_have_any_name(warehouse: DuckDBWarehouse) -> None:
    score = Score("e0", "k", "n", "t", 1.0, "so", failure_class="theirs", details={"failure_class": "mine"})
    put(warehouse, (EXECUTION, None, [score]))

    ((_, _, scores),) = take(warehouse, "e0")

    assert scores == {"k": score}


def test_records_that_a_normalizer_did_not_know_are_read_back(warehouse: DuckDBWarehouse) -> None:
    report = SessionReport(execution_id="e0", unknown_events={"odd": 2})
    put(warehouse, (EXECUTION, report, ()))

    assert take(warehouse, "e0")[0][1] == report


def test_times_of_an_execution_read_back_say_that_they_are_utc(warehouse: DuckDBWarehouse) -> None:
    put(warehouse, (EXECUTION, None, ()))

    ((execution, _, _),) = take(warehouse, "e0")

    assert execution.started_at == EXECUTION.started_at


def test_many_long_rows_are_taken_in_although_they_need_more_than_the_usual_memory(tmp_path: Path) -> None:
    warehouse = DuckDBWarehouse(tmp_path)
    warehouse.folder.mkdir(exist_ok=True)
    text = "word " * 1_000
    row = {"spec_key": "k", "evaluator": "e", "type": "contains", "value": 1.0, "reason": text}
    path = tmp_path / "evaluator_scores.jsonl"
    with path.open("wb") as journal:
        journal.writelines(to_json({**row, "execution_id": f"e{number}"}) + b"\n" for number in range(16_000))

    warehouse.ingest({"evaluator_scores": path})

    assert warehouse.frame("SELECT count(*), max(length(reason)) FROM evaluator_scores").rows() == [(16_000, len(text))]
