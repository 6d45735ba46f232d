"""Runs that are cut into chunks: the same rows, states and failures as a run in one process, in whatever executor."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pytest
from dagster._core.execution.api import execute_job

from eval_pipeline.errors import InputError
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.chunks import SWEEP_TAG
from eval_pipeline.orchestration.partitions import pair_partitions, range_tags
from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline_tests.orchestration.statuses import failed_and_materialized
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    make_project,
    published,
)

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
CHUNKED = {"executor": "multiprocess", "chunk_pairs": 2}
PRELOADED = ["eval_pipeline.orchestration.build", "eval_pipeline.sweeps.sweep"]
FORKED = {"start_method": {"forkserver": {"preload_modules": PRELOADED}}}
"""Processes of steps are forked where everything is imported; importing it takes 3 s of CPU for each."""
PAIRS = [f"{suite}@{runner}" for suite in ("sums", "more", "third") for runner in ("echo", "parrot")]


def made(root: Path, **project: Any) -> ProjectFolder:
    folder = make_project(root, **project)
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("x"), a_test("y", contains("9")), name="more")
    folder.write_suite(a_test("z"), name="third")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return made(tmp_path / "project", dagster=CHUNKED)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as opened:
        yield opened


def run(
    folder: ProjectFolder, instance: dg.DagsterInstance, keys: Sequence[str] = PAIRS, **config: Any
) -> dg.ExecuteInProcessResult:
    instance.add_dynamic_partitions("pairs", list(keys))
    job = build_definitions(folder.root).resolve_job_def("sweep")
    ops = {"ops": {"evaluate": {"config": config}}}
    return job.execute_in_process(
        instance=instance, tags=range_tags(keys), run_config={**QUIET, **ops}, raise_on_error=False
    )


def chunks_of(instance: dg.DagsterInstance, run_id: str) -> list[list[str]]:
    logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_OUTPUT)
    found = [log.get_dagster_event().step_output_data.metadata for log in logs]
    return [cast(list[str], metadata["pairs"].value) for metadata in found if "pairs" in metadata]


def test_a_run_in_chunks_is_one_sweep_with_the_rows_of_a_run_in_one_process(
    folder: ProjectFolder, instance: dg.DagsterInstance, tmp_path: Path
) -> None:
    whole = made(tmp_path / "whole")
    assert run(whole, instance).success

    ended = run(folder, instance)

    assert ended.success
    chunks = chunks_of(instance, ended.run_id)
    assert sorted(pair for chunk in chunks for pair in chunk) == sorted(PAIRS)
    assert [len(chunk) for chunk in chunks] == [2, 2, 2]
    ((sweep, status, run_id),) = folder.ask("SELECT sweep_id, status, dagster_run_id FROM sweeps")
    assert (status, run_id) == ("finished", ended.run_id)
    tags = instance.get_run_by_id(ended.run_id).tags  # type: ignore[union-attr]
    assert (tags[SWEEP_TAG], tags["eval_pipeline/chunks"]) == (sweep, "3")
    assert checked(ended, "coverage") == set(PAIRS)
    ours, theirs = published(folder.data), published(whole.data)
    for table in ours.keys() - {"leaderboards"}:
        assert ours[table] == theirs[table], table
    assert len(ours["verdicts"]) == 10

    assert run(folder, instance).success
    assert len(folder.take_calls()) == 10, "a second run makes no call"


def checked(ended: dg.ExecuteInProcessResult, name: str) -> set[str | None]:
    found = [event.event_specific_data for event in ended.all_events]
    return {each.partition for each in found if isinstance(each, dg.AssetCheckEvaluation) and each.check_name == name}


def test_just_the_pairs_that_failed_are_failed(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [")

    ended = run(folder, instance, [*PAIRS, "broken@echo"])

    assert not ended.success
    for asset in PAIR_ASSETS:
        failed, materialized = failed_and_materialized(instance, asset)
        assert (failed, materialized) == ({"broken@echo"}, set(PAIRS)), asset
    (failure,) = [event.step_failure_data for event in ended.all_events if event.is_step_failure]
    assert failure.user_failure_data is not None
    assert str(failure.user_failure_data.description).startswith("1 of 7 partitions failed\nbroken@echo: ")


def test_a_run_without_a_usable_pair_says_why(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [")

    ended = run(folder, instance, ["broken@echo"])

    (failure,) = [event.step_failure_data for event in ended.all_events if event.is_step_failure]
    assert failure.user_failure_data is not None
    assert str(failure.user_failure_data.description).startswith("1 of 1 partition failed\nbroken@echo: ")
    assert folder.ask("SELECT 1 FROM sweeps") == []


def test_a_budget_is_for_all_chunks_together(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    folder = made(tmp_path / "project", dagster={**CHUNKED, "chunk_pairs": 1})

    run(folder, instance, budget_calls=3)

    assert len(folder.take_calls()) == 3


def job() -> dg.JobDefinition:
    return build_definitions(Path.cwd()).resolve_job_def("sweep")


def test_processes_beside_the_run_carry_out_its_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "project", dagster={**CHUNKED, "executor_config": FORKED})
    monkeypatch.chdir(folder.root)
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")  # the server that forks has a folder there until this process ends

    with dg.DagsterInstance.local_temp() as instance:
        instance.add_dynamic_partitions("pairs", PAIRS)
        with execute_job(dg.reconstructable(job), instance, tags=range_tags(PAIRS[:4]), run_config=QUIET) as ended:
            assert ended.success
            run_id = ended.run_id
        logs = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
        events = [log.get_dagster_event() for log in logs if log.step_key is not None and "chunk" in log.step_key]
        assert len({event.pid for event in events}) == 2
        assert failed_and_materialized(instance, "evaluator_scores") == (set(), set(PAIRS[:4]))
    assert len(folder.take_calls()) == 8


def test_an_executor_whose_package_is_missing_is_an_error_that_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "project", dagster={"executor": "k8s"})
    monkeypatch.setitem(__import__("sys").modules, "dagster_k8s", None)

    with pytest.raises(InputError, match=r"executor: k8s needs: pip install 'eval-pipeline\[kubernetes\]'"):
        build_definitions(folder.root)


def test_settings_that_an_executor_does_not_have_are_named(tmp_path: Path) -> None:
    folder = made(tmp_path / "project", dagster={**CHUNKED, "executor_config": {"max_concurent": 2}})

    with pytest.raises(InputError, match="max_concurent"):
        build_definitions(folder.root)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"executor": "ray"}, "dagster.executor"),
        ({"chunk_pairs": 0}, "dagster.chunk_pairs"),
        ({"chunks": 2}, "chunks"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(tmp_path: Path, settings: dict[str, Any], named: str) -> None:
    folder = made(tmp_path / "project", dagster=settings)

    with pytest.raises(InputError) as raised:
        build_definitions(folder.root)
    assert named in str(raised.value)


def test_partitions_are_those_of_the_project(folder: ProjectFolder) -> None:
    definitions = build_definitions(folder.root)
    graph = definitions.resolve_asset_graph()

    for asset in PAIR_ASSETS:
        assert graph.get(dg.AssetKey(asset)).partitions_def == pair_partitions
    assert graph.get(dg.AssetKey("session_reports")).parent_keys == {dg.AssetKey("target_executions")}
