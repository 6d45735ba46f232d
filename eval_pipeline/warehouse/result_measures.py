"""Published results → what they measured: times, tokens and money of agent and platform, and a judge's metrics."""

from __future__ import annotations

import polars as pl

from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.totals import MEASURES, METRIC_COLUMNS, Measured
from eval_pipeline.warehouse.conversation_views import SPEAKERS, speech_usage
from eval_pipeline.warehouse.selections import Selection, existing_columns, read_results
from eval_pipeline.warehouse.store import Connection

_KEYS = "v.suite, v.runner, v.case_id, v.repetition"
_TURN_TIMES = "TRY_CAST(json_extract_string(r.turns, '$[*].duration_ms') AS DOUBLE[])"
_KNOWN = "coalesce(list_aggregate({}, 'count'), 0)"
"""The number of a list's known values."""


def _speech(name: str, type_: str = "BIGINT") -> str:
    """Return the sum of what simulator and reviewer used in all turns; NULL where none is known."""
    return f"list_sum({speech_usage(name, type_)})"


# The time of a conversation is the median of its agent's turns; of anything else the time of the target.
_MEASURES = f"""
    coalesce(list_aggregate({_TURN_TIMES}, 'median'), v.duration_ms) AS latency_ms,
    v.input_tokens, v.output_tokens, v.cost_usd,
    {_speech("input_tokens")}::BIGINT AS platform_input_tokens,
    {_speech("output_tokens")}::BIGINT AS platform_output_tokens,
    CASE WHEN {_speech("cost_usd", "DOUBLE")} IS NULL THEN nullif(v.grading_cost_usd, 0)
         ELSE {_speech("cost_usd", "DOUBLE")} + coalesce(v.grading_cost_usd, 0) END AS platform_cost_usd,
    v.cost_usd IS NULL OR v.grading_cost_usd IS NULL
        OR {_KNOWN.format(SPEAKERS)} > {_KNOWN.format(speech_usage("cost_usd", "DOUBLE"))} AS cost_unknown"""
_METRICS = """
    SELECT {keys}, m.member, TRY_CAST(m.details ->> '$.points' AS DOUBLE) AS points, m.value,
           coalesce(TRY_CAST(m.details ->> '$.binary' AS BOOLEAN), false) AS binary
    FROM ({chosen}) v JOIN member_scores m USING (execution_id)
    WHERE m.type = 'metric' AND list_contains(v.score_keys, m.spec_key)"""

_REASONS = """
    SELECT v.suite, v.case_id, any_value(v.reason), any_value(v.status) AS status,
           string_agg(DISTINCT s.evaluator || ': ' || s.reason, '; ' ORDER BY s.evaluator || ': ' || s.reason)
    FROM ({chosen}) v LEFT JOIN evaluator_scores s
         ON s.execution_id = v.execution_id AND list_contains(v.score_keys, s.spec_key) AND s.value < 1
    WHERE v.status NOT IN ('passed', 'expected-failed') OR s.reason IS NOT NULL
    GROUP BY v.suite, v.case_id"""


def read_reasons(connection: Connection, selection: Selection) -> dict[tuple[str, str], str]:
    """Return why selected cases did not reach the full score, by suite and case: what evaluators found, else the reason
    of the verdict."""
    query = _REASONS.format(chosen=selection.query("v.*"))
    rows = connection.execute(query, selection.values).fetchall()
    return {(suite, case): found or f"{status}: {reason}" for suite, case, reason, status, found in rows}


def read_measured(
    connection: Connection, selection: Selection, name: str | None = None, cluster_by: str | None = None
) -> Measured:
    """Return the selected results with what they measured."""
    results = read_results(connection, selection, name, cluster_by)
    is_older = "given_up" not in existing_columns(connection, "session_reports")
    reports = "(SELECT *, NULL::JSON AS given_up FROM session_reports)" if is_older else "session_reports"
    joins = f"LEFT JOIN {reports} r USING (execution_id)"
    rows = connection.execute(selection.query(f"{_KEYS}, {_MEASURES}", joins), selection.values).fetchall()
    keys = {key: results.frame.schema[key] for key in ("suite", "runner", "case_id", "repetition")}
    measures = pl.DataFrame(rows, schema={**keys, **MEASURES}, orient="row")
    return Measured(results=results, measures=measures, metrics=_metrics(connection, selection))


def _metrics(connection: Connection, selection: Selection) -> pl.DataFrame:
    query = _METRICS.format(keys=_KEYS, chosen=selection.query("v.*"))
    rows = connection.execute(query, selection.values).fetchall()
    values = [(*key, metric, None if binary else points, value >= 0.5 if binary and value is not None else None)
              for *key, metric, points, value, binary in rows]  # fmt: skip
    return pl.DataFrame(values, schema=METRIC_COLUMNS, orient="row")


def without_measures(results: Results) -> Measured:
    """Return results of a file, which has no measures."""
    keys = results.frame.select("suite", "runner", "case_id", "repetition")
    measures = keys.with_columns(pl.lit(None, dtype=kind).alias(name) for name, kind in MEASURES.items())
    return Measured(results=results, measures=measures, metrics=pl.DataFrame(schema=METRIC_COLUMNS))
