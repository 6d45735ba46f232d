"""Schedules: the nightly sweep over every suite × runner."""

from __future__ import annotations

import logging

import dagster as dg
from dagster._utils.schedules import is_valid_cron_schedule

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.partitions import PAIRS, apply_requests, partition_requests, range_tags
from eval_pipeline.sweeps.project import DEFAULT_SCHEDULE, PROJECT_FILE
from eval_pipeline.sweeps.project_contents import read_project
from eval_pipeline.sweeps.project_session import ProjectSession

_LOG = logging.getLogger("dagster")
_DESCRIPTION = "One run over all suites and runners; targets are called anew (refresh: all)."


def nightly_sweep(session: ProjectSession, job: dg.UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Every night one run over all suites × runners, everything executed anew; stopped until someone starts it.

    With a cron expression that cannot be used, every tick is skipped and says why.
    """
    problem = _schedule_problem(session)

    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if problem is not None:
            return dg.SkipReason(problem)
        try:
            contents = read_project(session)
        except EvalPipelineError as error:
            return dg.SkipReason(str(error))
        apply_requests(context.instance, partition_requests(context.instance, contents))
        keys = context.instance.get_dynamic_partitions(PAIRS)
        if not keys:
            return dg.SkipReason("; ".join(contents.problems) or "no suite requests a runner")
        return dg.RunRequest(
            run_key=context.scheduled_execution_time.isoformat(),
            tags=range_tags(keys),
            run_config=dg.RunConfig(ops={"evaluate": {"config": {"refresh": "all"}}}),
        )

    return dg.schedule(
        name="nightly_sweep",
        job=job,
        cron_schedule=DEFAULT_SCHEDULE if problem else session.project.schedule,
        execution_timezone="UTC",
        description=f"Never runs: {problem}" if problem else _DESCRIPTION,
    )(nightly)


def _schedule_problem(session: ProjectSession) -> str | None:
    """Why the project's schedule cannot be used, reported in the log of the code location; None when it can."""
    problem = session.project.schedule_problem
    if problem is None and is_valid_cron_schedule(session.project.schedule):
        return None
    text = str(problem or f"{PROJECT_FILE}: schedule: no cron expression that Dagster can use")
    _LOG.warning("the schedule nightly_sweep never runs: %s", text)
    return text
