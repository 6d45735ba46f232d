"""Boards after edits, partial runs, retries and deletions: only complete answers rank, compared by the same rules."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli.result_sources import ResultSources
from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.comparisons import compare
from eval_pipeline.leaderboards.pair_rates import PairRates
from eval_pipeline.leaderboards.repetitions import reliability
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.retirement import Vanished, retire_vanished
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.records import read_records
from eval_pipeline.warehouse.selections import read_attempts, read_results, select
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project

TEXTS = {"pass": "2", "fail": "nothing", "crash": "crash"}
RATES = ("case_matrix", "results_by_difficulty", "pareto_front")
"""Views that have a pass rate of current answers."""
ANY_TEXT = {"type": "regex", "value": "."}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    project = make_project(tmp_path / "project")
    project.write_runners(a_runner_entry("x"), a_runner_entry("y"))
    return project


def only(*cases: str) -> CaseFilter:
    return CaseFilter(ids=frozenset(cases))


def board(folder: ProjectFolder) -> dict[str, dict[str, Any]]:
    """The standings of the suite, by runner."""
    standings = folder.session().store.update_leaderboards().filter(scope="suite")
    return {row["runner"]: row for row in standings.iter_rows(named=True)}


def test_a_part_of_an_edited_suite_changes_no_standing(folder: ProjectFolder) -> None:
    for runner in ("x", "y"):
        folder.sweep_once(runner=runner)
    before = board(folder)

    folder.write_suite(a_test("a", text="22 pears"), a_test("b"))
    folder.sweep(runner="x", cases=only("a"))

    after = board(folder)
    assert after["x"]["note"] == "a later run carried out 1 of 2 plans"
    assert [_numbers(row) for row in after.values()] == [_numbers(row) for row in before.values()]


def test_after_a_part_of_an_edited_suite_the_other_runner_is_still_exported_and_compared(folder: ProjectFolder) -> None:
    for runner in ("x", "y"):
        folder.sweep_once(runner=runner)
    folder.write_suite(a_test("a", text="22 pears"), a_test("b"))
    folder.sweep(runner="x", cases=only("a"))
    folder.session().warehouse.publish()

    with folder.session().warehouse.published() as connection:
        exported = [(row.runner, row.case_id) for row in read_records(connection, select(connection))]
    with ResultSources(folder.root, None) as sources:
        comparison = compare(sources.find("x"), sources.find("y"))

    assert exported == [("x", "a"), ("y", "a"), ("y", "b")]  # what was reached, as in current_verdicts
    assert comparison.summary.paired == 2  # what the board shows: the last complete answers of x


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("board_id", "computed_at", "note", "board_key")}


def test_the_first_runner_of_an_edited_suite_ranks_and_the_others_are_listed_apart(folder: ProjectFolder) -> None:
    for runner in ("x", "y"):
        folder.sweep_once(runner=runner)
    folder.write_suite(a_test("a", text="22 pears"), a_test("b"))
    folder.sweep(runner="x")

    rows = board(folder)

    assert {name: (row["rank"], row["apart"]) for name, row in rows.items()} == {
        "x": (1, None),
        "y": (None, "another revision of the suite"),
    }
    assert rows["y"]["pass_rate"] == 1.0


def test_other_thresholds_and_other_evaluators_are_not_compared(folder: ProjectFolder) -> None:
    folder.sweep_once(runner="x")
    folder.sweep(runner="y", threshold=0.95)

    assert [row["apart"] for row in board(folder).values()] == [
        None,
        "other evaluators, graders, thresholds or simulators",
    ]


def test_cases_that_cannot_be_loaded_are_planned_and_not_graded(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b", {"type": "contains"}))
    folder.sweep_once(runner="x")

    row = board(folder)["x"]

    assert (row["planned"], row["graded"], row["coverage"], row["rank"]) == (2, 1, 0.5, None)


def test_a_runner_that_was_stopped_by_a_budget_keeps_its_last_complete_standing(folder: ProjectFolder) -> None:
    folder.sweep_once(runner="x")
    folder.sweep(runner="x", refresh="all", budget_calls=1)

    row = board(folder)["x"]

    assert (row["pass_rate"], row["coverage"], row["note"]) == (1.0, 1.0, "a later run carried out 1 of 2 plans")


def test_a_fair_coin_that_is_thrown_again_until_it_passes_is_still_fair(folder: ProjectFolder) -> None:
    coin, cases = random.Random(4), [f"c{number}" for number in range(100)]
    folder.write_suite(*(a_test(case) for case in cases))

    for refresh in ("missing", "failed", "failed", "failed"):
        folder.write_answers(**{case: coin.choice(["2", "nothing"]) for case in cases})
        folder.sweep(runner="x", refresh=refresh)

    row = board(folder)["x"]
    newest = folder.ask("SELECT avg((status = 'passed')::INTEGER) FROM current_verdicts")[0][0]
    in_views = [folder.ask(f"SELECT avg(pass_rate) FROM {view}")[0][0] for view in RATES]
    rates = PairRates("sums", "x")
    folder.session().warehouse.publish()
    with folder.session().warehouse.published() as connection:
        for record in read_records(connection, select(connection)):
            rates.add(record)
    assert newest > 0.9
    assert [*in_views, rates.pass_rate] == pytest.approx([row["pass_rate"]] * (len(RATES) + 1))
    assert row["answers"] > 150
    assert 0.4 < row["pass_rate"] < 0.6
    assert row["passed"] / row["graded"] == pytest.approx(row["pass_rate"])


def test_comparisons_take_the_first_answers_and_pass_at_k_all_of_them(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(case) for case in "abcd"))
    for answers in ({"a": "2"}, {"b": "2"}, {"c": "crash"}):
        folder.write_answers(**dict.fromkeys("abcd", "nothing") | answers)
        folder.sweep(runner="x", refresh="failed")
    folder.session().warehouse.publish()

    with folder.session().warehouse.published() as connection:
        selection = select(connection, "current")
        compared = read_results(connection, selection).frame.sort("case_id")
        (row,) = reliability(read_attempts(connection, selection))
        (two,) = reliability(read_attempts(connection, selection), k=2)

    assert compared["status"].to_list() == ["passed", "failed", "failed", "failed"]
    assert (row.pass_rate, row.tries, row.k, row.cases) == (0.25, 3, 3, 3)
    assert row.pass_at_k == pytest.approx(2 / 3)
    assert (two.cases, two.pass_at_k) == (4, 0.5)


def test_an_answer_that_replaced_an_error_counts_alone_and_a_refresh_of_all_starts_anew(folder: ProjectFolder) -> None:
    def after(answer: str, refresh: str) -> tuple[int, int, int]:
        folder.write_answers(a=TEXTS[answer], b="2")
        folder.sweep(runner="x", refresh=refresh)
        row = board(folder)["x"]
        return row["graded"], row["answers"], row["passed"]

    assert after("crash", "missing") == (1, 1, 1)
    assert after("fail", "failed") == (2, 2, 1)
    assert after("crash", "failed") == (2, 2, 1)
    assert after("pass", "missing") == (2, 3, 1)
    assert after("fail", "all") == (2, 2, 1)


def test_an_edited_evaluator_scores_every_answer_that_counts_again_without_a_call(folder: ProjectFolder) -> None:
    """A retried plan has several answers; the first of them is the rate, whichever evaluators decide."""
    folder.write_suite(a_test("a", contains("2")), a_test("b", contains("2")))
    for answers in ({"a": "nothing", "b": "2"}, {"a": "2 and nothing", "b": "2"}):
        folder.write_answers(**answers)
        folder.sweep(runner="x", refresh="failed")
    before = board(folder)["x"]
    folder.take_calls()
    folder.write_suite(a_test("a", contains("2"), ANY_TEXT), a_test("b", contains("2"), ANY_TEXT))

    (planned,) = plan_sweep(folder.session(), [PairKey("sums", "x")], SweepOptions())
    counts = folder.sweep(runner="x")

    after = board(folder)["x"]
    assert (counts.rescored, counts.reused, counts.passed, folder.take_calls()) == (2, 0, 2, [])
    assert [(row["answers"], row["pass_rate"]) for row in (before, after)] == [(3, 0.5), (3, 0.5)]
    assert folder.ask("SELECT case_id, status FROM current_verdicts ORDER BY 1") == [("a", "passed"), ("b", "passed")]
    again = folder.sweep(runner="x")
    assert (counts.earlier, again.earlier, again.rescored, again.reused) == (1, 0, 0, 2)
    assert (planned.counts.rescored, planned.counts.earlier) == (2, 1)


def test_while_the_first_answer_has_no_grade_a_later_one_does_not_count_instead(folder: ProjectFolder) -> None:
    """There is a later answer only because the first did not pass: alone it would be best of two."""
    for answers in ({"a": "nothing", "b": "2"}, {"a": "2", "b": "2"}):
        folder.write_answers(**answers)
        folder.sweep(runner="x", refresh="failed")
    (folder.root / "suites" / "checks.py").write_text(
        "def strict(output):\n    return 1.0 if '2' in output else 1 / 0\n"
    )
    strict = {"type": "python", "function": "checks:strict"}
    folder.write_suite(a_test("a", strict), a_test("b", strict))

    folder.sweep(runner="x")

    row = board(folder)["x"]
    assert (row["planned"], row["graded"], row["errored"], row["passed"]) == (2, 1, 1, 1)
    folder.session().warehouse.publish()
    with folder.session().warehouse.published() as connection:
        compared = read_results(connection, select(connection, "current")).frame.sort("case_id")
    assert compared["status"].to_list() == ["error", "passed"]


def test_an_answer_that_is_tried_again_under_edited_evaluators_counts_beside_its_earlier_ones(
    folder: ProjectFolder,
) -> None:
    for text in ("nothing", "none"):
        folder.write_answers(a=text, b="2")
        folder.sweep(runner="x", refresh="failed")
    folder.write_suite(a_test("a", contains("2"), ANY_TEXT), a_test("b"))
    folder.write_answers(a="2", b="2")
    folder.sweep(runner="x", refresh="failed")

    row = board(folder)["x"]

    assert (row["graded"], row["answers"], row["pass_rate"]) == (2, 4, 0.5)
    assert folder.ask("SELECT case_id, status FROM current_verdicts ORDER BY 1") == [("a", "passed"), ("b", "passed")]
    folder.write_suite(a_test("a", contains("n")), a_test("b"))
    folder.sweep(runner="x")
    assert (board(folder)["x"]["answers"], board(folder)["x"]["pass_rate"]) == (4, 1.0)


def test_what_the_project_has_no_more_leaves_boards_and_views_until_it_runs_again(
    folder: ProjectFolder,
) -> None:
    folder.write_suite(a_test("a"), a_test("b"), name="more")
    folder.write_answers(a="nothing")
    store_suites(folder)
    for suite, runner in (("sums", "x"), ("sums", "y"), ("more", "x")):
        folder.sweep(suite, runner)
    (folder.root / "suites" / "more.yaml").unlink()
    folder.write_runners(a_runner_entry("x"))

    assert retired(folder) == [PairKey("more", "x"), PairKey("sums", "y")]
    assert retired(folder) == []
    assert list(board(folder)) == ["x"]
    assert folder.ask("SELECT DISTINCT suite, runner FROM current_executions") == [("sums", "x")]
    assert folder.ask("SELECT count::INTEGER, suites FROM failure_summary") == [(1, 1)]
    assert folder.ask("SELECT count(*) FROM verdicts") == [(6,)]
    folder.write_runners(a_runner_entry("x"), a_runner_entry("y"))
    folder.sweep("sums", "y")
    assert list(board(folder)) == ["x", "y"]


def test_a_case_that_its_suite_has_no_more_leaves_boards_and_views_until_it_runs_again(folder: ProjectFolder) -> None:
    tests = [a_test("a"), a_test("b"), a_test("c")]
    folder.write_suite(*tests)
    folder.write_answers(a="nothing", c="nothing")
    store_suites(folder)
    for runner in "xy":
        folder.sweep("sums", runner)
    folder.write_suite(*tests[1:])
    session = folder.session()
    session.load_suites()

    assert retire_vanished(session) == Vanished(cases={"sums": ["a"]})
    assert not retire_vanished(session)
    rows = board(folder)
    assert [(row["planned"], row["graded"], row["pass_rate"], row["apart"]) for row in rows.values()] == [
        (2, 2, 0.5, None)
    ] * 2
    for view in ("current_verdicts", "current_executions", "current_scores", "case_results"):
        assert folder.ask(f"SELECT DISTINCT case_id FROM {view} ORDER BY 1") == [("b",), ("c",)]
    assert folder.ask("SELECT count::INTEGER FROM failure_summary") == [(2,)]
    assert folder.ask("SELECT count(*) FROM verdicts") == [(6,)]
    folder.write_suite(*tests)
    folder.sweep("sums", "y")
    assert folder.ask("SELECT runner, count(*) FROM current_verdicts GROUP BY 1 ORDER BY 1") == [("x", 2), ("y", 3)]


def test_a_suite_from_outside_of_the_project_stays_on_the_board(folder: ProjectFolder, tmp_path: Path) -> None:
    folder.sweep_once("sums", "x")
    store_suites(folder)
    moved = tmp_path / "elsewhere" / "sums.yaml"
    moved.parent.mkdir()
    (folder.root / "suites" / "sums.yaml").rename(moved)
    folder.write_suite(a_test("a"), name="other")
    store_suites(folder, str(moved))

    assert retired(folder) == []


def test_a_renamed_suite_leaves_its_old_name(folder: ProjectFolder) -> None:
    folder.sweep_once("sums", "x")
    store_suites(folder)
    file = folder.root / "suites" / "sums.yaml"
    file.write_text(file.read_text().replace('"sums"', '"totals"'))

    assert retired(folder) == [PairKey("sums", "x")]


def store_suites(folder: ProjectFolder, *files: str) -> None:
    session = folder.session()
    session.store.store_suites(session.load_suites(files or None))


def retired(folder: ProjectFolder) -> list[PairKey]:
    session = folder.session()
    session.load_suites()
    return retire_vanished(session).pairs


def test_standings_name_the_sweep_that_they_are_from(folder: ProjectFolder) -> None:
    sweeps = dict(zip("xy", (folder.sweep_cells([PairKey("sums", runner)])[0] for runner in "xy"), strict=True))

    assert {runner: row["sweep_id"] for runner, row in board(folder).items()} == sweeps


def _pairs(*runners: str) -> list[Any]:
    from eval_pipeline.warehouse.journal import PairKey

    return [PairKey("sums", runner) for runner in runners]
