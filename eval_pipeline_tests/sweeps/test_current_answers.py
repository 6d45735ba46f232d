"""What a sweep keeps up to date without any call, and what it executes anew: edited tags and prices, interrupted and
incomplete refreshes, and the age of every answer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from eval_pipeline.executions.planning import CaseFilter
from eval_pipeline.leaderboards.show import BOARD_HEAD, board_rows
from eval_pipeline.sweeps.options import STAGES, SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.sweep import run_recorded
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.carried_out_once import carried_out_once
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains

PAIR = PairKey("sums", "echo")
COSTS = "SELECT case_id, status, cost_usd, tags FROM current_verdicts ORDER BY case_id"
METERED = """
def answer(prompt, case):
    with (__import__("pathlib").Path(__file__).parent / "calls.txt").open("a") as calls:
        calls.write(f"echo/{case.id}\\n")
    return {"output": prompt, "usage": {"input_tokens": 1_000_000, "output_tokens": 0}}
"""


def metered(folder: ProjectFolder, usd: float, **fields: Any) -> None:
    """A runner with this price of a million input tokens; every answer takes that many."""
    (folder.root / "metered.py").write_text(METERED)
    prices = {"input_per_million": usd, "output_per_million": 0.0}
    entry = {"name": "echo", "adapter": "python", "function": "metered:answer", "prices": prices}
    folder.write_runners({**entry, **fields})


def recorded(folder: ProjectFolder, **options: Any) -> None:
    """A sweep that is recorded from begin to end, as a run's is."""
    session = folder.session()
    run_recorded(session, session.pairs([PAIR]), SweepOptions(**options), None, SweepObserver())


def begin(folder: ProjectFolder) -> None:
    """The recorded sweep that a test begins with."""
    carried_out_once(folder.root, "recorded sweep", lambda: recorded(folder))


def interrupted(folder: ProjectFolder, *executed: str, **options: Any) -> None:
    """A sweep that is killed after it executed these cases."""
    session = folder.session()
    chosen = SweepOptions(**options)
    sweep_id = session.store.begin(session.pairs([PAIR]), chosen, None)
    if executed:
        folder.sweep_cells([PAIR], sweep_id=sweep_id, **{**options, "cases": CaseFilter(ids=frozenset(executed))})
    session.store.end(sweep_id, "interrupted")


# Tags


