"""Two results paired by case: who won where, by how much, and what could not be compared."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.comparisons import (
    Comparison,
    check_names,
    compare,
    evidence,
    matrix,
    one_per_runner,
)
from eval_pipeline.leaderboards.gates import Policy, gates
from eval_pipeline.leaderboards.results import Results
from eval_pipeline.statistics.paired_tests import signs
from eval_pipeline_tests.exports.sample_rows import results


def joined(*sets: Results) -> Results:
    return Results(sets[0].name, pl.concat([result.frame for result in sets]))


def outcomes(comparison: Comparison) -> dict[str, str]:
    return dict(comparison.cases.select("case_id", "outcome").iter_rows())


@pytest.mark.parametrize(
    ("delta", "outcome"), [(0.1, "win"), (0.3, "win"), (0.09, "tie"), (-0.09, "tie"), (-0.1, "loss"), (0.0, "tie")]
)
def test_a_case_is_won_or_lost_from_the_threshold_on(delta: float, outcome: str) -> None:
    baseline, candidate = results("a", {"c": max(0.0, -delta)}), results("b", {"c": max(0.0, delta)})

    comparison = compare(baseline, candidate, threshold=0.1)

    assert outcomes(comparison) == {"c": outcome}


def test_cases_are_paired_by_name_and_means_taken_over_pairs_only() -> None:
    comparison = compare(
        results("a", {"up": 0.2, "down": 0.9, "same": 0.5, "gone": 1.0}),
        results("b", {"up": 0.8, "down": 0.4, "same": 0.55, "new": 0.0}),
    )

    assert outcomes(comparison) == {
        "up": "win", "down": "loss", "same": "tie", "gone": "only-baseline", "new": "only-candidate"
    }  # fmt: skip
    numbers = comparison.summary
    assert (numbers.paired, numbers.wins, numbers.losses, numbers.ties) == (3, 1, 1, 1)
    assert (numbers.only_baseline, numbers.only_candidate) == (1, 1)
    assert numbers.mean_delta == pytest.approx(0.05)
    assert numbers.mean_baseline == pytest.approx(1.6 / 3)


def test_a_case_that_could_not_be_graded_is_never_counted_as_zero() -> None:
    comparison = compare(results("a", {"one": 1.0, "two": 1.0}), results("b", {"one": 1.0, "two": None}))

    assert outcomes(comparison)["two"] == "ungraded"
    assert (comparison.summary.mean_delta, comparison.summary.ungraded, comparison.summary.losses) == (0.0, 1, 0)


def test_the_repetitions_of_a_case_are_averaged_first() -> None:
    baseline = joined(
        results("a", {"c": 0.0}), results("a", {"c": 1.0}, repetition=2), results("a", {"c": None}, repetition=3)
    )

    comparison = compare(baseline, results("b", {"c": 1.0}))

    (row,) = comparison.cases.to_dicts()
    assert (row["score_baseline"], row["pass_rate_baseline"], row["delta"]) == (0.5, 0.5, 0.5)
    assert comparison.summary.passes.ups == 1


def test_a_case_with_other_content_is_another_case_unless_asked() -> None:
    before, after = results("a", {"c": 0.0}, content="old"), results("b", {"c": 1.0}, content="new")

    assert compare(before, after).summary.changed == 1
    assert compare(before, after).summary.paired == 0
    assert compare(before, after, allow_changed=True).summary.wins == 1


def test_a_source_that_does_not_say_what_its_cases_are_is_paired_by_name() -> None:
    comparison = compare(results("a", {"c": 0.0}, content="old"), results("b", {"c": 1.0}))

    assert comparison.summary.paired == 1


def test_two_runners_are_paired_across_but_sets_of_runners_runner_by_runner() -> None:
    result = compare(results("a", {"c": 0.0}, runner="x"), results("b", {"c": 1.0}, runner="y"))
    several = compare(
        joined(results("a", {"c": 0.0}, runner="x"), results("a", {"c": 1.0}, runner="y")),
        joined(results("b", {"c": 1.0}, runner="x"), results("b", {"c": 1.0}, runner="z")),
    )

    assert result.summary.wins == 1
    assert [(row["runner"], row["outcome"]) for row in several.cases.to_dicts()] == [
        ("x", "win"), ("y", "only-baseline"), ("z", "only-candidate")
    ]  # fmt: skip


def test_cases_of_one_name_in_two_suites_are_two_cases() -> None:
    comparison = compare(
        joined(results("a", {"c": 0.0}), results("a", {"c": 1.0}, suite="t")),
        joined(results("b", {"c": 1.0}), results("b", {"c": 0.0}, suite="t")),
    )

    assert [(result.suite, result.wins, result.losses) for result in comparison.suites] == [("s", 1, 0), ("t", 0, 1)]
    assert comparison.summary.mean_delta == 0.0


def test_the_interval_is_paired_and_that_of_the_gate() -> None:
    comparison = compare(
        results("a", {f"c{n}": n / 20 for n in range(10)}), results("b", {f"c{n}": n / 20 + 0.2 for n in range(10)})
    )

    low, high = comparison.summary.interval or (0.0, 0.0)
    (gate,) = gates([comparison], Policy())
    assert -0.05 < low < 0.2 < high < 0.45  # the cases differ, the differences do not: unpaired, it reaches from -0.1
    assert (gate.rules[0].low, gate.rules[0].high) == (low, high)
    assert comparison.summary.standard_error == pytest.approx(0.0, abs=1e-9)


def test_cases_of_one_cluster_are_one_unit() -> None:
    """Forty cases of four documents, of which one fell: forty differences, but one document that fell."""
    before = _spread("a", [1.0] * 40)
    after = _spread("b", [1.0] * 30 + [0.0] * 10)
    documents = [Results(side.name, _clustered(side.frame)) for side in (before, after)]

    single, clustered = compare(before, after).summary, compare(*documents).summary

    assert single.p_value == pytest.approx(2 / 2**10)
    assert clustered.p_value == 1.0
    assert single.interval is not None
    assert clustered.interval is not None
    assert single.interval[1] < 0 < clustered.interval[1]


def _clustered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(cluster=(pl.col("case_id").str.slice(1).cast(pl.Int32) // 10).cast(pl.String))


def test_an_interval_of_a_difference_stays_possible_and_one_pair_has_none() -> None:
    wide = compare(results("a", {"1": 0.0, "2": 0.0}), results("b", {"1": 1.0, "2": 0.5}))
    result = compare(results("a", {"1": 0.0}), results("b", {"1": 1.0}))

    assert wide.summary.interval == (-1.0, 1.0)
    assert result.summary.interval is None


def test_pass_and_fail_are_tested_by_flips() -> None:
    before, after = {f"c{n}": 1.0 for n in range(6)}, {f"c{n}": 0.5 for n in range(6)}

    comparison = compare(results("a", before), results("b", after)).summary

    assert (comparison.passes.downs, comparison.passes.p_value) == (6, 2 / 64)
    assert (comparison.pass_rate_baseline, comparison.pass_rate_candidate) == (1.0, 0.0)


def test_an_expected_failure_counts_as_passed() -> None:
    expected = results("a", {"c": 0.0}, status="expected-failed")

    assert compare(expected, results("b", {"c": 1.0})).summary.pass_rate_baseline == 1.0


def test_nothing_in_common_has_no_mean() -> None:
    comparison = compare(results("a", {"x": 1.0}), results("b", {"y": 1.0})).summary

    assert (comparison.paired, comparison.mean_delta, comparison.interval, comparison.pass_rate_candidate) == (
        0,
        None,
        None,
        None,
    )


def test_what_moved_most_comes_first_and_ties_are_no_change() -> None:
    comparison = compare(
        results("a", {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}), results("b", {"a": 0.7, "b": 0.3, "c": 1.0, "d": 0.5})
    )

    assert comparison.changes(9)["case_id"].to_list() == ["c", "b", "a"]
    assert comparison.changes(1)["case_id"].to_list() == ["c"]


def test_the_order_of_rows_changes_nothing() -> None:
    baseline, candidate = results("a", {"x": 0.1, "y": 0.9}), results("b", {"y": 0.2, "x": 0.8})
    turned = Results("b", candidate.frame.reverse())

    first, second = compare(baseline, candidate), compare(baseline, turned)

    assert first.summary == second.summary
    assert first.cases.equals(second.cases)


def test_several_sides_make_a_matrix() -> None:
    sides = [results("a", {"x": 0.1, "y": 0.9}), results("b", {"x": 0.2}), results("c", {"z": 0.3})]

    assert matrix(sides).to_dicts() == [
        {"suite": "s", "case_id": "x", "a": 0.1, "b": 0.2, "c": None},
        {"suite": "s", "case_id": "y", "a": 0.9, "b": None, "c": None},
        {"suite": "s", "case_id": "z", "a": None, "b": None, "c": 0.3},
    ]


def test_results_of_several_runners_can_be_taken_apart() -> None:
    both = joined(results("run", {"c": 0.0}, runner="x"), results("run", {"c": 1.0}, runner="y"))

    assert [(side.name, side.frame.height) for side in one_per_runner(both)] == [("x", 1), ("y", 1)]


@pytest.mark.parametrize(
    ("ups", "downs", "ties", "expected"),
    [(2, 15, 3, "regressed"), (2, 12, 986, "regressed"), (2, 8, 0, "none"), (9, 0, 0, "none"), (0, 0, 0, "none")],
)
def test_evidence_of_a_regression_needs_more_falls_than_chance(ups: int, downs: int, ties: int, expected: str) -> None:
    assert evidence(signs(ups, downs, ties)) == expected


def _spread(name: str, rates: list[float], **fields: Any) -> Results:
    return results(name, {f"c{number}": rate for number, rate in enumerate(rates)}, **fields)


def test_one_case_many_runners_is_one_unit() -> None:
    """Ten runners fall in the same case of five: ten differences, but one case that fell."""
    before = joined(*(_spread("a", [1.0] * 5, runner=f"r{number}") for number in range(10)))
    after = joined(*(_spread("b", [1.0] * 4 + [0.0], runner=f"r{number}") for number in range(10)))

    summary = compare(before, after).summary

    assert (summary.paired, summary.p_value) == (50, 1.0)
    assert summary.interval == pytest.approx((-1.0, 0.538), abs=1e-3)  # of five cases, not of fifty


def test_a_gate_holds_all_its_candidates_to_one_level() -> None:
    baseline = _spread("a", [n % 2 for n in range(80)])
    worse, same = _spread("b", [n % 2 * 0.1 for n in range(80)]), _spread("c", [(n + 2) % 2 for n in range(80)])
    comparisons = [compare(baseline, worse), compare(baseline, same), compare(baseline, results("d", {"x": 1.0}))]

    decided = gates(comparisons, Policy(max_drop=0.1))
    alone = gates(comparisons[1:], Policy(max_drop=0.1))

    assert [(gate.candidate, gate.decision) for gate in decided] == [
        ("b", "NO-GO"), ("c", "GO"), ("d", "INCONCLUSIVE")
    ]  # fmt: skip
    assert decided[1].rules[0].low < alone[0].rules[0].low  # type: ignore[operator]


@pytest.mark.parametrize(
    ("before", "after", "policy", "decision"),
    [
        pytest.param(0.8, 0.795, Policy(max_drop=0.01), "GO", id="within"),
        pytest.param(0.8, 0.7, Policy(max_drop=0.01), "NO-GO", id="beyond"),
        pytest.param(0.1, 0.09, Policy(max_drop=0.02, max_relative_drop=0.05), "NO-GO", id="relatively-beyond"),
        pytest.param(0.1, 0.09, Policy(max_drop=0.02, max_relative_drop=0.2), "GO", id="relatively-within"),
        pytest.param(0.0, 0.0, Policy(max_drop=0.3, max_relative_drop=0.1), "GO", id="of-nothing-no-share"),
        pytest.param(0.5, 0.9, Policy(), "GO", id="better"),
        pytest.param(1.0, 1.0, Policy(), "INCONCLUSIVE", id="no-number-of-cases-excludes-every-drop"),
    ],
)
def test_a_gate_decides_by_the_margins_of_its_policy(
    before: float, after: float, policy: Policy, decision: str
) -> None:
    (gate,) = gates([compare(_spread("a", [before] * 50), _spread("b", [after] * 50))], policy)

    assert gate.decision == decision


def test_a_side_cannot_be_compared_with_itself() -> None:
    with pytest.raises(InputError, match="named twice"):
        check_names([results("a", {}), results("a", {})])
