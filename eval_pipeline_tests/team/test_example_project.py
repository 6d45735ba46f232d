"""The example project in a shared warehouse has the rows of its DuckDB file."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from eval_pipeline.warehouse.copying import copy_warehouse
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.published import open_results
from eval_pipeline_tests.postgres_server import PASSWORD, PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNTS = "SELECT suite, runner, planned, passed, failed, errored, threshold FROM current_pairs ORDER BY ALL"
VERDICTS = """SELECT suite, runner, case_id, repetition, status, round(score, 6), failure_class, cost_usd
              FROM current_verdicts ORDER BY ALL"""
SCORES = "SELECT suite, runner, case_id, evaluator, value, passes FROM current_scores ORDER BY ALL"
BOARD = """SELECT suite, runner, scope, rank, pass_rate, mean_score, graded, pass_rate_low, pass_rate_high
           FROM leaderboards WHERE board_id = (SELECT max(board_id) FROM leaderboards) ORDER BY ALL"""


def sweep(folder: Path, *options: str) -> str:
    """Run the whole project in a process of its own; return what it prints."""
    command = [sys.executable, "-c", "from eval_pipeline.cli.entry import main; main()", "run", "--quiet", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout + done.stderr


def project(folder: Path) -> Path:
    """Copy the example project; return its folder."""
    shutil.copytree(EXAMPLES, folder / "project", ignore=shutil.ignore_patterns("node_modules", "__pycache__"))
    return folder / "project"


@pytest.mark.slow
def test_the_lake_has_the_rows_of_the_file_and_copies_both_ways(
    server: PostgresServer, url: str, tmp_path: Path
) -> None:
    here, there = project(tmp_path / "file"), project(tmp_path / "lake-project")

    sweep(here)
    printed = sweep(there, "--warehouse", url)

    with open_results(here.parent / "data") as file, machine(url, tmp_path / "reader").published() as lake:
        for query in (COUNTS, VERDICTS, SCORES, BOARD):
            assert lake.execute(query).fetchall() == file.execute(query).fetchall()
        assert len(file.execute(VERDICTS).fetchall()) > 300
        rows = file.execute(SCORES).fetchall()
    assert PASSWORD not in printed
    assert not (there.parent / "data" / "warehouse.duckdb").exists()

    shared, back = machine(url, tmp_path / "reader"), DuckDBWarehouse(tmp_path / "back")
    copied = list(copy_warehouse(shared, back))
    assert {table.name for table in copied if table.is_new} >= {"verdicts", "evaluator_scores", "session_events"}
    with back.published() as connection:
        assert connection.execute(SCORES).fetchall() == rows
    fresh = machine(new_lake(server, tmp_path / "second"), tmp_path / "reader")
    assert [table.rows for table in copy_warehouse(back, fresh)] == [table.rows for table in copied]
    shared.close()
    fresh.close()
