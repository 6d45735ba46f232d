"""`carry_out` through the public verbs, without Dagster: what is executed, what is reused, and what is stored."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import RawSession
from eval_pipeline.reports.normalizers.answer import AnswerNormalizer
from eval_pipeline.sweeps.options import STAGES
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.stored_pairs import load_stored
from eval_pipeline_tests.forks import start_python
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains

CURRENT = "SELECT case_id, status FROM current_verdicts ORDER BY case_id, repetition"
LARGE = 200_000


def only(*ids: str) -> CaseFilter:
    return CaseFilter(ids=frozenset(ids))


# Reuse


def test_a_first_sweep_calls_the_target_once_per_case_and_stores_a_row_of_each_kind(folder: ProjectFolder) -> None:
    counts = folder.sweep()

    assert (counts.planned, counts.executed, counts.passed) == (2, 2, 2)
    assert folder.take_calls() == ["echo/a", "echo/b"]
    for table in ("target_executions", "session_reports", "evaluator_scores", "verdicts"):
        assert folder.ask(f"SELECT case_id FROM {table} ORDER BY case_id") == [("a",), ("b",)]


def test_a_second_sweep_with_nothing_changed_calls_nobody_and_writes_no_new_row(folder: ProjectFolder) -> None:
    folder.sweep_once()
    before = folder.ask("SELECT * FROM verdicts ORDER BY ALL")
    folder.take_calls()

    counts = folder.sweep()

    assert (counts.planned, counts.reused, counts.executed, counts.rescored, counts.passed) == (2, 2, 0, 0, 2)
    assert folder.take_calls() == []
    assert folder.ask("SELECT * FROM verdicts ORDER BY ALL") == before


REFRESHES = {
    "missing-repeats-only-what-never-completed": ("missing", ["echo/crashes"]),
    "failed-repeats-what-did-not-pass": ("failed", ["echo/crashes", "echo/fails"]),
    "all-repeats-everything": ("all", ["echo/crashes", "echo/fails", "echo/passes"]),
}


@pytest.mark.parametrize(("refresh", "called"), REFRESHES.values(), ids=REFRESHES)
def test_refresh_says_what_is_carried_out_again(folder: ProjectFolder, refresh: str, called: list[str]) -> None:
    folder.write_suite(a_test("passes"), a_test("fails", contains("9")), a_test("crashes"))
    folder.write_answers(crashes="crash")
    folder.sweep_once()
    folder.take_calls()

    folder.sweep(refresh=refresh)

    assert folder.take_calls() == called


def test_an_expected_failure_is_not_repeated_by_refresh_failed(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("9"), expected_fail=True))
    folder.sweep_once()
    folder.take_calls()

    folder.sweep(refresh="failed")

    assert folder.take_calls() == []


def test_what_a_resumed_sweep_executed_counts_as_done_even_under_refresh_all(folder: ProjectFolder) -> None:
    folder.sweep_once()
    begun, _ = folder.sweep_cells([PairKey("sums", "echo")], refresh="all", cases=only("a"))
    folder.take_calls()

    counts = folder.sweep(refresh="all", resume=begun)

    assert (counts.reused, counts.executed) == (1, 1)
    assert folder.take_calls() == ["echo/b"]


# What changed decides what is done again


def test_editing_an_evaluator_scores_only_that_one_again_without_calling_the_target(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("2"), contains("apples")), a_test("b"))
    folder.sweep_once()
    folder.take_calls()
    folder.write_suite(a_test("a", contains("2"), contains("pears")), a_test("b"))

    sweep_id, ((outcome),) = folder.sweep_cells([PairKey("sums", "echo")])

    assert (outcome.counts.rescored, outcome.counts.reused, outcome.counts.executed) == (1, 1, 0)
    assert folder.take_calls() == []
    scored = folder.ask(f"SELECT case_id, evaluator FROM evaluator_scores WHERE sweep_id = '{sweep_id}'")
    assert scored == [("a", "contains-pears")]
    assert folder.ask(CURRENT) == [("a", "failed"), ("b", "passed")]


def two_suites_to_score_again(folder: ProjectFolder, answer: str = "2 apples") -> list[PairKey]:
    """Two swept suites whose evaluators are edited afterwards; `answer` is what the first one's target returns."""
    names = ["sums", "more"]
    folder.write_answers(a=answer)
    for evaluator in (contains("2"), contains("apples")):
        folder.write_suite(a_test("a", evaluator), name="sums")
        folder.write_suite(a_test("b", evaluator), name="more")
        if evaluator == contains("2"):
            folder.sweep_cells([PairKey(name, "echo") for name in names])
    folder.take_calls()
    return [PairKey(name, "echo") for name in names]


