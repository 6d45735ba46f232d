"""What the page of a Dagster run shows of a sweep: progress while it runs, a summary at its end, and tags."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.events import EngineEventData

from eval_pipeline.executions.workspaces.git import rev_parse
from eval_pipeline.orchestration.reporter import PairReporter
from eval_pipeline.sweeps.failed_cases import FailedCases
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import ForwardingObserver, PairOutcome, SweepObserver
from eval_pipeline.sweeps.pairs import Pair, count_plans
from eval_pipeline.sweeps.progress import SweepProgress
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.summaries import failed_cases, name_list, sweep_summary
from eval_pipeline.sweeps.sweep import run_recorded

_LOG = logging.getLogger(__name__)
EVERY_S = 5.0
"""Seconds between two progress events: a run that is shorter has none but the summary."""
COMMIT_DIGITS = 12
LISTED = 50
"""How many failed cases the table of the summary has."""


def run_on_page(
    context: dg.AssetExecutionContext,
    session: ProjectSession,
    pairs: Sequence[Pair],
    options: SweepOptions,
    reporter: PairReporter,
    joined: str | None = None,
) -> None:
    """Carry out pairs as a recorded sweep, or a part of one, and report progress and summary as events of the run."""

    def progress() -> SweepProgress:
        return reporter.progress.overall(sum(count_plans(pair, options, options.cases) for pair in pairs))

    tagging = reporter if joined is not None else _Tagging(context, session, pairs, reporter)
    with _progress_events(context, progress):
        outcomes = run_recorded(session, pairs, options, context.run.run_id, tagging, joined)
    failed = failed_cases(session.warehouse, outcomes, options.cases, most=LISTED)
    if joined is None:  # else they are those of a part
        reporter.cases_failed(failed)
    _report(context, sweep_summary(reporter.progress.overall(), failed), summary_metadata(outcomes, failed))


class _Tagging(ForwardingObserver):
    """Tags the run with its sweep, its suites and runners, and the commit of the project's folder."""

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        session: ProjectSession,
        pairs: Sequence[Pair],
        onward: SweepObserver,
    ) -> None:
        super().__init__(onward)
        self._context = context
        self._tags = {
            "suites": name_list([pair.name.suite for pair in pairs]),
            "runners": name_list([pair.name.runner for pair in pairs]),
            "commit": (rev_parse(session.project.root, "HEAD") or "")[:COMMIT_DIGITS] or None,
        }

    def sweep_started(self, sweep_id: str) -> None:
        tags = {"sweep": sweep_id, **self._tags}
        known = {name: value for name, value in tags.items() if value is not None}
        self._context.instance.add_run_tags(self._context.run.run_id, known)
        super().sweep_started(sweep_id)


@contextmanager
def _progress_events(context: dg.AssetExecutionContext, progress: Callable[[], SweepProgress]) -> Iterator[None]:
    """Report progress every few seconds from a thread of its own: no call of a target waits for it."""
    ended = threading.Event()

    def report_until_end() -> None:
        while not ended.wait(EVERY_S):
            try:
                current = progress()
                _report(context, f"progress: {current}", progress_metadata(current))
            except Exception as error:  # noqa: BLE001 — progress that cannot be shown must not end a sweep
                _LOG.warning("progress could not be reported: %s", error)

    reporting = threading.Thread(target=report_until_end, name="progress", daemon=True)
    reporting.start()
    try:
        yield
    finally:
        ended.set()
        reporting.join()


def _report(context: dg.AssetExecutionContext, message: str, metadata: dict[str, Any]) -> None:
    step = context.get_step_execution_context().step.key
    context.instance.report_engine_event(message, context.run, EngineEventData(metadata), step_key=step)


def progress_metadata(progress: SweepProgress) -> dict[str, Any]:
    """Return the numbers of progress that the page shows without unfolding; unknown ones are left out."""
    names = ("done", "total", "per_second", "tokens", "cost_usd", "seconds_left")
    values = {name: getattr(progress, name) for name in names}
    return {
        name: dg.MetadataValue.float(round(value, 4)) if isinstance(value, float) else dg.MetadataValue.int(value)
        for name, value in values.items()
        if value is not None
    }


def summary_metadata(outcomes: Sequence[PairOutcome], failed: FailedCases) -> dict[str, Any]:
    """Return the failed cases as a table (case, runner, class, reason, command), and counts of finished pairs.

    The table comes first: the page folds a long event after some lines.
    """
    counts = [outcome.counts for outcome in outcomes]
    names = ("planned", "executed", "reused", "rescored", "passed", "failed", "errored")
    metadata: dict[str, Any] = {name: sum(getattr(each, name) for each in counts) for name in names}
    if not failed.cases:
        return metadata
    return {"failed_cases": _failed_table(failed), "failed_cases_in_all": failed.total, **metadata}


def _failed_table(failed: FailedCases) -> dg.TableMetadataValue:
    columns = ("case", "runner", "class", "reason", "repetitions", "see more")
    rows = [
        (
            f"{case.suite}/{case.case_id}",
            case.runner,
            case.label,
            case.reason or "",
            f"{case.failed} of {case.repetitions}",
            case.command,
        )
        for case in failed.cases
    ]
    return dg.MetadataValue.table(
        records=[dg.TableRecord(dict(zip(columns, row, strict=True))) for row in rows],
        schema=dg.TableSchema([dg.TableColumn(name, "string") for name in columns]),
    )
