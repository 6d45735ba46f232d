"""Boards after edits, partial runs, retries and deletions: only complete answers rank, compared by the same rules."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.repetitions import reliability
from eval_pipeline.sweeps.deletion import delete_stored
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.retirement import retire_vanished
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.selections import read_attempts, read_results, select
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project
from eval_pipeline_tests.thoroughness import part_or_all

TEXTS = {"pass": "2", "fail": "nothing", "crash": "crash"}
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
        folder.sweep(runner=runner)
    before = board(folder)

    folder.write_suite(a_test("a", text="22 pears"), a_test("b"))
    folder.sweep(runner="x", cases=only("a"))

    after = board(folder)
    assert after["x"]["note"] == "a later run carried out 1 of 2 plans"
    assert [_numbers(row) for row in after.values()] == [_numbers(row) for row in before.values()]


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("board_id", "computed_at", "note", "board_key")}


def test_the_first_runner_of_an_edited_suite_ranks_and_the_others_are_listed_apart(folder: ProjectFolder) -> None:
    for runner in ("x", "y"):
        folder.sweep(runner=runner)
    folder.write_suite(a_test("a", text="22 pears"), a_test("b"))
    folder.sweep(runner="x")

    rows = board(folder)

    assert {name: (row["rank"], row["apart"]) for name, row in rows.items()} == {
        "x": (1, None),
        "y": (None, "another revision of the suite"),
    }
    assert rows["y"]["pass_rate"] == 1.0


def test_other_thresholds_and_other_evaluators_are_not_compared(folder: ProjectFolder) -> None:
    folder.sweep(runner="x")
    folder.sweep(runner="y", threshold=0.95)

    assert [row["apart"] for row in board(folder).values()] == [
        None,
        "other evaluators, graders, thresholds or simulators",
    ]


def test_cases_that_cannot_be_loaded_are_planned_and_not_graded(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b", {"type": "contains"}))
    folder.sweep(runner="x")

    row = board(folder)["x"]

    assert (row["planned"], row["graded"], row["coverage"], row["rank"]) == (2, 1, 0.5, None)


def test_a_runner_that_was_stopped_by_a_budget_keeps_its_last_complete_standing(folder: ProjectFolder) -> None:
    folder.sweep(runner="x")
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
    assert newest > 0.9
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


def test_a_suite_from_outside_of_the_project_stays_on_the_board(folder: ProjectFolder, tmp_path: Path) -> None:
    folder.sweep("sums", "x")
    store_suites(folder)
    moved = tmp_path / "elsewhere" / "sums.yaml"
    moved.parent.mkdir()
    (folder.root / "suites" / "sums.yaml").rename(moved)
    folder.write_suite(a_test("a"), name="other")
    store_suites(folder, str(moved))

    assert retired(folder) == []


def test_a_renamed_suite_leaves_its_old_name(folder: ProjectFolder) -> None:
    folder.sweep("sums", "x")
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
    return retire_vanished(session)


def test_standings_name_the_sweep_that_they_are_from(folder: ProjectFolder) -> None:
    sweeps = dict(zip("xy", (folder.sweep_cells([PairKey("sums", runner)])[0] for runner in "xy"), strict=True))

    assert {runner: row["sweep_id"] for runner, row in board(folder).items()} == sweeps


def _pairs(*runners: str) -> list[Any]:
    from eval_pipeline.warehouse.journal import PairKey

    return [PairKey("sums", runner) for runner in runners]


# Random histories against a board that is computed from what the history did, not from what was stored.

CRASHES = {
    "before it is counted": "eval_pipeline.sweeps.storing.store_pair_statistics",
    "before its failures are known": "eval_pipeline.sweeps.storing._failure_classes",
    "before its journal is removed": "eval_pipeline.warehouse.journal.Journal.remove",
}
"""Points at which storing a pair is made to fail; all but the last leave nothing but the journal."""
SWEEPS = (
    st.sampled_from("xy"),
    st.sampled_from(["missing", "missing", "failed", "failed", "all"]),
    st.sampled_from(["", "", "a", "bc"]),
    st.tuples(*[st.sampled_from(["pass", "fail", "fail", "crash"])] * 3),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("edit"), st.sampled_from("abc")),
    st.tuples(st.just("remove"), st.sampled_from("bc")),
    st.tuples(st.just("evaluators"), st.sampled_from([ANY_TEXT, contains("2"), contains("nothing")])),
    st.tuples(st.just("rename"), st.sampled_from(["sums", "totals"])),
    st.tuples(st.just("delete"), st.sampled_from(["x", "y", "suite"])),
    st.tuples(st.just("sweep"), *SWEEPS),
    st.tuples(st.just("sweep"), *SWEEPS),
    st.tuples(st.just("sweep"), *SWEEPS, st.sampled_from(sorted(CRASHES))),
)
Standing = tuple[int, int, dict[str, Any], dict[str, list[str]]]


@dataclass
class Reference:
    """What the board of one suite has to show, kept naively beside the project: attempts at each case since its last
    fresh start, and the evaluator that they were judged by."""

    cases: dict[str, int]
    evaluator: dict[str, Any]
    edits: int = 0
    attempts: dict[tuple[str, str, int], list[str]] = field(default_factory=dict)
    judged: dict[tuple[str, str, int], dict[str, Any]] = field(default_factory=dict)
    reached: dict[tuple[str, int], set[str]] = field(default_factory=dict)
    standings: dict[str, Standing] = field(default_factory=dict)
    retired: dict[str, Standing] = field(default_factory=dict)
    sweeps: int = 0

    def sweep(self, runner: str, refresh: str, chosen: list[str], answers: Mapping[str, str], crash: str) -> None:
        self.sweeps += 1
        if crash and refresh == "failed" and any(self._is_old(runner, case) for case in chosen):
            chosen = [case for case in chosen if self._is_valid(runner, case)]  # it ends before anything is executed
            self.judged.update(((runner, case, self.cases[case]), self.evaluator) for case in chosen)
        else:
            for case in chosen:
                self._carry_out(runner, case, refresh, answers[case])
        reached = self.reached.setdefault((runner, self.edits), set())
        reached.update(chosen)
        stored = crash in ("", "before its journal is removed")
        if not stored:
            return
        if runner in self.retired:
            self.standings[runner] = self.retired.pop(runner)
        if reached == set(self.cases):
            current = {case: list(self.attempts[runner, case, version]) for case, version in self.cases.items()}
            self.standings[runner] = self.edits, self.sweeps, self.evaluator, current

    def _carry_out(self, runner: str, case: str, refresh: str, answer: str) -> None:
        plan = runner, case, self.cases[case]
        known = self.attempts.setdefault(plan, [])
        valid = [attempt for attempt in known if attempt != "crash"]
        if refresh == "all" or not valid:
            known[:] = [answer]
        elif known[-1] == "crash" or (refresh == "failed" and not passes(valid[-1], self.evaluator)):
            known.append(answer)
        self.judged[plan] = self.evaluator

    def _is_valid(self, runner: str, case: str) -> bool:
        return any(attempt != "crash" for attempt in self.attempts.get((runner, case, self.cases[case]), ()))

    def _is_old(self, runner: str, case: str) -> bool:
        """Whether a valid answer, the newest of its plan, was judged by another evaluator."""
        plan = runner, case, self.cases[case]
        attempts = self.attempts.get(plan, [])
        return bool(attempts) and attempts[-1] != "crash" and self.judged[plan] != self.evaluator

    def forget(self, runner: str) -> None:
        for stored in (self.standings, self.retired):
            stored.pop(runner, None)
        self.attempts = {key: attempts for key, attempts in self.attempts.items() if key[0] != runner}
        self.reached = {key: cases for key, cases in self.reached.items() if key[0] != runner}

    def retire(self) -> None:
        self.retired |= self.standings
        self.standings = {}

    def board(self) -> dict[str, tuple[Any, ...]]:
        newest = max(self.standings.values(), key=lambda standing: standing[1], default=(0,))
        return {
            runner: self._row(edits == newest[0], evaluator, current)
            for runner, (edits, _, evaluator, current) in self.standings.items()
        }

    @staticmethod
    def _row(compared: bool, evaluator: dict[str, Any], current: Mapping[str, list[str]]) -> tuple[Any, ...]:
        valid = {case: [a for a in attempts if a != "crash"] for case, attempts in current.items()}
        graded = {case: answers for case, answers in valid.items() if answers}
        rates = [passes(answers[0], evaluator) for answers in graded.values()]
        rate = round(sum(rates) / len(rates), 9) if rates else None
        ranked = compared and len(graded) / len(current) >= 0.9
        return ranked, len(current), len(graded), sum(map(len, graded.values())), rate


def passes(answer: str, evaluator: Mapping[str, Any]) -> bool:
    """Whether an evaluator passes an answer: one looks for a text that only some have, one for any."""
    return evaluator["type"] == "regex" or evaluator["value"] in TEXTS[answer]


@dataclass
class History:
    """A project and what its boards have to show, by suite; only one suite is in the project at a time."""

    folder: ProjectFolder
    suites: dict[str, Reference]
    name: str = "sums"
    edits: int = 0

    @property
    def reference(self) -> Reference:
        return self.suites[self.name]

    def write(self) -> None:
        """Write the suite; every edit gives it a revision of its own."""
        reference = self.reference
        tests = [
            a_test(case, reference.evaluator, text=f"2 apples, {version}")
            for case, version in sorted(reference.cases.items())
        ]
        self.folder.write_suite(*tests, name=self.name, description=f"edit {reference.edits}")

    def carry_out(self, kind: str, *values: Any) -> None:
        getattr(self, f"_{kind}")(*values)

    def _sweep(self, runner: str, refresh: str, selected: str, flips: tuple[str, ...], crash: str = "") -> None:
        answers = dict(zip("abc", flips, strict=True))
        self.folder.write_answers(**{case: TEXTS[answer] for case, answer in answers.items()})
        chosen = [case for case in self.reference.cases if not selected or case in selected]
        if not chosen:
            return
        options: dict[str, Any] = {"refresh": refresh, "cases": only(*selected)}
        if not crash:
            self.folder.sweep(self.name, runner, **options)
        else:
            with patch(CRASHES[crash], side_effect=OSError("a planted fault")):
                _, (outcome,) = self.folder.sweep_cells([PairKey(self.name, runner)], **options)
            assert outcome.error is not None
        self.reference.sweep(runner, refresh, chosen, answers, crash)

    def _delete(self, name: str) -> None:
        runners = "xy" if name == "suite" else name
        known = [reference for reference in self.suites.values() if name != "suite" or reference is self.reference]
        if not any(key[0] in runners for reference in known for key in reference.reached):
            return
        owner, names = ("suite", [self.name]) if name == "suite" else ("runner", [name])
        delete_stored(self.folder.session().store, owner, names, dry_run=False)  # type: ignore[arg-type]
        for reference in known:
            for runner in runners:
                reference.forget(runner)

    def _rename(self, name: str) -> None:
        if name == self.name:
            return
        store_suites(self.folder)
        (self.folder.root / "suites" / f"{self.name}.yaml").unlink()
        old, self.name = self.reference, name
        other = self.suites.setdefault(name, Reference(cases=dict(old.cases), evaluator=old.evaluator))
        self._edited()
        other.cases, other.evaluator = dict(old.cases), old.evaluator
        self.write()
        retired(self.folder)
        old.retire()

    def _edit(self, case: str) -> None:
        self._edited()
        self.reference.cases[case] = self.edits
        self.write()

    def _remove(self, case: str) -> None:
        self._edited()
        self.reference.cases.pop(case, None)
        self.write()

    def _evaluators(self, evaluator: dict[str, Any]) -> None:
        self._edited()
        self.reference.evaluator = evaluator
        self.write()

    def _edited(self) -> None:
        self.edits += 1
        self.reference.edits = self.edits


def shown(rows: Mapping[str, dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    return {
        runner: (
            row["rank"] is not None, row["planned"], row["graded"], row["answers"],
            None if row["pass_rate"] is None else round(row["pass_rate"], 9),
        )
        for runner, row in rows.items()
        if row["apart"] is None or not row["apart"].startswith("unfinished")
    }  # fmt: skip


def standings(folder: ProjectFolder) -> pl.DataFrame:
    """A new board, suites and overall, without what is different on every board."""
    return folder.session().store.update_leaderboards().drop("board_id", "computed_at")


def computed_anew(folder: ProjectFolder) -> pl.DataFrame:
    """A board of which no suite is taken from the board before."""
    with folder.session().warehouse.transaction() as connection:
        connection.execute("UPDATE leaderboards SET board_key = NULL")
    return standings(folder)


def check_history(history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as root:
        folder = make_project(Path(root) / "project")
        folder.write_runners(a_runner_entry("x"), a_runner_entry("y"))
        now = History(folder, {"sums": Reference(cases={"a": 0, "b": 0}, evaluator=contains("2"))})
        now.write()
        for operation in history:
            now.carry_out(*operation)
            stored = standings(folder)  # the next one takes what did not change from it

        assert stored.equals(computed_anew(folder))
        assert shown(board(folder)) == now.reference.board()


CHECKED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@settings(CHECKED, max_examples=2)
@given(st.lists(OPERATIONS, min_size=4, max_size=8))
def test_after_any_history_the_board_is_that_of_a_naive_reference(history: list[tuple[Any, ...]]) -> None:
    check_history(history)


@pytest.mark.slow
@settings(CHECKED, max_examples=int(os.environ.get("BOARD_HISTORIES", part_or_all("4", "40"))))
@given(st.lists(OPERATIONS, min_size=4, max_size=12))
def test_after_many_long_histories_the_board_is_that_of_a_naive_reference(history: list[tuple[Any, ...]]) -> None:
    check_history(history)
