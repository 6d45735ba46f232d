"""The least pass rate and mean score that a suite asks of its runs: each by the number itself, equality is enough.

Sets of test cases of Connexity have them. Gates of sweeps and `--min-pass-rate` are decided by intervals.
"""

from __future__ import annotations

from collections.abc import Iterator

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.show import percent
from eval_pipeline.leaderboards.sweep_gates import GateLine
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pass_rates import PassRate, mean_score, pass_rate
from eval_pipeline.warehouse.store import Warehouse

CASES = "cases_pass_threshold"
_METRICS = "metrics_pass_threshold"
_ROUNDING = 1e-9


def suite_gate(
    warehouse: Warehouse, outcome: PairOutcome, selected: CaseFilter | None, *, with_rate: bool = True
) -> tuple[GateLine, ...]:
    """Return what a finished pair's suite says of it, without its pass rate where something else decides that."""
    if outcome.error is not None or not outcome.counts.planned:
        return ()
    return tuple(_lines(warehouse, outcome, selected, with_rate))


def _lines(
    warehouse: Warehouse, outcome: PairOutcome, selected: CaseFilter | None, with_rate: bool
) -> Iterator[GateLine]:
    pair = outcome.pair
    name, settings = f"{pair.name.suite} × {pair.name.runner}", pair.ready.suite.settings
    if settings.min_pass_rate is not None and with_rate:
        rate = pass_rate(warehouse, pair, selected)
        yield rate_line(CASES, name, "pass rate", rate, settings.min_pass_rate)
    if settings.min_mean_score is not None:
        score = mean_score(warehouse, pair, selected)
        yield rate_line(_METRICS, name, "mean score", score, settings.min_mean_score)


def rate_line(rule: str, subject: str, what: str, found: PassRate, least: float) -> GateLine:
    """Return whether a rate is at least another: GO or NO-GO, which it is for a rate that is not known."""
    if found.rate is None:
        return GateLine(rule, subject, "NO-GO", f"{what} is not known, nothing could be graded ({rule})")
    holds = found.rate >= least - _ROUNDING
    text = f"{what} {found} is {'not ' if holds else ''}below {percent(least)} ({rule})"
    return GateLine(rule, subject, "GO" if holds else "NO-GO", text)