def test_edited_tags_are_those_of_the_verdicts_after_the_next_run_without_any_call(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", tags=["old"]), a_test("b", tags=["same"]))
    folder.sweep_once()
    folder.take_calls()
    folder.write_suite(a_test("a", tags=["new", "more"]), a_test("b", tags=["same"]))

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    counts = folder.sweep()

    assert (planned.counts.updated, planned.counts.reused, planned.counts.executed) == (1, 1, 0)
    assert (counts.updated, counts.reused, counts.executed, counts.rescored) == (1, 1, 0, 0)
    assert folder.take_calls() == []
    assert folder.ask("SELECT case_id, tags FROM current_verdicts ORDER BY 1") == [
        ("a", ["new", "more"]), ("b", ["same"]),
    ]  # fmt: skip
    assert folder.sweep().updated == 0


def test_removed_tags_are_removed(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", tags=["old"]))
    folder.sweep_once()
    folder.write_suite(a_test("a"))

    assert folder.sweep().updated == 1

    assert folder.ask("SELECT tags FROM current_verdicts") == [([],)]


# Prices


def test_edited_prices_are_in_the_cost_of_verdicts_and_reports_without_any_call(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", contains("2"), {"type": "cost", "budget": 1.5}))
    metered(folder, 1.0)
    folder.sweep_once()
    before = folder.ask(COSTS)
    metered(folder, 2.0)
    folder.take_calls()

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    counts = folder.sweep()

    assert (planned.counts.updated, planned.counts.executed, planned.counts.rescored) == (1, 0, 0)
    assert (counts.updated, counts.executed, counts.rescored, folder.take_calls()) == (1, 0, 0, [])
    assert before == [("a", "passed", 1.0, [])]
    assert folder.ask(COSTS) == [("a", "failed", 2.0, [])]
    assert folder.ask("SELECT cost_usd, cost_source FROM session_reports") == [(2.0, "computed")]
    assert (folder.sweep().updated, folder.sweep().reused) == (0, 1)


def test_a_price_given_later_and_one_taken_away_count_too(folder: ProjectFolder) -> None:
    metered(folder, 1.0, prices={})
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    unknown = folder.ask(COSTS)
    metered(folder, 3.0)
    folder.sweep()
    known = folder.ask(COSTS)
    metered(folder, 1.0, prices={})
    folder.sweep()

    assert [row[2] for rows in (unknown, known, folder.ask(COSTS)) for row in rows] == [None, 3.0, None]


def test_a_cost_that_the_target_reported_ignores_prices(folder: ProjectFolder) -> None:
    metered(folder, 1.0)
    reporting = METERED.replace('"output_tokens": 0}', '"output_tokens": 0}, "cost_usd": 9')
    (folder.root / "metered.py").write_text(reporting)
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    folder.write_runners(
        {"name": "echo", "adapter": "python", "function": "metered:answer", "prices": {"per_call": 4.0}}
    )

    counts = folder.sweep()

    assert (counts.updated, counts.reused) == (0, 1)
    assert [row[2] for row in folder.ask(COSTS)] == [9.0]


# Refreshes that did not reach their end


def test_a_plain_run_completes_an_interrupted_refresh_of_all(folder: ProjectFolder) -> None:
    begin(folder)
    interrupted(folder, "a", refresh="all")
    folder.take_calls()

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    counts = folder.sweep()

    assert (planned.counts.executed, planned.counts.reused) == (1, 1)
    assert (counts.executed, counts.reused, folder.take_calls()) == (1, 1, ["echo/b"])
    assert folder.sweep().executed == 0


def test_only_what_the_interrupted_refresh_covered_is_executed_anew(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a", tags=["t"]), a_test("b"))
    recorded(folder)
    interrupted(folder, refresh="all", cases=CaseFilter(tags=frozenset({"t"})))
    folder.take_calls()

    folder.sweep_once()

    assert folder.take_calls() == ["echo/a"]


def test_an_abandoned_refresh_leaves_the_older_answers_and_is_forgotten(folder: ProjectFolder) -> None:
    begin(folder)
    interrupted(folder, "a", refresh="all")
    folder.take_calls()

    recorded(folder, abandon_refresh=True)
    recorded(folder)

    assert folder.take_calls() == []


def test_scoring_alone_never_completes_a_refresh(folder: ProjectFolder) -> None:
    begin(folder)
    interrupted(folder, refresh="all")
    folder.take_calls()

    assert folder.sweep(stages=STAGES[1:]).reused == 2
    assert folder.take_calls() == []


def test_what_a_refresh_tried_in_vain_is_tried_again_by_a_plain_run(folder: ProjectFolder) -> None:
    folder.sweep_once()
    folder.write_answers(a="crash")
    folder.sweep(refresh="all")
    crashed = folder.ask("SELECT case_id, status FROM current_verdicts ORDER BY 1")
    folder.write_answers(a="2 pears")
    folder.take_calls()

    counts = folder.sweep()

    assert crashed == [("a", "error"), ("b", "passed")]
    assert (counts.executed, folder.take_calls()) == (1, ["echo/a"])
    assert folder.ask("SELECT case_id, status FROM current_verdicts ORDER BY 1") == [("a", "passed"), ("b", "passed")]


# Ages


@pytest.mark.parametrize("refresh", ["missing", "all"])
def test_a_board_shows_how_old_its_answers_are(folder: ProjectFolder, refresh: str) -> None:
    begin(folder)
    with folder.session().warehouse.transaction() as connection:
        for table in ("target_executions", "verdicts"):
            column = "finished_at" if table == "target_executions" else "executed_at"
            connection.execute(f"UPDATE {table} SET {column} = TIMESTAMP '2026-01-15 12:00:00'")
    interrupted(folder, "a", refresh="all")
    recorded(folder, refresh=refresh, abandon_refresh=refresh == "missing")

    standings = folder.session().store.update_leaderboards()

    (row,) = standings.filter(standings["scope"] == "suite").to_dicts()
    today = datetime.now(UTC).date()
    oldest = datetime(2026, 1, 15).date() if refresh == "missing" else today
    assert (row["oldest_answer_at"].date(), row["newest_answer_at"].date()) == (oldest, today)
    shown = dict(zip(BOARD_HEAD, board_rows(standings)[0], strict=True))["answered"]
    assert shown.startswith(str(oldest))
    ages = folder.ask("SELECT case_id, executed_at::DATE::VARCHAR FROM current_verdicts ORDER BY 1")
    assert ages == [("a", str(today)), ("b", str(oldest))]


def test_an_interrupted_refresh_is_reported_until_its_rest_is_executed(
    folder: ProjectFolder, caplog: pytest.LogCaptureFixture
) -> None:
    reports = []
    begin(folder)
    interrupted(folder, "a", refresh="all")

    for _ in range(2):
        recorded(folder)
        reports.append(caplog.text.count("did not reach"))
        caplog.clear()

    assert reports == [1, 0]


def test_what_did_not_pass_is_asked_of_the_evaluators_of_today(folder: ProjectFolder) -> None:
    """One answer passes since its evaluator was edited, the other no more: only that one is executed again."""
    folder.write_suite(a_test("a", contains("9")), a_test("b", contains("2")))
    folder.sweep_once()
    folder.write_suite(a_test("a", contains("2")), a_test("b", contains("9")))
    folder.take_calls()

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions(refresh="failed"))
    counts = folder.sweep(refresh="failed")

    assert (planned.counts.rescored, planned.counts.executed) == (2, 0)
    assert folder.take_calls() == ["echo/b"]
    assert (counts.executed, counts.reused, counts.passed, counts.failed) == (1, 1, 1, 1)
    assert folder.ask("SELECT passed, executed, planned FROM sweep_pairs ORDER BY finished_at DESC LIMIT 1") == [
        (1, 1, 2)
    ]
