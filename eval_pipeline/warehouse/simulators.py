"""Who played the users of the results on the newest board: the names of simulators by suite and runner."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

SIMULATORS = "simulators"
"""The column of standings with the simulators of a runner's results, where its users were played."""
_IN_PAIRS = """
    SELECT suite, runner, string_agg(DISTINCT simulator, ', ' ORDER BY simulator) AS simulators
    FROM (
        SELECT v.suite, v.runner, v.execution_id
        FROM verdicts v JOIN leaderboard l USING (suite, runner, suite_revision, runner_revision)
        LEFT JOIN sweeps s ON s.sweep_id = l.sweep_id
        WHERE v.decided_at <= coalesce(s.finished_at, 'infinity'::TIMESTAMPTZ)
        QUALIFY row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1)
    JOIN (
        SELECT execution_id, unnest(json_extract_string(turns, '$[*].speech.simulator')) AS simulator
        FROM session_reports WHERE turns IS NOT NULL AND json_array_length(turns) > 0) USING (execution_id)
    WHERE simulator IS NOT NULL GROUP BY suite, runner"""
_ANY = "SELECT 1 FROM session_reports WHERE turns IS NOT NULL LIMIT 1"
"""Row groups without a conversation are not read: their statistics tell that every value is NULL."""


def with_simulators(standings: pl.DataFrame, ask: Callable[[str], pl.DataFrame]) -> pl.DataFrame:
    """Return the standings of the newest board with who played the users. `ask` carries out a query."""
    if standings.is_empty() or ask(_ANY).is_empty():
        return standings
    played = ask(_IN_PAIRS)
    if played.is_empty():
        return standings
    return standings.join(played, on=["suite", "runner"], how="left", maintain_order="left")
