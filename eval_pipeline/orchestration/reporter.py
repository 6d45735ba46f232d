"""Finished pairs → Dagster events: a materialization per asset and partition, and its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from eval_pipeline.orchestration.checks import checks_of_pair
from eval_pipeline.orchestration.event_storage import events_together
from eval_pipeline.orchestration.metadata import made_from, pair_metadata, provenance
from eval_pipeline.orchestration.partitions import partition_key
from eval_pipeline.sweeps.options import STAGES, Defaults
from eval_pipeline.sweeps.outcomes import ForwardingObserver, PairOutcome
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.summaries import by_reason
from eval_pipeline.warehouse.journal import PairKey

PAIR_ASSETS = (*STAGES, "failure_classes")
PAIRS_AT_ONCE = 16
"""Pairs whose events are stored in one transaction: few enough that the UI waits a fraction of a second at most."""


class PairReporter(ForwardingObserver):
    """Reports finished pairs to Dagster, and passes everything on to the session's own observer.

    A pair with nothing to carry out is no event: a run in the grid is a box of both sides, and events cost time.
    """

    def __init__(self, context: dg.AssetExecutionContext, session: ProjectSession, unusable: Mapping[PairKey, str]):
        super().__init__(session.observer)
        self.failed = {str(partition_key(name)): reason for name, reason in unusable.items()}
        self._context = context
        self._defaults: Defaults = session.project.defaults
        self._suite_events: dict[str, int | None] = {}

    def pairs_finished(self, outcomes: Sequence[PairOutcome]) -> None:
        for start in range(0, len(outcomes), PAIRS_AT_ONCE):
            with events_together(self._context.instance):
                for outcome in outcomes[start : start + PAIRS_AT_ONCE]:
                    self._report(outcome)
        super().pairs_finished(outcomes)

    def raise_failure(self) -> None:
        """Raise the one failure of a run, if any partition failed: each reason once, with its partitions."""
        if not self.failed:
            return
        total = len(self._context.partition_keys)
        raise dg.Failure(
            f"{len(self.failed)} of {total} partitions failed\n{by_reason(self.failed)}",
            metadata={"failed": self.failed},
            allow_retries=False,
        )

    def _report(self, outcome: PairOutcome) -> None:
        key = partition_key(outcome.pair.name)
        if outcome.error is not None:
            self.failed[str(key)] = outcome.error
        elif outcome.counts.planned:
            self._materialize(outcome, key)

    def _materialize(self, outcome: PairOutcome, key: dg.MultiPartitionKey) -> None:
        version, ready = outcome.pair.data_version, outcome.pair.ready
        upstream = made_from("suites", ready.data_version, self._suite_event(ready.suite.name))
        for asset in PAIR_ASSETS:
            if dg.AssetKey(asset) in self._context.selected_asset_keys:
                metadata, tags = pair_metadata(asset, outcome), provenance(version) | upstream
                self._context.log_event(dg.AssetMaterialization(asset, partition=key, metadata=metadata, tags=tags))
            upstream = made_from(asset, version)
        for check in checks_of_pair(outcome, key, self._defaults):
            if check.asset_check_key in self._context.selected_asset_check_keys:
                self._context.log_event(check)

    def _suite_event(self, suite: str) -> int | None:
        """The newest materialization of a suite's partition, fetched once per suite."""
        if suite not in self._suite_events:
            of_suite = dg.AssetRecordsFilter(asset_key=dg.AssetKey("suites"), asset_partitions=[suite])
            records = self._context.instance.fetch_materializations(of_suite, limit=1).records
            self._suite_events[suite] = records[0].storage_id if records else None
        return self._suite_events[suite]
