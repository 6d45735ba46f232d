"""What boards are made of by name: columns, scopes and settings. No NumPy, whose import most commands do not need."""

from __future__ import annotations

from typing import Any

import polars as pl

OVERALL = "(all)"
"""The suite of a standing over several suites."""
COVERAGE_FLOOR = 0.9
"""The least share of graded plans with which a runner is ranked, where the project sets none."""
STANDING_COLUMNS: dict[str, Any] = {
    "scope": pl.String, "suite": pl.String, "runner": pl.String, "suite_revision": pl.String,
    "runner_revision": pl.String, "suites": pl.Int64, "rank": pl.Int32, "tied_with_best": pl.Boolean,
    "planned": pl.Int64, "graded": pl.Int64, "passed": pl.Int64, "failed": pl.Int64, "expected_failed": pl.Int64,
    "unexpected_passed": pl.Int64, "errored": pl.Int64, "pass_rate": pl.Float64, "pass_rate_low": pl.Float64,
    "pass_rate_high": pl.Float64, "pass_rate_worst": pl.Float64, "pass_rate_best": pl.Float64,
    "mean_score": pl.Float64, "mean_score_low": pl.Float64, "mean_score_high": pl.Float64, "coverage": pl.Float64,
    "latency_p50_ms": pl.Float64, "latency_p95_ms": pl.Float64, "input_tokens": pl.Int64, "output_tokens": pl.Int64,
    "cost_usd": pl.Float64, "cost_known": pl.Int64, "sweep_id": pl.String, "oldest_answer_at": pl.Datetime,
    "newest_answer_at": pl.Datetime, "panel_revision": pl.String, "cases_revision": pl.String,
    "statistics_id": pl.String, "answers": pl.Int64, "apart": pl.String, "note": pl.String, "rank_best": pl.Int32,
    "rank_worst": pl.Int32, "grading_cost_usd": pl.Float64, "incomplete": pl.Int64, "effective_cases": pl.Float64,
}  # fmt: skip
"""The columns of standings, in their order."""
DIFFERENCE_COLUMNS: dict[str, Any] = {
    "suite": pl.String, "runner": pl.String, "other_runner": pl.String, "cases": pl.Int64, "shared": pl.Int64,
    "clusters": pl.Int64, "ups": pl.Int64, "downs": pl.Int64, "total": pl.Float64, "squares": pl.Float64,
    "products": pl.Float64, "sizes": pl.Float64, "step": pl.Float64, "changes": pl.List(pl.Float64),
}  # fmt: skip
"""The columns of sums of differences between two runners of a suite."""
