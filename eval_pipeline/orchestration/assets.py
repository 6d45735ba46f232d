"""The assets: suites; plans, evaluators, executions, reports, scores and failure classes of each pair; leaderboards.

Thin by rule: partitions in, one verb of the rooms without Dagster, materializations with metadata out. The four assets
of a pair are one step over all partitions of a run: a step of its own per partition costs seconds.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import dagster as dg

from eval_pipeline.errors import EvalPipelineError, error_text
from eval_pipeline.orchestration.checks import check_target, logged_checks, pair_checks, suite_check, suite_checks
from eval_pipeline.orchestration.config import SweepConfig, form_of
from eval_pipeline.orchestration.event_batches import light_events_of, newest_storage_id
from eval_pipeline.orchestration.instance import end_killed_runs
from eval_pipeline.orchestration.metadata import board_metadata, suite_materialization
from eval_pipeline.orchestration.partitions import (
    pair_key,
    pair_partitions,
    partition_key,
    run_partitions,
    suite_partitions,
)
from eval_pipeline.orchestration.pruning import delete_runs
from eval_pipeline.orchestration.redacted_step import redacted_step
from eval_pipeline.orchestration.reporter import PAIR_ASSETS, PairReporter
from eval_pipeline.orchestration.run_page import run_on_page
from eval_pipeline.orchestration.run_processes import tag_process
from eval_pipeline.orchestration.versions import CODE_VERSION, INPUTS, UPSTREAM, report_inputs
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.stopping import Stopped
from eval_pipeline.sweeps.deletion import remove_what_was_under_way
from eval_pipeline.sweeps.kept_sweeps import forget_old
from eval_pipeline.sweeps.options import EVALUATE, STAGES
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.selection import pairs_of_sweep, select_pairs
from eval_pipeline.sweeps.snapshot_checks import snapshot_settings
from eval_pipeline.sweeps.sweep_ends import drops_of_run, gate_of_run, tell
from eval_pipeline.warehouse.journal import PairKey

GROUP = "evaluation"
GATE_TAG = "eval_pipeline/gate"
"""The run tag that has the decision of a sweep's gate."""
Loaded = TypeVar("Loaded")
MAPPINGS = {"suites": dg.AllPartitionMapping()}
_DESCRIPTIONS = {
    "plans": "What a runner is given: the cases of a suite as the target sees them, and the runner's own settings.",
    "evaluators": "What a runner's answers are scored with: the evaluators of a suite at its revision.",
    "target_executions": "Every planned case carried out by the runner: attempts, raw output, failures. Costs money.",
    "session_reports": "Each execution normalized: final output, events, tokens, cost, file reads, skills.",
    "evaluator_scores": "One score per evaluator and execution, and the verdict decided from them.",
    "failure_classes": "Why executions did not pass: class, count, share, examples. Summarized with Polars.",
}


