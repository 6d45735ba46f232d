"""The assets: suites; plans, evaluators, executions, reports, scores and failure classes of each pair; leaderboards.

Thin by rule: partitions in, one verb of the rooms without Dagster, materializations with metadata out. The four assets
of a pair are one step over all partitions of a run: a step of its own per partition costs seconds.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import dagster as dg

from eval_pipeline.orchestration.asset_keys import AssetKeys, keys_of
from eval_pipeline.orchestration.boards import compute_boards
from eval_pipeline.orchestration.checks import check_target, logged_checks, pair_checks, suite_check, suite_checks
from eval_pipeline.orchestration.chunks import chunked_assets
from eval_pipeline.orchestration.config import SweepConfig, form_of
from eval_pipeline.orchestration.event_batches import light_events_of, newest_storage_id
from eval_pipeline.orchestration.metadata import suite_materialization
from eval_pipeline.orchestration.partitions import (
    pair_partitions,
    run_partitions,
    suite_partitions,
)
from eval_pipeline.orchestration.reporter import PAIR_ASSETS
from eval_pipeline.orchestration.run_processes import tag_process
from eval_pipeline.orchestration.sweep_step import carry_out, end_named, or_fail, work_of
from eval_pipeline.orchestration.versions import CODE_VERSION, EVALUATORS, INPUTS, LEADERBOARDS, UPSTREAM, report_inputs
from eval_pipeline.sweeps.options import EVALUATE, LaunchOptions
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.seen_plans import store_seen_plans

GROUP = "evaluation"
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
    asset = keys_of(session.project).key("suites")
    spec = dg.AssetSpec(
        asset,
        skippable=True,
        group_name=GROUP,
        kinds={"duckdb"},
        code_version=CODE_VERSION,
        description="Suite files loaded and checked: cases, evaluators, and what is wrong with them.",
    )

    @dg.multi_asset(
        name=asset.to_python_identifier(),
        specs=[spec],
        check_specs=suite_checks(asset, suite_partitions),
        partitions_def=suite_partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def suites(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
        tag_process(context)
        keys = run_partitions(context, suite_partitions)
        for key in keys:
            ready = or_fail(partial(session.suite, key))
            session.store.store_suites([ready])
            context.log_event(suite_materialization(ready, asset))
            stored = newest_storage_id(context.instance, asset, key)
            context.log_event(suite_check(ready, asset, check_target(context, stored)))
        store_seen_plans(session, lambda pair: pair.suite in keys, LaunchOptions().resolve(session.project.defaults))
        session.warehouse.publish()
        yield from logged_checks(context)

    return suites


def input_assets(session: ProjectSession, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetSpec]:
    """The external assets that the assets of a pair are made from."""
    return [_spec(name, keys_of(session.project), partitions_def=partitions) for name in INPUTS]


def pair_assets(session: ProjectSession, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The assets of a suite × runner, as one step that covers every partition of a run."""

    Form: Any = form_of(session) if partitions is pair_partitions else SweepConfig
    assets = keys_of(session.project)
    automatic = _free_scores(assets) if partitions is pair_partitions else {}
    checks = pair_checks(assets.key(EVALUATE), partitions)
    specs = [
        _spec(name, assets, skippable=True, code_version=CODE_VERSION, automation_condition=automatic.get(name))
        for name in PAIR_ASSETS
    ]
    if partitions is pair_partitions and session.project.dagster.is_cut:
        placed = [spec.replace_attributes(partitions_def=partitions) for spec in specs]
        return chunked_assets(session, placed, checks)

    @dg.multi_asset(
        name="evaluate",
        specs=specs,
        check_specs=checks,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def evaluate(context: dg.AssetExecutionContext, config: Form) -> Iterator[dg.Output[None]]:
        with light_events_of(context.instance):
            tag_process(context)
            work = work_of(context, session, config, partitions)
            report_inputs(context.instance, session, work.pairs, work.options)
            reporter = carry_out(context, session, work)
            if work.named is not None:
                end_named(context, session, work.named, reporter, reporter.problem)
            reporter.raise_failure()
        yield from logged_checks(context)

    return evaluate


def _spec(name: str, assets: AssetKeys, **fields: Any) -> dg.AssetSpec:
    kinds = {"plans": {"yaml"}, "evaluators": {"yaml"}, "failure_classes": {"duckdb", "polars"}}.get(name, {"duckdb"})
    deps = [dg.AssetDep(assets.key(each), partition_mapping=MAPPINGS.get(each)) for each in UPSTREAM[name]]
    description = _DESCRIPTIONS[name]
    return dg.AssetSpec(assets.key(name), deps=deps, group_name=GROUP, kinds=kinds, description=description, **fields)


def _free_scores(assets: AssetKeys) -> dict[str, dg.AutomationCondition[Any]]:
    """Return when scores, and failure classes with them, are made again by themselves: their evaluators are others.

    Nothing else asks for them, and nothing ever for executions. The run leaves out what is not free.
    """
    is_ = dg.AutomationCondition
    changed = is_.any_deps_updated().allow(assets.selection(EVALUATORS))
    asked = changed.since(is_.newly_requested() | is_.newly_updated() | is_.initial_evaluation())
    scores = asked & ~is_.missing() & ~is_.any_deps_in_progress() & ~is_.in_progress()
    together = is_.any_deps_match(is_.will_be_requested()) & ~is_.in_progress()
    return {
        "evaluator_scores": scores.with_label("evaluators changed, answers are stored"),
        "failure_classes": together.with_label("together with the scores"),
    }


def _any_score_updated(assets: AssetKeys) -> dg.AutomationCondition[dg.AssetKey]:
    """Return when leaderboards are computed again: `eager`, but only a request of its own makes a score handled.

    Boards that a command computed do not: scores of another run may have come after them before the daemon looked.
    """
    is_ = dg.AutomationCondition
    updated = is_.any_deps_updated().ignore(assets.selection(EVALUATORS))
    asked = (is_.newly_missing() | updated).since(is_.newly_requested() | is_.initial_evaluation())
    return (asked & ~is_.any_deps_in_progress() & ~is_.in_progress()).with_label("any score updated")


def leaderboards_asset(session: ProjectSession) -> dg.AssetsDefinition:
    """The asset `leaderboards`: standings over everything current, recomputed when any score changed."""
    assets = keys_of(session.project)

    @dg.asset(
        key=assets.key(LEADERBOARDS),
        deps=[assets.key(name) for name in UPSTREAM[LEADERBOARDS]],
        group_name=GROUP,
        kinds={"duckdb", "polars"},
        code_version=CODE_VERSION,
        automation_condition=_any_score_updated(assets),
        description="Standings per suite and overall: pass rates with intervals, coverage, latency, tokens, cost.",
    )
    def leaderboards(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        tag_process(context)
        metadata = compute_boards(session)
        session.warehouse.publish()
        return dg.MaterializeResult(metadata=metadata)

    return leaderboards
