"""What the sensors notice and what the schedule asks for, tick by tick, without a daemon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
import pytest

from eval_pipeline.orchestration import sensors
from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.partitions import PAIRS, RANGE_END, RANGE_START, SUITES
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

TWO_O_CLOCK = datetime(2026, 1, 15, 2, 0, tzinfo=UTC)


@dataclass(slots=True)
class Ticking:
    """A sensor that ticks as the daemon would have it: its answer is carried out and its cursor kept."""

    folder: ProjectFolder
    instance: dg.DagsterInstance
    cursor: str | None = None

    def tick(self) -> dg.SensorResult | dg.SkipReason:
        sensor = build_definitions(self.folder.session()).resolve_sensor_def("discover_suites")
        context = dg.build_sensor_context(instance=self.instance, cursor=self.cursor)
        answer = sensor(context)
        assert isinstance(answer, (dg.SensorResult, dg.SkipReason))
        if isinstance(answer, dg.SensorResult):
            self._carry_out(answer)
        return answer

    def _carry_out(self, answer: dg.SensorResult) -> None:
        self.cursor = answer.cursor
        for event in answer.asset_events:
            assert isinstance(event, (dg.AssetMaterialization, dg.AssetObservation))
            self.instance.report_runless_asset_event(event)
        for request in answer.dynamic_partitions_requests or ():
            if isinstance(request, dg.AddDynamicPartitionsRequest):
                self.instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
            else:
                for key in request.partition_keys:
                    self.instance.delete_dynamic_partition(request.partitions_def_name, key)

    @property
    def suites(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions(SUITES))

    @property
    def pairs(self) -> list[str]:
        return list(self.instance.get_dynamic_partitions(PAIRS))


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def ticking(folder: ProjectFolder, instance: dg.DagsterInstance) -> Ticking:
    return Ticking(folder, instance)


def reported(answer: dg.SensorResult | dg.SkipReason) -> list[str | None]:
    """The suites that a tick says are materialized."""
    assert isinstance(answer, dg.SensorResult)
    materialized = [event for event in answer.asset_events if isinstance(event, dg.AssetMaterialization)]
    return [event.partition for event in materialized if event.asset_key == dg.AssetKey("suites")]


def skipped(answer: dg.SensorResult | dg.SkipReason) -> str:
    assert isinstance(answer, dg.SkipReason)
    return answer.skip_message or ""


# Suites come, change and go


def test_a_new_suite_becomes_a_partition_and_is_stored_without_a_run(ticking: Ticking) -> None:
    answer = ticking.tick()

    assert reported(answer) == ["sums"]
    assert isinstance(answer, dg.SensorResult)
    assert not answer.run_requests
    assert ticking.suites == ["sums"]
    assert ticking.folder.ask("SELECT suite, case_count FROM suites") == [("sums", 2)]


def test_a_tick_writes_once_what_it_knows_of_all_pairs(ticking: Ticking, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a write for each pair, the first tick of 2,000 pairs took longer than the 60 s that Dagster gives it."""
    for number in range(5):
        ticking.folder.write_suite(a_test("a"), name=f"suite{number}")
    storage, written = ticking.instance.daemon_cursor_storage, list[int]()
    write = storage.set_cursor_values

    def noted(pairs: Mapping[str, str]) -> None:
        written.append(len(pairs))
        write(pairs)

    monkeypatch.setattr(storage, "set_cursor_values", noted)

    ticking.tick()

    assert written == [len(ticking.pairs)]
    assert len(ticking.pairs) >= 6
    ticking.tick()
    assert len(written) == 1


def test_a_tick_reports_some_pairs_and_the_next_ones_the_others(
    ticking: Ticking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensors, "PAIRS_AT_A_TICK", 3)
    for number in range(4):
        ticking.folder.write_suite(a_test("a"), name=f"suite{number}")

    seen = []
    while isinstance(ticking.tick(), dg.SensorResult):
        seen.append(len(ticking.instance.get_materialized_partitions(dg.AssetKey("plans"))))

    assert seen == [3, 5]
    assert len(ticking.pairs) == 5


def test_nothing_new_is_a_skip_with_a_reason(ticking: Ticking) -> None:
    ticking.tick()

    assert skipped(ticking.tick()) == "suites unchanged"


