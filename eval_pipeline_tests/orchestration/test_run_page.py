"""What the page of a run shows of a sweep: progress while it runs, a summary with the failed cases, and tags."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import dagster as dg
import pytest
from dagster._core.events.log import EventLogEntry

from eval_pipeline.orchestration import run_page
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.sweeps.summaries import FAILED_CASES_NAMED
from eval_pipeline_tests.sweeps.sample_project import (
    ProjectFolder,
    a_runner_entry,
    a_test,
    contains,
    every_cell,
)


@dataclass(frozen=True, slots=True)
class Page:
    """A finished run: its tags and its events."""

    run: dg.DagsterRun
    events: list[EventLogEntry]

    @property
    def messages(self) -> list[str]:
        return [event.message or event.user_message for event in self.events]

    @property
    def reported(self) -> list[tuple[str, dict[str, object]]]:
        """Text and metadata of what the sweep itself reported."""
        data = [event.dagster_event for event in self.events]
        return [
            (event.message or "", {name: value.value for name, value in event.engine_event_data.metadata.items()})
            for event in data
            if event is not None and event.is_engine_event and event.step_key == "evaluate"
        ]


def sweep(folder: ProjectFolder, *runners: str) -> Page:
    session = folder.session()
    result = run_sweep(session, *every_cell(session, *(runners or ("echo",))), {})
    assert result.problem is None
    assert result.run_id is not None
    with open_instance(folder.data, folder.root) as instance:
        run = instance.get_run_by_id(result.run_id)
        assert run is not None
        return Page(run, list(instance.all_logs(result.run_id)))


def test_a_short_run_reports_its_end_only_with_the_failed_cases(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b", contains("9")), a_test("boom"))
    folder.write_answers(boom="crash")

    ((text, metadata),) = sweep(folder).reported

    assert text.startswith("finished: 3 of 3 plans, 1 passed, 1 failed, 1 not graded")
    assert "sums/b with echo: Assertion failure: score 0 is below 0.8" in text
    assert (metadata["planned"], metadata["failed"], metadata["errored"]) == (3, 1, 1)
    assert metadata["failed_cases_in_all"] == 2
    table = metadata["failed_cases"]
    assert [record.data for record in table.records] == [  # type: ignore[attr-defined]
        {
            "case": "sums/b",
            "runner": "echo",
            "class": "Assertion failure",
            "reason": "score 0 is below 0.8; contains-9: output does not contain '9'",
            "repetitions": "1 of 1",
            "see more": "eval-pipeline show sums/b --runner echo",
        },
        {
            "case": "sums/boom",
            "runner": "echo",
            "class": "Target crashed",
            "reason": "RuntimeError: told to crash",
            "repetitions": "1 of 1",
            "see more": "eval-pipeline show sums/boom --runner echo",
        },
    ]
    assert [column.name for column in table.schema.columns][:3] == ["case", "runner", "class"]  # type: ignore[attr-defined]


def test_many_failed_cases_are_counted_and_the_first_named(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(f"t{number}", contains("9")) for number in range(8)))

    ((text, metadata),) = sweep(folder).reported

    assert text.count("Assertion failure") == FAILED_CASES_NAMED
    assert text.endswith("… and 5 more cases that did not pass")
    assert metadata["failed_cases_in_all"] == 8


def test_where_everything_passed_there_is_no_table(folder: ProjectFolder) -> None:
    ((text, metadata),) = sweep(folder).reported

    assert "2 passed, 0 failed" in text
    assert "failed_cases" not in metadata


def test_a_run_misses_no_expected_outputs(folder: ProjectFolder) -> None:
    assert not [text for text in sweep(folder).messages if "did not yield" in text]


def test_a_longer_run_shows_progress_every_few_seconds(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_page, "EVERY_S", 0.3)
    target = folder.root / "target.py"
    target.write_text(target.read_text().replace("    if said ==", "    time.sleep(0.4)\n    if said ==", 1))
    folder.write_suite(*(a_test(f"t{number}") for number in range(8)), name="sums")
    folder.write_suite(a_test("late"), name="zoo")
    folder.write_runners(a_runner_entry("echo", concurrency=2))

    *progress, (end, _) = sweep(folder).reported

    assert len(progress) >= 3
    assert end.startswith("finished: 9 of 9 plans")
    assert all(text.startswith("progress: ") and metadata["total"] == 9 for text, metadata in progress)
    shown = {name for _, metadata in progress for name in metadata}
    assert shown == {"done", "total", "per_second", "seconds_left"}
    assert all("passed" in text and "not graded" in text for text, _ in progress)
    done = [each["done"] for _, each in progress]
    assert done == sorted(done)  # type: ignore[type-var]


def test_progress_that_cannot_be_reported_ends_no_sweep(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_page, "EVERY_S", 0.02)

    def broken(progress: object) -> dict[str, object]:
        raise RuntimeError("no numbers today")

    monkeypatch.setattr(run_page, "progress_metadata", broken)

    assert sweep(folder).run.status is dg.DagsterRunStatus.SUCCESS
    assert "no numbers today" in caplog.text


def test_a_run_is_tagged_with_its_sweep_suites_runners_and_commit(folder: ProjectFolder) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "--quiet"), (*identity, "commit", "--quiet", "--allow-empty", "-m", "first")):
        subprocess.run(["git", "-C", str(folder.root), *arguments], check=True)
    folder.write_suite(a_test("x"), name="more")
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))

    tags = sweep(folder, "echo", "parrot").run.tags

    ((sweep_id,),) = folder.ask("SELECT sweep_id FROM sweeps")
    assert tags["sweep"] == sweep_id
    assert tags["suites"] == "more, sums"
    assert tags["runners"] == "echo, parrot"
    assert len(tags["commit"]) == run_page.COMMIT_DIGITS
