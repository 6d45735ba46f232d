"""What executions and runners were identified by, to tell why a plan is executed anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from eval_pipeline.warehouse.codec import decoder
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.tables import BY_NAME


class LastExecution(NamedTuple):
    """The last execution of a case and repetition; `identity` is None when an older version stored it."""

    runner_revision: str
    identity: Mapping[str, str] | None


class StoredRunner(NamedTuple):
    """A runner at a revision; `content` is None when an older version stored it."""

    adapter: str
    settings: Mapping[str, Any]
    content: Mapping[str, str] | None


def last_executions(warehouse: Warehouse, pair: PairKey) -> dict[tuple[str, int], LastExecution]:
    """Return the last execution of each case and repetition of a pair."""
    if not warehouse.exists():
        return {}
    frame = warehouse.frame(
        """SELECT case_id, repetition, arg_max(runner_revision, row(sweep_id, started_at)) AS runner_revision,
                  arg_max(coalesce(identity::VARCHAR, ''), row(sweep_id, started_at)) AS identity
           FROM target_executions WHERE suite = $1 AND runner = $2 GROUP BY case_id, repetition""",
        [pair.suite, pair.runner],
    )
    return {
        (case_id, repetition): LastExecution(revision, orjson.loads(identity) if identity else None)
        for case_id, repetition, revision, identity in frame.iter_rows()
    }


class LastDecision(NamedTuple):
    """What the newest verdict of an execution was decided by."""

    threshold: float
    score_keys: tuple[str, ...]


def last_decisions(warehouse: Warehouse, pair: PairKey) -> dict[str, LastDecision]:
    """Return what the newest verdict of each execution of a pair was decided by, by execution."""
    frame = warehouse.frame(
        """SELECT execution_id, arg_max(threshold, decided_at) AS threshold,
                  arg_max(coalesce(score_keys, []), decided_at) AS score_keys
           FROM verdicts WHERE suite = $1 AND runner = $2 GROUP BY execution_id""",
        [pair.suite, pair.runner],
    )
    return {execution_id: LastDecision(threshold, tuple(keys)) for execution_id, threshold, keys in frame.iter_rows()}


def stored_specs(warehouse: Warehouse, pair: PairKey) -> dict[str, Row]:
    """Return the evaluators that scored answers of a pair, by spec_key."""
    table = BY_NAME["evaluator_specs"]
    texts = {"JSON": '"{0}"::VARCHAR AS "{0}"'}
    columns = [texts.get(column.type, '"{0}"').format(column.name) for column in table.columns]
    query = f"SELECT {', '.join(columns)} FROM evaluator_specs WHERE suite = $1 AND runner = $2"
    frame = warehouse.frame(query, [pair.suite, pair.runner])
    decode = decoder(table.column_names, table)
    return {row["spec_key"]: row for row in map(decode, frame.iter_rows())}


def stored_runner(warehouse: Warehouse, runner: str, revision: str) -> StoredRunner | None:
    """Return a runner as it was at a revision; None when it is not stored."""
    frame = warehouse.frame(
        """SELECT adapter, settings::VARCHAR, content::VARCHAR FROM runners
           WHERE runner = $1 AND runner_revision = $2 LIMIT 1""",
        [runner, revision],
    )
    for adapter, settings, content in frame.iter_rows():
        return StoredRunner(adapter, orjson.loads(settings or "{}"), orjson.loads(content) if content else None)
    return None


def valued_score_keys(warehouse: Warehouse, executions: Sequence[str]) -> dict[str, frozenset[str]]:
    """Return, by execution, the identities of what its stored scores with a value depend on (`score_key`)."""
    frame = warehouse.frame(
        """SELECT execution_id, list(DISTINCT score_key) FROM evaluator_scores
           WHERE list_contains($1::VARCHAR[], execution_id) AND value IS NOT NULL AND score_key IS NOT NULL
           GROUP BY execution_id""",
        [list(executions)],
    )
    return {execution: frozenset(keys) for execution, keys in frame.iter_rows()}
