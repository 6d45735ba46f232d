"""Repetitions of a case become one answer: reducers, pass@k, and the error that repeating shows."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from eval_pipeline.statistics.repetitions import (
    REDUCERS,
    mean_pass_at_k,
    pass_all_k,
    pass_at_k,
    reduce_repetitions,
    repetition_error,
)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("passed", range(6))
def test_pass_at_k_is_the_share_of_all_choices_of_k_that_hold_a_pass(passed: int, k: int) -> None:
    tries = [True] * passed + [False] * (5 - passed)
    choices = list(combinations(tries, k))

    assert pass_at_k(5, passed, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_all_k(5, passed, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize(("count", "passed", "k"), [(3, 2, 5), (3, 5, 1), (3, -1, 1), (3, 1, 0)])
def test_counts_that_cannot_be_are_refused(count: int, passed: int, k: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        pass_at_k(count, passed, k)


def test_pass_at_k_of_cases_is_their_mean() -> None:
    assert mean_pass_at_k([(10, 5), (10, 3), (10, 0)], 1) == pytest.approx(0.8 / 3)
    assert mean_pass_at_k([], 1) is None


@pytest.mark.parametrize(
    ("reducer", "arguments", "expected"),
    [
        ("mean", {}, 3.0), ("median", {}, 2.0), ("mode", {}, 0.0), ("max", {}, 8.0), ("min", {}, 0.0),
        ("at_least", {"k": 3}, 1.0), ("at_least", {"k": 4}, 0.0), ("pass_at", {"k": 2, "mark": 5.0}, 0.6),
        ("pass_k", {"k": 2, "mark": 5.0}, 1 / 15),
    ],
)  # fmt: skip
def test_repetitions_are_reduced(reducer: str, arguments: dict[str, Any], expected: float) -> None:
    assert reduce_repetitions([6, 0, 0, 0, 8, 4], reducer, **arguments) == pytest.approx(expected)


@pytest.mark.parametrize("reducer", REDUCERS)
def test_what_could_not_be_graded_is_left_out(reducer: str) -> None:
    assert reduce_repetitions([1.0, None, float("nan")], reducer) == 1.0
    assert reduce_repetitions([None, None], reducer) is None


@pytest.mark.parametrize("reducer", ["pass_at", "pass_k"])
def test_fewer_graded_repetitions_than_k_tell_nothing(reducer: str) -> None:
    assert reduce_repetitions([1.0, 1.0, None], reducer, k=3) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([0.7, 0.8, 0.9], 0.8 - 4.302652729911 * 0.1 / 3**0.5, id="three"),
        pytest.param([0.5], 0.5, id="one"),
        pytest.param([0.0, 1.0], 0.0, id="too-wide"),
        pytest.param([1.0, 1.0], 1.0, id="the-same"),
    ],
)
def test_a_cautious_answer_is_the_low_end_of_the_interval(values: list[float], expected: float) -> None:
    assert reduce_repetitions(values, "lower_bound") == pytest.approx(expected)


def test_cases_that_always_end_alike_have_no_error_from_repeating() -> None:
    estimate = repetition_error([(3, 3)] * 6 + [(3, 0)] * 4)

    assert estimate is not None
    assert (estimate.mean, estimate.error, estimate.low, estimate.high) == (0.6, 0.0, 0.6, 0.6)


def test_the_error_from_repeating_falls_with_the_root_of_the_cases() -> None:
    few, many = repetition_error([(5, 2)] * 50), repetition_error([(5, 2)] * 200)

    assert few is not None
    assert many is not None
    assert few.error == pytest.approx(2 * many.error)
    assert many.error == pytest.approx((0.06 / 200) ** 0.5)


@pytest.mark.parametrize("cases", [[], [(1, 1), (3, 2)]], ids=["none", "one-repetition"])
def test_the_error_from_repeating_needs_repetitions(cases: list[tuple[int, int]]) -> None:
    assert repetition_error(cases) is None
