"""The tokens of answers, for snapshots; the snapshots that are stored of them, and the verdicts that they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from eval_pipeline.failures import SNAPSHOT
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.tables import BY_NAME

METRICS = {
    "total_tokens": "r.input_tokens + r.output_tokens - coalesce(r.cached_input_tokens, 0)",
    "input_tokens": "r.input_tokens",
    "output_tokens": "r.output_tokens",
    "reasoning_tokens": "r.reasoning_tokens",
    "cache_tokens": "r.cached_input_tokens",
}
"""Token counts by name. The total is what is billed in full: input and output without what a cache provided."""
REASON = "Snapshot "
"""How the reason of a verdict begins that a token baseline decided: no other reason begins so."""
_ABOVE = f"{{verdict}}.failure_class = '{SNAPSHOT.id}' AND starts_with({{verdict}}.reason, '{REASON}')"
_ANSWERS = f"""
    WITH newest AS (
        SELECT * FROM verdicts
        WHERE suite = $suite AND runner = $runner AND suite_revision = $suite_revision
              AND runner_revision = $runner_revision
        QUALIFY row_number() OVER (PARTITION BY case_id, repetition ORDER BY decided_at DESC, verdict_id DESC) = 1)
    SELECT v.case_id, v.repetition, if({_ABOVE.format(verdict="v")}, 'passed', v.status) AS status, r.model,
           {{metric}} AS tokens, v.verdict_id, if({_ABOVE.format(verdict="v")}, v.reason, NULL) AS above
    FROM newest v LEFT JOIN session_reports r USING (execution_id) ORDER BY v.case_id, v.repetition"""


class Answer(NamedTuple):
    """One current answer: its case, its verdict without token baselines, the model that gave it and its tokens (None:
    not reported); the id of its verdict, and the reason of one that a token baseline decided."""

    case_id: str
    repetition: int
    status: str
    model: str | None
    tokens: float | None
    verdict_id: str = ""
    above: str | None = None


def answers_of(
    warehouse: Warehouse, pair: PairKey, suite_revision: str, runner_revision: str, metric: str
) -> Sequence[Answer]:
    """Return the newest answers of a pair, at these revisions, with a token count."""
    values = {
        "suite": pair.suite, "runner": pair.runner,
        "suite_revision": suite_revision, "runner_revision": runner_revision,
    }  # fmt: skip
    with warehouse.transaction() as connection:
        rows = connection.execute(_ANSWERS.format(metric=METRICS[metric]), values).fetchall()
    return [Answer(*row) for row in rows]


def store_snapshots(warehouse: Warehouse, rows: Iterable[Row]) -> None:
    """Store rows of the table `token_snapshots`."""
    warehouse.write("token_snapshots", rows)


def fail_verdicts(warehouse: Warehouse, reasons: Mapping[str, str], sweep_id: str, now: datetime) -> None:
    """Store verdicts (by id) again as failed for their tokens, each with its reason."""
    new = {
        "status": "'failed'", "failure_class": f"'{SNAPSHOT.id}'", "failure_label": f"'{SNAPSHOT.label}'",
        "failure_origin": f"'{SNAPSHOT.origin.value}'", "reason": "b.reason",
    }  # fmt: skip
    source = """(SELECT unnest($ids::VARCHAR[]) AS verdict_id, unnest($reasons::VARCHAR[]) AS reason) b
                JOIN verdicts v USING (verdict_id)"""
    values = {"ids": list(reasons), "reasons": list(reasons.values())}
    _store_again(warehouse, new, source, values, sweep_id, now)


def restore_verdicts(warehouse: Warehouse, expected_fail: Mapping[str, bool], sweep_id: str, now: datetime) -> None:
    """Store verdicts (by id) again as they were decided before their tokens failed them. Where that one was deleted,
    `expected_fail` (of the case) gives its status."""
    new = {
        "status": "coalesce(f.status, if(b.expected_fail, 'expected-failed', 'passed'))",
        "failure_class": "f.failure_class", "failure_label": "f.failure_label", "failure_origin": "f.failure_origin",
        "reason": "coalesce(f.reason, 'its tokens are within the baseline now')",
    }  # fmt: skip
    source = f"""(SELECT unnest($ids::VARCHAR[]) AS verdict_id, unnest($expected::BOOLEAN[]) AS expected_fail) b
                JOIN verdicts v USING (verdict_id)
                LEFT JOIN verdicts f ON f.execution_id = v.execution_id
                                    AND NOT coalesce({_ABOVE.format(verdict="f")}, false)
                QUALIFY row_number() OVER (PARTITION BY v.verdict_id ORDER BY f.decided_at DESC) = 1"""
    values = {"ids": list(expected_fail), "expected": list(expected_fail.values())}
    _store_again(warehouse, new, source, values, sweep_id, now)


def _store_again(
    warehouse: Warehouse, new: Mapping[str, str], source: str, values: Mapping[str, object], sweep_id: str,
    now: datetime,
) -> None:  # fmt: skip
    """Insert copies of verdicts `v` of a source with new values: boards of before read the other ones."""
    suffix = f"{int(now.timestamp() * 1_000_000):x}"
    new = {"sweep_id": "$sweep", "decided_at": "$now", "verdict_id": "v.execution_id || '-' || $suffix", **new}
    chosen = ", ".join(
        f"{new[name]} AS {name}" if name in new else f'v."{name}"' for name in BY_NAME["verdicts"].column_names
    )
    with warehouse.transaction() as connection:
        statement = f"INSERT INTO verdicts SELECT {chosen} FROM {source}"
        connection.execute(statement, {**values, "sweep": sweep_id, "now": now, "suffix": suffix})
