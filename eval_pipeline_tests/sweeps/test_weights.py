"""`weights` of difficulties: rates and means count cases by them, nothing is executed or scored anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline.errors import InputError, InputErrors
from eval_pipeline.leaderboards.comparisons import compare
from eval_pipeline.sweeps.options import launch_options
from eval_pipeline.sweeps.pass_rates import pass_rate
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.selections import read_results, select
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

PAIR = PairKey("sums", "echo")
TESTS = (a_test("easy"), a_test("also-easy", difficulty="normal"), a_test("hard", text="wrong", difficulty="hard"))
SOURCES: dict[str, tuple[dict[str, float], Mapping[str, float], float]] = {
    "the suite": ({"hard": 2.0}, {}, 2 / 4),
    "the command line, over the suite": ({"hard": 2.0}, {"hard": 4.0}, 2 / 6),
    "both difficulties": ({"hard": 3.0, "normal": 6.0}, {}, 12 / 15),
    "nothing": ({}, {}, 2 / 3),
}


def board(folder: ProjectFolder) -> dict[str, dict[str, Any]]:
    """The standings of the suite, by runner."""
    standings = folder.session().store.update_leaderboards().filter(scope="suite")
    return {row["runner"]: row for row in standings.iter_rows(named=True)}


@pytest.mark.parametrize(("of_suite", "given", "rate"), SOURCES.values(), ids=SOURCES)
def test_a_board_counts_cases_by_their_difficulty(
    folder: ProjectFolder, of_suite: dict[str, float], given: Mapping[str, float], rate: float
) -> None:
    folder.write_suite(*TESTS, weights=of_suite)

    folder.sweep_once(weights=dict(given))

    row = board(folder)["echo"]
    assert (row["pass_rate"], row["mean_score"]) == (pytest.approx(rate), pytest.approx(rate))
    assert (row["passed"], row["graded"], row["coverage"]) == (2, 3, 1.0)
    assert (row["effective_cases"] is None) == (not of_suite)


def test_other_weights_make_another_board_and_call_nothing(folder: ProjectFolder) -> None:
    folder.write_suite(*TESTS)
    folder.sweep_once()
    folder.take_calls()

    counts = folder.sweep(weights={"hard": 4.0})

    assert folder.take_calls() == []
    assert (counts.executed, counts.rescored, counts.updated, counts.moved) == (0, 0, 0, 0)
    assert counts.changed  # so that the run makes a board
    row = board(folder)["echo"]
    assert (row["pass_rate"], row["effective_cases"]) == (pytest.approx(2 / 6), pytest.approx(36 / 18))
    assert folder.ask("SELECT count(*) FROM evaluator_scores") == [(3,)]


def test_all_runners_of_a_board_have_the_weights_of_its_newest_pair(folder: ProjectFolder) -> None:
    folder.write_suite(*TESTS)
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("other"))
    folder.sweep_once(runner="other")

    folder.sweep(weights={"hard": 4.0})

    assert {name: row["pass_rate"] for name, row in board(folder).items()} == {
        "echo": pytest.approx(2 / 6), "other": pytest.approx(2 / 6),
    }  # fmt: skip


def test_the_least_pass_rate_and_comparisons_go_by_weights(folder: ProjectFolder) -> None:
    folder.write_suite(*TESTS, weights={"hard": 2})
    folder.sweep_once()
    session = folder.session()
    (pair,) = session.pairs([PAIR])

    found = pass_rate(session.warehouse, pair, None)
    session.warehouse.publish()
    with session.warehouse.published() as connection:
        results = read_results(connection, select(connection, "sweep:latest"))

    assert found.rate == pytest.approx(0.5)
    summary = compare(results, results).summary
    assert [summary.pass_rate_candidate, summary.mean_candidate] == pytest.approx([0.5, 0.5])
    assert results.frame.sort("case_id")["weight"].to_list() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"hrad": 2}, "no difficulty 'hrad'; there are: hard, normal; did you mean 'hard'"),
        ({"hard": 0}, r"weights\.hard: expected a number greater than 0, got 0"),
        ({"hard": float("inf")}, r"weights\.hard: expected a finite number"),
    ],
)
def test_a_wrong_weight_is_an_error_that_names_it(weights: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        launch_options({"weights": weights})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"hrad": 2}, r"weights\.hrad: unknown difficulty; there are: normal, hard; did you mean 'hard'"),
        ({"hard": "2"}, r"weights\.hard: expected a number above 0, got .*2"),
        ([2], "weights: expected a mapping, got a list"),
    ],
)
def test_a_wrong_weight_of_a_suite_names_file_and_field(folder: ProjectFolder, weights: object, message: str) -> None:
    folder.write_suite(*TESTS, weights=weights)

    with pytest.raises(InputErrors, match=rf"sums\.yaml.*{message}"):
        folder.sweep()
