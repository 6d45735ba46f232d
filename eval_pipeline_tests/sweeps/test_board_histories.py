"""Boards after any history, against a board that is computed from what the history did, not from what was stored."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from eval_pipeline.sweeps.deletion import delete_stored
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.selections import read_results, select
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project
from eval_pipeline_tests.sweeps.test_boards import ANY_TEXT, TEXTS, board, only, retired, store_suites
from eval_pipeline_tests.thoroughness import part_or_all

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
    st.tuples(st.just("remove"), st.sampled_from("bc"), st.booleans()),
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

    def take_out(self) -> None:
        """Leave out the cases that the suite has no more."""
        self.standings = {
            runner: (edits, sweep, evaluator, {case: own for case, own in current.items() if case in self.cases})
            for runner, (edits, sweep, evaluator, current) in self.standings.items()
        }

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

    def _remove(self, case: str, noticed: bool) -> None:
        self._edited()
        self.reference.cases.pop(case, None)
        self.write()
        if noticed:
            retired(self.folder)
            self.reference.take_out()

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


def compared(folder: ProjectFolder, suite: str, runners: Collection[str]) -> dict[str, tuple[int, float | None]]:
    """What comparisons read of these runners: how many cases are graded, and the pass rate."""
    folder.session().warehouse.publish()
    with folder.session().warehouse.published() as connection:
        frame = read_results(connection, select(connection, "standing")).frame.filter(pl.col("status") != "error")
    answers = {runner: frame.filter(suite=suite, runner=runner)["status"].to_list() for runner in runners}
    return {
        runner: (len(own), round(own.count("passed") / len(own), 9) if own else None) for runner, own in answers.items()
    }


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
        expected = now.reference.board()
        assert shown(board(folder)) == expected
        assert compared(folder, now.name, expected) == {runner: (row[2], row[4]) for runner, row in expected.items()}


BROKEN_OFF = [
    ("sweep", "y", "missing", "", ("fail", "pass", "pass")),
    ("sweep", "y", "all", "a", ("pass", "pass", "pass"), "before its failures are known"),
]
"""A verdict is stored, and the counts of its pair are not."""
LACKS_WHAT_IS_REMOVED = [
    ("sweep", "y", "missing", "a", ("pass", "pass", "crash")),
    ("edit", "c"),
    ("sweep", "x", "all", "", ("pass", "pass", "pass")),
    ("remove", "b", False),
    ("remove", "c", True),
]
"""Every case that is left is carried out of a pair that was not finished."""
CHECKED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@settings(CHECKED, max_examples=2)
@example(BROKEN_OFF)
@example(LACKS_WHAT_IS_REMOVED)
@given(st.lists(OPERATIONS, min_size=4, max_size=8))
def test_after_any_history_the_board_is_that_of_a_naive_reference(history: list[tuple[Any, ...]]) -> None:
    check_history(history)


@pytest.mark.slow
@settings(CHECKED, max_examples=int(os.environ.get("BOARD_HISTORIES", part_or_all("4", "40"))))
@given(st.lists(OPERATIONS, min_size=4, max_size=12))
def test_after_many_long_histories_the_board_is_that_of_a_naive_reference(history: list[tuple[Any, ...]]) -> None:
    check_history(history)
