"""Several repetitions of a case show how reliable a runner is."""

from __future__ import annotations

import polars as pl
import pytest

from eval_pipeline.leaderboards.repetitions import reliability
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results


def repeated(runs: dict[str, list[float | None]], runner: str = "r") -> Results:
    """Repetitions of cases by their scores; from 0.8 on they pass, without a score they are ungraded."""
    rows = [
        {"suite": "s", "runner": runner, "case_id": case, "repetition": number, "score": score, "content": None,
         "status": "error" if score is None else "passed" if score >= 0.8 else "failed"}
        for case, scores in runs.items() for number, score in enumerate(scores, start=1)
    ]  # fmt: skip
    return Results("current", pl.DataFrame(rows, schema=RESULT_COLUMNS))


def test_a_runner_passes_any_or_all_of_k_tries() -> None:
    (row,) = reliability(repeated({"a": [1.0, 1.0, 0.0], "b": [0.0, 0.0, 0.0]}), k=2)

    assert (row.cases, row.repetitions, row.k) == (2, 3, 2)
    assert row.pass_rate == pytest.approx(1 / 3)
    assert row.pass_at_k == pytest.approx(0.5)
    assert row.pass_all_k == pytest.approx(1 / 6)


def test_k_is_the_fewest_graded_repetitions_unless_it_is_given() -> None:
    results = repeated({"a": [1.0, 1.0, 1.0], "b": [1.0, None, 0.0]})

    (fewest,), (three,) = reliability(results), reliability(results, k=3)

    assert (fewest.k, fewest.cases) == (2, 2)
    assert (three.k, three.cases, three.pass_all_k) == (3, 1, 1.0)


def test_cases_that_always_end_alike_have_no_error_of_repeating() -> None:
    (row,) = reliability(repeated({"a": [1.0, 1.0], "b": [0.0, 0.0]}))

    assert (row.low, row.high) == (0.5, 0.5)


def test_one_repetition_shows_no_error_of_repeating() -> None:
    (row,) = reliability(repeated({"a": [1.0], "b": [0.0]}))

    assert (row.pass_rate, row.low, row.high) == (0.5, None, None)


def test_what_could_not_be_graded_is_unknown_and_never_0() -> None:
    (row,) = reliability(repeated({"a": [None, None]}))

    assert (row.cases, row.repetitions) == (0, 0)
    assert (row.pass_rate, row.pass_at_k, row.pass_all_k, row.score) == (None, None, None, None)


@pytest.mark.parametrize(("reducer", "score"), [("mean", 0.5), ("max", 0.75), ("min", 0.25), ("at_least", 0.5)])
def test_repetitions_become_one_score_of_a_case(reducer: str, score: float) -> None:
    (row,) = reliability(repeated({"a": [1.0, 0.5], "b": [0.5, 0.0]}), k=1, reducer=reducer, mark=0.8)

    assert row.score == pytest.approx(score)


def test_each_suite_and_runner_has_a_row() -> None:
    frame = pl.concat([repeated({"a": [1.0]}, runner).frame for runner in ("z", "y")])

    assert [row.runner for row in reliability(Results("current", frame))] == ["y", "z"]
