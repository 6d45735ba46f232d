"""Finished pairs → Dagster events: a materialization per asset and partition, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.gates import Gate
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.orchestration.asset_keys import keys_of
from eval_pipeline.orchestration.checks import (
    check_target,
    checks_of_pair,
    failed_pass_rates,
    regression_check,
    snapshot_check,
)
from eval_pipeline.orchestration.event_batches import events_together, store_together
from eval_pipeline.orchestration.metadata import pair_metadata
from eval_pipeline.orchestration.partitions import partition_key
from eval_pipeline.orchestration.versions import NewestEvents, provenance
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.options import EVALUATE, EXECUTE, NORMALIZE, STAGES
from eval_pipeline.sweeps.outcomes import ForwardingObserver, PairOutcome
from eval_pipeline.sweeps.pass_rates import pass_rate
from eval_pipeline.sweeps.progress import ProgressCounter
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.snapshot_checks import mismatches
from eval_pipeline.sweeps.snapshots import Snapshot
from eval_pipeline.sweeps.suite_gates import suite_gate
from eval_pipeline.sweeps.summaries import by_reason
from eval_pipeline.warehouse.journal import PairKey

PAIR_ASSETS = (*STAGES, "failure_classes")
PAIRS_AT_ONCE = 16
"""Pairs whose events are stored in one transaction: few enough that the UI waits a fraction of a second at most."""


class PairReporter(ForwardingObserver):
    """Reports finished pairs to Dagster, and passes everything on to the session's own observer.

    A pair with nothing to carry out is reported too: Dagster counts a partition without an event as failed.
    """

    def __init__(
        self,
        context: dg.AssetExecutionContext,
        session: ProjectSession,
        keys: Sequence[str],
        unusable: Mapping[PairKey, str],
        cases: CaseFilter | None = None,
    ) -> None:
        self.progress = ProgressCounter(session.observer)
        super().__init__(self.progress)
        self.failed = {partition_key(name): reason for name, reason in unusable.items()}
        self._context = context
        self._session, self._cases = session, cases
        self._assets = keys_of(session.project)
        self._scores = self._assets.key(EVALUATE)
        self._newest = NewestEvents(context.instance, self._assets, keys)
        self._keys = keys

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        for start in range(0, len(outcomes), PAIRS_AT_ONCE):
            store_together(self._context.instance, partial(self._report_all, outcomes[start : start + PAIRS_AT_ONCE]))
        super().pairs_finished(outcomes)

    @property
    def problem(self) -> str | None:
        """Which partitions failed, each reason once; None where none did."""
        if not self.failed:
            return None
        return f"{len(self.failed)} of {counted(len(self._keys), 'partition')} failed\n{by_reason(self.failed)}"

    def report_drops(self, gates: Mapping[PairKey, Gate]) -> None:
        """Report the check of each pair that may have become worse."""
        with events_together(self._context.instance):
            for pair, gate in gates.items():
                key = partition_key(pair)
                self._log_check(regression_check(gate, self._scores, key, self._target(key)))

    def snapshots_taken(self, taken: Sequence[Snapshot]) -> None:
        by_pair: dict[str, list[Snapshot]] = {}
        for snapshot in taken:
            by_pair.setdefault(partition_key(PairKey(snapshot.suite, snapshot.runner)), []).append(snapshot)
        with events_together(self._context.instance):
            for key, of_pair in by_pair.items():
                self._log_check(snapshot_check(of_pair, self._scores, key, self._target(key)))
        for line in mismatches(taken):
            self._context.log.warning(escape_controls(line))
        super().snapshots_taken(taken)

    def _target(self, key: str) -> Target | None:
        return check_target(self._context, self._newest.storage_id(EVALUATE, key))

    def _log_check(self, check: dg.AssetCheckEvaluation) -> None:
        if check.asset_check_key in self._context.selected_asset_check_keys:
            self._context.log_event(check)

    def raise_failure(self) -> None:
        """Raise the one failure of a run, if any partition failed."""
        problem = self.problem
        if problem is not None:
            raise dg.Failure(escape_controls(problem), metadata={"failed": self.failed}, allow_retries=False)

    @cached_property
    def _failed_pass_rates(self) -> frozenset[str]:
        return failed_pass_rates(self._context.instance, self._scores, self._keys)

    def _report_all(self, outcomes: Sequence[PairOutcome]) -> None:
        for outcome in outcomes:
            self._report(outcome)

    def _report(self, outcome: PairOutcome) -> None:
        key = partition_key(outcome.pair.name)
        if outcome.error is not None:
            self.failed[key] = outcome.error
            return
        for asset in PAIR_ASSETS:
            if self._assets.key(asset) in self._context.selected_asset_keys:
                self._materialize(asset, outcome, key)
        defaults = self._session.project.defaults
        rate = None
        if defaults.min_pass_rate is not None:
            rate = pass_rate(self._session.warehouse, outcome.pair, self._cases)
        asked = suite_gate(self._session.warehouse, outcome, self._cases)
        failed_before = key in self._failed_pass_rates
        for check in checks_of_pair(
            outcome, self._scores, key, defaults, self._target(key), rate, asked, failed_before=failed_before
        ):
            self._log_check(check)

    def _materialize(self, asset: str, outcome: PairOutcome, key: str) -> None:
        version = self._version(asset, outcome, key)
        tags = provenance(version) | self._newest.upstream_tags(asset, key)
        metadata = pair_metadata(asset, outcome)
        named = self._assets.key(asset)
        self._context.log_event(dg.AssetMaterialization(named, partition=key, metadata=metadata, tags=tags))
        self._newest.add(asset, key, version)

    def _version(self, asset: str, outcome: PairOutcome, key: str) -> str:
        """The data version of what is stored now: that of before, unless this run changed a row."""
        counts = outcome.counts
        changed = counts.executed or counts.refused if asset in (EXECUTE, NORMALIZE) else counts.changed
        before = self._newest.version(asset, key)
        if before is not None and not changed:
            return before
        pair = outcome.pair
        return "-".join(each[:8] for each in (self._context.run.run_id, pair.revision, pair.ready.suite.revision))