def test_a_changed_suite_is_reported_at_its_new_revision_and_the_others_are_not(ticking: Ticking) -> None:
    ticking.folder.write_suite(a_test("x"), name="other")
    ticking.tick()
    ticking.folder.write_suite(a_test("a"))

    answer = ticking.tick()

    assert reported(answer) == ["sums"]
    assert isinstance(answer, dg.SensorResult)
    event = answer.asset_events[0]
    assert isinstance(event, dg.AssetMaterialization)
    revision = ticking.folder.session().suite("sums").suite.revision
    assert event.tags is not None
    assert event.tags["dagster/data_version"] == revision[:32]
    assert ticking.suites == ["other", "sums"]


def test_a_vanished_suite_is_no_partition_any_more(ticking: Ticking) -> None:
    ticking.folder.write_suite(a_test("x"), name="other")
    ticking.tick()
    (ticking.folder.root / "suites" / "other.yaml").unlink()

    ticking.tick()

    assert ticking.suites == ["sums"]
    assert skipped(ticking.tick()) == "suites unchanged"


def test_a_vanished_suite_leaves_the_board_at_the_next_tick(ticking: Ticking) -> None:
    ticking.folder.write_suite(a_test("x"), name="more")
    for suite in ("sums", "more"):
        ticking.folder.sweep(suite)
    ticking.tick()
    ticking.folder.session().store.update_leaderboards()
    (ticking.folder.root / "suites" / "more.yaml").unlink()

    ticking.tick()

    assert ticking.folder.ask("SELECT suite FROM leaderboard") == [("sums",)]


def test_partitions_that_someone_added_by_hand_are_removed(ticking: Ticking) -> None:
    ticking.instance.add_dynamic_partitions(SUITES, ["elsewhere"])
    ticking.instance.add_dynamic_partitions(PAIRS, ["elsewhere@echo", "sums@nobody", "neither"])

    ticking.tick()

    assert ticking.suites == ["sums"]
    assert ticking.pairs == ["sums@echo"]
    assert skipped(ticking.tick()) == "suites unchanged"


@pytest.mark.parametrize(
    "tags",
    [{"dagster/partition": "other@echo"}, {RANGE_START: "other@echo", RANGE_END: "sums@echo"}],
    ids=["one", "range"],
)
def test_a_partition_stays_while_a_run_over_it_is_not_finished(ticking: Ticking, tags: dict[str, str]) -> None:
    ticking.folder.write_suite(a_test("x"), name="other")
    ticking.tick()
    run = ticking.instance.create_run_for_job(build_definitions(ticking.folder.session()).resolve_job_def("sweep"))
    ticking.instance.add_run_tags(run.run_id, tags)
    (ticking.folder.root / "suites" / "other.yaml").unlink()

    ticking.tick()
    during = ticking.pairs
    ticking.instance.report_run_canceled(run)
    ticking.tick()

    assert "other@echo" in during
    assert "other@echo" not in ticking.pairs


def test_only_pairs_that_suites_request_become_partitions(ticking: Ticking) -> None:
    ticking.folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    ticking.folder.write_suite(a_test("x"), name="for-parrot", execution={"targets": ["parrot"]})
    ticking.folder.write_suite(a_test("x", execution={"targets": ["echo"]}), name="case-for-echo")

    ticking.tick()

    assert ticking.pairs == ["case-for-echo@echo", "for-parrot@parrot", "sums@echo", "sums@parrot"]


def test_a_new_runner_becomes_a_partition_without_reloading_the_code_location(ticking: Ticking) -> None:
    ticking.tick()
    ticking.folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))

    ticking.tick()
    assert ticking.pairs == ["sums@echo", "sums@parrot"]

    ticking.folder.write_runners(a_runner_entry("parrot"))
    ticking.tick()
    assert ticking.pairs == ["sums@parrot"]


def test_a_runners_file_that_cannot_be_read_is_a_skip_that_says_why(ticking: Ticking) -> None:
    ticking.tick()
    (ticking.folder.root / "runners.yaml").write_text("runners: [")

    assert "runners.yaml" in skipped(ticking.tick())
    assert ticking.pairs == ["sums@echo"]


def test_a_partition_that_someone_removed_comes_back(ticking: Ticking) -> None:
    ticking.tick()
    ticking.instance.delete_dynamic_partition(SUITES, "sums")

    ticking.tick()

    assert ticking.suites == ["sums"]


# Suites that cannot be read


def test_a_broken_suite_is_said_and_the_others_are_taken(ticking: Ticking) -> None:
    (ticking.folder.root / "suites" / "broken.yaml").write_text("tests: [\n")

    assert reported(ticking.tick()) == ["sums"]
    assert "broken.yaml" in skipped(ticking.tick())


