"""Commands that only look change nothing: a `plan` between any two steps of a sweep costs it no row."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

PAIR = PairKey("sums", "echo")
COUNTS = """SELECT (SELECT count(*) FROM target_executions), (SELECT count(*) FROM verdicts),
                   (SELECT count(*) FROM evaluator_scores)"""
Planned = tuple[int, int, int]


def plan(folder: ProjectFolder) -> Planned:
    """What a plan reports now, as a process of its own would: reused, to execute, to score again."""
    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    return planned.counts.reused, planned.counts.executed, planned.counts.rescored


def plan_before_ingesting(monkeypatch: pytest.MonkeyPatch, look: Callable[[], object]) -> None:
    """Call `look` between the moment a sweep closes its journals and the moment it stores them."""
    ingest = DuckDBWarehouse.ingest

    def looking(warehouse: DuckDBWarehouse, *journals: Mapping[str, Path]) -> None:
        if any(path.is_relative_to(warehouse.storage.journals) for path in journals[0].values()):
            look()
        ingest(warehouse, *journals)

    monkeypatch.setattr(DuckDBWarehouse, "ingest", looking)


def test_a_plan_while_a_run_ingests_its_journal_loses_no_row(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Planned] = []
    plan_before_ingesting(monkeypatch, lambda: seen.append(plan(folder)))

    folder.sweep()

    assert folder.ask(COUNTS) == [(2, 2, 2)]
    assert seen == [(0, 0, 2)]  # executed, and not scored yet as far as anybody else can see


def killed_sweep(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, aside: Path) -> Path:
    """The file that a sweep leaves whose process is killed before it stores anything, its last line incomplete."""
    journals = folder.data / "journals"
    plan_before_ingesting(monkeypatch, lambda: shutil.copytree(journals, aside))
    sweep_id, _ = folder.sweep_cells([PAIR])
    monkeypatch.undo()
    with folder.session().warehouse.transaction() as connection:
        for table in ("target_executions", "verdicts", "session_reports", "evaluator_scores", "sweep_pairs"):
            connection.execute(f"DELETE FROM {table}")
    shutil.copytree(aside, journals, dirs_exist_ok=True)
    file = journals / sweep_id / "echo" / "sums" / "target_executions.jsonl"
    with file.open("ab") as journal:
        journal.write(b'{"execution_id": "cut o')
    return file


def test_a_plan_counts_what_a_killed_sweep_executed_and_leaves_its_journal(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = killed_sweep(folder, monkeypatch, tmp_path / "aside")
    folder.take_calls()

    planned = plan(folder)

    assert planned == (0, 0, 2)
    assert (folder.ask(COUNTS), file.is_file()) == ([(0, 0, 0)], True)
    counts = folder.sweep()
    assert (counts.executed, counts.rescored, folder.take_calls()) == (0, 2, [])
