"""Whether a sweep is good enough: shown, shown not to be, or open."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
import pytest

from eval_pipeline.leaderboards.gate_rules import GateRules
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.leaderboards.sweep_gates import SweepGate, sweep_gate
from eval_pipeline_tests.exports.sample_rows import results


def scores(value: float | None, count: int = 100, spread: float = 0.0) -> dict[str, float | None]:
    """So many cases, each with this score, every other one a little less."""
    return {f"c{n}": None if value is None else value - spread * (n % 2) for n in range(count)}


def decided(now: Results, before: Results | None = None, **rules: float) -> Mapping[str, str]:
    gate = sweep_gate(now, before, GateRules(**rules))  # type: ignore[arg-type]
    return {**{line.rule: line.decision for line in gate.lines}, "": gate.decision}


@pytest.mark.parametrize(
    ("passed", "decision"), [(100, "GO"), (80, "INCONCLUSIVE"), (82, "INCONCLUSIVE"), (50, "NO-GO")]
)
def test_a_pass_rate_is_decided_by_its_interval(passed: int, decision: str) -> None:
    given: dict[str, float | None] = {f"c{n}": 1.0 if n < passed else 0.0 for n in range(100)}

    assert decided(results("now", given), min_pass_rate=0.8) == {"min_pass_rate": decision, "": decision}


def test_coverage_is_a_count_of_what_was_planned() -> None:
    given: dict[str, float | None] = {**scores(1.0, 9), "x": None}

    assert decided(results("now", given), min_coverage=0.9)[""] == "GO"
    assert decided(results("now", given), min_coverage=0.95)[""] == "NO-GO"


@pytest.mark.parametrize(
    ("before", "now", "decision"), [(0.9, 0.9, "GO"), (0.9, 0.5, "NO-GO"), (0.9, 0.85, "INCONCLUSIVE")]
)
def test_a_drop_is_decided_by_the_interval_of_the_change(before: float, now: float, decision: str) -> None:
    sides = results("now", scores(now, spread=0.1)), results("before", scores(before, spread=0.1))

    assert decided(*sides, max_drop=0.05)["max_drop"] == decision


def test_a_relative_drop_is_measured_from_the_mean_before() -> None:
    sides = results("now", scores(0.4, spread=0.1)), results("before", scores(0.5, spread=0.1))

    assert decided(*sides, max_relative_drop=0.5)[""] == "GO"
    assert decided(*sides, max_relative_drop=0.01)[""] == "NO-GO"


def test_the_first_night_shows_no_drop_and_excludes_none() -> None:
    gate = sweep_gate(results("now", scores(1.0)), None, GateRules(max_drop=0.1, min_coverage=1.0))

    assert gate.decision == "INCONCLUSIVE"
    assert [(line.rule, line.decision) for line in gate.lines] == [("min_coverage", "GO"), ("max_drop", "INCONCLUSIVE")]
    assert "nothing to compare with yet" in str(gate.lines[-1])


def test_a_sweep_without_results_shows_nothing() -> None:
    assert sweep_gate(results("now", {}), None, GateRules(min_coverage=0.9)).decision == "INCONCLUSIVE"


def test_a_gate_without_rules_is_go() -> None:
    assert sweep_gate(results("now", scores(0.0)), None, GateRules()) == SweepGate(())
    assert SweepGate(()).decision == "GO"


def weighted(side: Results, heavy: float) -> Results:
    """The same results; cases whose number is below 50 count so much."""
    number = pl.col("case_id").str.slice(1).cast(pl.Int64)
    weight = pl.when(number < 50).then(heavy).otherwise(1.0)
    return Results(side.name, side.frame.with_columns(weight=weight), side.at)


@pytest.mark.parametrize(("heavy", "decision"), [(1.0, "INCONCLUSIVE"), (9.0, "GO"), (0.1, "NO-GO")])
def test_a_pass_rate_is_that_of_weighted_cases(heavy: float, decision: str) -> None:
    """All heavy cases pass, half of the others."""
    given: dict[str, float | None] = {f"c{n}": 1.0 if n < 50 or n % 2 else 0.0 for n in range(100)}

    assert decided(weighted(results("now", given), heavy), min_pass_rate=0.75)["min_pass_rate"] == decision


@pytest.mark.parametrize(("heavy", "decision"), [(1.0, "GO"), (9.0, "NO-GO"), (0.1, "GO")])
def test_a_drop_is_that_of_weighted_cases(heavy: float, decision: str) -> None:
    """Heavy cases fall by as much as the others rise; one of each shows how far a case may go."""
    before: dict[str, float | None] = {f"c{n}": {49: 0.0, 99: 1.0}.get(n, 0.5) for n in range(100)}
    now = before | {f"c{n}": 0.3 if n < 49 else 0.7 for n in range(99) if n != 49}
    sides = weighted(results("now", now), heavy), weighted(results("before", before), 1.0)

    assert decided(*sides, max_drop=0.06)["max_drop"] == decision
