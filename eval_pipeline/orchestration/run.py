"""A sweep of the command line, carried out as Dagster runs in this process, so that the UI shows it afterwards.

One run covers all suites × runners of the sweep; a second one computes the leaderboards when anything changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline.orchestration.event_storage import events_together
from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.orchestration.metadata import suite_materialization
from eval_pipeline.orchestration.partitions import SUITES, between
from eval_pipeline.sweeps.outcomes import INTERRUPTED, ForwardingObserver, PairOutcome, SweepObserver
from eval_pipeline.sweeps.pairs import ValidatedSuite
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import has_board

_QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(slots=True)
class RunResult:
    """What came of a sweep: its pairs, the Dagster runs, and what went wrong on our side."""

    outcomes: list[PairOutcome] = field(default_factory=list)
    run_id: str | None = None
    problem: str | None = None


def run_sweep(
    session: ProjectSession, suites: Sequence[ValidatedSuite], pairs: Sequence[PairKey], config: dict[str, Any]
) -> RunResult:
    """Carries out pairs of these suites with a SweepConfig, then ranks. Nothing of a failing target raises."""
    result = RunResult()
    session.observer = _Collecting(session.observer, result.outcomes)
    definitions = build_definitions(session, list(dict.fromkeys(pair.runner for pair in pairs)), pairs)
    with open_instance(session.project.data) as instance:
        _register(session, suites, instance)
        sweep = _execute(definitions, "sweep", instance, config, between(pairs[0], pairs[-1]))
        result.run_id = sweep.run_id
        result.problem = None if sweep.success else _problem(sweep)
        if any(outcome.counts.changed for outcome in result.outcomes) or not has_board(session.warehouse):
            ranked = _execute(definitions, "rank", instance, None, {})
            result.problem = result.problem or (None if ranked.success else _problem(ranked))
    return result


def _register(session: ProjectSession, suites: Sequence[ValidatedSuite], instance: dg.DagsterInstance) -> None:
    """Add suites as partitions; store and report those whose revision is new."""
    known = set(instance.get_dynamic_partitions(SUITES))
    instance.add_dynamic_partitions(SUITES, [ready.suite.name for ready in suites])
    stored = session.store.stored_revisions()
    new = [
        ready
        for ready in suites
        if stored.get(ready.suite.name) != ready.suite.revision or ready.suite.name not in known
    ]
    session.store.store_suites(new)
    with events_together(instance):
        for ready in new:
            instance.report_runless_asset_event(suite_materialization(ready))


def _execute(
    definitions: dg.Definitions,
    job: str,
    instance: dg.DagsterInstance,
    config: dict[str, Any] | None,
    tags: dict[str, str],
) -> dg.ExecuteInProcessResult:
    ops = {"ops": {"evaluate": {"config": config}}} if config is not None else {}
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, tags=tags, run_config={**_QUIET, **ops}, raise_on_error=False
    )


def _problem(result: dg.ExecuteInProcessResult) -> str:
    """The first failure of a run, in its own words."""
    for event in result.all_events:
        failure = event.step_failure_data if event.is_step_failure else None
        if failure is not None:
            described = failure.user_failure_data.description if failure.user_failure_data else None
            return described or _root_message(failure.error)
    return "the Dagster run did not succeed"


def _root_message(error: Any) -> str:
    """What the innermost error of a step says; Dagster wraps it in its own."""
    while error is not None and error.cause is not None:
        error = error.cause
    if error is not None and error.cls_name == dg.DagsterExecutionInterruptedError.__name__:
        return INTERRUPTED
    return error.message.strip() if error is not None else "a step failed"


class _Collecting(ForwardingObserver):
    """Keeps every outcome, and passes everything on."""

    def __init__(self, onward: SweepObserver, outcomes: list[PairOutcome]) -> None:
        super().__init__(onward)
        self._outcomes = outcomes

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        self._outcomes += outcomes
        super().pairs_finished(outcomes)