def test_a_suite_that_breaks_keeps_its_partition_and_what_is_known_of_it(ticking: Ticking) -> None:
    ticking.tick()
    ticking.folder.write_suite(a_test("x"), name="other")
    (ticking.folder.root / "suites" / "sums.yaml").write_text("tests: [\n")
    ticking.tick()
    assert ticking.suites == ["sums", "other"]

    ticking.folder.write_suite(a_test("a"), a_test("b"))

    assert skipped(ticking.tick()) == "suites unchanged"


def test_a_suite_that_was_broken_and_then_deleted_is_no_partition_any_more(ticking: Ticking) -> None:
    ticking.tick()
    (ticking.folder.root / "suites" / "sums.yaml").write_text("tests: [\n")
    ticking.folder.write_suite(a_test("x"), name="other")
    ticking.tick()
    (ticking.folder.root / "suites" / "sums.yaml").unlink()

    ticking.tick()

    assert ticking.suites == ["other"]


def test_a_second_suite_of_the_same_name_makes_both_partitions_called_by_their_paths(ticking: Ticking) -> None:
    ticking.folder.write_suite(a_test("a"), a_test("b"), name="sums")
    ticking.tick()
    copy = ticking.folder.root / "suites" / "zcopy.yaml"
    copy.write_text('{"name": "sums", "tests": [{"id": "c", "input": "x", "assertions": ["good"]}]}')

    ticking.tick()

    assert ticking.suites == ["suites.sums", "zcopy"]
    assert ticking.pairs == ["suites.sums@echo", "zcopy@echo"]
    counts = ticking.folder.ask("SELECT suite, case_count FROM suites WHERE suite <> 'sums' ORDER BY suite")
    assert counts == [("suites.sums", 2), ("zcopy", 1)]


def test_a_suites_folder_that_is_not_there_is_a_skip_that_says_so(ticking: Ticking) -> None:
    for file in (ticking.folder.root / "suites").iterdir():
        file.unlink()
    (ticking.folder.root / "suites").rmdir()

    assert "no suite at 'suites'" in skipped(ticking.tick())


# The nightly sweep


def tonight(folder: ProjectFolder, *known: str) -> tuple[object, list[str]]:
    """What the schedule requests at two o'clock where these pairs are known, and which pairs are known then."""
    schedule = build_definitions(folder.session()).resolve_schedule_def("nightly_sweep")
    with dg.DagsterInstance.local_temp() as instance:  # a schedule opens its instance anew, so it has to be on disk
        instance.add_dynamic_partitions(PAIRS, list(known))
        answer = schedule(dg.build_schedule_context(instance=instance, scheduled_execution_time=TWO_O_CLOCK))
        return answer, list(instance.get_dynamic_partitions(PAIRS))


def test_the_nightly_sweep_is_one_run_over_all_pairs_that_calls_everything_anew(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry("zebra"), a_runner_entry("echo"))
    folder.write_suite(a_test("x"), name="apples")

    request, pairs = tonight(folder, "sums@echo")

    assert isinstance(request, dg.RunRequest)
    assert pairs == ["sums@echo", "apples@zebra", "apples@echo", "sums@zebra"]
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("sums@echo", "sums@zebra")
    assert request.run_config["ops"]["evaluate"]["config"]["refresh"] == "all"
    assert request.run_key == TWO_O_CLOCK.isoformat()


def test_the_nightly_sweep_leaves_out_what_no_suite_requests(folder: ProjectFolder) -> None:
    request, pairs = tonight(folder, "by-hand@echo", "sums@echo", "sums@gone")

    assert isinstance(request, dg.RunRequest)
    assert pairs == ["sums@echo"]
    assert (request.tags[RANGE_START], request.tags[RANGE_END]) == ("sums@echo", "sums@echo")


def test_the_nightly_sweep_says_why_it_does_nothing_without_runners(folder: ProjectFolder) -> None:
    (folder.root / "runners.yaml").unlink()

    answer, _ = tonight(folder)

    assert isinstance(answer, dg.SkipReason)
    assert "no runners: write those to be evaluated into runners.yaml" in (answer.skip_message or "")


def test_the_nightly_sweep_says_why_it_does_nothing_without_suites(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "sums.yaml").unlink()

    answer, _ = tonight(folder)

    assert isinstance(answer, dg.SkipReason)
    assert "no suite" in (answer.skip_message or "")


def test_the_project_says_when_the_nightly_sweep_runs(folder: ProjectFolder) -> None:
    (folder.root / "eval-pipeline.yaml").write_text('{"suites": ["suites"], "schedule": "30 4 * * 1"}')

    schedule = build_definitions(folder.session()).resolve_schedule_def("nightly_sweep")

    assert schedule.cron_schedule == "30 4 * * 1"
