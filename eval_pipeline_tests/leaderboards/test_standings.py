"""Verdicts → standings: who is ahead, how sure that is, and how much of it is known at all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from eval_pipeline.leaderboards.board_columns import OVERALL
from eval_pipeline.leaderboards.boards import common_suites
from eval_pipeline.statistics.intervals import wilson_at
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline_tests.leaderboards.sample_verdicts import AT, board, many, ranked, row_of, statistics, verdict


def ranks(standings: pl.DataFrame, suite: str = "s") -> dict[str, int | None]:
    rows = standings.filter(pl.col("suite") == suite)
    return dict(zip(rows["runner"], rows["rank"], strict=True))


def test_the_better_pass_rate_ranks_first() -> None:
    standings = board(*many("worse", 1, 3), *many("better", 3, 1))

    assert ranks(standings) == {"better": 1, "worse": 2}
    assert standings["runner"].to_list()[:2] == ["better", "worse"]


def test_of_equal_pass_rates_the_better_mean_score_ranks_first() -> None:
    standings = board(verdict("a", "c1", "failed", score=0.1), verdict("b", "c1", "failed", score=0.6))

    assert ranks(standings) == {"b": 1, "a": 2}


def test_equals_share_a_rank_and_the_next_one_is_skipped() -> None:
    standings = board(*many("c", 0, 2), *many("b", 1, 1), *many("a", 1, 1))

    assert ranks(standings) == {"a": 1, "b": 1, "c": 3}


def test_rates_that_differ_in_their_last_bits_only_are_equal() -> None:
    thirds = [verdict("a", f"c{case}", score=0.1 + 0.2) for case in range(3)]

    standings = board(*thirds, *[verdict("b", f"c{case}", score=0.3) for case in range(3)])

    assert ranks(standings) == {"a": 1, "b": 1}


def test_a_runner_of_which_nothing_could_be_graded_has_no_rank_and_comes_last() -> None:
    standings = board(*many("broken", 0, errored=2), *many("bad", 0, 2))

    assert ranks(standings) == {"bad": 1, "broken": None}


def test_nothing_is_said_of_a_tie_where_nothing_is_known() -> None:
    standings = board(*many("best", 2), *many("broken", 0, errored=2))

    assert row_of(standings, "broken")["tied_with_best"] is None


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ("passed", {"graded": 1, "passed": 1, "failed": 0}),
        ("failed", {"graded": 1, "passed": 0, "failed": 1}),
        ("expected-failed", {"graded": 1, "passed": 1, "failed": 0, "expected_failed": 1}),
        ("unexpected-passed", {"graded": 1, "passed": 0, "failed": 1, "unexpected_passed": 1}),
        ("error", {"graded": 0, "passed": 0, "failed": 0, "errored": 1}),
    ],
)
def test_every_status_is_counted_where_it_belongs(status: str, counts: dict[str, int]) -> None:
    row = row_of(board(verdict("a", "c1", status)), "a")

    none = dict.fromkeys(("graded", "passed", "failed", "expected_failed", "unexpected_passed", "errored"), 0)
    assert {name: row[name] for name in none} == {**none, **counts}


def test_what_nobody_measured_is_null_and_not_zero() -> None:
    row = row_of(board(*many("a", 0, errored=1)), "a")

    unknown = ("rank", "pass_rate", "pass_rate_low", "pass_rate_high", "mean_score", "mean_score_low",
               "mean_score_high", "latency_p50_ms", "latency_p95_ms", "input_tokens", "output_tokens",
               "cost_usd")  # fmt: skip
    assert {name: row[name] for name in unknown} == dict.fromkeys(unknown)
    assert row["cost_known"] == 0


def test_sums_are_over_what_is_known_and_say_over_how_many() -> None:
    known = verdict("a", "c1", cost_usd=0.5, input_tokens=0, output_tokens=3)
    unknown = verdict("a", "c2")

    row = row_of(board(known, unknown), "a")

    assert (row["cost_usd"], row["cost_known"], row["input_tokens"], row["output_tokens"]) == (0.5, 1, 0, 3)


def test_an_error_costs_money_but_its_time_says_nothing() -> None:
    slow = verdict("a", "c1", "error", cost_usd=2.0, duration_ms=60_000.0)
    quick = [verdict("a", f"c{case}", cost_usd=1.0, duration_ms=case * 100.0) for case in (2, 3, 4)]

    row = row_of(board(slow, *quick), "a")

    assert (row["cost_usd"], row["latency_p50_ms"], row["latency_p95_ms"]) == (5.0, 300.0, 390.0)


# Overall.


def test_every_suite_counts_the_same_overall() -> None:
    standings = board(*many("a", 1, suite="small"), *many("a", 0, 99, suite="large"))

    row = row_of(standings, "a", OVERALL)
    assert (row["scope"], row["suites"], row["pass_rate"], row["mean_score"]) == ("overall", 2, 0.5, 0.5)
    assert (row["planned"], row["graded"], row["passed"], row["failed"]) == (100, 100, 1, 99)


def test_more_suites_make_the_overall_interval_narrower() -> None:
    def width(suites: int) -> float:
        rows = [row for number in range(suites) for row in many("a", 5, 5, suite=f"s{number}")]
        row = row_of(board(*rows), "a", OVERALL)
        return float(row["pass_rate_high"] - row["pass_rate_low"])

    assert width(4) == pytest.approx(width(1) / 2)


def test_overall_sums_of_what_nobody_measured_are_null() -> None:
    standings = board(*many("a", 1, suite="s1"), *many("a", 1, suite="s2", cost_usd=0.5))

    row = row_of(standings, "a", OVERALL)
    assert (row["cost_usd"], row["cost_known"], row["input_tokens"]) == (0.5, 1, None)


# The frame itself.


def test_no_verdicts_give_no_standings() -> None:
    assert board().height == 0


def test_no_number_is_ever_nan() -> None:
    rows: list[dict[str, Any]] = [*many("a", 1), *many("b", 0, errored=1), *many("a", 0, errored=1, suite="t")]
    standings = board(*rows)

    nan = standings.select(pl.col(pl.Float64).is_nan().any()).row(0)
    assert not any(nan)


def test_the_standings_have_the_columns_of_their_table() -> None:
    table = set(BY_NAME["leaderboards"].column_names) - {"board_id", "computed_at", "board_key"}

    assert set(board(*many("a", 1)).columns) == table


def test_the_same_statistics_in_another_order_change_no_bit() -> None:
    rows = [statistics(*many(name, number, 9 - number)) for number, name in enumerate("abc", start=3)]

    assert ranked(*reversed(rows)).equals(ranked(*rows))


def test_no_worse_is_shown_only_where_paired_answers_leave_it_open() -> None:
    standings = board(*many("best", 20), *many("near", 18, 2), *many("far", 2, 18))

    found = {runner: row_of(standings, runner) for runner in ("best", "near", "far")}
    assert {name: row["tied_with_best"] for name, row in found.items()} == {"best": True, "near": True, "far": False}
    assert [(row["rank_best"], row["rank_worst"]) for row in found.values()] == [(1, 2), (1, 2), (3, 3)]


def test_what_could_not_be_graded_enters_no_rate_and_has_its_bounds() -> None:
    row = row_of(board(*many("a", 3, 1, errored=2), pairs={("s", "a"): {"broken": 4}}), "a")

    assert (row["planned"], row["graded"], row["passed"], row["failed"], row["errored"]) == (10, 4, 3, 1, 2)
    assert (row["pass_rate"], row["mean_score"], row["coverage"]) == (0.75, 0.75, 0.4)
    assert (row["pass_rate_worst"], row["pass_rate_best"]) == pytest.approx((0.3, 0.9))
    assert (row["pass_rate_low"], row["pass_rate_high"]) == pytest.approx(wilson_at(3 / 4, 4), abs=0.1)
    assert (row["rank"], row["apart"]) == (None, "40.0 % graded, below 90.0 %")


def test_a_case_counts_once_however_often_it_was_answered() -> None:
    often = [verdict("a", "often", repetition=number) for number in (1, 2, 3)]

    row = row_of(board(*often, verdict("a", "once", "failed")), "a")

    assert (row["mean_score"], row["pass_rate"], row["answers"], row["passed"]) == (0.5, 0.5, 4, 3)


# Who is compared with whom.


def test_a_floor_of_coverage_decides_who_is_ranked() -> None:
    rows = [*many("a", 9, errored=1), *many("b", 8, errored=2)]

    assert ranks(board(*rows)) == {"a": 1, "b": None}
    assert ranks(board(*rows, floor=0.5)) == {"a": 1, "b": 1}


def apart(*rows: dict[str, Any]) -> dict[str, str | None]:
    standings = ranked(*rows).filter(scope="suite")
    return dict(zip(standings["runner"], standings["apart"], strict=True))


LATER = AT + timedelta(hours=1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"suite_revision": "2", "finished_at": LATER}, None),
        ({"decision_keys": ["k", "other"], "finished_at": LATER}, None),
        ({"complete": False, "missing": 1, "finished_at": LATER}, "unfinished: 1 of 2 plans carried out"),
    ],
    ids=["another revision", "other rules", "unfinished"],
)
def test_the_newest_complete_pair_decides_what_is_compared(fields: dict[str, Any], reason: str | None) -> None:
    found = apart(statistics(*many("old", 1, 1)), statistics(*many("new", 1, 1), **fields))

    assert found["new"] == reason
    assert (found["old"] is None) == (reason is not None)


def test_a_runner_with_more_cases_is_compared_on_those_of_the_board_and_one_with_fewer_is_apart() -> None:
    few = [verdict("few", "c1")]
    more = [*many("more", 2), verdict("more", "c3", "failed")]
    rows = [statistics(*each) for each in (many("a", 1, 1), many("b", 2), more, few)]

    standings = ranked(*rows)

    assert ranks(standings) == {"b": 1, "more": 1, "a": 3, "few": None}
    assert row_of(standings, "more")["planned"] == 2
    assert row_of(standings, "few")["apart"] == "other cases: has 1 of 2"


def test_the_cases_of_a_board_are_those_with_the_most_results() -> None:
    """Three sets of cases, each in the next: the board is of the one that two runners have, not of the largest."""
    eleven = many("eleven", 10, errored=1)
    rows = [statistics(*each) for each in (eleven, many("ten", 9, 1), many("two", 2))]

    standings = ranked(*rows)

    assert ranks(standings) == {"eleven": 1, "ten": 2, "two": None}
    assert [row_of(standings, name)["planned"] for name in ("eleven", "ten")] == [10, 10]
    assert row_of(standings, "eleven")["errored"] == 0
    assert row_of(standings, "two")["apart"] == "other cases: has 2 of 10"


def test_the_overall_board_is_over_suites_that_all_its_runners_completed() -> None:
    rows = [
        *many("both", 3, 1, suite="easy"), *many("both", 2, 2, suite="hard"),
        *many("errs", 4, suite="easy"), *many("errs", 0, errored=4, suite="hard"),
        *many("new", 4, suite="easy"),
    ]  # fmt: skip
    third = [*many("third", 2, 2, suite="easy"), *many("third", 2, 2, suite="hard")]

    standings = board(*rows, *third)

    assert ranks(standings, "easy") == {"errs": 1, "new": 1, "both": 3, "third": 4}
    assert ranks(standings, OVERALL) == {"both": 1, "third": 2, "errs": None, "new": None}
    assert row_of(standings, "errs", OVERALL)["apart"] == "no rank on hard"
    assert row_of(standings, "both", OVERALL)["suites"] == 2


@pytest.mark.parametrize(
    ("ranked", "suites", "runners"),
    [
        ({}, [], []),
        ({"x": []}, [], []),
        ({"x": ["a", "b"], "y": ["a"]}, ["a"], ["x", "y"]),
        ({"x": ["a", "b", "c"], "y": ["a"]}, ["a", "b", "c"], ["x"]),
        ({"x": ["a", "b", "c"], "y": ["b", "c", "d"]}, ["b", "c"], ["x", "y"]),
        ({"x": ["b", "c", "d"], "y": ["a", "b", "d"], "z": ["a", "b", "c"]}, ["a", "b"], ["y", "z"]),
        ({"x": ["a"], "y": ["b"]}, ["a"], ["x"]),
    ],
    ids=["nobody", "nothing", "compares two", "one with far more", "each lacks one", "all lack another", "disjoint"],
)  # fmt: skip
def test_the_suites_of_the_overall_board_are_those_with_the_most_results(
    ranked: dict[str, list[str]], suites: list[str], runners: list[str]
) -> None:
    assert common_suites(ranked) == (suites, runners)
