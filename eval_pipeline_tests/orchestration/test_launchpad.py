"""The run config of a sweep as the launchpad checks it, before anything is launched."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.config import NAMED, choice_of
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry


@pytest.fixture
def job(folder: ProjectFolder) -> dg.JobDefinition:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("judge-2.5"))
    return build_definitions(folder.root).resolve_job_def("sweep")


def problems(job: dg.JobDefinition, **config: Any) -> list[str]:
    """What the launchpad reports of a config of the step."""
    try:
        dg.validate_run_config(job, {"ops": {"evaluate": {"config": config}}})
    except dg.DagsterInvalidConfigError as error:
        return [each.message for each in error.errors]
    return []


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "refresh": ({"refresh": "sometimes"}, "one of missing, failed, all got sometimes"),
    "grader": ({"grader": "nobody"}, "one of echo, judge-2.5 got nobody"),
    "name": ({"refres": "all"}, "refresh?: one of missing, failed, all?"),
    "type": ({"repetitions": "many"}, 'not valid for expected type "Int"'),
}


@pytest.mark.parametrize(("config", "expected"), WRONG.values(), ids=WRONG)
def test_a_wrong_value_is_found_with_the_valid_names(job: dg.JobDefinition, config: Any, expected: str) -> None:
    (problem,) = problems(job, **config)

    assert expected in problem


@pytest.mark.parametrize(
    "config", [{}, {"refresh": "failed"}, {"grader": "judge-2.5", "tags": ["smoke"]}, {"threshold": 0.5}], ids=str
)
def test_right_values_are_taken(job: dg.JobDefinition, config: dict[str, Any]) -> None:
    assert problems(job, **config) == []


def test_a_grader_chosen_in_the_launchpad_reaches_the_sweep(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("judge"))
    definitions = build_definitions(folder.root)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("suites", ["sums"])
        instance.add_dynamic_partitions("pairs", ["sums@echo"])
        result = definitions.resolve_job_def("sweep").execute_in_process(
            instance=instance,
            partition_key="sums@echo",
            run_config={"ops": {"evaluate": {"config": {"grader": "judge", "refresh": "all"}}}},
        )

    assert result.success
    assert folder.ask("SELECT refresh FROM sweeps") == [("all",)]


def test_a_project_without_usable_runners_takes_any_grader(folder: ProjectFolder) -> None:
    (folder.root / "runners.yaml").write_text("runners: 5\n")

    assert problems(build_definitions(folder.root).resolve_job_def("sweep"), grader="anyone") == []


def test_of_many_choices_the_first_are_named() -> None:
    assert choice_of([f"r{number}" for number in range(NAMED + 3)]).__name__.endswith("r29 and 3 more")


@pytest.mark.parametrize("name", ["sweep", "rescore", "load_suites"])
def test_a_run_without_a_partition_fails_and_names_the_tags_that_it_needs(folder: ProjectFolder, name: str) -> None:
    definitions = build_definitions(folder.root)

    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def(name).execute_in_process(instance=instance, raise_on_error=False)

    (failure,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
    assert failure.user_failure_data is not None
    assert failure.user_failure_data.description == (
        "the run has no partition: launch it with one (tag dagster/partition), or with a range of them (tags "
        "dagster/asset_partition_range_start and dagster/asset_partition_range_end)"
    )


def test_the_job_plan_shows_what_a_sweep_would_do_and_does_nothing(
    folder: ProjectFolder, capfd: pytest.CaptureFixture[str]
) -> None:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("other"))
    (folder.root / "eval-pipeline.yaml").write_text(
        "sweeps: {nightly: {runners: [echo], anchors: {size: 4, cases: [nobody]}}}\n"
    )
    job = build_definitions(folder.root).resolve_job_def("plan")
    config = {"sweep": "nightly", "repetitions": 3}
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, run_config={"ops": {"plan_sweep": {"config": config}}})
        (output,) = (event for event in result.all_events if event.is_successful_output)

    metadata = output.step_output_data.metadata
    cases = len(folder.session().suite("sums").suite.cases)
    assert (metadata["execute"].value, metadata["plans"].value) == (3 * cases, 3 * cases)
    page = str(metadata["plan"].value)
    assert f"| sums | echo | {3 * cases} | " in page
    assert "- anchors, after the sweep: to be chosen: up to 4 of each suite" in page
    assert "other" not in page
    assert folder.take_calls() == []
