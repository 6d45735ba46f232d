"""Runs whose process was killed end with the next start; runs of others go on."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.events import EngineEventData
from dagster._core.storage.tags import GRPC_INFO_TAG

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.processes import ProcessMark, parse_mark, process_start, this_process
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, every_cell

STARTED, STARTING, QUEUED = dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.QUEUED
CANCELING, NOT_STARTED = dg.DagsterRunStatus.CANCELING, dg.DagsterRunStatus.NOT_STARTED
FAILURE, CANCELED = dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED


@dg.job
def nothing() -> None:
    """No op."""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def dead() -> ProcessMark:
    """The mark of a process that was killed."""
    with subprocess.Popen(["sleep", "600"]) as process:
        mark = replace(this_process(), pid=process.pid, start=process_start(process.pid) or "")
        process.kill()
    return mark


@pytest.fixture
def alive() -> Iterator[ProcessMark]:
    """The mark of a process that is there, of somebody else."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield replace(this_process(), pid=process.pid, start=process_start(process.pid) or "")
        process.kill()


def add_run(data: Path, status: dg.DagsterRunStatus, process: str, of: str | None = None) -> str:
    """Store an unfinished run that names its process; `of` is the run that the tag was written for."""
    with open_instance(data) as instance:
        run = instance.create_run_for_job(nothing, tags={}, status=status)
        instance.add_run_tags(run.run_id, {"process": f"{of or run.run_id}|{process}"})
    return run.run_id


def status_after_the_next_start(data: Path, run_id: str) -> dg.DagsterRunStatus:
    with open_instance(data) as instance:
        run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


@pytest.mark.parametrize(
    ("status", "ends"),
    [(STARTED, FAILURE), (STARTING, FAILURE), (NOT_STARTED, FAILURE), (CANCELING, CANCELED), (QUEUED, QUEUED)],
    ids=["started", "starting", "not started", "canceling", "queued: nobody carries it out yet"],
)
def test_a_run_whose_process_is_gone_ends_with_the_next_start(
    data: Path, dead: ProcessMark, status: dg.DagsterRunStatus, ends: dg.DagsterRunStatus
) -> None:
    run_id = add_run(data, status, str(dead))

    assert status_after_the_next_start(data, run_id) == ends


def test_the_reason_names_the_process(data: Path, dead: ProcessMark) -> None:
    run_id = add_run(data, STARTED, str(dead))

    with open_instance(data) as instance:
        (failed,) = instance.all_logs(run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
    expected = f"the process of this run (pid {dead.pid}) is gone; finished executions are kept"
    assert failed.get_dagster_event().message == expected


def test_a_run_whose_process_is_there_goes_on(data: Path, alive: ProcessMark) -> None:
    assert status_after_the_next_start(data, add_run(data, STARTED, str(alive))) == STARTED


def test_a_process_that_got_the_id_of_a_dead_one_is_not_taken_for_it(data: Path, alive: ProcessMark) -> None:
    earlier = replace(alive, start="17")

    assert status_after_the_next_start(data, add_run(data, STARTED, str(earlier))) == FAILURE


def test_a_machine_that_started_again_has_none_of_its_earlier_processes(data: Path, alive: ProcessMark) -> None:
    earlier = replace(alive, boot="another boot")

    assert status_after_the_next_start(data, add_run(data, STARTED, str(earlier))) == FAILURE


@pytest.mark.parametrize(
    "elsewhere", [{"host": "another machine"}, {"namespace": "pid:[7]"}], ids=["host", "container"]
)
def test_a_run_of_another_machine_or_container_is_never_ended(
    data: Path, dead: ProcessMark, elsewhere: dict[str, str]
) -> None:
    run_id = add_run(data, STARTED, str(replace(dead, **elsewhere)))  # type: ignore[arg-type]

    assert status_after_the_next_start(data, run_id) == STARTED


def test_a_run_that_is_started_again_is_not_ended_for_the_process_of_the_first_one(
    data: Path, dead: ProcessMark
) -> None:
    again = add_run(data, STARTING, str(dead), of="the run that it repeats")

    assert status_after_the_next_start(data, again) == STARTING


@pytest.mark.parametrize("there", [False, True], ids=["killed", "still starting"])
def test_a_process_that_is_killed_before_any_step_is_known_by_the_log_of_its_run(
    data: Path, dead: ProcessMark, alive: ProcessMark, there: bool
) -> None:
    process = alive if there else dead
    with open_instance(data) as instance:
        run = instance.create_run_for_job(nothing, tags={}, status=STARTED)
        instance.add_run_tags(run.run_id, {GRPC_INFO_TAG: '{"host": "localhost"}', "process": ""})
        instance.report_engine_event("Started process for run", run, EngineEventData.in_process(process.pid))

    assert status_after_the_next_start(data, run.run_id) == (STARTED if there else FAILURE)


def test_the_run_of_a_command_names_the_process_that_carries_it_out(folder: ProjectFolder) -> None:
    session = folder.session()
    assert run_sweep(session, *every_cell(session, "echo"), {}).problem is None

    with open_instance(folder.data) as instance:
        (run,) = instance.get_runs()
    assert (run.job_name, run.tags["process"]) == ("sweep", f"{run.run_id}|{this_process()}")


def test_a_run_that_dagster_starts_names_its_process_once_a_step_begins(folder: ProjectFolder) -> None:
    definitions = build_definitions(folder.session())
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("rank").execute_in_process(instance=instance, raise_on_error=False)
        run = instance.get_run_by_id(result.run_id)

    assert run is not None
    assert run.tags["process"] == f"{run.run_id}|{this_process()}"


def test_the_sensor_of_dev_ends_dead_runs_and_names_them(
    folder: ProjectFolder, dead: ProcessMark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    sensor = build_definitions(folder.session()).resolve_sensor_def("end_dead_runs")
    with dg.DagsterInstance.ephemeral() as instance:
        run = instance.create_run_for_job(nothing, status=STARTED)
        instance.add_run_tags(run.run_id, {"process": f"{run.run_id}|{dead}"})

        first, second = (sensor(dg.build_sensor_context(instance=instance)) for _ in range(2))
        ended = instance.get_run_by_id(run.run_id)

    assert isinstance(first, dg.SkipReason)
    assert isinstance(second, dg.SkipReason)
    assert (first.skip_message, second.skip_message) == (f"ended: {run.run_id}", "no dead run")
    assert ended is not None
    assert ended.status == FAILURE


@pytest.mark.parametrize("text", ["", "a|b|c", "a|b|c|no number|d", "one|two|three|4|five|six"])
def test_a_text_that_is_no_mark_is_none(text: str) -> None:
    assert parse_mark(text) is None
