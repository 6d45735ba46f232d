"""A sweep of the command line, carried out as Dagster runs in this process, so that the UI shows it afterwards.

One run covers all suites × runners of the sweep. The leaderboards are computed after it when anything changed, and what
both stored is published once, after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import polars as pl
from sqlalchemy.exc import DatabaseError

from eval_pipeline.exhaustion import exhaustion, exhaustion_message
from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.boards import report_boards
from eval_pipeline.orchestration.build import sweep_definitions
from eval_pipeline.orchestration.event_batches import events_together
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.metadata import suite_materialization
from eval_pipeline.orchestration.partitions import PAIRS, SUITES, known_suites, partition_key, range_tags
from eval_pipeline.orchestration.versions import LEADERBOARDS
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.stopping import is_interruption
from eval_pipeline.sweeps.failed_cases import FailedCases
from eval_pipeline.sweeps.full_disk_notices import without_full_disk_notices
from eval_pipeline.sweeps.outcomes import INTERRUPTED, CollectingObserver, PairOutcome
from eval_pipeline.sweeps.pairs import ValidatedSuite
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.snapshots import Snapshot
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import needs_ranking, newest_standings
from eval_pipeline.warehouse.store import kept_open, publishing_held

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(slots=True)
class SweepRun:
    """A sweep that ended: the outcomes and token snapshots of its pairs, the first of its failed cases (None where its
    run did not come so far), the newest boards, its Dagster run, and the fault of ours that ended it, if any."""

    outcomes: list[PairOutcome] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    failed: FailedCases | None = None
    standings: pl.DataFrame | None = None
    run_id: str | None = None
    problem: str | None = None


@private_files()
@without_full_disk_notices()
def run_sweep(
    session: ProjectSession, suites: Sequence[ValidatedSuite], pairs: Sequence[PairKey], config: dict[str, Any]
) -> SweepRun:
    """Carry out pairs of these suites with a SweepConfig, then rank. A failing target raises nothing.

    After a request to stop the session the sweep ends early, and what it stored is ranked and published.
    """
    sweep_run = SweepRun()
    session.observer = observer = CollectingObserver(session.observer, sweep_run.outcomes, sweep_run.snapshots)
    definitions = sweep_definitions(session, pairs)
    keys = [partition_key(pair) for pair in pairs]
    with kept_open(session.warehouse), open_instance(session.project.data, session.project.root) as instance:
        _register(session, suites, instance)
        instance.add_dynamic_partitions(PAIRS, keys)
        try:
            with publishing_held(session.warehouse):
                sweep = _execute(definitions, instance, config, range_tags(keys))
                sweep_run.run_id, sweep_run.failed = sweep.run_id, observer.failed
                sweep_run.problem = INTERRUPTED if session.stop.requested and not sweep.success else _problem(sweep)
                if _is_to_rank(session, sweep_run.outcomes, instance):
                    unranked = _rank(session, instance, sweep.dagster_run)
                    sweep_run.problem = sweep_run.problem or unranked
                sweep_run.standings = newest_standings(session.warehouse)
        finally:
            unpublished = _publish(session)
        sweep_run.problem = sweep_run.problem or unpublished
    return sweep_run


def _rank(session: ProjectSession, instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """Compute the boards of a sweep, and report them in its run; return why that was not possible. Raises errors of
    Dagster's database: `open_instance` says what is damaged."""
    try:
        report_boards(session, instance, run)
    except DatabaseError:
        raise
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 — what was carried out is shown all the same
        reason = INTERRUPTED if is_interruption(error) else _reason(error)
        instance.report_engine_event(f"the boards are not computed: {reason}", run)
        return reason
    return None


def _publish(session: ProjectSession) -> str | None:
    """Publish what a sweep stored; return why that was not possible."""
    try:
        session.warehouse.publish()
    except Exception as error:  # noqa: BLE001 — what was carried out is shown all the same
        return _reason(error)
    return None


def _reason(error: BaseException) -> str:
    return redact_text(exhaustion(error) or str(error).strip() or type(error).__name__, cut=True)


def _is_to_rank(session: ProjectSession, outcomes: Sequence[PairOutcome], instance: dg.DagsterInstance) -> bool:
    """Return whether boards are to be computed: something changed, or none are reported under their key, as before the
    first sweep and after the run that reported them was deleted."""
    if any(outcome.counts.changed for outcome in outcomes) or needs_ranking(session.warehouse):
        return True
    finished = any(outcome.error is None for outcome in outcomes)
    boards = keys_of(session.project).key(LEADERBOARDS)
    return finished and not instance.fetch_materializations(boards, limit=1).records


def _register(session: ProjectSession, suites: Sequence[ValidatedSuite], instance: dg.DagsterInstance) -> None:
    """Add suites as partitions; store and report those whose revision is new."""
    asset = keys_of(session.project).key("suites")
    known = known_suites(instance, asset)
    instance.add_dynamic_partitions(SUITES, [ready.suite.name for ready in suites])
    new = session.store.store_new_suites(suites, known)
    with events_together(instance):
        for ready in new:
            instance.report_runless_asset_event(suite_materialization(ready, asset))


def _execute(
    definitions: dg.Definitions, instance: dg.DagsterInstance, config: dict[str, Any], tags: dict[str, str]
) -> dg.ExecuteInProcessResult:
    run_config = {**_QUIET, "ops": {"evaluate": {"config": config}}}
    return definitions.resolve_job_def("sweep").execute_in_process(
        instance=instance, tags=tags, run_config=run_config, raise_on_error=False
    )


def _problem(result: dg.ExecuteInProcessResult) -> str | None:
    """The message of the first failure of a run; None where it succeeded."""
    if result.success:
        return None
    for event in result.all_events:
        failure = event.step_failure_data if event.is_step_failure else None
        if failure is not None:
            described = failure.user_failure_data.description if failure.user_failure_data else None
            return described or _root_message(failure.error)
    return "the Dagster run did not succeed"


def _root_message(error: Any) -> str:
    """The message of the innermost error of a step; Dagster wraps it in its own."""
    while error is not None and error.cause is not None:
        error = error.cause
    if error is not None and error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
        return INTERRUPTED
    if error is None:
        return "a step failed"
    return exhaustion_message(error.message) or str(error.message).strip()
