"""Sensors: one notices new, changed and vanished suite files; one keeps the leaderboards current."""

from __future__ import annotations

import json

import dagster as dg

from eval_pipeline.errors import EvalPipelineError, InputError
from eval_pipeline.orchestration.assets import suite_materialization
from eval_pipeline.orchestration.partitions import SUITES, dynamic_suites
from eval_pipeline.orchestration.workbench import Workbench
from eval_pipeline.suites.load import find_suite_files, load_suite

INTERVAL_S = 15


def discover_suites(workbench: Workbench) -> dg.SensorDefinition:
    """Adds a partition for a new suite, and reports a new revision of a changed one, without a run."""

    @dg.sensor(
        name="discover_suites",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Notices new and changed suite files and makes them visible as partitions of `suites`.",
    )
    def discover(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            found, broken = _revisions(workbench)
        except EvalPipelineError as error:
            return dg.SkipReason(str(error))
        known: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        there = set(context.instance.get_dynamic_partitions(SUITES))
        changed = [name for name, revision in found.items() if known.get(name) != revision or name not in there]
        gone = [name for name in known if name not in found and name in there] if not broken else []
        if not changed and not gone:
            return dg.SkipReason("; ".join(broken) or "suites unchanged")
        for name in changed:
            workbench.store_suite(workbench.suite(name))
        added = dynamic_suites.build_add_request([name for name in changed if name not in there])
        removed = [dynamic_suites.build_delete_request(gone)] if gone else []
        return dg.SensorResult(
            dynamic_partitions_requests=[added, *removed],
            asset_events=[suite_materialization(workbench, name) for name in changed],
            cursor=json.dumps(found),
        )

    return discover


def _revisions(workbench: Workbench) -> tuple[dict[str, str], list[str]]:
    """The revision of every suite on disk, and what cannot be read."""
    revisions: dict[str, str] = {}
    broken: list[str] = []
    workbench.suites.clear()
    for path in find_suite_files(workbench.project.suites, workbench.project.root):
        try:
            suite = load_suite(path, workbench.reading)
        except InputError as error:
            broken.append(str(error))
            continue
        revisions[suite.name] = suite.revision
    return revisions, broken


def automation() -> dg.AutomationConditionSensorDefinition:
    """Runs what an automation condition asks for: the leaderboards after any new score."""
    return dg.AutomationConditionSensorDefinition(
        "keep_leaderboards_current",
        target=dg.AssetSelection.assets("leaderboards"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
