"""Dagster's data versions: a partition is stale exactly when a run would do something, on a real instance."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.run import run_sweep
from eval_pipeline.orchestration.versions import report_inputs
from eval_pipeline.sweeps.options import LaunchOptions
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains

PAIR = PairKey("sums", "echo")
ASSETS = ("target_executions", "evaluator_scores")
JUDGE = """
import json


def judge(prompt):
    key = prompt.split('"key": "')[1].split('"')[0]
    return json.dumps({"key": key, "score": 0.9, "reason": "so"})
"""
JUDGED = {"type": "llm-grader", "name": "judge"}


def judged_suite(folder: ProjectFolder, weight: int = 1, **fields: Any) -> None:
    folder.write_suite(a_test("a", contains("2"), JUDGED | {"weight": weight}), **fields)


def judging_runners(folder: ProjectFolder, model: str = "m1", **fields: Any) -> None:
    judge = a_runner_entry("judge", function="judge:judge", arguments={}, model=model)
    folder.write_runners(a_runner_entry(**fields), judge)


def make_judged(folder: ProjectFolder) -> None:
    """Make the project one with a grader, and carry it out."""
    (folder.root / "judge.py").write_text(JUDGE)
    (folder.root / "eval-pipeline.yaml").write_text(json.dumps({"suites": ["suites"], "defaults": {"grader": "judge"}}))
    judging_runners(folder)
    judged_suite(folder)
    session = folder.session()
    assert run_sweep(session, session.load_suites(), [PAIR], {}).problem is None


EDITS: dict[str, tuple[Callable[[ProjectFolder], None], tuple[str, str], tuple[int, int, int]]] = {
    "description": (lambda folder: judged_suite(folder, description="Sums"), ("FRESH", "FRESH"), (0, 0, 0)),
    "weight": (lambda folder: judged_suite(folder, weight=2), ("FRESH", "STALE"), (0, 0, 1)),
    "undone": (judged_suite, ("FRESH", "FRESH"), (0, 0, 0)),
    "threshold": (
        lambda folder: judged_suite(folder, execution={"threshold": 0.3}), ("FRESH", "STALE"), (0, 0, 1)
    ),
    "repetitions": (
        lambda folder: judged_suite(folder, execution={"trials": {"count": 2}}), ("STALE", "FRESH"), (1, 0, 0)
    ),
    "undone-again": (judged_suite, ("FRESH", "FRESH"), (0, 0, 0)),
    "grader": (lambda folder: judging_runners(folder, model="m2"), ("FRESH", "STALE"), (0, 1, 0)),
    "concurrency": (lambda folder: judging_runners(folder, concurrency=3), ("FRESH", "FRESH"), (0, 0, 0)),
    "runner": (lambda folder: judging_runners(folder, arguments={"runner": "other"}), ("STALE", "FRESH"), (1, 0, 0)),
}  # fmt: skip
"""Edits one after the other: what is stale then (executions, scores), and what a run would do (execute, score, update).
"""


@pytest.mark.slow
def test_a_partition_is_stale_exactly_when_a_run_would_do_something(folder: ProjectFolder) -> None:
    make_judged(folder)
    graph = build_definitions(folder.session()).resolve_asset_graph()
    shown: dict[str, tuple[tuple[str, ...], tuple[int, ...]]] = {}
    with open_instance(folder.data) as instance:
        for name, (edit, *_) in EDITS.items():
            edit(folder)
            session = folder.session()
            options = LaunchOptions().resolve(session.project.defaults)
            report_inputs(instance, session, session.pairs([PAIR]), options)
            resolver = CachingStaleStatusResolver(instance, graph, LoadingContextForTest(instance))
            statuses = tuple(resolver.get_status(dg.AssetKey(asset), "sums@echo").value for asset in ASSETS)
            (plan,) = plan_sweep(session, [PAIR], options)
            shown[name] = (statuses, (plan.counts.executed, plan.counts.rescored, plan.counts.updated))

    assert shown == {name: (statuses, counts) for name, (_, statuses, counts) in EDITS.items()}
