"""Verdicts as rows, a row as short as a test needs it, and the board that they give: counted here one by one, as a
reference for what the warehouse counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from eval_pipeline.leaderboards.standings import rank

VERDICT_FIELDS = (
    "suite", "suite_revision", "runner", "runner_revision", "case_id", "repetition", "status", "score", "duration_ms",
    "input_tokens", "output_tokens", "cost_usd", "failure_class", "reason", "executed_at",
)  # fmt: skip
AT = datetime(2026, 11, 20, 12, 0)
Verdict = dict[str, Any]


def verdict(runner: str, case: str, status: str = "passed", **fields: Any) -> Verdict:
    """A verdict row of suite `s`; its score follows from the status unless given."""
    score = {"passed": 1.0, "unexpected-passed": 1.0, "error": None}.get(status, 0.0)
    given = {"suite": "s", "suite_revision": "1", "runner_revision": "1", "repetition": 1, "score": score}
    return {**dict.fromkeys(VERDICT_FIELDS), **given, "runner": runner, "case_id": case, "status": status, **fields}


def many(runner: str, passed: int, failed: int = 0, errored: int = 0, **fields: Any) -> list[Verdict]:
    """Verdicts of cases `c1`, `c2`, …: first those that passed, then failed, then could not be graded."""
    statuses = ["passed"] * passed + ["failed"] * failed + ["error"] * errored
    return [verdict(runner, f"c{number}", status, **fields) for number, status in enumerate(statuses, start=1)]


def statistics(*verdicts: Verdict, **fields: Any) -> dict[str, Any]:
    """The row of `board_statistics` for the verdicts of one pair, `fields` in place of what follows from them."""
    cases = sorted({row["case_id"] for row in verdicts})
    by_case = [[row for row in verdicts if row["case_id"] == case] for case in cases]
    graded = [[row for row in rows if row["status"] != "error"] for rows in by_case]
    answers = [row for rows in graded for row in rows]
    times = [row["executed_at"] for row in verdicts if row["executed_at"] is not None]
    durations = [row["duration_ms"] for row in answers if row["duration_ms"] is not None]
    return {
        "statistics_id": "1", "panel_revision": "1", "cases_revision": ",".join(cases), "complete": True, "missing": 0,
        "broken": 0, "sweep_id": "1", "finished_at": AT, "later_carried_out": None, "later_plans": None,
        **{name: verdicts[0][name] for name in ("suite", "runner", "suite_revision", "runner_revision")},
        "cases": cases, "clusters": cases, "decision_keys": ["k"] * len(cases),
        "planned": [len(rows) for rows in by_case],
        "graded": [len({row["repetition"] for row in rows}) for rows in graded],
        "answers": [len(rows) for rows in graded],
        "passed": [sum(row["status"] in ("passed", "expected-failed") for row in rows) for rows in graded],
        "score_sums": [float(sum(row["score"] for row in rows)) for rows in graded],
        "score_squares": [float(sum(row["score"] ** 2 for row in rows)) for rows in graded],
        "expected_failed": sum(row["status"] == "expected-failed" for row in verdicts),
        "unexpected_passed": sum(row["status"] == "unexpected-passed" for row in verdicts),
        "errored": sum(row["status"] == "error" for row in verdicts),
        "latency_p50_ms": float(np.quantile(durations, 0.5)) if durations else None,
        "latency_p95_ms": float(np.quantile(durations, 0.95)) if durations else None,
        **{name: _known_sum(verdicts, name) for name in ("input_tokens", "output_tokens", "cost_usd")},
        "grading_cost_usd": None,
        "incomplete": 0,
        "cost_known": sum(row["cost_usd"] is not None for row in verdicts),
        "oldest_answer_at": min(times, default=None), "newest_answer_at": max(times, default=None),
        **fields,
    }  # fmt: skip


def _known_sum(verdicts: Sequence[Verdict], name: str) -> Any:
    values = [row[name] for row in verdicts if row[name] is not None]
    return sum(values) if values else None


def board(
    *verdicts: Verdict, pairs: Mapping[tuple[str, str], Mapping[str, Any]] | None = None, **options: Any
) -> pl.DataFrame:
    """The standings of verdicts; `pairs` are fields of statistics by suite and runner."""
    names = sorted({(row["suite"], row["runner"]) for row in verdicts})
    rows = [
        statistics(*(row for row in verdicts if (row["suite"], row["runner"]) == name), **(pairs or {}).get(name, {}))
        for name in names
    ]
    return ranked(*rows, **options)


def ranked(*rows: Mapping[str, Any], **options: Any) -> pl.DataFrame:
    """The standings of statistics."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None) if rows else pl.DataFrame(schema=_EMPTY)
    return rank([frame], **options)


_EMPTY = {"suite": pl.String, "runner": pl.String}


def row_of(standings: pl.DataFrame, runner: str, suite: str = "s") -> dict[str, Any]:
    """The one standing of a runner on a suite."""
    return standings.row(by_predicate=(pl.col("runner") == runner) & (pl.col("suite") == suite), named=True)
