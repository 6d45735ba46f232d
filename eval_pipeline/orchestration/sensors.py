"""Sensors: one notices new, changed and vanished suite files; one keeps the leaderboards current."""

from __future__ import annotations

import json

import dagster as dg

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.metadata import suite_materialization
from eval_pipeline.orchestration.partitions import SUITES, dynamic_suites
from eval_pipeline.suites.load import read_suites
from eval_pipeline.suites.model import Suite
from eval_pipeline.sweeps.project_session import ProjectSession

INTERVAL_S = 15


def discover_suites(session: ProjectSession) -> dg.SensorDefinition:
    """Adds a partition for a new suite, and reports a new revision of a changed one, without a run."""

    @dg.sensor(
        name="discover_suites",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Notices new and changed suite files and makes them visible as partitions of `suites`.",
    )
    def discover(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            on_disk, broken = _suites_on_disk(session)
        except EvalPipelineError as error:
            return dg.SkipReason(str(error))
        for problem in broken:
            context.log.warning(problem)
        known: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        there = set(context.instance.get_dynamic_partitions(SUITES))
        changed = [name for name, suite in on_disk.items() if known.get(name) != suite.revision or name not in there]
        gone = [name for name in known if name not in on_disk and name in there] if not broken else []
        if not changed and not gone:
            return dg.SkipReason("; ".join(broken) or "suites unchanged")
        session.suites = {name: session.validate_suite(on_disk[name]) for name in changed}
        session.store.store_suites(list(session.suites.values()))
        added = dynamic_suites.build_add_request([name for name in changed if name not in there])
        removed = [dynamic_suites.build_delete_request(gone)] if gone else []
        return dg.SensorResult(
            dynamic_partitions_requests=[added, *removed],
            asset_events=[suite_materialization(session.suite(name)) for name in changed],
            cursor=json.dumps((known if broken else {}) | {name: suite.revision for name, suite in on_disk.items()}),
        )

    return discover


def _suites_on_disk(session: ProjectSession) -> tuple[dict[str, Suite], list[str]]:
    """Every suite on disk by name, and what cannot be read or has a name that is taken."""
    suites, broken = read_suites(session.project.suites, session.project.root, session.load_options)
    return {suite.name: suite for suite in suites}, [str(error) for error in broken]


def automation() -> dg.AutomationConditionSensorDefinition:
    """Runs what an automation condition requests: the leaderboards after any new score."""
    return dg.AutomationConditionSensorDefinition(
        "keep_leaderboards_current",
        target=dg.AssetSelection.assets("leaderboards"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
