"""Finished pairs → the warehouse: what was executed and scored, what remains of earlier sweeps, one row per pair, and
why plans did not pass. Several pairs go into one transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import polars as pl

from eval_pipeline.exhaustion import exhaustion
from eval_pipeline.leaderboards.failure_classes import EXAMPLES, describe_failures
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.sweeps.decisions import PairRules
from eval_pipeline.sweeps.ledger import PairLedger
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import Pair, count_plans, repetitions_of, strategy_of
from eval_pipeline.sweeps.planned_pairs import planned_pair
from eval_pipeline.sweeps.snapshot_checks import NO_SNAPSHOTS, SnapshotChecks
from eval_pipeline.sweeps.snapshots import Snapshot
from eval_pipeline.warehouse import queries
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import Journal, PairKey, fold_bytes
from eval_pipeline.warehouse.pair_statistics import store_pair_statistics, unchanged_statistics
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import Rebind, adopt, displaced_by_later, rebind, select_again
from eval_pipeline.warehouse.verdict_history import record_changes

_LOG = logging.getLogger(__name__)
PAIRS_AT_ONCE = 64
_COUNTED = ("planned", "reused", "rescored", "updated", "executed", "skipped", "passed", "failed", "errored")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPair:
    """A pair whose plans are all settled, not yet stored."""

    rules: PairRules
    ledger: PairLedger
    journal: Journal

    @property
    def name(self) -> PairKey:
        return self.rules.pair.name

    @property
    def revision(self) -> str:
        return self.rules.pair.ready.suite.revision


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where pairs are stored: the warehouse, the sweep, the clock that orders it, and what compares their tokens."""

    warehouse: Warehouse
    sweep_id: str
    clock: OrderClock
    snapshots: SnapshotChecks


def store_pairs(
    warehouse: Warehouse,
    sweep_id: str,
    pairs: Sequence[FinishedPair],
    clock: OrderClock,
    snapshots: SnapshotChecks = NO_SNAPSHOTS,
) -> Iterator[list[PairOutcome]]:
    """Store pairs, a bounded group in each transaction; yield the outcomes of each group.

    When a group cannot be stored, its pairs are stored one by one, so that only those at fault have an error.
    """
    into = _Destination(warehouse, sweep_id, clock, snapshots)
    for group in _groups(pairs, fold_bytes(warehouse)):
        outcomes = _store_together(into, group) or [_store_alone(into, pair) for pair in group]
        snapshots.write(outcome.pair.name.suite for outcome in outcomes if outcome.error is None)
        yield outcomes


def _groups(pairs: Sequence[FinishedPair], most_bytes: int) -> Iterator[list[FinishedPair]]:
    group: list[FinishedPair] = []
    for pair in pairs:
        if len(group) == PAIRS_AT_ONCE or (group and _bytes([*group, pair]) > most_bytes):
            yield group
            group = []
        group.append(pair)
    if group:
        yield group


def _bytes(group: Sequence[FinishedPair]) -> int:
    return sum(pair.journal.bytes for pair in group)


def _store_together(into: _Destination, group: Sequence[FinishedPair]) -> list[PairOutcome] | None:
    """All in one transaction; None when that failed, or is not worth while."""
    if len(group) < 2:
        return None
    try:
        outcomes = into.warehouse.run_beside(lambda connection: _store(into, group))
    except Exception as error:  # noqa: BLE001 — each pair is tried again alone, which names the one at fault
        _LOG.warning("%d pairs are stored one by one: %s", len(group), error)
        return None
    for pair in group:
        pair.journal.remove()
    return outcomes


def _store_alone(into: _Destination, pair: FinishedPair) -> PairOutcome:
    try:
        if into.warehouse.leases is None:  # readers of the journals need not wait for the whole of it
            (outcome,) = _store(into, [pair])
        else:  # again from its beginning where the server was lost
            (outcome,) = into.warehouse.run_beside(lambda connection: _store(into, [pair]))
        pair.journal.remove()
    except Exception as error:  # noqa: BLE001 — one pair that cannot be stored must not stop the others
        return failed_outcome(pair.rules, pair.ledger, error)
    return outcome


def failed_outcome(rules: PairRules, ledger: PairLedger, error: Exception) -> PairOutcome:
    """Return the outcome of a pair that we failed to carry out or to store."""
    text = exhaustion(error) or redact_text(f"{type(error).__name__}: {error}", cut=True)
    return PairOutcome(pair=rules.pair, counts=ledger.counts, error=text)


def _store(into: _Destination, group: Sequence[FinishedPair]) -> list[PairOutcome]:
    for pair in group:
        pair.journal.flush()
    into.warehouse.ingest(*(pair.journal.files for pair in group))
    failures, compared = into.warehouse.run(lambda connection: _settle(into, group))
    return [
        PairOutcome(
            pair=_as_counted(pair.rules),
            counts=pair.ledger.counts,
            failures=failures.get(pair.name),
            snapshots=compared[pair.name],
        )
        for pair in group
    ]


