"""Real Dagster runs: what a run of each job materializes, stores and says, and that the command line does the same.

Runs are in this process and on instances of their own; only what has to be killed is a process.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.config import SweepConfig
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.partitions import PAIRS, SUITES, range_tags
from eval_pipeline.orchestration.pruning import delete_runs
from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline.orchestration.run import SweepRun, run_sweep
from eval_pipeline.sweeps.options import STAGES, SweepOptions
from eval_pipeline.sweeps.outcomes import INTERRUPTED
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline_tests.forks import Forked, start_python
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    every_cell,
    make_project,
    published,
)
from eval_pipeline_tests.sweeps.test_sweep import wait_until

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A run that is over: its id, whether it succeeded, and the events that its instance keeps of it."""

    run_id: str
    success: bool
    events: list[dg.DagsterEvent]
    log: list[str]

    def materializations(self, asset: str) -> dict[str | None, dg.AssetMaterialization]:
        """The materializations of an asset, by partition."""
        materializations = [
            event.step_materialization_data.materialization for event in self.events if event.is_step_materialization
        ]
        return {each.partition: each for each in materializations if each.asset_key == dg.AssetKey(asset)}

    def checks(self, name: str) -> dict[str | None, dg.AssetCheckEvaluation]:
        payloads = [event.event_specific_data for event in self.events]
        evaluations = [data for data in payloads if isinstance(data, dg.AssetCheckEvaluation)]
        return {each.partition: each for each in evaluations if each.check_name == name}

    @property
    def failure(self) -> str:
        """What the failed step says to its reader."""
        (event,) = [event for event in self.events if event.is_step_failure]
        user = event.step_failure_data.user_failure_data
        assert user is not None, "the step failed by an accident, not by saying why"
        return user.description or ""


