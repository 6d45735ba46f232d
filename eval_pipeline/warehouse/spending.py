"""What sweeps have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from eval_pipeline.warehouse.conversation_views import GIVEN_UP_TOKENS, SPEAKERS, speech_usage
from eval_pipeline.warehouse.store import Warehouse


@dataclass(frozen=True, slots=True)
class Spent:
    """What is known to be spent: USD (simulators, reviewers and graders included), attempts of targets, and tokens of
    reports."""

    usd: float = 0.0
    attempts: int = 0
    tokens: int = 0


def spent_by(warehouse: Warehouse, sweep_id: str) -> Spent:
    """Return what is known to be spent by a sweep so far; unknown amounts count as nothing."""
    frame = warehouse.frame(
        """WITH gradings AS (
               SELECT max(grading_cost_usd) AS cost_usd FROM evaluator_scores WHERE sweep_id = $1
               GROUP BY execution_id, coalesce(score_key, spec_key))
           SELECT coalesce(sum(coalesce(r.cost_usd, 0) + coalesce(list_sum({costs}), 0)), 0)
                + coalesce((SELECT sum(cost_usd) FROM gradings), 0) AS usd,
                  coalesce(sum(e.attempt_count), 0)::BIGINT AS attempts,
                  (coalesce(sum(r.total_tokens), 0) + coalesce(sum(list_sum({given_up})), 0))::BIGINT AS tokens
           FROM target_executions e LEFT JOIN session_reports r USING (execution_id) WHERE e.sweep_id = $1""".format(
            costs=speech_usage("cost_usd", "DOUBLE"), given_up=GIVEN_UP_TOKENS
        ),
        [sweep_id],
    )
    return Spent(**frame.row(0, named=True))


def spent_by_run(warehouse: Warehouse, name: str, run_id: str | None) -> Spent:
    """Return what is known to be spent by the newest sweep of a name that a Dagster run carried out (None: no run)."""
    if not warehouse.exists():
        return Spent()
    query = """SELECT sweep_id FROM sweeps WHERE name = $1 AND dagster_run_id IS NOT DISTINCT FROM $2
               ORDER BY sweep_id DESC LIMIT 1"""
    ids = warehouse.frame(query, [name, run_id])["sweep_id"]
    return Spent() if ids.is_empty() else spent_by(warehouse, ids[0])


class SpentSince(NamedTuple):
    """The known cost (USD) of agents, simulators, reviewers and graders, and how many gradings and executions
    cost more than is known."""

    usd: float = 0.0
    unknown: int = 0
    by_sweep: Mapping[str, float] = MappingProxyType({})
    """The cost by the id of the sweep, or of the grading of anchors."""


def spent_since(warehouse: Warehouse, name: str, since: datetime) -> SpentSince:
    """Return what sweeps of a name executed and graded since a time have cost, gradings of anchors included."""
    if not warehouse.exists():
        return SpentSince()
    frame = warehouse.frame(
        """WITH named AS (SELECT sweep_id FROM sweeps WHERE name = $1),
                gradings AS (
                    SELECT min(sweep_id) AS sweep_id, max(grading_cost_usd) AS cost_usd
                    FROM evaluator_scores SEMI JOIN named USING (sweep_id)
                    WHERE scored_at >= $2::TIMESTAMPTZ GROUP BY execution_id, coalesce(score_key, spec_key)),
                executed AS (
                    SELECT e.sweep_id, r.cost_usd, list_sum({costs}) AS speech_usd,
                           coalesce(len({speakers}), 0) > coalesce(list_aggregate({costs}, 'count'), 0)
                               OR (r.cost_usd IS NULL AND e.attempt_count > 0) AS is_unknown
                    FROM session_reports r JOIN target_executions e USING (execution_id)
                    SEMI JOIN named USING (sweep_id)
                    WHERE e.finished_at >= $2::TIMESTAMPTZ),
                parts AS (
                    SELECT sweep_id, coalesce(cost_usd, 0) + coalesce(speech_usd, 0) AS usd, is_unknown FROM executed
                    UNION ALL SELECT sweep_id, coalesce(cost_usd, 0), cost_usd IS NULL FROM gradings
                    UNION ALL SELECT judging_id, coalesce(cost_usd, 0), cost_usd IS NULL FROM anchor_scores
                    WHERE sweep_name = $1 AND judged_at >= $2::TIMESTAMPTZ)
           SELECT sweep_id, sum(usd) AS usd, count(*) FILTER (is_unknown) AS unknown FROM parts GROUP BY sweep_id
           ORDER BY sweep_id""".format(costs=speech_usage("cost_usd", "DOUBLE"), speakers=SPEAKERS),
        [name, since],
    )
    by_sweep = {sweep_id: float(usd) for sweep_id, usd, _ in frame.iter_rows()}
    return SpentSince(sum(by_sweep.values()), int(frame["unknown"].sum()), by_sweep)