def _settle(
    into: _Destination, group: Sequence[FinishedPair]
) -> tuple[Mapping[PairKey, pl.DataFrame], Mapping[PairKey, Sequence[Snapshot]]]:
    """Store what is beside the rows of the journals; return the failure classes by pair, and how tokens compare."""
    warehouse, sweep_id, clock = into.warehouse, into.sweep_id, into.clock
    _keep_reused(warehouse, sweep_id, group, clock.now())
    compared = {pair.name: into.snapshots.check(warehouse, sweep_id, pair.rules, pair.ledger, clock) for pair in group}
    planned = [pair for pair in group if pair.ledger.counts.planned]
    if planned:
        counted = _count_answers(warehouse, sweep_id, planned)
        rows = [_pair_row(sweep_id, pair, counted[pair.name], clock.now()) for pair in planned]
        warehouse.write("sweep_pairs", rows)
    failures = _failure_classes(warehouse, planned, clock.now())
    record_changes(warehouse, [pair.name for pair in planned if pair.ledger.counts.changed])
    return failures, compared


def _as_counted(rules: PairRules) -> Pair:
    """Return a pair with its strategy among the settings of its suite, where options chose it."""
    pair, suite, strategy = rules.pair, rules.pair.ready.suite, strategy_of(rules.pair, rules.options)
    if strategy != "on_failure" or suite.settings.strategy == strategy:
        return pair
    settings = replace(suite.settings, strategy=strategy)
    return replace(pair, ready=replace(pair.ready, suite=replace(suite, settings=settings)))


def _keep_reused(warehouse: Warehouse, sweep_id: str, group: Sequence[FinishedPair], now: datetime) -> None:
    """Make reused executions the current ones, and bind unchanged verdicts to a suite's new revision."""
    adoptions = [each for pair in group for each in pair.ledger.adoptions]
    if adoptions:
        adopt(warehouse, adoptions)
    rebinds = [each for pair in group for each in pair.ledger.rebinds]
    if rebinds:
        rebind(warehouse, rebinds, sweep_id, now)
    deselected = [id_ for pair in group for id_ in pair.ledger.deselected]
    if deselected:
        select_again(warehouse, deselected, now)
    current = [id_ for pair in group if pair.ledger.counts.earlier for id_ in pair.ledger.current]
    displaced = set(displaced_by_later(warehouse, current)) if current else set()
    if displaced:
        chosen = [Rebind(id_, pair.revision) for pair in group for id_ in pair.ledger.current if id_ in displaced]
        rebind(warehouse, chosen, sweep_id, now)
    for pair in group:
        pair.ledger.counts.moved = len(pair.ledger.rebinds) + len(displaced.intersection(pair.ledger.reused))


def _count_answers(warehouse: Warehouse, sweep_id: str, group: Sequence[FinishedPair]) -> dict[PairKey, str]:
    """Count the answers of pairs by case; return the ids of the counts. Those of an unchanged pair are kept."""
    unranked = queries.unranked_pairs(warehouse)
    plans = {pair.name: planned_pair(pair.rules, sweep_id) for pair in group}
    settled = [plans[pair.name] for pair in group if not pair.ledger.counts.changed and pair.name not in unranked]
    known = unchanged_statistics(warehouse, settled)
    store_pair_statistics(warehouse, [plan for name, plan in plans.items() if name not in known])
    recounted = [plan.pair for plan in settled if plan.pair not in known]
    if recounted:  # by other weights or clusters: a board of theirs is another one
        queries.mark_unranked(warehouse, recounted)
    return {name: plan.statistics_id for name, plan in plans.items()} | known


def _pair_row(sweep_id: str, finished: FinishedPair, statistics_id: str, now: datetime) -> Row:
    pair, options, counts = finished.rules.pair, finished.rules.options, finished.ledger.counts
    suite = pair.ready.suite
    return {name: getattr(counts, name) for name in _COUNTED} | {
        "sweep_id": sweep_id,
        "suite": suite.name,
        "runner": pair.runner.name,
        "suite_revision": suite.revision,
        "runner_revision": pair.revision,
        "suite_plans": count_plans(pair, options) - counts.skipped,
        "repetitions": repetitions_of(pair, options),
        "strategy": strategy_of(pair, options),
        "threshold": finished.rules.threshold,
        "invalid_cases": len(pair.ready.errors),
        "finished_at": now,
        "statistics_id": statistics_id,
    }


def _failure_classes(warehouse: Warehouse, group: Sequence[FinishedPair], now: datetime) -> dict[PairKey, pl.DataFrame]:
    """The failure classes of each pair: computed anew where something changed, else as stored."""
    unranked = queries.unranked_pairs(warehouse)
    for pair in group:
        pair.ledger.counts.recovered = int(not pair.ledger.counts.changed and pair.name in unranked)
    changed = [pair.name for pair in group if pair.ledger.counts.changed]
    unchanged = [pair.name for pair in group if not pair.ledger.counts.changed]
    if changed:
        queries.mark_unranked(warehouse, changed)
    frames = [update_failure_classes(warehouse, changed, now)] if changed else []
    frames += [queries.failure_classes(warehouse, unchanged)] if unchanged else []
    by_pair: dict[PairKey, pl.DataFrame] = {}
    for frame in frames:
        for (suite, runner), part in frame.partition_by("suite", "runner", as_dict=True).items():
            by_pair[PairKey(str(suite), str(runner))] = part
    return by_pair


def update_failure_classes(warehouse: Warehouse, pairs: Sequence[PairKey], now: datetime) -> pl.DataFrame:
    """Summarize why plans of these pairs did not pass; store and return the summary."""
    described = describe_failures(queries.failure_counts(warehouse, pairs, EXAMPLES))
    summary = described.with_columns(computed_at=pl.lit(now.replace(tzinfo=None)))
    return queries.replace_failure_classes(warehouse, summary, pairs)
