"""Several processes sweep in one data folder into a shared warehouse: at the same time, and without repeating what a
killed one had finished."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.execution.api import execute_job

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.partitions import range_tags
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import new_lake
from eval_pipeline_tests.team.sweeping import CountedProject
from eval_pipeline_tests.team.test_machines import check_rows, ended, until


def test_sweeps_of_one_folder_have_slots_of_their_own_and_a_deletion_waits_for_all(
    url: str, lake: DuckLakeWarehouse, tmp_path: Path
) -> None:
    other = machine(url, tmp_path / "one")
    reports: list[str] = []

    with SweepStore(lake).sweeping(reports.append), SweepStore(other).sweeping(reports.append):
        assert [each.storage.progress.name for each in (lake, other)] == ["progress.json", "progress-1.json"]
        assert lake.storage.journals == other.storage.journals

    assert reports == []
    assert other.storage.progress.name == "progress.json"
    with SweepStore(other).sweeping(), pytest.raises(TimeoutError), SweepStore(lake).exclusive(_no_longer):
        raise AssertionError("two have the folder")


def _no_longer(text: str) -> None:
    raise TimeoutError(text)


def test_a_sweep_of_two_processes_is_alive_until_both_have_ended(
    url: str, lake: DuckLakeWarehouse, tmp_path: Path
) -> None:
    other = machine(url, tmp_path / "two").leases
    assert lake.leases is not None
    assert other is not None

    with lake.leases.held("s") as late:
        with other.held("s") as early:
            assert early.claim([PairKey("s", "a")], 1) == [PairKey("s", "a")]
        assert lake.leases.live_sweeps() == {"s"}
        assert late.claim([PairKey("s", "a")], 1) == [PairKey("s", "a")]


@pytest.mark.slow
def test_two_processes_of_one_folder_carry_out_each_plan_once_at_the_same_time(url: str, tmp_path: Path) -> None:
    project = CountedProject(tmp_path, url, suites=6, seconds=0.2)
    root = project.machine("one")
    outputs = ["first.txt", "second.txt"]

    sweeps = [project.start(root, output_to=name) for name in outputs]
    written = [ended(sweep, root, name) for sweep, name in zip(sweeps, outputs, strict=True)]

    assert not any("under way" in text for text in written)
    assert project.counted().total() == len(project.counted()) == project.plans
    reader = machine(url, tmp_path / "reader")
    check_rows(reader, project.plans)
    both = "SELECT count(*) FROM sweeps a JOIN sweeps b ON a.sweep_id < b.sweep_id AND b.started_at < a.finished_at"
    assert reader.frame(both).item() == 1
    executed = reader.frame("SELECT sweep_id, count(*) FROM target_executions GROUP BY ALL").rows()
    assert len(executed) == 2


@pytest.mark.slow
def test_a_call_that_a_killed_process_finished_is_not_made_again_in_its_folder(
    server: PostgresServer, tmp_path: Path
) -> None:
    url = new_lake(server, tmp_path / "lake") + " lease_s=5"
    project = CountedProject(tmp_path, url, suites=2, runners=2, cases=6, seconds=0.4)
    root = project.machine("one")
    one_call_at_a_time(root)
    alive = project.start(root, output_to="alive.txt")
    dead = project.start(root)
    until(lambda: project.counted().total() >= 4)

    dead.kill()
    dead.wait()
    journaled = _calls_in_journals(root)
    ended(alive, root, "alive.txt")

    counted = project.counted()
    assert journaled
    assert [call for call in journaled if counted[call] != 1] == []
    assert len(counted) == project.plans
    reader = machine(url, tmp_path / "reader")
    check_rows(reader, project.plans)


def sweep_job() -> dg.JobDefinition:
    return build_definitions(Path.cwd()).resolve_job_def("sweep")


@pytest.mark.slow
def test_chunks_of_a_run_are_carried_out_at_the_same_time(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = CountedProject(tmp_path, url, suites=2, runners=2, cases=1, together=2)
    root = project.machine("one")
    one_call_at_a_time(root, dagster={"executor": "multiprocess", "chunk_pairs": 2})
    monkeypatch.chdir(root)
    pairs = [f"s{suite}@r{runner}" for suite in range(2) for runner in range(2)]
    (tmp_path / "home").mkdir()

    with dg.DagsterInstance.local_temp(str(tmp_path / "home")) as instance:
        instance.add_dynamic_partitions("pairs", pairs)
        with execute_job(dg.reconstructable(sweep_job), instance, tags=range_tags(pairs)) as ended:
            assert ended.success

    assert project.counted().total() == len(project.counted()) == project.plans
    reader = machine(url, tmp_path / "reader")
    check_rows(reader, project.plans)
    assert reader.frame("SELECT status FROM sweeps").rows() == [("finished",)]
    beside = "a.execution_id < b.execution_id AND a.started_at < b.finished_at AND b.started_at < a.finished_at"
    together = reader.frame(f"SELECT count(*) FROM target_executions a JOIN target_executions b ON {beside}").item()
    assert together > 0, "a process makes one call at a time"


def one_call_at_a_time(root: Path, **more: object) -> None:
    settings = json.loads((root / "eval-pipeline.yaml").read_text())
    settings |= {"defaults": {"concurrency": 1}, **more}
    (root / "eval-pipeline.yaml").write_text(json.dumps(settings))


def _calls_in_journals(root: Path) -> list[str]:
    """Return the finished calls that are in no table, as the target counts them."""
    calls: list[str] = []
    for path in (root / "data" / "journals").rglob("target_executions.jsonl"):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            calls.append(f"{row['runner']} {row['suite']} {row['case_id']}")
    return calls
