"""The asset graph as it is shown to everyone who opens the UI: a change of it has to be a change of this file."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from eval_pipeline.orchestration import definitions
from eval_pipeline.orchestration.build import build_definitions, sweep_definitions
from eval_pipeline.orchestration.partitions import pair_partitions
from eval_pipeline.orchestration.versions import INPUTS
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.tables import TABLES
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

PAIRS = "dynamic pairs"

ASSETS = {
    "suites": {
        "after": {},
        "partitions": "dynamic suites",
        "kinds": ["duckdb"],
        "checks": ["suite_is_valid"],
    },
    "plans": {
        "after": {"suites": "all partitions"},
        "partitions": PAIRS,
        "kinds": ["yaml"],
        "checks": [],
    },
    "evaluators": {
        "after": {"suites": "all partitions"},
        "partitions": PAIRS,
        "kinds": ["yaml"],
        "checks": [],
    },
    "target_executions": {
        "after": {"plans": "the same partition"},
        "partitions": PAIRS,
        "kinds": ["duckdb"],
        "checks": [],
    },
    "session_reports": {
        "after": {"target_executions": "the same partition"},
        "partitions": PAIRS,
        "kinds": ["duckdb"],
        "checks": [],
    },
    "evaluator_scores": {
        "after": {"evaluators": "the same partition", "session_reports": "the same partition"},
        "partitions": PAIRS,
        "kinds": ["duckdb"],
        "checks": ["coverage", "no_regression", "pass_rate", "token_snapshots"],
    },
    "failure_classes": {
        "after": {"evaluator_scores": "the same partition"},
        "partitions": PAIRS,
        "kinds": ["duckdb", "polars"],
        "checks": [],
    },
    "leaderboards": {
        "after": {"evaluator_scores": "all partitions", "evaluators": "all partitions"},
        "partitions": None,
        "kinds": ["duckdb", "polars"],
        "checks": [],
    },
}

JOBS = {
    "load_suites": ["suites"],
    "plan": [],
    "rank": ["leaderboards"],
    "rescore": ["evaluator_scores", "failure_classes", "session_reports"],
    "sweep": ["evaluator_scores", "failure_classes", "session_reports", "target_executions"],
}

SCHEDULES = {"nightly_sweep": ("sweep", "0 2 * * *", "UTC", "STOPPED")}
SENSORS = {
    "discover_suites": "RUNNING",
    "end_dead_runs": "RUNNING",
    "keep_free_scores_current": "RUNNING",
    "keep_leaderboards_current": "RUNNING",
}

MAPPINGS: dict[type, str] = {
    dg.IdentityPartitionMapping: "the same partition",
    dg.AllPartitionMapping: "all partitions",
}


@pytest.fixture(scope="module")
def defs(tmp_path_factory: pytest.TempPathFactory) -> dg.Definitions:
    folder = make_project(tmp_path_factory.mktemp("graph") / "project")
    return build_definitions(folder.session())


def test_the_definitions_can_be_loaded(defs: dg.Definitions) -> None:
    dg.Definitions.validate_loadable(defs)


def test_loading_them_prints_no_notice_of_dagsters_beta_features() -> None:
    code = "import eval_pipeline.orchestration.build"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)

    assert done.stderr == ""


def test_the_assets_their_order_partitions_and_checks(defs: dg.Definitions) -> None:
    graph = defs.resolve_asset_graph()

    assert {key.to_user_string(): described(graph, key) for key in graph.get_all_asset_keys()} == ASSETS


def described(graph: Any, key: dg.AssetKey) -> dict[str, Any]:
    node = graph.get(key)
    mappings = {parent: graph.get_partition_mapping(key, parent) for parent in node.parent_keys}
    return {
        "after": {parent.to_user_string(): MAPPINGS[type(mapping)] for parent, mapping in mappings.items()},
        "partitions": partitions(node.partitions_def),
        "kinds": sorted(node.kinds),
        "checks": sorted(check.name for check in graph.asset_check_keys if check.asset_key == key),
    }


def partitions(definition: dg.PartitionsDefinition[str] | None) -> str | None:
    """A partitions definition in one line."""
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return f"dynamic {definition.name}"
    return ", ".join(definition.get_partition_keys()) if definition is not None else None


def test_every_asset_is_described_in_one_group_and_named_as_a_table(defs: dg.Definitions) -> None:
    tables = {table.name for table in TABLES}

    for spec in defs.resolve_all_asset_specs():
        assert spec.group_name == "evaluation"
        assert spec.description
        if spec.key.to_user_string() not in INPUTS:  # these two hold no rows: their versions are what counts
            assert spec.code_version
            assert spec.key.to_user_string() in tables


def test_the_jobs_and_what_they_select(defs: dg.Definitions) -> None:
    jobs = [job for job in defs.get_repository_def().get_all_jobs() if not job.name.startswith("__")]

    selected = {job.name: sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys) for job in jobs}
    assert selected == JOBS
    assert all(job.description for job in jobs)
    assert {job.executor_def.name for job in jobs} == {"in_process"}


def test_they_merge_into_a_deployment_with_an_executor_of_its_own(defs: dg.Definitions) -> None:
    @dg.asset(deps=["leaderboards"])
    def weekly_summary() -> None:
        """An asset of the deployment."""

    theirs = dg.Definitions(
        assets=[weekly_summary],
        jobs=[dg.define_asset_job("summarize", selection=["weekly_summary"])],
        executor=dg.multiprocess_executor,
    )

    merged = dg.Definitions.merge(theirs, defs)

    assert merged.resolve_job_def("sweep").executor_def.name == "in_process"
    assert merged.resolve_job_def("summarize").executor_def.name == "multiprocess"
    assert merged.resolve_asset_graph().get(dg.AssetKey("weekly_summary")).parent_keys == {dg.AssetKey("leaderboards")}


def test_the_schedules_and_sensors(defs: dg.Definitions) -> None:
    repository = defs.get_repository_def()

    assert {
        schedule.name: (
            schedule.job_name,
            schedule.cron_schedule,
            schedule.execution_timezone,
            schedule.default_status.value,
        )
        for schedule in repository.schedule_defs
    } == SCHEDULES
    assert {sensor.name: sensor.default_status.value for sensor in repository.sensor_defs} == SENSORS


def test_scores_and_leaderboards_follow_by_themselves_and_executions_never(defs: dg.Definitions) -> None:
    automated = {spec.key.to_user_string() for spec in defs.resolve_all_asset_specs() if spec.automation_condition}

    assert automated == {"evaluator_scores", "failure_classes", "leaderboards"}


@pytest.mark.parametrize(
    ("reported", "requested"),
    [
        pytest.param(["evaluator_scores"], 1, id="a score"),
        pytest.param(["leaderboards"], 0, id="the boards alone"),
        pytest.param(
            ["evaluator_scores", "leaderboards", "evaluator_scores"], 1, id="a score after the boards of another run"
        ),
    ],
)
def test_the_leaderboards_follow_every_score(defs: dg.Definitions, reported: list[str], requested: int) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(pair_partitions.name), ["sums@echo"])
        before = dg.evaluate_automation_conditions(defs, instance)
        for asset in reported:
            partition = None if asset == "leaderboards" else "sums@echo"
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=partition))

        after = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)

    assert after.total_requested == requested


@pytest.mark.parametrize(
    ("stored", "reported", "requested"),
    [
        pytest.param(["evaluator_scores"], ["evaluators"], True, id="edited evaluators"),
        pytest.param(["evaluator_scores"], ["plans"], False, id="edited inputs"),
        pytest.param(["evaluator_scores"], ["session_reports"], False, id="a new report"),
        pytest.param([], ["evaluators"], False, id="nothing was ever scored"),
        pytest.param(["evaluator_scores"], ["evaluators", "evaluator_scores"], False, id="a run that scored them"),
    ],
)
def test_scores_follow_their_evaluators_and_executions_nothing(
    defs: dg.Definitions, stored: list[str], reported: list[str], requested: bool
) -> None:
    made = {name: dg.AssetKey(name) for name in ("target_executions", "evaluator_scores", "failure_classes")}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(str(pair_partitions.name), ["sums@echo", "more@echo"])
        for asset in ("target_executions", "session_reports", *stored):
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition="sums@echo"))
        before = dg.evaluate_automation_conditions(defs, instance)
        for asset in reported:
            instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition="sums@echo"))

        after = dg.evaluate_automation_conditions(defs, instance, cursor=before.cursor)
        again = dg.evaluate_automation_conditions(defs, instance, cursor=after.cursor)

    expected = {"sums@echo"} if requested else set()
    assert before.total_requested == 0
    assert after.get_requested_partitions(made["evaluator_scores"]) == expected
    assert after.get_requested_partitions(made["failure_classes"]) == expected
    assert after.get_requested_partitions(made["target_executions"]) == set()
    assert again.get_requested_partitions(made["evaluator_scores"]) == set()


def test_a_sweep_of_the_command_line_has_just_its_own_partitions_under_the_keys_of_the_grid(
    folder: ProjectFolder,
) -> None:
    pairs = [PairKey("sums", "echo"), PairKey("b", "parrot")]

    graph = sweep_definitions(folder.session(), pairs).resolve_asset_graph()

    partitioning = graph.get(dg.AssetKey("evaluator_scores")).partitions_def
    assert partitioning is not None
    assert partitioning.get_partition_keys() == ["sums@echo", "b@parrot"]


def test_the_code_location_serves_the_project_of_the_current_folder(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.root)

    served = importlib.reload(definitions).defs

    assert served.executor is dg.in_process_executor
    graph = served.resolve_asset_graph()
    assert partitions(graph.get(dg.AssetKey("evaluator_scores")).partitions_def) == PAIRS


def test_a_project_without_runners_can_still_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    dg.Definitions.validate_loadable(importlib.reload(definitions).defs)
