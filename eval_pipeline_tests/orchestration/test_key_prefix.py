"""A project whose assets' keys have a prefix: everything that names an asset follows it, and nothing is left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from eval_pipeline.errors import InputError
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.component import EvalProject
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.partitions import PAIRS, SUITES, pair_partitions, range_tags
from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.orchestration.versions import report_inputs
from eval_pipeline.sweeps.options import LaunchOptions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.new_data import make_data
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains, every_cell, make_project

PREFIX = ["team", "evals"]
PAIR = PairKey("sums", "echo")
NAMES = {"suites", "plans", "evaluators", *PAIR_ASSETS, "leaderboards"}
QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def key(name: str) -> dg.AssetKey:
    return dg.AssetKey([*PREFIX, name])


KEYS = {key(name) for name in NAMES}


@pytest.fixture
def prefixed(tmp_path: Path) -> ProjectFolder:
    return prefixed_project(tmp_path)


def prefixed_project(folder: Path) -> ProjectFolder:
    made = make_project(folder / "project", dagster={"key_prefix": PREFIX}, defaults={"min_pass_rate": 0.5})
    make_data(made.data)
    return made


def sweep(folder: ProjectFolder) -> None:
    session = folder.session()
    assert run_sweep(session, *every_cell(session, "echo"), {}).problem is None


# Definitions


def test_every_asset_and_dependency_has_the_prefix_and_the_jobs_select_by_it(prefixed: ProjectFolder) -> None:
    definitions = build_definitions(prefixed.session())

    graph = definitions.resolve_asset_graph()
    assert graph.get_all_asset_keys() == KEYS
    assert graph.get(key("leaderboards")).parent_keys == {key("evaluator_scores"), key("evaluators")}
    assert {check.asset_key for check in graph.asset_check_keys} == {key("suites"), key("evaluator_scores")}
    selected = definitions.resolve_job_def("sweep").asset_layer.selected_asset_keys
    assert selected == {key(name) for name in PAIR_ASSETS}
    columns = graph.get(key("leaderboards")).metadata["dagster/column_schema"]
    assert columns is not None  # the details of the asset are found by its name


@pytest.mark.parametrize("given", ["team/evals", PREFIX, ("team", "evals")])
def test_the_argument_goes_before_the_project_file(prefixed: ProjectFolder, given: Any) -> None:
    session = prefixed.session()

    other = build_definitions(session, key_prefix=given)
    none = build_definitions(session, key_prefix=[])

    assert other.resolve_asset_graph().get_all_asset_keys() == KEYS
    assert none.resolve_asset_graph().get_all_asset_keys() == {dg.AssetKey(name) for name in NAMES}
    assert session.project.dagster.key_prefix == tuple(PREFIX)


def test_a_component_has_the_prefix_of_its_attribute_else_of_the_project_file(
    prefixed: ProjectFolder,
) -> None:
    context: Any = SimpleNamespace(path=prefixed.root.parent)

    model, resolution = EvalProject.model(), dg.ResolutionContext.default()

    def defined(**attributes: Any) -> dg.Definitions:
        given = model.model_validate({"project": str(prefixed.root), **attributes})
        component: EvalProject = EvalProject.resolve_from_model(resolution, given)
        return component.build_defs(context)

    own = [defined(key_prefix="a/b"), defined(key_prefix=["a", "b"])]
    of_file = defined()

    for each in own:
        assert dg.AssetKey(["a", "b", "leaderboards"]) in each.resolve_asset_graph().get_all_asset_keys()
    assert of_file.resolve_asset_graph().get_all_asset_keys() == KEYS


@pytest.mark.parametrize("wrong", ["team/", "", "a b", ["team", 3], ["a/b"], 4, [""]])
def test_a_prefix_that_is_no_path_of_names_is_refused(tmp_path: Path, wrong: Any) -> None:
    folder = make_project(tmp_path / "project", dagster={"key_prefix": wrong})
    plain = make_project(tmp_path / "plain")

    with pytest.raises(InputError, match=r"eval-pipeline.yaml:\d+: dagster.key_prefix: .*team/evals"):
        folder.session()
    with pytest.raises(InputError, match="key_prefix: expected names of letters"):
        build_definitions(plain.session(), key_prefix=wrong)


def test_they_merge_with_assets_of_the_same_names(prefixed: ProjectFolder) -> None:
    @dg.asset
    def suites() -> None:
        """An asset of the deployment that has a name of ours."""

    @dg.asset(deps=[key("leaderboards")])
    def leaderboards() -> None:
        """One that is made after ours of the same name."""

    merged = dg.Definitions.merge(build_definitions(prefixed.session()), dg.Definitions(assets=[suites, leaderboards]))

    dg.Definitions.validate_loadable(merged)
    graph = merged.resolve_asset_graph()
    assert graph.get_all_asset_keys() == KEYS | {dg.AssetKey("suites"), dg.AssetKey("leaderboards")}
    assert graph.get(dg.AssetKey("leaderboards")).parent_keys == {key("leaderboards")}
    assert graph.get(key("plans")).parent_keys == {key("suites")}
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(SUITES, ["sums"])
        instance.add_dynamic_partitions(PAIRS, ["sums@echo"])
        for job, partition in (("load_suites", "sums"), ("sweep", "sums@echo")):
            ran = merged.resolve_job_def(job).execute_in_process(
                instance=instance, tags=range_tags([partition]), run_config=QUIET
            )
            assert ran.success
        assert instance.get_latest_materialization_event(dg.AssetKey("suites")) is None
        assert instance.get_materialized_partitions(key("suites")) == {"sums"}
        assert instance.get_materialized_partitions(key("evaluator_scores")) == {"sums@echo"}


# Runs


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ProjectFolder, dg.DagsterInstance]]:
    """A sweep of the command line, with its instance still open; tests only read it."""
    folder = prefixed_project(tmp_path_factory.mktemp("swept"))
    sweep(folder)
    with open_instance(folder.data, folder.root) as instance:
        yield folder, instance


def statuses(folder: ProjectFolder, instance: dg.DagsterInstance) -> dict[str, str]:
    graph = build_definitions(folder.session()).resolve_asset_graph()
    resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
    of_pairs = {name: resolver.get_status(key(name), "sums@echo").value for name in PAIR_ASSETS}
    return of_pairs | {"leaderboards": resolver.get_status(key("leaderboards")).value}


def test_a_run_of_the_command_line_reports_under_the_prefix_alone(
    swept: tuple[ProjectFolder, dg.DagsterInstance],
) -> None:
    folder, instance = swept

    assert set(instance.all_asset_keys()) == KEYS
    for name in PAIR_ASSETS:
        assert instance.get_materialized_partitions(key(name)) == {"sums@echo"}, name
    assert instance.get_materialized_partitions(key("suites")) == {"sums"}
    assert set(statuses(folder, instance).values()) == {"FRESH"}


def test_its_checks_are_of_the_prefixed_scores_and_name_what_they_checked(
    swept: tuple[ProjectFolder, dg.DagsterInstance],
) -> None:
    _, instance = swept
    made = instance.fetch_materializations(key("evaluator_scores"), limit=1).records[0]

    log = instance.event_log_storage
    found = {
        name: log.get_asset_check_execution_history(dg.AssetCheckKey(key("evaluator_scores"), name), limit=5)
        for name in ("coverage", "pass_rate")
    }

    for name, (record,) in found.items():
        assert record.status is AssetCheckExecutionRecordStatus.SUCCEEDED, name
        evaluation: Any = record.event.get_dagster_event().event_specific_data  # type: ignore[union-attr]
        assert evaluation.target_materialization_data.storage_id == made.storage_id


def test_a_second_run_and_deleting_the_first_change_nothing_that_the_assets_of_pairs_show(
    prefixed: ProjectFolder,
) -> None:
    sweep(prefixed)
    prefixed.take_calls()
    with open_instance(prefixed.data, prefixed.root) as instance:
        before = versions(instance)

        sweep(prefixed)

        assert versions(instance) == before
        assert prefixed.take_calls() == []
        assert len(instance.fetch_materializations(key("suites"), limit=9).records) == 1
        assert len(instance.fetch_observations(key("plans"), limit=9).records) == 1
        assert set(statuses(prefixed, instance).values()) == {"FRESH"}

        *_, first = instance.fetch_materializations(key("target_executions"), limit=9).records
        instance.delete_run(first.run_id)
        assert len(instance.fetch_materializations(key("target_executions"), limit=9).records) == 1

        assert versions(instance) == before
        shown = statuses(prefixed, instance)
        assert {shown[name] for name in PAIR_ASSETS} == {"FRESH"}

        edit_an_evaluator(prefixed, instance)

        shown = statuses(prefixed, instance)
        assert (shown["target_executions"], shown["evaluator_scores"]) == ("FRESH", "STALE")


def edit_an_evaluator(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    folder.write_suite(a_test("a", contains("3")), a_test("b"))
    session = folder.session()
    report_inputs(instance, session, session.pairs([PAIR]), LaunchOptions().resolve(session.project.defaults))


def versions(instance: dg.DagsterInstance) -> dict[str, dict[str, str]]:
    """The data version and the upstream ones of each asset of a pair; the tags of the latter have the prefix."""
    found = {}
    for name in PAIR_ASSETS:
        (record,) = instance.fetch_materializations(key(name), limit=1).records
        tags = record.asset_materialization.tags or {}  # type: ignore[union-attr]
        found[name] = {tag: value for tag, value in tags.items() if "data_version" in tag}
        upstream = [tag for tag in tags if tag.startswith("dagster/input_data_version/")]
        assert upstream, name
        assert all(tag.startswith("dagster/input_data_version/team/evals/") for tag in upstream)
    return found


def test_a_prefix_that_comes_later_has_everything_after_the_next_run(folder: ProjectFolder) -> None:
    sweep(folder)
    folder.take_calls()
    project = folder.root / "eval-pipeline.yaml"
    project.write_text(project.read_text().rstrip().removesuffix("}") + ', "dagster": {"key_prefix": "team/evals"}}')

    sweep(folder)

    with open_instance(folder.data, folder.root) as instance:
        assert set(instance.all_asset_keys()) >= KEYS
        assert instance.get_materialized_partitions(key("suites")) == {"sums"}
        assert set(statuses(folder, instance).values()) == {"FRESH"}
    assert folder.take_calls() == []


def test_the_sensor_reports_suites_and_inputs_under_the_prefix_once(prefixed: ProjectFolder) -> None:
    definitions = build_definitions(prefixed.session())
    sensor = definitions.resolve_sensor_def("discover_suites")
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, definitions=definitions)
        tick: Any = sensor.evaluate_tick(context)

        inputs = {asset for asset in instance.all_asset_keys() if instance.get_latest_materialization_event(asset)}
        assert inputs == {key("plans"), key("evaluators")}
        assert {event.asset_key for event in tick.asset_events} == {key("suites")}
        for event in tick.asset_events:
            instance.report_runless_asset_event(event)
        instance.add_dynamic_partitions(SUITES, ["sums"])
        instance.add_dynamic_partitions(PAIRS, ["sums@echo"])
        context = dg.build_sensor_context(instance=instance, definitions=definitions, cursor=tick.cursor)
        again: Any = sensor.evaluate_tick(context)
    assert not again.asset_events
    assert again.skip_message == "suites unchanged"


def test_chunks_of_a_run_report_under_the_prefix(tmp_path: Path) -> None:
    chunked = {"key_prefix": "team/evals", "executor": "multiprocess", "chunk_pairs": 1}
    folder = make_project(tmp_path / "project", dagster=chunked)
    folder.write_suite(a_test("x", contains("2")), name="more")
    pairs = ["sums@echo", "more@echo"]
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PAIRS, pairs)
        job = build_definitions(folder.root).resolve_job_def("sweep")
        ran = job.execute_in_process(instance=instance, tags=range_tags(pairs), run_config=QUIET)

        assert ran.success
        for name in PAIR_ASSETS:
            assert instance.get_materialized_partitions(key(name)) == set(pairs), name
        assert set(instance.all_asset_keys()) == {key(name) for name in (*PAIR_ASSETS, "plans", "evaluators")}


# Automation


@pytest.mark.parametrize(
    ("reported", "boards", "scores"),
    [
        pytest.param(key("evaluator_scores"), True, False, id="a score"),
        pytest.param(key("evaluators"), False, True, id="edited evaluators"),
        pytest.param(dg.AssetKey("evaluator_scores"), False, False, id="an asset of someone else"),
    ],
)
def test_boards_follow_scores_and_scores_their_evaluators(
    prefixed: ProjectFolder, reported: dg.AssetKey, boards: bool, scores: bool
) -> None:
    theirs = dg.AssetSpec("evaluator_scores", partitions_def=pair_partitions)
    definitions = dg.Definitions.merge(build_definitions(prefixed.session()), dg.Definitions(assets=[theirs]))
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(PAIRS, ["sums@echo"])
        for name in ("target_executions", "session_reports", "evaluator_scores"):
            instance.report_runless_asset_event(dg.AssetMaterialization(key(name), partition="sums@echo"))
        instance.report_runless_asset_event(dg.AssetMaterialization(key("leaderboards")))
        before = dg.evaluate_automation_conditions(definitions, instance)
        instance.report_runless_asset_event(dg.AssetMaterialization(reported, partition="sums@echo"))

        after = dg.evaluate_automation_conditions(definitions, instance, cursor=before.cursor)

    assert bool(after.get_num_requested(key("leaderboards"))) is boards
    requested = {"sums@echo"} if scores else set()
    assert after.get_requested_partitions(key("evaluator_scores")) == requested
    assert after.get_requested_partitions(key("failure_classes")) == requested


def test_the_automations_sensors_look_at_the_prefixed_assets(prefixed: ProjectFolder) -> None:
    definitions = build_definitions(prefixed.session())
    graph = definitions.resolve_asset_graph()

    watched = {
        sensor.name: sensor.asset_selection.resolve(graph)
        for sensor in definitions.get_repository_def().sensor_defs
        if sensor.asset_selection is not None
    }

    assert watched == {
        "keep_leaderboards_current": {key("leaderboards")},
        "keep_free_scores_current": {key("evaluator_scores"), key("failure_classes")},
    }
