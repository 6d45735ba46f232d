"""Progress of a running sweep: counts, speed, usage and the time left; what is not known is left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces.git import rev_parse
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.progress import ProgressCounter, SweepProgress, duration
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def two_pairs(clock: Clock) -> ProgressCounter:
    """Ten plans done in ten seconds, four of them reused; two of the others failed."""
    counter = ProgressCounter(clock=clock)
    for suite in ("sums", "more"):
        counter.start_pair(PairKey(suite, "echo"), 10)
        row = counter.rows[PairKey(suite, "echo")]
        row.done, row.reused, row.counts.passed, row.counts.failed = 5, 2, 4, 1
    clock.now += 10
    return counter


def test_rate_and_time_left_come_from_what_was_executed() -> None:
    overall = two_pairs(Clock()).overall()

    assert (overall.done, overall.total, overall.reused, overall.failed) == (10, 20, 4, 2)
    assert overall.per_second == pytest.approx(0.6)
    assert overall.seconds_left == pytest.approx(10 / 0.6)


def test_plans_of_pairs_that_did_not_begin_count_when_the_whole_is_known() -> None:
    assert two_pairs(Clock()).overall(total=200).total == 200


def test_usage_is_unknown_until_an_execution_reports_it() -> None:
    counter = two_pairs(Clock())
    assert (counter.overall().tokens, counter.overall().cost_usd) == (None, None)

    counts = counter.rows[PairKey("sums", "echo")].counts
    counts.input_tokens, counts.output_tokens, counts.cost_usd = 1000, 200, 0.5

    assert (counter.overall().tokens, counter.overall().cost_usd) == (1200, 0.5)
    assert str(counter.overall()) == (
        "10 of 20 plans, 4 reused, 8 passed, 2 failed, 0 not graded, 0.6/s, 1,200 tokens, $0.5000, about 17 s left"
    )


def test_nothing_is_estimated_before_the_first_execution() -> None:
    overall = ProgressCounter(clock=Clock()).overall(total=3)

    assert overall == SweepProgress(
        total=3, done=0, reused=0, running=0, passed=0, failed=0, errored=0,
        tokens=None, cost_usd=None, per_second=None, seconds_left=None,
    )  # fmt: skip
    assert str(overall) == "0 of 3 plans, 0 passed, 0 failed, 0 not graded"


def test_a_sweep_is_counted_and_passed_on(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b", contains("9")), a_test("boom"))
    folder.write_answers(boom="crash")
    started: list[str] = []

    class Onward(SweepObserver):
        def plan_started(self, plan: object) -> None:
            started.append(str(plan))

    counter = ProgressCounter(Onward())
    session = folder.session()
    from eval_pipeline.sweeps.options import SweepOptions
    from eval_pipeline.sweeps.sweep import run_recorded

    run_recorded(session, session.pairs([PairKey("sums", "echo")]), SweepOptions(), None, counter)

    overall = counter.overall()
    assert (overall.total, overall.done, overall.passed, overall.failed, overall.errored) == (3, 3, 1, 1, 1)
    assert overall.seconds_left is None
    assert len(started) == 3


@pytest.mark.parametrize(("seconds", "text"), [(None, "–"), (41.6, "42 s"), (185, "3:05 min"), (7440, "2:04 h")])
def test_durations_are_for_people(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_the_commit_of_a_folder_in_a_repository(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    assert rev_parse(tmp_path / "evals", "HEAD") is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", "-C", str(tmp_path), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    assert rev_parse(tmp_path / "evals", "HEAD") is None
    git("commit", "--quiet", "--allow-empty", "--message", "first")

    assert rev_parse(tmp_path / "evals", "HEAD") == git("rev-parse", "HEAD")
    assert rev_parse(tmp_path / "nowhere", "HEAD") is None
