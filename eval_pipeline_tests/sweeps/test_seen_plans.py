"""Stale pairs whose suite has the same revision as before: files that evaluators name, and the project's defaults."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.sweeps.options import LaunchOptions, SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.seen_plans import store_seen_plans
from eval_pipeline.sweeps.sweep import run_recorded
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project
from eval_pipeline_tests.sweeps.test_verdict_history import JUDGE, judge_entry

Edit = Callable[[ProjectFolder], object]
PAIR = PairKey("sums", "echo")
JUDGED = {"type": "llm-grader", "name": "fair", "prompt": "fair.md"}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    """A project with a graded case and one that a text decides, swept under its defaults."""
    made = make_project(tmp_path / "project")
    (made.root / "judge.py").write_text(JUDGE)
    (made.root / "suites").mkdir(exist_ok=True)
    (made.root / "suites/fair.md").write_text("Is it fair?")
    made.write_runners(a_runner_entry(), judge_entry(), {**judge_entry(0.8), "name": "other"})
    made.write_suite(a_test("a", contains("2"), JUDGED), a_test("b", contains("2")))
    defaults(made)
    made.sweep_once(grader="judge")
    return made


def defaults(folder: ProjectFolder, **more: Any) -> None:
    settings = {"suites": ["suites"], "defaults": {"grader": "judge", **more}}
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps(settings))


def options_of(folder: ProjectFolder) -> SweepOptions:
    return LaunchOptions().resolve(folder.session().project.defaults)


def sweep(folder: ProjectFolder) -> None:
    session = folder.session()
    run_recorded(session, session.pairs([PAIR]), options_of(folder), None, SweepObserver())


def stale(folder: ProjectFolder) -> list[tuple[Any, ...]]:
    """What is stale after the files were looked at."""
    store_seen_plans(folder.session(), lambda pair: True, options_of(folder))
    return folder.ask("SELECT reason, plans, needs FROM stale_pairs")


EDITS: dict[str, tuple[Edit, list[tuple[Any, ...]]]] = {
    "nothing": (lambda folder: None, []),
    "a prompt file": (
        lambda folder: (folder.root / "suites/fair.md").write_text("Is it just?"),
        [("changed evaluator 'fair' (files)", 1, "graders")],
    ),
    "the usual grader": (
        lambda folder: defaults(folder, grader="other"),
        [("changed evaluator 'fair' (grader)", 1, "graders")],
    ),
    "the usual threshold": (
        lambda folder: defaults(folder, threshold=0.95), [("changed threshold", 2, "nothing")],
    ),
    "the usual repetitions": (
        lambda folder: defaults(folder, repetitions=2), [("new repetition", 2, "executions")],
    ),
    "the runner": (
        lambda folder: folder.write_runners(a_runner_entry(model="new"), judge_entry()),
        [("changed runner", 2, "executions")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("edit", "expected"), EDITS.values(), ids=EDITS)
def test_an_edit_outside_the_suite_is_listed_as_plan_says_it(
    folder: ProjectFolder, edit: Edit, expected: list[tuple[Any, ...]]
) -> None:
    edit(folder)
    (plan,) = plan_sweep(folder.session(), [PAIR], options_of(folder))

    seen = stale(folder)

    assert seen == expected
    assert [*plan.reasons, *plan.rescore_reasons, *plan.update_reasons] == [reason for reason, *_ in expected]


def test_a_sweep_brings_stale_pairs_up_to_date(folder: ProjectFolder) -> None:
    defaults(folder, threshold=0.95)
    stale(folder)

    sweep(folder)

    assert folder.ask("SELECT * FROM stale_pairs") == []
    assert stale(folder) == []


def test_an_edit_that_is_taken_back_is_not_stale(folder: ProjectFolder) -> None:
    defaults(folder, threshold=0.95)
    assert len(stale(folder)) == 1

    defaults(folder)

    assert stale(folder) == []


def test_a_pair_without_its_grader_does_not_hide_the_others(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("2")), name="plain")
    session = folder.session()
    run_recorded(session, session.pairs([PairKey("plain", "echo")]), options_of(folder), None, SweepObserver())
    folder.write_runners(a_runner_entry())  # the grader is gone
    defaults(folder, threshold=0.95)

    stale(folder)

    assert ("plain", "changed threshold") in folder.ask("SELECT suite, reason FROM stale_pairs")
