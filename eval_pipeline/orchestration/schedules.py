"""Schedules: the nightly sweep over every suite × runner, and one for each sweep of the project that has a time."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg
from dagster._utils.schedules import get_next_cron_tick, is_valid_cron_schedule

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.orchestration.partitions import (
    PAIRS,
    UNFINISHED,
    apply_requests,
    pair_key,
    partition_key,
    partition_requests,
    range_tags,
)
from eval_pipeline.sweeps.month_budgets import month_budget
from eval_pipeline.sweeps.named_sweeps import NamedSweep
from eval_pipeline.sweeps.project import DEFAULT_SCHEDULE, PROJECT_FILE
from eval_pipeline.sweeps.project_contents import read_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.selection import pairs_of_sweep

SWEEP_TAG = "eval_pipeline/sweep"
"""The run tag that has the name of a sweep."""
LATE = timedelta(minutes=10)
"""A tick that is evaluated so long after its time was missed."""
_LOG = logging.getLogger("dagster")
_DESCRIPTION = "One run over all suites and runners; targets are called anew (refresh: all)."


def schedules_of(session: ProjectSession, job: dg.UnresolvedAssetJobDefinition) -> list[dg.ScheduleDefinition]:
    """Return the schedules of a project; all are stopped until someone starts them."""
    return [nightly_sweep(session, job), *_of_named_sweeps(session, job)]


def nightly_sweep(session: ProjectSession, job: dg.UnresolvedAssetJobDefinition) -> dg.ScheduleDefinition:
    """Every night one run over all suites × runners, everything executed anew.

    With a cron expression that cannot be used, every tick is skipped and says why.
    """
    problem = _schedule_problem(session)

    def nightly(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        return dg.SkipReason(problem) if problem is not None else _request(context, session, {"refresh": "all"})

    return dg.schedule(
        name="nightly_sweep",
        job=job,
        cron_schedule=DEFAULT_SCHEDULE if problem else session.project.schedule,
        execution_timezone="UTC",
        description=f"Never runs: {problem}" if problem else _DESCRIPTION,
    )(nightly)


def _of_named_sweeps(session: ProjectSession, job: dg.UnresolvedAssetJobDefinition) -> Iterator[dg.ScheduleDefinition]:
    for name, sweep in session.project.sweeps.items():
        if sweep.cron is not None and is_valid_cron_schedule(sweep.cron):
            yield _named_schedule(session, job, name, sweep)


def _named_schedule(
    session: ProjectSession, job: dg.UnresolvedAssetJobDefinition, name: str, sweep: NamedSweep
) -> dg.ScheduleDefinition:
    """One run over the pairs of a sweep at its times, with its options."""

    def start(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        reason = _why_not(context, session, name, sweep)
        if reason is not None:
            return dg.SkipReason(reason)
        request = _request(context, session, {"sweep": name}, name)
        if sweep.overlap == "latest" and isinstance(request, dg.RunRequest):
            _cancel_waiting(context.instance, name)
        return request

    return dg.schedule(
        name=f"sweep_{name.replace('-', '_')}",
        job=job,
        cron_schedule=sweep.cron or DEFAULT_SCHEDULE,
        execution_timezone=sweep.timezone,
        description=f"The sweep `{name}` of {PROJECT_FILE}.",
        tags={SWEEP_TAG: name},
    )(start)


def _why_not(
    context: dg.ScheduleEvaluationContext, session: ProjectSession, name: str, sweep: NamedSweep
) -> str | None:
    """Why a tick starts nothing: the sweep is under way, its month's money is spent, or its time was missed; None when
    it starts."""
    if sweep.overlap == "skip":
        unfinished = dg.RunsFilter(statuses=UNFINISHED, tags={SWEEP_TAG: name})
        if context.instance.get_runs_count(unfinished):
            return f"the sweep {name} is still queued or under way (overlap: skip)"
    month = month_budget(session.project, session.warehouse, name)
    if month is not None and month.problem is not None:
        return month.problem
    planned = context.scheduled_execution_time
    now = datetime.now(UTC)
    if sweep.missed == "skip" and now - planned > LATE:
        return f"no scheduler ran at {planned.isoformat()} (missed: skip)"
    following = get_next_cron_tick(sweep.cron or DEFAULT_SCHEDULE, planned + timedelta(seconds=1), sweep.timezone)
    if sweep.missed == "latest" and following <= now:
        return f"a later tick is due as well ({following.isoformat()}; missed: latest)"
    return None


def _cancel_waiting(instance: dg.DagsterInstance, name: str) -> None:
    """Take the runs of a sweep that wait out of the queue; one under way goes on."""
    for run in instance.get_runs(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED], tags={SWEEP_TAG: name})):
        instance.report_run_canceled(run, message=f"a later tick of the sweep {name} takes its place (overlap: latest)")


def _request(
    context: dg.ScheduleEvaluationContext, session: ProjectSession, config: dict[str, str], name: str | None = None
) -> dg.RunRequest | dg.SkipReason:
    return run_request(context.instance, session, config, context.scheduled_execution_time.isoformat(), name)


def run_request(
    instance: dg.DagsterInstance, session: ProjectSession, config: dict[str, str], run_key: str, name: str | None = None
) -> dg.RunRequest | dg.SkipReason:
    """Return one run over the pairs that the project requests now, of one sweep where it has a name."""
    try:
        contents = read_project(session)
        apply_requests(instance, partition_requests(instance, contents))
        keys = instance.get_dynamic_partitions(PAIRS)
        chosen = _chosen(session, keys, name)
    except EvalPipelineError as error:
        return dg.SkipReason(str(error))
    if not chosen:
        return dg.SkipReason("; ".join(contents.problems) or "no suite requests a runner")
    return dg.RunRequest(
        run_key=run_key,
        tags={**range_tags(chosen), **({SWEEP_TAG: name} if name is not None else {})},
        run_config=dg.RunConfig(ops={"evaluate": {"config": config}}),
    )


def _chosen(session: ProjectSession, keys: Sequence[str], name: str | None) -> list[str]:
    """The partitions of a sweep, in the order of all; None: of one without a name."""
    return [partition_key(pair) for pair in pairs_of_sweep(session, [pair_key(key) for key in keys], name)]


def _schedule_problem(session: ProjectSession) -> str | None:
    """Why a schedule of the project cannot be used, reported in the log of the code location; None when all can."""
    problem = session.project.schedule_problem
    if problem is None and is_valid_cron_schedule(session.project.schedule):
        return None
    text = str(problem or f"{PROJECT_FILE}: schedule: no cron expression that Dagster can use")
    _LOG.warning("the schedule nightly_sweep never runs: %s", text)
    return text
