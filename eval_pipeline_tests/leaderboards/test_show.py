"""Standings as text: what is unknown is shown as unknown, and nothing breaks a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import polars as pl
import pytest

from eval_pipeline.leaderboards.show import (
    BOARD_HEAD,
    amount,
    board_remarks,
    board_rows,
    counted,
    interval,
    markdown_table,
    milliseconds,
    money,
    percent,
    period,
    ranks_legend,
    short_period,
    suites_left_out,
)
from eval_pipeline_tests.leaderboards.sample_verdicts import board, many


@pytest.mark.parametrize(
    ("shown", "value", "text"),
    [
        (percent, None, "–"),
        (percent, 0.0, "0.0 %"),
        (percent, 0.2168, "21.7 %"),
        (percent, 1.0, "100.0 %"),
        (amount, None, "–"),
        (amount, 0, "0"),
        (amount, 1_234_567, "1,234,567"),
        (milliseconds, None, "–"),
        (milliseconds, 0.0, "0.0 ms"),
        (milliseconds, 3.24, "3.2 ms"),
        (milliseconds, 850.4, "850 ms"),
        (milliseconds, 12_400.0, "12.4 s"),
        (money, None, "–"),
        (money, 0.0, "$0.0000"),
        (money, 0.00001, "<$0.0001"),
        (money, 0.1234, "$0.1234"),
        (money, 1_234.5, "$1,234.50"),
    ],
)
def test_numbers_read_well_and_the_unknown_is_a_dash(
    shown: Callable[[float | None], str], value: float | None, text: str
) -> None:
    assert shown(value) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(None, None, "–"), (0.5, None, "–"), (0.0, 0.1611, "0.0–16.1"), (0.995, 1.0, "99.5–100.0")],
)
def test_an_interval_is_shown_when_both_ends_are_known(low: float | None, high: float | None, text: str) -> None:
    assert interval(low, high) == text


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (datetime(2026, 1, 15, 12, 0, 59), "2026-01-15 12:00"),
        (datetime(2026, 1, 15, 13, 7), "2026-01-15 12:00 to 13:07"),
        (datetime(2026, 2, 1), "2026-01-15 to 2026-02-01"),
        (None, "–"),
    ],
)
def test_the_age_of_answers_is_a_time_or_a_period(last: datetime | None, text: str) -> None:
    assert period(datetime(2026, 1, 15, 12), last) == text


@pytest.mark.parametrize(
    ("last", "text"),
    [
        (datetime(2026, 1, 15, 12, 0, 59), "01-15 12:00"),
        (datetime(2026, 1, 15, 13, 7), "01-15 12:00–13:07"),
        (datetime(2026, 2, 1), "01-15–02-01"),
        (None, "–"),
    ],
)
def test_the_age_of_answers_has_a_short_form(last: datetime | None, text: str) -> None:
    assert short_period(datetime(2026, 1, 15, 12), last) == text


def test_a_board_has_a_row_per_runner_under_its_head() -> None:
    noon = datetime(2026, 1, 15, 12)
    measured: dict[str, Any] = {
        "duration_ms": 20.0,
        "input_tokens": 5,
        "output_tokens": 5,
        "cost_usd": 0.5,
        "executed_at": noon,
    }
    standings = board(*many("best", 3, 1, **measured))

    shown = dict(zip(BOARD_HEAD, board_rows(standings)[0], strict=True))

    assert {name: text for name, text in shown.items() if name != "errors"} == {
        "#": "1", "runner": "best", "pass rate": "75.0 %", "95 %": "20.4–98.7", "mean": "0.750", "graded": "4/4",
        "p50": "20 ms", "p95": "20 ms", "tokens": "40", "cost": "$2.00", "answered": "2026-01-15 12:00",
    }  # fmt: skip


def test_a_runner_of_which_nothing_is_known_shows_dashes_and_its_errors() -> None:
    row = dict(zip(BOARD_HEAD, board_rows(board(*many("broken", 0, errored=2)))[0], strict=True))

    assert {name for name, text in row.items() if text == "–"} == {
        "#", "pass rate", "95 %", "mean", "p50", "p95", "tokens", "cost", "answered",
    }  # fmt: skip
    assert (row["graded"], row["errors"]) == ("0/2", "2")


def test_a_rank_is_what_the_cases_leave_open() -> None:
    standings = board(*many("best", 20), *many("near", 18, 2), *many("far", 2, 18))

    assert [row[0] for row in board_rows(standings)[:3]] == ["1–2", "1–2", "3"]
    assert [row[0] for row in board_rows(standings.drop("rank_best", "rank_worst"))[:3]] == ["1", "2", "3"]


def test_a_table_survives_bars_and_line_breaks_in_its_cells() -> None:
    table = markdown_table(("name", "why"), [("a|b", "one\ntwo")])

    assert table == "| name | why |\n| --- | --- |\n| a\\|b | one two |"


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 cases"), (1, "1 case"), (2, "2 cases"), (1_500, "1,500 cases")]
)
def test_a_count_agrees_with_its_noun(number: int, expected: str) -> None:
    assert counted(number, "case") == expected


def test_a_count_agrees_with_a_verb_too() -> None:
    nouns = ("entry is no test", "entries are no tests")

    assert [counted(number, *nouns) for number in (1, 2)] == ["1 entry is no test", "2 entries are no tests"]


def test_each_reason_not_to_be_ranked_is_one_line_and_open_ranks_have_a_legend() -> None:
    erring = [row for number in range(8) for row in many(f"e{number}", 2, errored=18)]
    standings = board(*many("best", 20), *many("near", 18, 2), *erring).filter(scope="suite")

    assert board_remarks(standings) == ["not ranked: e0, e1, e2, e3 and 4 more: 10.0 % graded, below 90.0 %"]
    assert ranks_legend(standings) == [
        "#: the ranks that the cases leave open (paired tests of all pairs of runners, Holm's adjustment)"
    ]
    assert ranks_legend(board(*many("alone", 20))) == []


def test_a_board_with_one_ranked_runner_compares_nobody() -> None:
    standings = board(*many("best", 20), *many("down", 0, errored=20), floor=0.0).filter(scope="suite")

    assert board_remarks(standings) == [
        "only best is ranked: there is nobody to compare it with",
        "not ranked: down: nothing graded",
    ]


def test_an_overall_board_names_the_suites_that_it_is_without() -> None:
    both, one = ([*many(name, 3), *many(name, 2, suite="u")] for name in ("a", "b"))
    standings = board(*both, *one, *many("a", 2, suite="v"), *many("b", 0, errored=2, suite="v"))

    assert suites_left_out(standings) == ["without v: no rank there: b"]
    assert suites_left_out(board(*both, *one)) == []


def test_a_board_tells_of_plans_of_cases_that_cannot_be_loaded() -> None:
    whole = board(*many("a", 19), *many("b", 18, errored=1)).filter(scope="suite")
    broken = whole.with_columns(planned=pl.col("planned") + 1)  # as counts have it: neither graded nor errors

    assert "1 of 20 plans of cases that cannot be loaded (eval-pipeline validate): a, b" in board_remarks(broken)
    assert not any("loaded" in remark for remark in board_remarks(whole))


def test_a_board_tells_of_answers_to_plans_that_were_tried_again() -> None:
    once = board(*many("a", 19), *many("b", 18)).filter(scope="suite")
    again = once.with_columns(answers=pl.when(pl.col("runner") == "b").then(20).otherwise(pl.col("graded")))

    assert "2 further answers to what did not pass; rates are of first answers: b" in board_remarks(again)
    assert not any("further" in remark for remark in board_remarks(once))
