"""What each case of a pair came to: its answers, their time and their tokens. For summaries of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse

_MEASURES = ("duration_ms", "input_tokens", "output_tokens", "reasoning_tokens", "cached_input_tokens", "billed_tokens")
_MEANS = ", ".join(f"coalesce(avg({name}) FILTER (good), avg({name})) AS {name}" for name in _MEASURES)
_CASES = f"""
    WITH answers AS (
        SELECT v.case_id, v.repetition, v.status, v.failure_class, v.status IN ('passed', 'expected-failed') AS good,
               v.duration_ms, v.execution_id, v.score_keys, r.input_tokens, r.output_tokens, r.reasoning_tokens,
               r.cached_input_tokens,
               r.input_tokens + r.output_tokens - coalesce(r.cached_input_tokens, 0) AS billed_tokens
        FROM current_verdicts v LEFT JOIN session_reports r USING (execution_id)
        WHERE v.suite = $suite AND v.runner = $runner),
    asked AS (
        SELECT DISTINCT a.case_id FROM answers a
        JOIN evaluator_scores s ON s.execution_id = a.execution_id AND list_contains(a.score_keys, s.spec_key)
        WHERE NOT a.good AND json_array_length(s.details, '$.questions') > 0)
    SELECT case_id, count(*) AS answers, count(*) FILTER (good) AS as_expected,
           coalesce(first(status ORDER BY repetition) FILTER (NOT good), last(status ORDER BY repetition)) AS status,
           last(status ORDER BY repetition) AS last_status,
           first(failure_class ORDER BY repetition) FILTER (NOT good) AS failure_class, {_MEANS},
           case_id IN (SELECT case_id FROM asked) AS has_questions
    FROM answers GROUP BY case_id"""


class CaseUsage(NamedTuple):
    """A case of a pair.

    `answers` are all of them, `as_expected` those that passed or failed as expected. `status` and `failure_class` are
    those of the first answer that is not as expected, else of the last one, whose status `last_status` is. Time (ms)
    and tokens are means over the answers as expected, over all where none is (None: unknown). `has_questions` is
    whether a failed check has a question to the agent.
    """

    case_id: str
    answers: int
    as_expected: int
    status: str
    last_status: str
    failure_class: str | None
    duration_ms: float | None
    input_tokens: float | None
    output_tokens: float | None
    reasoning_tokens: float | None
    cached_tokens: float | None
    billed_tokens: float | None
    has_questions: bool


def case_usage(warehouse: Warehouse, pair: PairKey, cases: Collection[str]) -> Sequence[CaseUsage]:
    """Return these cases of a pair in their order; those without an answer are left out."""
    values = {"suite": pair.suite, "runner": pair.runner}
    rows = warehouse.read(lambda connection: connection.execute(_CASES, values).fetchall())
    known = {row[0]: CaseUsage(*row) for row in rows}
    return [known[case] for case in cases if case in known]
