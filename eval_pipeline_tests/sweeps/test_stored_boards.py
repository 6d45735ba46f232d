"""Suites that did not change are on a new board as they were on the one before, and are not ranked again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from eval_pipeline.leaderboards.standings import suite_boards
from eval_pipeline.sweeps.deletion import delete_stored
from eval_pipeline.warehouse.stored_boards import chosen_pairs, counted_pairs
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

Ranked = list[str]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    project = make_project(tmp_path / "project")
    project.write_runners(a_runner_entry("x"), a_runner_entry("y"))
    for suite in ("more", "sums"):
        project.write_suite(a_test("a"), a_test("b"), name=suite)
        for runner in ("x", "y"):
            project.sweep_once(suite, runner)
    return project


@pytest.fixture
def ranked() -> Iterator[Ranked]:
    """The suites that are ranked from their counts."""
    suites: Ranked = []

    def noted(frames: Iterator[pl.DataFrame], floor: float) -> object:
        listed = list(frames)
        suites.extend(suite for frame in listed for suite in frame["suite"].unique().sort())
        return suite_boards(listed, floor)

    with patch("eval_pipeline.sweeps.boards.suite_boards", noted):
        yield suites


def new_board(folder: ProjectFolder) -> pl.DataFrame:
    return folder.session().store.update_leaderboards()


def test_only_suites_with_new_answers_are_ranked_again(folder: ProjectFolder, ranked: Ranked) -> None:
    first = new_board(folder)
    folder.write_answers(a="nothing")
    folder.sweep_once("sums", "x", refresh="all")

    second = new_board(folder)

    assert ranked == ["more", "sums", "sums"]
    rates = [board.select("suite", "runner", "pass_rate").rows_by_key(["suite", "runner"]) for board in (first, second)]
    assert rates[0]["more", "x"] == rates[1]["more", "x"] == [(1.0,)]
    assert (rates[0]["(all)", "x"], rates[1]["(all)", "x"]) == ([(1.0,)], [(0.75,)])


def test_a_run_that_changes_nothing_ranks_nothing_and_names_the_new_sweep(
    folder: ProjectFolder, ranked: Ranked
) -> None:
    first = new_board(folder)
    folder.sweep_once("sums", "x")

    second = new_board(folder)

    assert ranked == ["more", "sums"]
    without = pl.exclude("board_id", "computed_at", "sweep_id", "statistics_id")
    assert first.select(without).equals(second.select(without))
    sweeps = [board.filter(suite="sums", runner="x")["sweep_id"].item() for board in (first, second)]
    assert sweeps[0] < sweeps[1]


@pytest.mark.parametrize("lost", ["runner_differences", "leaderboards"])
def test_a_suite_whose_stored_parts_are_not_all_there_is_ranked_again(
    folder: ProjectFolder, ranked: Ranked, lost: str
) -> None:
    first = new_board(folder)
    with folder.session().warehouse.transaction() as connection:
        connection.execute(f"DELETE FROM {lost} WHERE suite = 'sums'")

    second = new_board(folder)

    assert ranked == ["more", "sums", "sums"]
    assert first.drop("board_id", "computed_at").equals(second.drop("board_id", "computed_at"))


def test_other_rules_rank_everything_again(folder: ProjectFolder, ranked: Ranked) -> None:
    new_board(folder)

    with patch("eval_pipeline.sweeps.boards.rules_revision", lambda: "another version"):
        new_board(folder)

    assert ranked == ["more", "sums"] * 2


def test_nothing_of_a_deleted_runner_stays_among_the_differences(folder: ProjectFolder) -> None:
    new_board(folder)

    delete_stored(folder.session().store, "runner", ["y"], dry_run=False)

    assert folder.ask("SELECT count(*) FROM runner_differences") == [(0,)]


def test_the_overall_board_is_ranked_again_only_when_a_suite_changed(folder: ProjectFolder) -> None:
    first = new_board(folder)
    folder.sweep_once("sums", "x")

    with patch("eval_pipeline.sweeps.boards.with_overall", side_effect=AssertionError("ranked again")):
        second = new_board(folder)
    folder.write_answers(a="nothing")
    folder.sweep_once("sums", "x", refresh="all")
    third = new_board(folder)

    rates = [board.filter(scope="overall", runner="x")["pass_rate"].item() for board in (first, second, third)]
    assert rates == [1.0, 1.0, 0.75]
    newest = second.filter(runner="x").group_by("scope").agg(pl.col("sweep_id").max()).sort("scope")
    assert newest["sweep_id"].n_unique() == 1


@pytest.mark.parametrize("lost", ["totals = NULL, outcomes = NULL", "outcomes = NULL"])
@pytest.mark.parametrize("repetitions", [1, 2])
def test_a_board_of_stored_sums_is_the_board_of_the_lists(tmp_path: Path, lost: str, repetitions: int) -> None:
    folder = make_project(tmp_path / "project")
    folder.write_runners(a_runner_entry("x"), a_runner_entry("y"), a_runner_entry("z"))
    folder.write_suite(*(a_test(case, repetitions=repetitions) for case in "abc"), a_test("d"))
    for runner, answers in {"x": {}, "y": {"a": "nothing"}, "z": {"b": "crash", "c": "nothing"}}.items():
        folder.write_answers(**answers)
        folder.sweep_once("sums", runner)
    summed = new_board(folder)

    with folder.session().warehouse.transaction() as connection:
        connection.execute(f"UPDATE pair_statistics SET {lost}")
    with patch("eval_pipeline.sweeps.boards.rules_revision", lambda: "another version"):
        listed = new_board(folder)

    assert summed["rank"].drop_nulls().len() > 3
    new = pl.exclude("board_id", "computed_at", "board_key")
    assert_frame_equal(summed.select(new), listed.select(new), abs_tol=1e-12)


def suites_with_texts(folder: ProjectFolder) -> set[str]:
    """The suites whose lists of cases and rules are read for a board."""
    warehouse = folder.session().warehouse
    frames = counted_pairs(warehouse, chosen_pairs(warehouse))
    return {suite for frame in frames for suite in frame.filter(pl.col("cases").is_not_null())["suite"]}


def test_texts_are_read_only_of_suites_whose_runners_may_have_other_ones(folder: ProjectFolder) -> None:
    alike = suites_with_texts(folder)
    folder.write_suite(a_test("a"), a_test("b"), a_test("c"), name="sums")
    folder.sweep_once("sums", "x")

    board = new_board(folder)

    assert alike == set()
    assert suites_with_texts(folder) == {"sums"}
    apart = board.filter(suite="sums").rows_by_key("runner", named=True)
    assert apart["x"][0]["apart"] is None
    assert apart["y"][0]["apart"] == "another revision of the suite"


@pytest.mark.parametrize("clustered", ["true", "NULL"])
def test_texts_are_read_of_cases_that_are_clustered_or_may_be(folder: ProjectFolder, clustered: str) -> None:
    with folder.session().warehouse.transaction() as connection:
        connection.execute(f"UPDATE pair_statistics SET clustered = {clustered} WHERE suite = 'more' AND runner = 'x'")

    assert suites_with_texts(folder) == {"more"}
