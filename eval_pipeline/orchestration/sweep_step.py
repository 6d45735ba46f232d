"""One step of a sweep: what it is to do, the pairs carried out, and how it ends. The same in every executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import dagster as dg

from eval_pipeline.errors import EvalPipelineError, error_text
from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.config import SweepConfig
from eval_pipeline.orchestration.instance import end_killed_runs
from eval_pipeline.orchestration.partitions import pair_key, pair_partitions, partition_key, run_partitions
from eval_pipeline.orchestration.pruning import delete_runs
from eval_pipeline.orchestration.redacted_step import redacted_step
from eval_pipeline.orchestration.reporter import PairReporter
from eval_pipeline.orchestration.run_page import run_on_page
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.stopping import Stopped
from eval_pipeline.sweeps.deletion import remove_what_was_under_way
from eval_pipeline.sweeps.kept_sweeps import forget_old
from eval_pipeline.sweeps.named_pairs import unknown_anchor_names
from eval_pipeline.sweeps.options import EVALUATE, STAGES, SweepOptions
from eval_pipeline.sweeps.pairs import Pair
from eval_pipeline.sweeps.plan import free_pairs
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.selection import pairs_of_sweep, select_pairs
from eval_pipeline.sweeps.snapshot_checks import snapshot_settings
from eval_pipeline.sweeps.sweep_ends import AnchorsEnd, drops_of_run, gate_of_run, judge_at_end, send_notifications
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import kept_open

GATE_TAG = "eval_pipeline/gate"
"""The run tag that has the decision of a sweep's gate."""
CHUNKED_TAG = "eval_pipeline/chunks"
"""The run tag that has the number of chunks of a run which several processes carry out."""
AUTOMATIC_TAG = "eval_pipeline/automatic"
"""The run tag of runs that nobody asked for: they do what costs nothing."""
Loaded = TypeVar("Loaded")


@dataclass(frozen=True, slots=True)
class Work:
    """What a step is to do: the options, the partitions, the usable pairs of them, and why others cannot be carried
    out. `named` is the sweep of the project file that ends with it."""

    options: SweepOptions
    keys: Sequence[str]
    pairs: Sequence[Pair]
    unusable: Mapping[PairKey, str]
    named: str | None = None


def work_of(
    context: dg.AssetExecutionContext,
    session: ProjectSession,
    config: SweepConfig,
    partitions: dg.PartitionsDefinition[str],
    only: Sequence[str] | None = None,
) -> Work:
    """Return what a run is to do, or a chunk of it: `only` these partitions, which were chosen already."""
    options = or_fail(lambda: config.options(session.project, _stages(context, session)))
    pairs = [pair_key(key) for key in (run_partitions(context, partitions) if only is None else only)]
    named = options.sweep if partitions is pair_partitions else None  # the command line chooses, and ends its own
    if named is not None and only is None:
        pairs = or_fail(partial(pairs_of_sweep, session, pairs, named))
        for warning in unknown_anchor_names(session, named):
            context.log.warning(escape_controls(warning))
    if AUTOMATIC_TAG in context.run.tags:
        pairs = _free(context, session, pairs, options)
    selected = or_fail(lambda: select_pairs(session, pairs, options))
    for warning in selected.warnings if only is None else ():
        context.log.warning(escape_controls(warning))
    or_fail(lambda: snapshot_settings((pair.ready.suite for pair in selected.pairs), session.project))
    unusable = _still_requested(context, session, selected.unusable)
    return Work(options, [partition_key(pair) for pair in pairs], selected.pairs, unusable, named)


def _free(
    context: dg.AssetExecutionContext, session: ProjectSession, pairs: Sequence[PairKey], options: SweepOptions
) -> list[PairKey]:
    """Return the pairs that are brought up to date without a call of a target or a grader; the others stay stale."""
    usable = [pair.name for pair in session.usable_pairs(pairs)[0]]
    whole = options.model_copy(update={"stages": STAGES})  # what a run that was asked for would do
    free = or_fail(partial(free_pairs, session, usable, whole))
    left = [partition_key(pair) for pair in pairs if pair not in free]
    if left:
        context.log.info(escape_controls(f"not free, or up to date; left as they are: {', '.join(left)}"))
    return free


def carry_out(
    context: dg.AssetExecutionContext,
    session: ProjectSession,
    work: Work,
    joined: str | None = None,
) -> PairReporter:
    """Carry out the pairs of a step, and return what reported them. `joined` is the sweep that they are a part of."""
    reporter = PairReporter(context, session, work.keys, work.unusable, work.options.cases)
    if not work.pairs:
        return reporter
    goes_on = partial(_goes_on, context.instance)
    with (
        _ends_when_stopped(),
        kept_open(session.warehouse),
        _notifies_of_faults(context, session, work.named if joined is None else None, reporter),
        session.store.sweeping(_waiting(context, session), session.stop, goes_on) as killed,
    ):
        end_killed_runs(context.instance, killed)
        with redacted_step():
            run_on_page(context, session, work.pairs, work.options, reporter, joined)
        remove_what_was_under_way(session.store, killed)
    return reporter