def suites_asset(session: ProjectSession) -> dg.AssetsDefinition:
    """The asset `suites`: one partition per suite."""

    spec = dg.AssetSpec(
        "suites",
        skippable=True,
        group_name=GROUP,
        kinds={"duckdb"},
        code_version=CODE_VERSION,
        description="Suite files loaded and checked: cases, evaluators, and what is wrong with them.",
    )

    @dg.multi_asset(
        name="suites",
        specs=[spec],
        check_specs=suite_checks(suite_partitions),
        partitions_def=suite_partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def suites(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
        tag_process(context)
        keys = run_partitions(context)
        for key in keys:
            ready = _or_fail(partial(session.suite, key))
            session.store.store_suites([ready])
            context.log_event(suite_materialization(ready))
            stored = newest_storage_id(context.instance, "suites", key)
            context.log_event(suite_check(ready, check_target(context, stored)))
        session.warehouse.publish()
        yield from logged_checks(context)

    return suites


def input_assets(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetSpec]:
    """The external assets that the assets of a pair are made from."""
    return [_spec(name, partitions, partitions_def=partitions) for name in INPUTS]


def pair_assets(session: ProjectSession, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The assets of a suite × runner, as one step that covers every partition of a run."""

    Form: Any = form_of(session) if partitions is pair_partitions else SweepConfig

    @dg.multi_asset(
        name="evaluate",
        specs=[_spec(name, partitions, skippable=True, code_version=CODE_VERSION) for name in PAIR_ASSETS],
        check_specs=pair_checks(partitions),
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def evaluate(context: dg.AssetExecutionContext, config: Form) -> Iterator[dg.Output[None]]:
        with light_events_of(context.instance):
            evaluate_pairs(context, config)
        yield from logged_checks(context)

    def evaluate_pairs(context: dg.AssetExecutionContext, config: Form) -> None:
        tag_process(context)
        stages = _stages(context)
        options = _or_fail(lambda: config.options(session.project, stages))
        pairs = [pair_key(key) for key in run_partitions(context)]
        if options.sweep is not None and partitions is pair_partitions:  # what the command line runs is chosen already
            pairs = _or_fail(partial(pairs_of_sweep, session, pairs, options.sweep))
        keys = [partition_key(pair) for pair in pairs]
        selected = _or_fail(lambda: select_pairs(session, pairs, options))
        for warning in selected.warnings:
            context.log.warning(escape_controls(warning))
        _or_fail(lambda: snapshot_settings((pair.ready.suite for pair in selected.pairs), session.project))
        report_inputs(context.instance, session, selected.pairs, options)
        unusable = _still_requested(context, session, selected.unusable)
        reporter = PairReporter(context, session, keys, unusable, options.cases)
        named = options.sweep if partitions is pair_partitions else None  # the command line ends its own
        if selected.pairs:
            with (
                _ends_when_stopped(),
                _tells_of_faults(context, session, named, reporter),
                session.store.exclusive(_waiting(context, session), session.stop) as killed,
            ):
                end_killed_runs(context.instance, killed)
                with redacted_step():
                    run_on_page(context, session, selected.pairs, options, reporter)
                remove_what_was_under_way(session.store, killed)
        if named is not None:
            _end_named(context, session, named, reporter, reporter.problem)
        reporter.raise_failure()

    return evaluate


def _end_named(
    context: dg.AssetExecutionContext, session: ProjectSession, name: str, reporter: PairReporter, failure: str | None
) -> None:
    """Log the gate of a sweep of the project file, tag the run with its decision, and tell who wants to know."""
    gate = _or_fail(partial(gate_of_run, session, name, context.run.run_id))
    if gate is not None:
        context.instance.add_run_tags(context.run.run_id, {GATE_TAG: gate.decision})
        for line in gate.lines:
            log = context.log.info if line.decision == "GO" else context.log.warning
            log(escape_controls(f"{line.decision} {line}"))
        reporter.report_drops(_or_fail(partial(drops_of_run, session, name)))
    for problem in tell(session, name, gate, failure):
        context.log.warning(escape_controls(f"not told: {problem}"))
    forgotten = _or_fail(partial(forget_old, session, name))
    delete_runs(context.instance, [run for run in forgotten.dagster_runs if context.instance.has_run(run)])
    if forgotten:
        context.log.info(f"deleted, see sweeps.{name}.keep of the project file: {forgotten}")


@contextmanager
def _tells_of_faults(
    context: dg.AssetExecutionContext, session: ProjectSession, name: str | None, reporter: PairReporter
) -> Iterator[None]:
    """Tell who wants to know that a sweep of the project file broke off; the fault goes on."""
    try:
        yield
    except Exception as error:
        if name is not None:
            _end_named(context, session, name, reporter, error_text(error))
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


def _stages(context: dg.AssetExecutionContext) -> tuple[str, ...]:
    """Return the stages of the selected assets; checks that run alone need the verdicts that are stored."""
    checked = EVALUATE if context.selected_asset_check_keys else None
    return tuple(name for name in STAGES if dg.AssetKey(name) in context.selected_asset_keys or name == checked)


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


def _spec(name: str, partitions: dg.PartitionsDefinition[str], **fields: Any) -> dg.AssetSpec:
    kinds = {"plans": {"yaml"}, "evaluators": {"yaml"}, "failure_classes": {"duckdb", "polars"}}.get(name, {"duckdb"})
    deps = [dg.AssetDep(each, partition_mapping=MAPPINGS.get(each)) for each in UPSTREAM[name]]
    return dg.AssetSpec(name, deps=deps, group_name=GROUP, kinds=kinds, description=_DESCRIPTIONS[name], **fields)


def leaderboards_asset(session: ProjectSession) -> dg.AssetsDefinition:
    """The asset `leaderboards`: standings over everything current, recomputed when any score changed."""

    @dg.asset(
        name="leaderboards",
        deps=["evaluator_scores", "evaluators"],
        group_name=GROUP,
        kinds={"duckdb", "polars"},
        code_version=CODE_VERSION,
        automation_condition=dg.AutomationCondition.eager()
        .without(~dg.AutomationCondition.any_deps_missing())
        .ignore(dg.AssetSelection.assets("evaluators"))
        .with_label("any score updated"),
        description="Standings per suite and overall: pass rates with intervals, coverage, latency, tokens, cost.",
    )
    def leaderboards(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        tag_process(context)
        standings = session.store.update_leaderboards()
        session.warehouse.publish()
        return dg.MaterializeResult(metadata=board_metadata(standings))

    return leaderboards


def _or_fail(load: Callable[[], Loaded]) -> Loaded:
    """Bad input ends a step with its own message instead of a stack trace."""
    try:
        return load()
    except EvalPipelineError as error:
        raise dg.Failure(escape_controls(redact_text(str(error), cut=True)), allow_retries=False) from None
