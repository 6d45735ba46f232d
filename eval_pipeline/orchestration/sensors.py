"""Sensors: one notices new, changed and vanished suite files; one keeps the leaderboards current; one ends runs of
killed processes."""

from __future__ import annotations

import json

import dagster as dg

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.asset_keys import AssetKeys, keys_of
from eval_pipeline.orchestration.event_batches import light_events_of
from eval_pipeline.orchestration.metadata import suite_materialization
from eval_pipeline.orchestration.partitions import known_suites, partition_requests
from eval_pipeline.orchestration.run_processes import end_dead_runs
from eval_pipeline.orchestration.sweep_step import AUTOMATIC_TAG
from eval_pipeline.orchestration.versions import report_inputs
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.options import LaunchOptions
from eval_pipeline.sweeps.project_contents import read_project, usable_pairs
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.retirement import retire_vanished
from eval_pipeline.sweeps.seen_plans import store_seen_plans

INTERVAL_S = 15
PAIRS_AT_A_TICK = 1_000
"""Pairs whose inputs a tick reports at most: Dagster ends one that takes longer than a minute."""


def discover_suites(session: ProjectSession) -> dg.SensorDefinition:
    """Adds a partition for a new suite, and reports a new revision of a changed one, without a run."""
    asset = keys_of(session.project).key("suites")

    @dg.sensor(
        name="discover_suites",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Notices new and changed suite files and makes them visible as partitions of `suites`.",
    )
    def discover(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        try:
            contents = read_project(session)
        except EvalPipelineError as error:
            return dg.SkipReason(str(error))
        for problem in contents.problems:
            context.log.warning(escape_controls(problem))
        known: dict[str, str] = json.loads(context.cursor) if context.cursor else {}
        revisions = {name: ready.suite.revision for name, ready in contents.suites.items()}
        there = known_suites(context.instance, asset)
        changed = [
            ready for name, ready in contents.suites.items() if known.get(name) != revisions[name] or name not in there
        ]
        if not contents.problems and retire_vanished(session):
            session.store.update_leaderboards()
            session.warehouse.publish()
        requests = partition_requests(context.instance, contents)
        options = LaunchOptions().resolve(session.project.defaults)
        with light_events_of(context.instance):
            pairs = usable_pairs(session, contents)
            reported = report_inputs(context.instance, session, pairs, options, PAIRS_AT_A_TICK)
        if not (changed or requests or reported):
            return dg.SkipReason("; ".join(contents.problems) or "suites unchanged")
        session.store.store_suites(changed)
        if reported and store_seen_plans(session, set(reported).__contains__, options):
            session.warehouse.publish()
        return dg.SensorResult(
            dynamic_partitions_requests=requests,
            asset_events=[suite_materialization(ready, asset) for ready in changed],
            cursor=json.dumps((known if contents.problems else {}) | revisions),
        )

    return discover


def automation(keys: AssetKeys) -> dg.AutomationConditionSensorDefinition:
    """Runs what an automation condition requests: the leaderboards after any new score."""
    return dg.AutomationConditionSensorDefinition(
        "keep_leaderboards_current",
        target=keys.selection("leaderboards"),
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )


def free_scores(keys: AssetKeys) -> dg.AutomationConditionSensorDefinition:
    """Requests scores again whose evaluators are others now; their runs call no target and no grader."""
    return dg.AutomationConditionSensorDefinition(
        "keep_free_scores_current",
        target=keys.selection("evaluator_scores", "failure_classes"),
        run_tags={AUTOMATIC_TAG: "scores"},
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Scores stored answers again after an edit of evaluators, where that calls neither a target nor a"
        " grader. Executions are never requested.",
    )


def dead_runs() -> dg.SensorDefinition:
    """Ends runs whose process was killed: each would keep its place among the runs that may run at once."""

    @dg.sensor(
        name="end_dead_runs",
        minimum_interval_seconds=INTERVAL_S,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Reports runs as failed whose process is gone, so that queued runs take their place.",
    )
    def end(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        ended = end_dead_runs(context.instance)
        return dg.SkipReason(f"ended: {', '.join(run.run_id for run in ended)}" if ended else "no dead run")

    return end
