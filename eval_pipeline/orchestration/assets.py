"""The assets: suites, and per suite × runner executions, reports, scores and failure classes; leaderboards over all.

Thin by rule: rows in, one verb of the session, materializations with metadata out. The four assets of a cell are
one step over all partitions of a run, because a step of its own per partition costs seconds (measured, README).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import dagster as dg
from pydantic import Field

from eval_pipeline.errors import EvalPipelineError, InputError, SourceLocation, UnknownName
from eval_pipeline.executions.planning import CaseFilter, check_case_ids
from eval_pipeline.orchestration.checks import checks_of_pair, pair_checks, suite_check, suite_checks
from eval_pipeline.orchestration.event_storage import events_together
from eval_pipeline.orchestration.instance import end_killed_runs
from eval_pipeline.orchestration.metadata import (
    CODE_VERSION,
    board_metadata,
    made_from,
    pair_metadata,
    pair_version,
    provenance,
    suite_metadata,
    suite_version,
)
from eval_pipeline.orchestration.partitions import by_suite, pair_key, partition_key
from eval_pipeline.sweeps.grading import ungradable
from eval_pipeline.sweeps.outcomes import ForwardingObserver, PairOutcome
from eval_pipeline.sweeps.pairs import STAGES, Pair, SweepOptions, count_plans
from eval_pipeline.sweeps.project import Project, Refresh
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import carry_out, make_graders

GROUP = "evaluation"
PAIRS_AT_ONCE = 16
"""Pairs whose events are stored in one transaction: few enough that the UI waits a fraction of a second at most."""
Loaded = TypeVar("Loaded")
PAIR_ASSETS = (*STAGES, "failure_classes")
_NO_OUTPUT: tuple[dg.AssetCheckResult, ...] = ()
"""What a step yields whose materializations and checks are logged one by one, each with its partition."""
_DESCRIPTIONS = {
    "target_executions": "Every planned case carried out by the runner: attempts, raw output, failures. Costs money.",
    "session_reports": "Each execution normalized: final output, events, tokens, cost, file reads, skills.",
    "evaluator_scores": "One score per evaluator and execution, and the verdict decided from them.",
    "failure_classes": "Why cells did not pass: class, count, share, examples. Summarized with Polars.",
}


class SweepConfig(dg.Config):
    """What a sweep does; everything here can be set in the launchpad. What is left out is as suite or project say."""

    refresh: str | None = Field(default=None, description="missing, failed or all")
    tags: list[str] = Field(default=[], description="only cases with any of these tags")
    cases: list[str] = Field(default=[], description="only cases of these ids")
    repetitions: int | None = Field(default=None, description="repetitions per case")
    concurrency: int | None = Field(default=None, description="attempts at once, all runners together")
    threshold: float | None = Field(default=None, description="least score that passes, from 0 to 1")
    budget_usd: float | None = Field(default=None, description="stop calling targets after this much")
    grader: str | None = Field(default=None, description="runner that grades everything")
    any_runner: bool = Field(default=False, description="set aside which runners suites ask for")
    resume: str | None = Field(default=None, description="id of an interrupted sweep whose executions count as done")

    def options(self, project: Project, stages: tuple[str, ...]) -> SweepOptions:
        """This configuration over the project's defaults. Raises InputError for a value that makes no sense."""
        self._check()
        return SweepOptions(
            refresh=_refresh(self.refresh) if self.refresh else project.defaults.refresh,
            cases=CaseFilter(ids=frozenset(self.cases), tags=frozenset(self.tags)),
            repetitions=self.repetitions,
            concurrency=self.concurrency,
            threshold=self.threshold,
            budget_usd=self.budget_usd,
            grader=self.grader,
            resume=self.resume,
            any_runner=self.any_runner,
            stages=stages,
            defaults=project.defaults,
        )

    def _check(self) -> None:
        for name, least in (("repetitions", 1), ("concurrency", 1), ("budget_usd", 0), ("threshold", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"expected a number of at least {least}, got {value}", SourceLocation(field=name))
        if self.threshold is not None and self.threshold > 1:
            raise InputError(f"expected a number of at most 1, got {self.threshold}", SourceLocation(field="threshold"))


def _refresh(name: str) -> Refresh:
    policies: tuple[Refresh, ...] = ("missing", "failed", "all")
    for policy in policies:
        if name == policy:
            return policy
    raise UnknownName("refresh policy", name, policies)


def _check_selection(pairs: Sequence[Pair], options: SweepOptions) -> None:
    """Raises InputError for a case that is nowhere, and for ids and tags that select nothing."""
    check_case_ids([pair.ready.suite for pair in pairs], options.cases.ids)
    narrowed = options.cases.ids or options.cases.tags
    if narrowed and not any(count_plans(pair, options, options.cases) for pair in pairs):
        raise InputError("no case matches the selection")


def suites_asset(session: ProjectSession, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
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
        check_specs=suite_checks(partitions),
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def suites(context: dg.AssetExecutionContext) -> Iterator[dg.AssetCheckResult]:
        for key in context.partition_keys:
            ready = _or_fail(partial(session.suite, key))
            session.store_suite(ready)
            context.log_event(suite_materialization(session, key))
            context.log_event(suite_check(ready))
        session.warehouse.publish()
        yield from _NO_OUTPUT

    return suites


def suite_materialization(session: ProjectSession, name: str) -> dg.AssetMaterialization:
    """The event that says: this suite is loaded, at this revision."""
    ready = session.suite(name)
    return dg.AssetMaterialization(
        "suites", partition=name, metadata=suite_metadata(ready), tags=provenance(suite_version(ready))
    )


def pair_assets(session: ProjectSession, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The assets of a suite × runner, as one step that covers every partition of a run."""

    @dg.multi_asset(
        name="evaluate",
        specs=list(_pair_specs(partitions)),
        check_specs=pair_checks(partitions),
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
    )
    def evaluate(context: dg.AssetExecutionContext, config: SweepConfig) -> Iterator[dg.AssetCheckResult]:
        selected = [name for name in PAIR_ASSETS if dg.AssetKey(name) in context.selected_asset_keys]
        stages = tuple(name for name in STAGES if name in selected)
        options = _or_fail(lambda: config.options(session.project, stages))
        pairs, unusable = session.usable_pairs([pair_key(key) for key in context.partition_keys])
        reporter = _Reporter(context, session, selected)
        reporter.failed.update((str(partition_key(name)), reason) for name, reason in unusable.items())
        pairs = _gradable(pairs, options, session, reporter.failed)
        if not pairs:
            raise _failure(reporter.failed, len(context.partition_keys))
        _or_fail(lambda: _check_selection(pairs, options))
        with session.alone(context.log.info) as killed:
            end_killed_runs(context.instance, killed)
            _sweep(session, pairs, options, context.run.run_id, reporter)
        if reporter.failed:
            raise _failure(reporter.failed, len(context.partition_keys))
        yield from _NO_OUTPUT

    return evaluate


def _gradable(
    pairs: Sequence[Pair], options: SweepOptions, session: ProjectSession, failed: dict[str, str]
) -> list[Pair]:
    """The cells whose graders are all there; why the others cannot be graded goes into `failed`."""
    graders = make_graders(options, session.warehouse, session.runner)
    errors = {
        pair.name: ungradable(pair.ready.suite, pair.runner, graders, any_runner=options.any_runner) for pair in pairs
    }
    failed.update((str(partition_key(name)), str(error)) for name, error in errors.items() if error is not None)
    return [pair for pair in pairs if errors[pair.name] is None]


def _sweep(
    session: ProjectSession, pairs: Sequence[Pair], options: SweepOptions, run_id: str, reporter: "_Reporter"
) -> None:
    """One sweep, written down from begin to end; what it stored is published even when it breaks off."""
    sweep_id = session.begin_sweep(pairs, options, run_id)
    status = "interrupted"
    try:
        carry_out(
            pairs,
            options,
            warehouse=session.warehouse,
            sweep_id=sweep_id,
            observer=reporter,
            runner_named=session.runner,
        )
        status = "finished"
    finally:
        session.end_sweep(sweep_id, status)
        session.warehouse.publish()


def _failure(failed: Mapping[str, str], partitions: int) -> dg.Failure:
    """The one failure of a run: each reason once, with its partitions."""
    by_reason: dict[str, list[str]] = {}
    for key, reason in failed.items():
        by_reason.setdefault(reason, []).append(key)
    reasons = "\n".join(f"{', '.join(keys)}: {reason}" for reason, keys in by_reason.items())
    return dg.Failure(
        f"{len(failed)} of {partitions} partitions failed\n{reasons}",
        metadata={"failed": dict(failed)},
        allow_retries=False,
    )


def _pair_specs(partitions: dg.PartitionsDefinition[str]) -> Iterator[dg.AssetSpec]:
    in_grid = isinstance(partitions, dg.MultiPartitionsDefinition)
    upstream = dg.AssetDep("suites", partition_mapping=by_suite if in_grid else dg.AllPartitionMapping())
    for name in PAIR_ASSETS:
        yield dg.AssetSpec(
            name,
            deps=[upstream],
            skippable=True,
            group_name=GROUP,
            kinds={"duckdb", "polars"} if name == "failure_classes" else {"duckdb"},
            code_version=CODE_VERSION,
            description=_DESCRIPTIONS[name],
        )
        upstream = dg.AssetDep(name)


class _Reporter(ForwardingObserver):
    """Turns finished cells into Dagster events, and passes everything on to the session's own observer.

    A suite × runner with nothing to carry out is no event: a run in the grid is a box of both, and events cost time.
    """

    def __init__(self, context: dg.AssetExecutionContext, session: ProjectSession, selected: list[str]) -> None:
        super().__init__(session.observer)
        self.failed: dict[str, str] = {}
        self._context = context
        self._session = session
        self._selected = selected
        self._suite_events: dict[str, int | None] = {}

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        for start in range(0, len(outcomes), PAIRS_AT_ONCE):
            with events_together(self._context.instance):
                for outcome in outcomes[start : start + PAIRS_AT_ONCE]:
                    self._report(outcome)
        super().pairs_finished(outcomes)

    def _report(self, outcome: PairOutcome) -> None:
        key = partition_key(outcome.pair.name)
        if outcome.error is not None:
            self.failed[str(key)] = outcome.error
        elif outcome.counts.planned:
            self._materialize(outcome, key)

    def _materialize(self, outcome: PairOutcome, key: dg.MultiPartitionKey) -> None:
        version, ready = pair_version(outcome.pair), outcome.pair.ready
        upstream = made_from("suites", suite_version(ready), self._suite_event(ready.suite.name))
        for asset in PAIR_ASSETS:
            if asset in self._selected:
                metadata, tags = pair_metadata(asset, outcome), provenance(version) | upstream
                self._context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata, tags=tags))
            upstream = made_from(asset, version)
        for check in checks_of_pair(outcome, key, self._session.project.defaults):
            if check.asset_check_key in self._context.selected_asset_check_keys:
                self._context.log_event(check)

    def _suite_event(self, suite: str) -> int | None:
        """The newest materialization of a suite's partition, asked for once per suite."""
        if suite not in self._suite_events:
            wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("suites"), asset_partitions=[suite])
            records = self._context.instance.fetch_materializations(wanted, limit=1).records
            self._suite_events[suite] = records[0].storage_id if records else None
        return self._suite_events[suite]


def leaderboards_asset(session: ProjectSession) -> dg.AssetsDefinition:
    """The asset `leaderboards`: standings over everything current, recomputed when any score changed."""

    @dg.asset(
        name="leaderboards",
        deps=["evaluator_scores"],
        group_name=GROUP,
        kinds={"duckdb", "polars"},
        code_version=CODE_VERSION,
        automation_condition=dg.AutomationCondition.eager()
        .without(~dg.AutomationCondition.any_deps_missing())
        .with_label("any score updated"),
        description="Standings per suite and overall: pass rates with intervals, coverage, latency, tokens, cost.",
    )
    def leaderboards() -> dg.MaterializeResult[None]:
        standings = session.update_leaderboards()
        session.warehouse.publish()
        return dg.MaterializeResult(metadata=board_metadata(standings))

    return leaderboards


def _or_fail(load: Callable[[], Loaded]) -> Loaded:
    """Bad input ends a step with its own message instead of a stack trace."""
    try:
        return load()
    except EvalPipelineError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