def run_job(
    folder: ProjectFolder,
    job: str,
    *,
    suites: Sequence[str] = ("sums",),
    runners: Sequence[str] = ("echo",),
    config: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> FinishedRun:
    """A run of a job over suites × runners, as the UI or the schedule asks for it."""
    definitions = build_definitions(folder.session())
    keys = [f"{suite}@{runner}" for suite in suites for runner in runners]
    ops = {"ops": {"evaluate": {"config": dict(config)}}} if config is not None else {}
    ranged = {} if job == "rank" else range_tags(suites if job == "load_suites" else keys)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(SUITES, list(suites))
        instance.add_dynamic_partitions(PAIRS, keys)
        result = definitions.resolve_job_def(job).execute_in_process(
            instance=instance, tags={**ranged, **(tags or {})}, run_config={**QUIET, **ops}, raise_on_error=False
        )
        logs = instance.all_logs(result.run_id)
        return FinishedRun(
            result.run_id,
            result.success,
            [log.dagster_event for log in logs if log.dagster_event is not None],
            [log.user_message for log in logs],
        )


# One sweep over a whole box


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """Two suites × two runners; one case fails, one crashes its target."""
    folder = make_project(tmp_path_factory.mktemp("runs") / "project", defaults={"min_pass_rate": 0.999})
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.write_suite(a_test("a"), a_test("b", contains("9")))
    folder.write_suite(a_test("x"), a_test("boom"), name="more")
    folder.write_answers(boom="crash")
    return folder


CELLS = ["more@echo", "more@parrot", "sums@echo", "sums@parrot"]


@pytest.fixture(scope="module")
def swept(box: ProjectFolder) -> FinishedRun:
    return run_job(box, "sweep", suites=["sums", "more"], runners=["echo", "parrot"])


@pytest.fixture(scope="module")
def by_command_line(box: ProjectFolder) -> Iterator[tuple[SweepRun, ProjectFolder, dg.DagsterInstance]]:
    """The same sweep as the command line makes it, in another data folder, with its Dagster instance still open."""
    session = box.session(box.root / "data-of-the-command-line")
    result = run_sweep(session, *every_cell(session, "echo", "parrot"), {})
    with open_instance(session.project.data) as instance:
        yield result, box, instance


@pytest.mark.parametrize("asset", PAIR_ASSETS)
def test_one_run_materializes_every_asset_of_every_cell(swept: FinishedRun, asset: str) -> None:
    assert swept.success
    assert sorted(map(str, swept.materializations(asset))) == CELLS


def test_a_materialization_says_what_it_holds_and_where_it_comes_from(swept: FinishedRun, box: ProjectFolder) -> None:
    scores = swept.materializations("evaluator_scores")["sums@echo"]

    values = {name: value.value for name, value in scores.metadata.items()}
    assert values == {
        "dagster/row_count": 2, "rescored": 0, "passed": 1, "failed": 1, "errored": 0,
        "pass_rate": 0.5, "coverage": 1.0, "page": "http://127.0.0.1:3100/#suite?suite=sums&runner=echo",
    }  # fmt: skip
    assert scores.tags is not None
    revision = box.session().suite("sums").suite.revision
    assert scores.tags["dagster/data_version"].endswith(revision[:8])
    assert scores.tags["dagster/code_version"]
    reports = swept.materializations("session_reports")["sums@echo"].tags or {}
    assert scores.tags["dagster/input_data_version/session_reports"] == reports["dagster/data_version"]


def test_data_versions_tell_cells_apart(swept: FinishedRun) -> None:
    versions = {each.tags["dagster/data_version"] for each in swept.materializations("session_reports").values()
                if each.tags is not None}  # fmt: skip

    assert len(versions) == len(CELLS)


def test_failure_classes_are_a_table_with_examples(swept: FinishedRun) -> None:
    classes = swept.materializations("failure_classes")["more@echo"].metadata["classes"].value

    assert "| Target crashed | target | 1 | 50.0 % | boom |" in str(classes)


def test_checks_are_evaluated_for_every_cell_and_only_warn(swept: FinishedRun) -> None:
    coverage, rate = swept.checks("coverage"), swept.checks("pass_rate")

    assert {key: check.passed for key, check in coverage.items()} == {
        "sums@echo": True, "sums@parrot": True, "more@echo": False, "more@parrot": False,
    }  # fmt: skip
    assert rate["sums@echo"].passed is False
    assert rate["sums@echo"].metadata["value"].value == 0.5
    assert rate["sums@echo"].metadata["least"].value == 0.999
    assert rate["sums@echo"].metadata["decision"].value == "NO-GO"
    assert rate["more@echo"].passed is True
    assert rate["more@echo"].metadata["decision"].value == "INCONCLUSIVE"
    assert {check.severity for check in (*coverage.values(), *rate.values())} == {dg.AssetCheckSeverity.WARN}


def test_a_sweep_is_written_down_with_its_dagster_run(swept: FinishedRun, box: ProjectFolder) -> None:
    assert box.ask("SELECT status, dagster_run_id, refresh FROM sweeps") == [("finished", swept.run_id, "missing")]


def test_the_command_line_stores_the_same_rows_as_a_run_of_the_ui(
    swept: FinishedRun, box: ProjectFolder, by_command_line: tuple[SweepRun, ProjectFolder, dg.DagsterInstance]
) -> None:
    assert run_job(box, "load_suites", suites=["sums", "more"]).success
    assert run_job(box, "rank").success

    ours, theirs = published(box.data), published(box.root / "data-of-the-command-line")
    for table in ours:
        assert ours[table] == theirs[table], table
    assert len(ours["verdicts"]) == 8


def test_what_the_command_line_ran_can_be_seen_in_the_ui_afterwards(
    by_command_line: tuple[SweepRun, ProjectFolder, dg.DagsterInstance],
) -> None:
    result, _, instance = by_command_line

    assert result.problem is None
    assert sorted((outcome.pair.name.runner, outcome.pair.name.suite) for outcome in result.outcomes) == [
        ("echo", "more"), ("echo", "sums"), ("parrot", "more"), ("parrot", "sums"),
    ]  # fmt: skip
    (run,) = instance.get_runs()
    assert (run.job_name, run.status.value) == ("sweep", "SUCCESS")
    assert sorted(instance.get_materialized_partitions(dg.AssetKey("evaluator_scores"))) == CELLS
    assert sorted(instance.get_materialized_partitions(dg.AssetKey("suites"))) == ["more", "sums"]
    assert sorted(instance.get_dynamic_partitions(SUITES)) == ["more", "sums"]
    board = instance.get_latest_materialization_event(dg.AssetKey("leaderboards"))
    assert board is not None
    assert board.run_id == run.run_id


# What goes wrong


def test_a_cell_whose_storage_fails_fails_the_run_and_the_others_are_materialized(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x"), name="other")
    assert run_job(folder, "sweep", suites=["sums", "other"]).success
    with folder.session().warehouse.transaction() as connection:
        connection.execute("UPDATE session_reports SET skills = '[1]' WHERE suite = 'sums'")
    folder.write_suite(a_test("a", contains("apples")), a_test("b", contains("y")))

    run = run_job(folder, "sweep", suites=["sums", "other"])

    assert not run.success
    assert list(run.materializations("evaluator_scores")) == ["other@echo"]
    assert run.failure.startswith("1 of 2 partitions failed\nsums@echo: ")


def test_a_suite_that_is_gone_is_a_warning_and_the_others_are_carried_out(folder: ProjectFolder) -> None:
    run = run_job(folder, "sweep", suites=["sums", "summs"])

    assert run.success
    assert list(run.materializations("evaluator_scores")) == ["sums@echo"]
    assert any("summs@echo is skipped, no suite requests it any more: no suite 'summs'" in text for text in run.log)


def test_a_suite_that_cannot_be_read_fails_the_run_and_the_others_are_carried_out(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [")

    run = run_job(folder, "sweep", suites=["sums", "broken"])

    assert list(run.materializations("evaluator_scores")) == ["sums@echo"]
    assert run.failure.startswith("1 of 2 partitions failed\nbroken@echo: ")
    assert "broken.yaml" in run.failure


def test_a_run_covers_its_range_also_when_dagster_tags_it_with_its_first_partition(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x"), name="more")

    run = run_job(folder, "sweep", suites=["sums", "more"], tags={
        "dagster/partition/runner": "echo", "dagster/partition/suite": "sums",
    })  # fmt: skip

    assert sorted(map(str, run.materializations("evaluator_scores"))) == ["more@echo", "sums@echo"]


def test_nothing_usable_is_a_failure_and_no_sweep(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry("echo", arguments={"runner": "${{ NOT_SET }}"}))

    run = run_job(folder, "sweep")

    assert "needs the environment variable NOT_SET" in run.failure
    assert not folder.ask("SELECT * FROM sweeps")


def test_a_failing_target_leaves_the_run_green(folder: ProjectFolder) -> None:
    folder.write_answers(a="crash", b="crash")

    assert run_job(folder, "sweep").success


BAD_CONFIG: dict[str, tuple[dict[str, Any], str]] = {
    "repetitions": ({"repetitions": -1}, "repetitions: expected a number of at least 1, got -1"),
    "concurrency": ({"concurrency": -2}, "concurrency: expected a number of at least 1, got -2"),
    "budget": ({"budget_usd": -1.0}, "budget_usd: expected a number greater than 0, got -1.0"),
    "threshold": ({"threshold": 80.0}, "threshold: expected a number of at most 1, got 80.0"),
}


@pytest.mark.parametrize(("config", "message"), BAD_CONFIG.values(), ids=BAD_CONFIG)
def test_a_value_that_makes_no_sense_is_named_with_what_was_expected(
    folder: ProjectFolder, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as raised:
        SweepConfig(**config).options(folder.session().project, STAGES)

    assert str(raised.value).startswith(message)


BAD_SELECTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "case": ({"cases": ["aa"]}, "no case 'aa'; there are: a, b; did you mean 'a'?"),
    "tag": ({"tags": ["absent"]}, "no case matches the selection"),
}


@pytest.mark.parametrize(("config", "message"), BAD_SELECTIONS.values(), ids=BAD_SELECTIONS)
def test_a_launchpad_that_asks_for_what_is_not_there_is_told_so(
    folder: ProjectFolder, config: dict[str, Any], message: str
) -> None:
    run = run_job(folder, "sweep", config=config)

    assert run.failure == message
    assert folder.take_calls() == []


def test_a_choice_that_the_launchpad_does_not_offer_is_refused_before_a_run(folder: ProjectFolder) -> None:
    with pytest.raises(
        dg.DagsterInvalidConfigError, match="refresh not in enum type one of missing, failed, all got mising"
    ):
        run_job(folder, "sweep", config={"refresh": "mising"})

    assert folder.take_calls() == []


def test_a_field_that_the_launchpad_does_not_know_is_refused(folder: ProjectFolder) -> None:
    with pytest.raises(dg.DagsterInvalidConfigError, match='unexpected config entry "repetition"'):
        run_job(folder, "sweep", config={"repetition": 3})


# The launchpad


def test_everything_that_the_launchpad_says_becomes_an_option(folder: ProjectFolder) -> None:
    config = SweepConfig(
        refresh="failed", tags=["t"], cases=["a"], repetitions=3, concurrency=4, threshold=0.25, budget_usd=1.5,
        any_runner=True, resume="20260101T000000",
    )  # fmt: skip

    assert config.options(folder.session().project, STAGES) == SweepOptions(
        refresh="failed", cases=CaseFilter(ids=frozenset({"a"}), tags=frozenset({"t"})), repetitions=3, concurrency=4,
        threshold=0.25, budget_usd=1.5, any_runner=True, resume="20260101T000000",
    )  # fmt: skip


def test_what_the_launchpad_leaves_open_is_the_projects_default(folder: ProjectFolder) -> None:
    defaults = {"repeat": 2, "refresh": "all", "concurrency": 3, "threshold": 0, "budget_usd": 9}
    project = make_project(folder.root / "inner", defaults=defaults).session().project

    assert SweepConfig().options(project, STAGES) == SweepOptions(refresh="all", defaults=project.defaults)


def test_a_launchpad_config_arrives_in_the_run(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", tags=["t"]), a_test("b", tags=["t"]), a_test("c"))

    run = run_job(folder, "sweep", config={"tags": ["t"], "cases": ["b", "c"], "repetitions": 2, "refresh": "all"})

    assert folder.take_calls() == ["echo/b", "echo/b"]
    assert run.materializations("target_executions")["sums@echo"].metadata["dagster/row_count"].value == 2
    assert folder.ask("SELECT refresh, selection->>'$.repetitions' FROM sweeps") == [("all", "2")]


# The other jobs


def test_rescore_scores_what_is_stored_without_calling_a_target(folder: ProjectFolder) -> None:
    run_job(folder, "sweep")
    folder.take_calls()
    folder.write_suite(a_test("a", contains("pears")), a_test("b"), a_test("never-executed"))

    run = run_job(folder, "rescore")

    assert run.success
    assert folder.take_calls() == []
    assert folder.ask("SELECT case_id, status FROM current_verdicts ORDER BY 1") == [("a", "failed"), ("b", "passed")]
    assert not run.materializations("target_executions")
    assert run.materializations("evaluator_scores")["sums@echo"].metadata["rescored"].value == 1


def test_rank_shows_the_standings_as_a_table_and_draws_nothing(folder: ProjectFolder) -> None:
    folder.sweep()

    board = run_job(folder, "rank").materializations("leaderboards")[None]

    assert "| 1 | echo | 100.0 % |" in str(board.metadata["standings"].value)
    assert board.metadata["best_pass_rate"].value == 1.0
    assert board.metadata["picture"].value == "`eval-pipeline leaderboard --plot board.svg`"


def test_rank_before_anything_was_graded_says_so(folder: ProjectFolder) -> None:
    board = run_job(folder, "rank").materializations("leaderboards")[None]

    assert board.metadata["standings"].value == "nothing graded yet"
    assert "best_pass_rate" not in board.metadata


def test_load_suites_stores_suites_and_says_which_cases_are_invalid(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("good"), {"id": "no-input"}, name="half")

    run = run_job(folder, "load_suites", suites=["sums", "half"])

    assert run.success
    half = run.materializations("suites")["half"].metadata
    assert (half["dagster/row_count"].value, half["invalid_cases"].value) == (1, 1)
    assert "has no input" in str(half["problems"].value)
    assert {key: check.passed for key, check in run.checks("suite_is_valid").items()} == {"sums": True, "half": False}
    assert folder.ask("SELECT suite, case_count, invalid_cases FROM suites ORDER BY 1") == [
        ("half", 1, 1),
        ("sums", 2, 0),
    ]


# Boards of the command line


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ValueError("no boards today"), "no boards today"),
        (KeyboardInterrupt(), INTERRUPTED),
        (RuntimeError("Query interrupted"), INTERRUPTED),
    ],
    ids=["fault", "interrupted", "interrupted in DuckDB"],
)
def test_boards_that_cannot_be_computed_are_said_and_noted_in_the_run(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, error: BaseException, problem: str
) -> None:
    def fail(store: SweepStore) -> None:
        raise error

    monkeypatch.setattr(SweepStore, "update_leaderboards", fail)
    session = folder.session()

    result = run_sweep(session, *every_cell(session, "echo"), {})

    assert result.problem == problem
    assert result.run_id is not None
    with open_instance(folder.data) as instance:
        logged = [entry.message for entry in instance.all_logs(result.run_id)]
    assert f"the boards are not computed: {problem}" in logged
    assert folder.ask("SELECT count(*) FROM verdicts") == [(2,)], "what was carried out is published"


def test_an_unchanged_sweep_reports_boards_whose_run_was_deleted(folder: ProjectFolder) -> None:
    session = folder.session()
    first = run_sweep(session, *every_cell(session, "echo"), {})
    with open_instance(folder.data) as instance:
        delete_runs(instance, [str(first.run_id)])

    second = run_sweep(folder.session(), *every_cell(session, "echo"), {})

    with open_instance(folder.data) as instance:
        (board,) = instance.fetch_materializations(dg.AssetKey("leaderboards"), limit=5).records
    assert board.run_id == second.run_id


# Interrupted and killed


RUNS_ON_ITS_OWN = """
import pathlib, sys
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, every_cell
session = ProjectFolder(pathlib.Path(sys.argv[1])).session()
print(run_sweep(session, *every_cell(session, "echo"), {}).problem)
"""


def hanging_sweep(folder: ProjectFolder) -> Forked:
    """The command line's sweep in another process, hanging in `b`."""
    folder.write_answers(b="hang")
    process = start_python(RUNS_ON_ITS_OWN, str(folder.root))
    calls = folder.root / "calls.txt"
    wait_until(lambda: "echo/b" in calls.read_text(), calls)
    return process


def test_an_interrupted_sweep_says_so_and_ends_at_once(folder: ProjectFolder) -> None:
    with hanging_sweep(folder) as process:
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=60)

    assert printed.strip() == INTERRUPTED
    assert folder.ask("SELECT status FROM sweeps") == [("interrupted",)]


def test_a_sweep_after_a_killed_one_does_not_wait_for_it_and_says_that_it_failed(folder: ProjectFolder) -> None:
    with hanging_sweep(folder) as process:
        process.kill()
    folder.write_answers()

    session = folder.session()
    result = run_sweep(session, *every_cell(session, "echo"), {})

    assert result.problem is None
    with open_instance(folder.data) as instance:
        assert [(run.job_name, run.status.value) for run in instance.get_runs()] == [
            ("sweep", "SUCCESS"),
            ("sweep", "FAILURE"),
        ]
    assert folder.ask("SELECT status FROM sweeps ORDER BY sweep_id") == [("interrupted",), ("finished",)]


# Instances of before: a grid of runner × suite


def test_an_instance_with_events_of_the_grid_opens_and_the_next_sweep_reports_the_pairs(folder: ProjectFolder) -> None:
    scores = dg.AssetKey("evaluator_scores")
    with open_instance(folder.data) as instance:
        instance.add_dynamic_partitions(SUITES, ["sums"])
        key = dg.MultiPartitionKey({"suite": "sums", "runner": "echo"})
        instance.report_runless_asset_event(dg.AssetMaterialization(scores, partition=key))

    session = folder.session()
    result = run_sweep(session, *every_cell(session, "echo"), {})

    assert result.problem is None
    with open_instance(folder.data) as instance:
        assert instance.get_materialized_partitions(scores) == {"echo|sums", "sums@echo"}
        assert list(instance.get_dynamic_partitions(PAIRS)) == ["sums@echo"]


# What is up to date


def test_nothing_is_stale_after_a_sweep(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("x"), name="more")
    session = folder.session()
    assert run_sweep(session, *every_cell(session, "echo"), {}).problem is None

    graph = build_definitions(folder.session()).resolve_asset_graph()
    with open_instance(folder.data) as instance:
        resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
        keys = instance.get_dynamic_partitions(PAIRS)
        statuses = {resolver.get_status(dg.AssetKey(asset), key).value for asset in PAIR_ASSETS for key in keys}

        assert statuses == {"FRESH"}
        assert resolver.get_status(dg.AssetKey("leaderboards")).value == "FRESH"