def test_the_stored_sessions_of_several_pairs_are_read_together(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = two_suites_to_score_again(folder, answer="2 apples " * LARGE)
    (payload,) = [file for file in (folder.data / "artifacts").rglob("*") if file.is_file()]
    payload.write_text("damaged: a text is looked for in the report")
    sizes: list[int] = []

    def counted(warehouse: Warehouse, items: Sequence[Any], known_of: Any, *, outputs: bool) -> Any:
        sizes.append(len(items))
        return load_stored(warehouse, items, known_of, outputs=outputs)

    monkeypatch.setattr("eval_pipeline.sweeps.rescoring.load_stored", counted)

    _, outcomes = folder.sweep_cells(pairs)

    assert [outcome.counts.rescored for outcome in outcomes] == [1, 1]
    assert sizes == [2]
    assert folder.take_calls() == []


def test_a_stored_session_that_cannot_be_read_is_an_error_of_its_pair_only(folder: ProjectFolder) -> None:
    pairs = two_suites_to_score_again(folder)
    with folder.session().warehouse.transaction() as connection:
        connection.execute("UPDATE session_reports SET skills = '[1]' WHERE suite = 'sums'")

    _, outcomes = folder.sweep_cells(pairs)

    errors = {outcome.pair.name.suite: outcome.error for outcome in outcomes}
    assert errors["sums"] is not None and "TypeError" in errors["sums"]
    assert errors["more"] is None
    assert folder.ask("SELECT suite, evaluator FROM evaluator_scores ORDER BY ALL") == [
        ("more", "contains-2"), ("more", "contains-apples"), ("sums", "contains-2"),
    ]  # fmt: skip


def test_editing_a_function_that_an_evaluator_calls_scores_again(folder: ProjectFolder) -> None:
    checks = folder.root / "suites" / "checks.py"
    checks.write_text("def good(output):\n    return False\n")
    folder.write_suite(a_test("a", {"type": "python", "function": "checks:good"}))
    folder.sweep_once()
    folder.take_calls()
    checks.write_text("def good(output):\n    return True\n")

    counts = folder.sweep()

    assert (counts.rescored, counts.passed) == (1, 1)
    assert folder.take_calls() == []


def test_editing_one_case_executes_only_that_and_takes_the_others_to_the_new_revision(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.take_calls()
    folder.write_suite(a_test("a", text="2 pears"), a_test("b"))

    counts = folder.sweep()

    assert folder.take_calls() == ["echo/a"]
    assert (counts.reused, counts.executed) == (1, 1)
    revision = folder.session().suite("sums").suite.revision
    current = folder.ask("SELECT case_id, suite_revision FROM current_verdicts ORDER BY case_id")
    assert current == [("a", revision), ("b", revision)]


def test_reverting_a_case_makes_its_old_execution_current_again_without_a_call(folder: ProjectFolder) -> None:
    answers = "SELECT case_id, raw->'payload'->>'output' FROM current_executions ORDER BY case_id"
    folder.sweep_once()
    folder.write_suite(a_test("a", text="2 pears"), a_test("b"))
    folder.sweep()
    assert folder.ask(answers) == [("a", "2 pears"), ("b", "2 apples")]
    folder.take_calls()
    folder.write_suite(a_test("a"), a_test("b"))

    counts = folder.sweep()

    assert (counts.reused, folder.take_calls()) == (2, [])
    assert folder.ask(answers) == [("a", "2 apples"), ("b", "2 apples")]


def test_an_old_execution_is_current_again_even_when_a_new_case_came_with_the_revert(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    folder.write_suite(a_test("a", text="2 pears"))
    folder.sweep()
    folder.write_suite(a_test("a"), a_test("new"))

    folder.sweep()

    current = folder.ask("SELECT case_id, raw->'payload'->>'output' FROM current_executions ORDER BY case_id")
    assert current == [("a", "2 apples"), ("new", "2 apples")]


def test_an_old_execution_is_current_again_even_when_it_had_to_be_scored_anew(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.write_suite(a_test("a", text="2 pears"), a_test("b"))
    folder.sweep()
    folder.write_suite(a_test("a", contains("apples")), a_test("b"))

    counts = folder.sweep()

    assert (counts.rescored, counts.executed) == (1, 0)
    current = folder.ask("SELECT raw->'payload'->>'output' FROM current_executions WHERE case_id = 'a'")
    assert current == [("2 apples",)]


def test_a_good_execution_taken_up_again_after_a_bad_one_has_the_current_verdict(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.write_answers(a="crash")
    assert folder.sweep(refresh="all").errored == 1

    counts = folder.sweep(stages=STAGES[1:])

    assert (counts.reused, counts.executed, counts.passed) == (2, 0, 2)
    assert folder.ask(CURRENT) == [("a", "passed"), ("b", "passed")]


def test_a_bad_execution_is_repeated_although_an_older_one_was_good(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.write_answers(a="crash")
    folder.sweep(refresh="all")

    counts = folder.sweep()

    assert (counts.reused, counts.executed, counts.errored) == (1, 1, 1)
    assert folder.ask(CURRENT) == [("a", "error"), ("b", "passed")]


EDITS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "weight": ({"weight": 9}, {}, "passed"),
    "threshold-of-the-suite": ({}, {"execution": {"threshold": 0.5}}, "passed"),
    "gate": ({"required": True}, {"execution": {"threshold": 0.9}}, "failed"),
}


@pytest.mark.parametrize(("evaluator", "suite", "status"), EDITS.values(), ids=EDITS)
def test_weights_thresholds_and_gates_are_decided_anew_without_a_call(
    folder: ProjectFolder, evaluator: dict[str, Any], suite: dict[str, Any], status: str
) -> None:
    folder.write_suite(a_test("a", contains("2"), contains("pears")))
    assert folder.sweep().failed == 1
    folder.take_calls()
    folder.write_suite(a_test("a", contains("2", **evaluator), contains("pears")), **suite)

    counts = folder.sweep()

    assert (counts.updated, counts.rescored, counts.executed, folder.take_calls()) == (1, 0, 0, [])
    assert folder.ask(CURRENT) == [("a", status)]


def test_another_threshold_asked_for_decides_anew_without_scoring(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("2"), contains("pears")))
    folder.sweep_once()
    scores = folder.ask("SELECT * FROM evaluator_scores ORDER BY ALL")

    assert folder.sweep(threshold=0.5).passed == 1
    assert folder.ask("SELECT * FROM evaluator_scores ORDER BY ALL") == scores


def test_expecting_a_failure_turns_it_into_a_pass_and_back_without_a_call(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("9")))
    folder.sweep_once()
    folder.take_calls()

    folder.write_suite(a_test("a", contains("9"), expected_fail=True))
    counts = folder.sweep()

    assert (counts.passed, counts.failed, folder.take_calls()) == (1, 0, [])
    assert folder.ask(CURRENT) == [("a", "expected-failed")]


def test_a_pass_that_was_expected_to_fail_counts_as_failed(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", expected_fail=True))

    assert folder.sweep().failed == 1
    assert folder.ask(CURRENT) == [("a", "unexpected-passed")]


def test_an_edited_runner_executes_everything_and_leaves_the_old_rows(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.take_calls()
    folder.write_runners(a_runner_entry(model="newer"))

    counts = folder.sweep()

    assert (counts.reused, counts.executed) == (0, 2)
    assert folder.ask("SELECT count(*) FROM target_executions") == [(4,)]
    assert folder.ask("SELECT count(*) FROM current_executions") == [(2,)]


# Normalizing anew


class Louder:
    """What an upgrade of a normalizer brings: another version, another report."""

    version = "2-louder"

    def normalize(self, material: RawSession) -> SessionReport:
        output = str(material.raw.payload["output"])
        return SessionReport(execution_id=material.execution_id, final_output=output.upper())


def upgrade_normalizer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AnswerNormalizer, "version", Louder.version)
    patch.setattr(AnswerNormalizer, "normalize", Louder.normalize)


def test_a_newer_normalizer_reads_stored_raw_output_again_and_scores_it(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_suite(a_test("a", contains("APPLES")))
    assert folder.sweep().failed == 1
    folder.take_calls()
    upgrade_normalizer(monkeypatch)

    counts = folder.sweep()

    assert (counts.rescored, counts.passed, folder.take_calls()) == (1, 1, [])
    assert folder.ask("SELECT final_output FROM session_reports") == [("2 APPLES",)]


def test_a_report_made_anew_in_a_sweep_of_its_own_is_scored_in_the_next(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_suite(a_test("a", contains("APPLES")))
    folder.sweep()
    upgrade_normalizer(monkeypatch)
    folder.sweep(stages=("session_reports",))

    assert folder.sweep().passed == 1
    assert folder.ask(CURRENT) == [("a", "passed")]


def test_a_large_answer_becomes_an_artifact_and_is_read_back_from_it(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_suite(a_test("a", contains("YY")))
    folder.write_answers(a="y" * LARGE)
    folder.sweep()
    ((raw, artifacts),) = folder.ask("SELECT raw->>'payload', artifacts FROM target_executions")
    (artifact,) = json.loads(artifacts)
    path = folder.data / "artifacts" / artifact["path"]
    assert raw is None
    assert (artifact["role"], artifact["sha256"]) == ("payload", file_fingerprint(path))
    assert artifact["bytes"] == path.stat().st_size > LARGE
    upgrade_normalizer(monkeypatch)

    assert folder.sweep().passed == 1
    assert folder.ask("SELECT length(final_output) FROM session_reports") == [(LARGE,)]


# What goes wrong stays a row


def test_a_target_that_crashes_is_a_row_and_the_other_cases_go_on(folder: ProjectFolder) -> None:
    folder.write_answers(a="crash")

    counts = folder.sweep()

    assert (counts.executed, counts.passed, counts.errored) == (2, 1, 1)
    ((case, completed, failure, error),) = folder.ask(
        "SELECT case_id, completed, failure_class, error FROM target_executions WHERE NOT completed"
    )
    assert (case, completed, failure) == ("a", False, "target-crash")
    assert "told to crash" in error
    assert folder.ask("SELECT count(*) FROM evaluator_scores WHERE case_id = 'a'") == [(0,)]


def test_an_evaluator_that_breaks_leaves_the_cell_ungraded_with_its_reason(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "broken.py").write_text("def check(output):\n    raise KeyError('oops')\n")
    folder.write_suite(a_test("a", contains("2"), {"type": "python", "function": "broken:check"}), a_test("b"))

    counts = folder.sweep()

    assert (counts.passed, counts.failed, counts.errored) == (1, 0, 1)
    ((status, score, failure, reason),) = folder.ask(
        "SELECT status, score, failure_class, reason FROM current_verdicts WHERE case_id = 'a'"
    )
    assert (status, score, failure) == ("error", None, "evaluator")
    assert "oops" in reason


def test_a_budget_stops_calling_and_says_so_of_what_is_left(folder: ProjectFolder) -> None:
    folder.write_suite(*(a_test(f"c{number}") for number in range(5)))
    folder.write_answers(**{f"c{number}": {"output": "2", "cost_usd": 0.4} for number in range(5)})

    counts = folder.sweep(budget_usd=1.0, concurrency=1)

    assert len(folder.take_calls()) == 3
    assert counts.cost_usd == pytest.approx(1.2)
    assert (counts.passed, counts.errored) == (3, 2)
    refused = folder.ask("SELECT DISTINCT failure_class FROM target_executions WHERE NOT completed")
    assert refused == [("budget-exceeded",)]


def test_what_a_budget_left_over_is_executed_by_the_next_sweep(folder: ProjectFolder) -> None:
    folder.write_answers(a={"output": "2", "cost_usd": 0.4}, b={"output": "2", "cost_usd": 0.4})
    folder.sweep_once(budget_usd=0.1, concurrency=1)
    folder.take_calls()

    counts = folder.sweep()

    assert (counts.reused, counts.executed, folder.take_calls()) == (1, 1, ["echo/b"])


def test_a_cell_that_cannot_be_stored_says_why_and_the_other_cells_are_stored(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), name="other")
    folder.write_answers(b="y" * LARGE)
    (folder.data / "artifacts" / "echo").mkdir(parents=True)
    (folder.data / "artifacts" / "echo" / "sums").write_text("a file where a folder has to be")

    _, outcomes = folder.sweep_cells([PairKey("sums", "echo"), PairKey("other", "echo")])

    errors = {outcome.pair.name.suite: outcome.error for outcome in outcomes}
    assert errors["other"] is None
    assert errors["sums"] is not None
    assert folder.ask("SELECT suite FROM current_verdicts") == [("other",)]


def test_a_journal_that_cannot_be_read_harms_only_its_own_cell(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), name="other")
    left = folder.data / "journals" / "20200101T000000.000000-dead" / "echo" / "sums"
    left.mkdir(parents=True)
    (left / "target_executions.jsonl").mkdir()

    _, outcomes = folder.sweep_cells([PairKey("sums", "echo"), PairKey("other", "echo")])

    errors = {outcome.pair.name.suite: outcome.error for outcome in outcomes}
    assert errors["other"] is None
    assert "target_executions.jsonl" in (errors["sums"] or "")


# Selecting


def test_repetitions_are_cells_of_their_own_and_more_of_them_reuse_the_first(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    folder.take_calls()

    counts = folder.sweep(repetitions=3)

    assert (counts.planned, counts.reused, counts.executed) == (3, 1, 2)
    assert folder.ask("SELECT repetition, status FROM current_verdicts ORDER BY 1") == [
        (1, "passed"),
        (2, "passed"),
        (3, "passed"),
    ]


def test_a_suite_that_asks_for_repetitions_gets_them(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), execution={"trials": {"count": 2}})

    assert folder.sweep().planned == 2


FILTERS = {
    "by-id": (only("b"), ["echo/b"]),
    "by-any-of-the-tags": (CaseFilter(tags=frozenset({"hard", "odd"})), ["echo/a", "echo/c"]),
    "by-id-and-tag": (CaseFilter(ids=frozenset({"a", "b"}), tags=frozenset({"hard"})), ["echo/a"]),
    "nothing-fits": (CaseFilter(tags=frozenset({"absent"})), []),
}


@pytest.mark.parametrize(("selected", "called"), FILTERS.values(), ids=FILTERS)
def test_only_selected_cases_are_carried_out(folder: ProjectFolder, selected: CaseFilter, called: list[str]) -> None:
    folder.write_suite(a_test("a", tags=["hard"]), a_test("b"), a_test("c", tags=["odd", "easy"]))

    counts = folder.sweep(cases=selected)

    assert folder.take_calls() == called
    assert counts.planned == len(called)


RESTRICTIONS: dict[str, tuple[dict[str, Any], bool, list[str]]] = {
    "suite-names-another": ({"target": "other"}, False, []),
    "suite-names-this": ({"targets": ["other", "echo"]}, False, ["echo/a"]),
    "chosen-by-name": ({"target": "other"}, True, ["echo/a"]),
}


@pytest.mark.parametrize(("execution", "any_runner", "called"), RESTRICTIONS.values(), ids=RESTRICTIONS)
def test_a_suite_runs_on_the_runners_it_names_unless_any_will_do(
    folder: ProjectFolder, execution: Mapping[str, Any], any_runner: bool, called: list[str]
) -> None:
    folder.write_suite(a_test("a"), execution=execution)

    folder.sweep_once(any_runner=any_runner)

    assert folder.take_calls() == called


def test_stages_can_be_carried_out_one_after_the_other(folder: ProjectFolder) -> None:
    folder.sweep_once(stages=STAGES[:1])
    assert folder.take_calls() == ["echo/a", "echo/b"]
    for table in ("session_reports", "evaluator_scores", "verdicts"):
        assert folder.ask(f"SELECT count(*) FROM {table}") == [(0,)]

    counts = folder.sweep(stages=STAGES[1:])

    assert (counts.rescored, counts.executed, counts.passed, folder.take_calls()) == (2, 0, 2, [])
    assert folder.ask(CURRENT) == [("a", "passed"), ("b", "passed")]


def test_scoring_alone_never_calls_a_target_that_has_not_been_executed(folder: ProjectFolder) -> None:
    counts = folder.sweep(stages=STAGES[1:])

    assert (counts.executed, folder.take_calls()) == (0, [])
    assert folder.ask("SELECT count(*) FROM target_executions") == [(0,)]


# Boards


def test_a_past_board_stays_as_it_was(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.session().store.update_leaderboards()
    past = folder.ask("SELECT * FROM leaderboards ORDER BY ALL")
    folder.write_suite(a_test("a", contains("9")), a_test("b"))
    folder.sweep()

    folder.session().store.update_leaderboards()

    boards = folder.ask("SELECT DISTINCT board_id FROM leaderboard_history ORDER BY 1")
    assert len(boards) == 2
    assert folder.ask(f"SELECT * FROM leaderboards WHERE board_id = '{boards[0][0]}' ORDER BY ALL") == past
    assert folder.ask("SELECT passed, planned FROM leaderboard") == [(1, 2)]


def test_a_runner_swept_at_an_older_revision_does_not_stand_beside_one_at_the_newest(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("parrot"))
    folder.sweep_cells([PairKey("sums", "echo"), PairKey("sums", "parrot")])
    folder.write_suite(a_test("a", contains("9")), a_test("b"))
    folder.sweep()

    folder.session().store.update_leaderboards()

    revision = folder.session().suite("sums").suite.revision
    ranked = "SELECT runner, suite_revision, passed FROM leaderboard WHERE rank IS NOT NULL"
    assert folder.ask(ranked) == [("echo", revision, 1)]


def test_cells_of_an_older_revision_that_a_filter_left_out_are_not_counted_as_graded(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.write_suite(a_test("a", contains("9")), a_test("b"))
    folder.sweep(cases=only("a"))

    folder.session().store.update_leaderboards()

    rows = folder.ask("SELECT graded, planned, passed, note FROM leaderboard")
    assert rows == [(2, 2, 2, "a later run carried out 1 of 2 plans")]


# Many pairs


def eight_pairs(folder: ProjectFolder) -> list[PairKey]:
    for number in range(8):
        folder.write_suite(a_test("a", contains("9") if number % 2 else contains("2")), name=f"s{number}")
    return [PairKey(f"s{number}", "echo") for number in range(8)]


def test_pairs_that_finish_together_are_stored_together(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    original = DuckDBWarehouse._open

    def opening(self: DuckDBWarehouse) -> object:
        opened.append(self)
        return original(self)

    monkeypatch.setattr(DuckDBWarehouse, "_open", opening)

    _, outcomes = folder.sweep_cells(eight_pairs(folder), concurrency=8)

    assert [outcome.error for outcome in outcomes] == [None] * 8
    assert len(opened) < 8
    assert folder.ask("SELECT suite FROM failure_classes ORDER BY 1") == [("s1",), ("s3",), ("s5",), ("s7",)]
    assert {outcome.pair.name.suite for outcome in outcomes if outcome.failures is not None} == {"s1", "s3", "s5", "s7"}


def test_pairs_that_cannot_be_stored_together_are_stored_one_by_one(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DuckDBWarehouse.ingest

    def ingest(self: DuckDBWarehouse, *journals: Mapping[str, Path]) -> None:
        if len(journals) > 1 or any("/s3/" in str(path) for journal in journals for path in journal.values()):
            raise RuntimeError("the disk is full")
        original(self, *journals)

    monkeypatch.setattr(DuckDBWarehouse, "ingest", ingest)

    _, outcomes = folder.sweep_cells(eight_pairs(folder), concurrency=8)

    errors = {outcome.pair.name.suite: outcome.error for outcome in outcomes if outcome.error is not None}
    assert errors == {"s3": "RuntimeError: the disk is full"}
    assert folder.ask("SELECT count(*), count(DISTINCT suite) FROM verdicts") == [(7, 7)]
    assert list((folder.data / "journals").rglob("s3/target_executions.jsonl"))


# Secrets


def test_secrets_never_reach_the_disk_whatever_a_target_echoes(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, secret = 'sk-"quoted"-0123456789abcdef', "${{ MODEL_API_KEY }}"
    monkeypatch.setenv("MODEL_API_KEY", key)
    program = folder.root / "echo_key.py"
    program.write_text("import os, sys\nprint(os.environ['THE_KEY'])\nprint(os.environ['THE_KEY'], file=sys.stderr)\n")
    with serve(echo_of_the_key) as server:
        folder.write_suite(a_test("says"), a_test("says-a-lot"), a_test("refuses"))
        folder.write_runners(
            {"name": "model", "adapter": "chat", "base_url": server.url, "model": "m", "api_key": secret},
            {"name": "program", "adapter": "command", "command": [sys.executable, "echo_key.py"],
             "env": {"THE_KEY": secret}},
        )  # fmt: skip
        folder.sweep_cells([PairKey("sums", "model"), PairKey("sums", "program")])

    stored = folder.all_bytes()
    assert folder.ask("SELECT count(*) FROM target_executions") == [(6,)]
    assert b"you said" in stored
    for spelled in (key, json.dumps(key)[1:-1]):
        assert spelled.encode() not in stored


def echo_of_the_key(request: Received) -> Reply:
    """Repeats the authorization header: in a short answer, a long one, and a refusal."""
    echoed = f"you said 2 {request.headers['authorization']}"
    if b"says-a-lot" in request.body:
        return chat_reply(echoed * 3_000)
    return json_reply({"error": {"message": echoed}}, status=400) if b"refuses" in request.body else chat_reply(echoed)


# Killed


SWEEPS_ON_ITS_OWN = """
import pathlib, sys
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder
ProjectFolder(pathlib.Path(sys.argv[1])).sweep(concurrency=1)
"""


def test_what_a_killed_sweep_had_executed_is_taken_in_by_the_next(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"), a_test("b"), a_test("c", text="2 pears"), a_test("d"))
    folder.write_answers(c="hang")
    with start_python(SWEEPS_ON_ITS_OWN, str(folder.root)) as process:
        wait_until(lambda: "echo/c" in (folder.root / "calls.txt").read_text(), folder.root / "calls.txt")
    assert process.returncode == -signal.SIGKILL
    folder.take_calls()
    folder.write_answers()

    counts = folder.sweep()

    assert folder.take_calls() == ["echo/c", "echo/d"]
    assert (counts.executed, counts.passed) == (2, 4)
    assert folder.ask("SELECT case_id FROM target_executions ORDER BY 1") == [("a",), ("b",), ("c",), ("d",)]
    assert not list((folder.data / "journals").rglob("*.jsonl"))


def test_a_line_that_was_half_written_when_the_process_died_is_passed_over(folder: ProjectFolder) -> None:
    folder.sweep_once()
    left = folder.data / "journals" / "20200101T000000.000000-dead" / "echo" / "sums"
    left.mkdir(parents=True)
    (left / "target_executions.jsonl").write_text('{"execution_id": "half", "key": "ha')

    counts = folder.sweep()

    assert (counts.reused, counts.executed) == (2, 0)
    assert not left.exists()


def wait_until(happened: Callable[[], bool], file: Path) -> None:
    """Waits for another process, at most a minute."""
    deadline = time.monotonic() + 60
    while not (file.exists() and happened()):
        assert time.monotonic() < deadline, f"nothing happened to {file}"
        time.sleep(0.02)
