"""Cases that the project has no more: out of current views, and out of the counts that boards are made of.

Their verdicts and the boards before keep them. A later sweep of a pair counts by what its suite has then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.pair_statistics import PlannedCase, PlannedPair, store_pair_statistics
from eval_pipeline.warehouse.store import Connection, Warehouse
from eval_pipeline.warehouse.stored_boards import chosen_pairs

_SHOWN = """
    SELECT c.suite, c.suite_revision, c.statistics_id, c.finished_at, s.cases,
           row_number() OVER (PARTITION BY c.suite, c.runner ORDER BY c.finished_at DESC, c.sweep_id DESC) AS age,
           row_number() OVER (
               PARTITION BY c.suite, c.runner ORDER BY s.complete DESC, c.finished_at DESC, c.sweep_id DESC) AS place
    FROM sweep_pairs c JOIN pair_statistics s ON s.statistics_id = c.statistics_id
    JOIN current_pairs p ON p.suite = c.suite AND p.runner = c.runner"""
_CASES = f"""
    SELECT DISTINCT p.case_id FROM (
        SELECT suite, finished_at, unnest(cases) AS case_id
        FROM ({_SHOWN} WHERE c.suite = $1) WHERE age = 1 OR place = 1) p
    WHERE NOT EXISTS (
        SELECT 1 FROM retired_cases r
        WHERE r.suite = p.suite AND r.case_id = p.case_id AND r.retired_at >= p.finished_at)"""
_REVISIONS = f"""
    SELECT DISTINCT suite, suite_revision FROM ({_SHOWN.replace(", s.cases", "")}) WHERE age = 1 OR place = 1"""
_STORED = """
    SELECT statistics_id, suite, runner, suite_revision, runner_revision, broken, cases, clusters, decision_keys,
           planned, weights, complete
    FROM pair_statistics
    WHERE suite = $1 AND list_contains($2::VARCHAR[], statistics_id)
      AND len(list_intersect(cases, $3::VARCHAR[])) > 0"""
_STILL_UNFINISHED = "UPDATE pair_statistics SET complete = false WHERE list_contains($1::VARCHAR[], statistics_id)"
"""Only a sweep makes a pair complete, not the removal of the cases that it lacks."""
_KEYS = (
    """SELECT DISTINCT runner, suite_revision, runner_revision, case_id, decision_key FROM verdicts WHERE suite = $1"""
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CountedPair(PlannedPair):
    """What a pair had planned of the cases that are left; it is counted in place of what is stored."""

    stored_id: str
    was_complete: bool

    @property
    def statistics_id(self) -> str:
        return self.stored_id


def current_cases(connection: Connection, suite: str) -> set[str]:
    """Return the cases that are shown of a suite: those of its current pairs, and of their standings on boards."""
    return {case for (case,) in connection.execute(_CASES, [suite]).fetchall()}


def shown_revisions(warehouse: Warehouse) -> dict[str, set[str]]:
    """Return the revisions of each suite that current pairs, and their standings on boards, are of."""
    revisions: dict[str, set[str]] = {}
    for suite, revision in warehouse.frame(_REVISIONS).iter_rows():
        revisions.setdefault(suite, set()).add(revision)
    return revisions


def retire_cases(warehouse: Warehouse, gone: Mapping[str, Collection[str]], now: datetime) -> list[PairKey]:
    """Take cases, by suite, out of what is current, and count the pairs that boards are made of without them.

    Return the current pairs of these suites: no board knows them as they are now.
    """

    def store(connection: Connection) -> list[PairKey]:
        rows = [{"suite": suite, "case_id": case, "retired_at": now} for suite, cases in gone.items() for case in cases]
        warehouse.write("retired_cases", rows)
        chosen = chosen_pairs(warehouse)
        ids = chosen["statistics_id"].to_list()
        planned = [pair for suite, cases in gone.items() for pair in _without(warehouse, suite, set(cases), ids)]
        store_pair_statistics(warehouse, planned)
        unfinished = [pair.statistics_id for pair in planned if not pair.was_complete]
        connection.execute(_STILL_UNFINISHED, [unfinished])
        names = [
            PairKey(suite, runner) for suite, runner in chosen.select("suite", "runner").iter_rows() if suite in gone
        ]
        warehouse.write(
            "unranked_pairs", [{"suite": pair.suite, "runner": pair.runner, "finished": True} for pair in names]
        )
        return names

    return warehouse.run(store)


def _without(warehouse: Warehouse, suite: str, gone: set[str], ids: list[str]) -> Iterator[_CountedPair]:
    """Yield what pairs with one of these cases had planned of the others."""
    stored = warehouse.frame(_STORED, [suite, ids, sorted(gone)])
    keys = {
        (*of_case, key[:16]): key for *of_case, key in warehouse.frame(_KEYS, [suite]).iter_rows()
    } if len(stored) else {}  # fmt: skip
    for row in stored.iter_rows(named=True):
        yield _CountedPair(
            stored_id=row["statistics_id"],
            was_complete=row["complete"],
            pair=PairKey(row["suite"], row["runner"]),
            sweep_id="",
            suite_revision=row["suite_revision"],
            runner_revision=row["runner_revision"],
            broken=row["broken"],
            cases=[case for case in _cases(row, keys) if case.case_id not in gone],
        )


def _cases(row: Mapping[str, Any], keys: Mapping[tuple[str, ...], str]) -> Iterator[PlannedCase]:
    """Yield the cases of a pair. Nothing is missing of a complete one: what was carried out is what was planned."""
    of_pair = (row["runner"], row["suite_revision"], row["runner_revision"])
    weights = row["weights"] or [None] * len(row["cases"])
    lists = zip(row["cases"], row["planned"], row["decision_keys"], row["clusters"], weights, strict=True)
    for case, planned, start, cluster, weight in lists:
        key = keys.get((*of_pair, case, start), start)
        least = 0 if row["complete"] else planned
        yield PlannedCase(case, planned, least, key, cluster if cluster != case else None, weight)
