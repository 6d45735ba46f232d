"""A project as a component of Dagster: what it defines, and the sweep that begins after an asset of the team."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

import eval_pipeline
from eval_pipeline.orchestration.component import EvalProject
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains

EXAMPLE = Path(__file__).parents[2] / "examples" / "dagster"


def defined(folder: ProjectFolder, **attributes: Any) -> dg.Definitions:
    """The definitions of a component beside the project's folder."""
    context: Any = SimpleNamespace(path=folder.root.parent)
    return EvalProject(project=folder.root.name, **attributes).build_defs(context)


def test_a_component_defines_the_assets_jobs_and_schedules_of_its_project(folder: ProjectFolder) -> None:
    definitions = defined(folder, group="quality")

    graph = definitions.resolve_asset_graph()
    assert {node.group_name for node in graph.asset_nodes} == {"quality"}
    assert definitions.resolve_job_def("sweep")
    assert {schedule.name for schedule in definitions.schedules or ()} == {"nightly_sweep"}


def test_it_has_the_name_that_dg_writes_and_is_listed_by_it() -> None:
    assert eval_pipeline.EvalProject is EvalProject
    groups = importlib.metadata.entry_points(group="dagster_dg_cli.registry_modules")
    assert "eval_pipeline" in {point.value for point in groups}
    assert "EvalProject" in dir(eval_pipeline)


def test_a_sweep_of_everything_begins_once_after_an_asset_of_the_team_was_made(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x"), name="more")
    definitions = defined(folder, after=["team/model"])
    (sensor,) = [each for each in definitions.sensors or () if each.name == "sweep_after_team__model"]
    with dg.DagsterInstance.ephemeral() as instance:

        def asked(cursor: str | None = None) -> dg.SensorResult:
            context = dg.build_sensor_context(instance=instance, cursor=cursor, definitions=definitions)
            return sensor.evaluate_tick(context)  # type: ignore[return-value]

        assert not asked().run_requests
        instance.report_runless_asset_event(dg.AssetMaterialization(["team", "model"]))
        tick: Any = asked()

        (request,) = tick.run_requests
        assert request.tags["dagster/asset_partition_range_start"] == "more@echo"
        assert request.tags["dagster/asset_partition_range_end"] == "sums@echo"
        assert request.run_config["ops"] == {"evaluate": {"config": {"refresh": "all"}}}
        again: Any = asked(tick.cursor)
        assert not again.run_requests


def test_a_project_or_a_sweep_that_is_not_there_is_named(folder: ProjectFolder) -> None:
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="no sweep 'nightly'"):
        defined(folder, sweep="nightly")
    (folder.root / "eval-pipeline.yaml").write_text("suits: []")
    with pytest.raises(dg.DagsterInvalidDefinitionError, match="suits"):
        defined(folder)


def test_the_example_loads_as_dg_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE / "src"))

    definitions = dg.load_from_defs_folder(path_within_project=EXAMPLE / "src" / "my_dagster")

    assert {sensor.name for sensor in definitions.sensors or ()} >= {"sweep_after_model"}
    keys = {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}
    assert {"model", "leaderboards", "evaluator_scores"} <= keys


def test_definitions_are_in_a_group_and_assets_of_the_team_read_the_results(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x", contains("x")), name="more")
    eval_pipeline.run_sweep(folder.root)
    read: list[str] = []

    @dg.asset(deps=["leaderboards"])
    def best(evals: eval_pipeline.EvalResults) -> None:
        with evals.open() as results:
            read.extend(row[0] for row in results.execute("SELECT DISTINCT suite FROM leaderboard").fetchall())

    own = dg.Definitions(assets=[best], resources={"evals": eval_pipeline.EvalResults(project=str(folder.root))})
    merged = dg.Definitions.merge(eval_pipeline.build_definitions(folder.root, group="quality"), own)

    groups = {node.key.to_user_string(): node.group_name for node in merged.resolve_asset_graph().asset_nodes}
    assert (groups["leaderboards"], groups["best"]) == ("quality", "default")
    assert dg.materialize([best], resources=own.resources).success
    assert "more" in read