def _goes_on(instance: dg.DagsterInstance, run_id: str) -> bool:
    """Return whether several processes carry out a run: no one process of it is there from begin to end."""
    run = instance.get_run_by_id(run_id)
    return run is not None and not run.is_finished and CHUNKED_TAG in run.tags


def end_named(
    context: dg.AssetExecutionContext,
    session: ProjectSession,
    name: str,
    reporter: PairReporter,
    failure: str | None,
) -> None:
    """Log the gate of a sweep of the project file, tag the run with its decision, and send the notifications."""
    anchors = _judge_anchors(context, session, name)
    gate = or_fail(partial(gate_of_run, session, name, context.run.run_id))
    if gate is not None:
        context.instance.add_run_tags(context.run.run_id, {GATE_TAG: gate.decision})
        for line in gate.lines:
            log = context.log.info if line.decision == "GO" else context.log.warning
            log(escape_controls(f"{line.decision} {line}"))
        reporter.report_drops(or_fail(partial(drops_of_run, session, name)))
    for problem in send_notifications(session, name, gate, failure, anchors):
        context.log.warning(escape_controls(f"not notified: {problem}"))
    forgotten = or_fail(partial(forget_old, session, name))
    delete_runs(context.instance, [run for run in forgotten.dagster_runs if context.instance.has_run(run)])
    if forgotten:
        context.log.info(f"deleted, see sweeps.{name}.keep of the project file: {forgotten}")


def _judge_anchors(context: dg.AssetExecutionContext, session: ProjectSession, name: str) -> AnchorsEnd:
    """Grade the anchors of a sweep again, and log what became of them."""
    anchors = judge_at_end(session, name, context.run.run_id)
    if anchors.judging is not None:
        context.log.info(f"anchors: {anchors.judging.grades} grades, {anchors.judging.base} of them first ones")
        for reason, count in (anchors.judging.gone or {}).items():
            context.log.warning(escape_controls(f"{count} of the anchors not graded: {reason}"))
    if anchors.problem is not None:
        context.log.warning(escape_controls(f"anchors are not graded: {anchors.problem}"))
    for line in anchors.drift:
        context.log.warning(escape_controls(f"judge drift: {line}"))
    return anchors


@contextmanager
def _notifies_of_faults(
    context: dg.AssetExecutionContext,
    session: ProjectSession,
    name: str | None,
    reporter: PairReporter,
) -> Iterator[None]:
    """Notify that a sweep of the project file broke off; the fault is raised again."""
    try:
        yield
    except Exception as error:
        if name is not None:
            end_named(context, session, name, reporter, error_text(error))
        raise


@contextmanager
def _ends_when_stopped() -> Iterator[None]:
    """Make a requested stop Dagster's own interruption: the run is neither a success nor at fault."""
    try:
        yield
    except Stopped:
        raise dg.DagsterExecutionInterruptedError from None


def _waiting(context: dg.AssetExecutionContext, session: ProjectSession) -> Callable[[str], None]:
    """Return what reports a wait, on the page of the run and to the session's observer."""

    def report(text: str) -> None:
        context.log.info(text)
        session.observer.waiting(text)

    return report


def _stages(context: dg.AssetExecutionContext, session: ProjectSession) -> tuple[str, ...]:
    """Return the stages of the selected assets; checks that run alone need the verdicts that are stored."""
    checked = EVALUATE if context.selected_asset_check_keys else None
    assets, selected = keys_of(session.project), context.selected_asset_keys
    return tuple(name for name in STAGES if assets.key(name) in selected or name == checked)


def _still_requested(
    context: dg.AssetExecutionContext, session: ProjectSession, unusable: Mapping[PairKey, str]
) -> dict[PairKey, str]:
    """Return the unusable pairs without those that no suite requests any more; each of these is a warning."""
    requested: dict[PairKey, str] = {}
    for pair, reason in unusable.items():
        if session.is_gone(pair):
            text = f"{partition_key(pair)} is skipped, no suite requests it any more: {reason}"
            context.log.warning(escape_controls(text))
        else:
            requested[pair] = reason
    return requested


def or_fail(load: Callable[[], Loaded]) -> Loaded:
    """Bad input ends a step with its own message instead of a stack trace."""
    try:
        return load()
    except EvalPipelineError as error:
        raise dg.Failure(escape_controls(redact_text(str(error), cut=True)), allow_retries=False) from None
