"""Schedules: the nightly sweep over every suite × runner."""

from __future__ import annotations

import dagster as dg

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.orchestration.partitions import SUITES, range_tags
from eval_pipeline.sweeps.project_session import ProjectSession


def nightly_sweep(
    session: ProjectSession, runners: list[str], job: dg.UnresolvedAssetJobDefinition
) -> dg.ScheduleDefinition:
    """Every night one run over all suites × runners, everything executed anew; stopped until someone starts it."""

    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        suites = list(context.instance.get_dynamic_partitions(SUITES))
        if not suites or not runners:
            return dg.SkipReason("no suites are known yet" if runners else "there are no runners")
        return dg.RunRequest(
            run_key=context.scheduled_execution_time.isoformat(),
            tags=range_tags(suites, runners),
            run_config=dg.RunConfig(ops={"evaluate": {"config": {"refresh": "all"}}}),
        )

    try:
        return dg.schedule(
            name="nightly_sweep",
            job=job,
            cron_schedule=session.project.schedule,
            execution_timezone="UTC",
            description="One run over all suites and runners; targets are called anew (refresh: all).",
        )(nightly)
    except dg.DagsterInvalidDefinitionError as error:
        raise InputError(str(error), SourceLocation(file="eval-pipeline.yaml", field="schedule")) from None
