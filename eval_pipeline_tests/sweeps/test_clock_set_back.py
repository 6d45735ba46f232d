"""A clock that was ahead once: what is stored later is newer all the same, in every view and choice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from eval_pipeline.leaderboards.trends import in_order, trend
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.order import OrderClock
from eval_pipeline.sweeps.outcomes import SweepCounts, SweepObserver
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep import carry_out, run_recorded
from eval_pipeline.sweeps.sweep_store import new_id
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.published import open_results
from eval_pipeline.warehouse.selections import read_results, select, sweep_ids
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

PAIR = PairKey("sums", "echo")
TODAY = datetime(2026, 11, 22, 12, tzinfo=UTC)
AHEAD = TODAY + timedelta(days=365)


def ticking(start: datetime) -> Callable[[], datetime]:
    """A clock that moves on by a millisecond whenever it is read."""
    reads = iter(range(10**9))
    return lambda: start + timedelta(milliseconds=next(reads))


def session_at(folder: ProjectFolder, start: datetime) -> ProjectSession:
    return ProjectSession(load_project(folder.root), clock=OrderClock(ticking(start)))


def sweep_at(folder: ProjectFolder, start: datetime, **options: object) -> SweepCounts:
    """Carry out and rank as a process whose clock shows this time."""
    session = session_at(folder, start)
    chosen = SweepOptions(**options)  # type: ignore[arg-type]
    (outcome,) = run_recorded(session, session.pairs([PAIR]), chosen, None, SweepObserver())
    assert outcome.error is None
    session.store.update_leaderboards()
    session.warehouse.publish()
    return outcome.counts


@pytest.fixture(scope="module")
def set_back(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """A project whose first sweep passed by a clock a year ahead; `a` failed in the second one, by the right clock."""
    folder = make_project(tmp_path_factory.mktemp("clock") / "project")
    sweep_at(folder, AHEAD)
    folder.write_answers(a="none")
    sweep_at(folder, TODAY, refresh="all")
    return folder


VIEWS = {
    "current_verdicts": ("SELECT case_id, status FROM current_verdicts ORDER BY 1", [("a", "failed"), ("b", "passed")]),
    "current_executions": (
        "SELECT count(*) FROM current_executions WHERE sweep_id = (SELECT max(sweep_id) FROM sweeps)", [(2,)],
    ),
    "current_scores": ("SELECT min(value), max(value) FROM current_scores", [(0.0, 1.0)]),
    "current_pairs": ("SELECT passed, failed FROM current_pairs", [(1, 1)]),
    "leaderboard": ("SELECT passed, failed FROM leaderboard", [(1, 1)]),
    "case_matrix": ("SELECT case_id, pass_rate FROM case_matrix", [("a", 0.0), ("b", 1.0)]),
    "failure_summary": ("SELECT count FROM failure_summary", [(1,)]),
    "suites": ("SELECT arg_max(status, sweep_id) FROM sweeps", [("finished",)]),
}  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_shows_the_later_sweep(set_back: ProjectFolder, view: str) -> None:
    query, expected = VIEWS[view]

    with open_results(set_back.data) as connection:
        assert connection.execute(query).fetchall() == expected


def test_latest_and_previous_and_the_order_of_a_trend_are_those_of_the_sweeps(set_back: ProjectFolder) -> None:
    with open_results(set_back.data) as connection:
        scores = [
            read_results(connection, select(connection, f"sweep:{which}")).frame["score"].mean()
            for which in ("latest", "previous")
        ]
        sweeps = [read_results(connection, select(connection, f"sweep:{id_}")) for id_ in sweep_ids(connection)]

    assert scores == [0.5, 1.0]
    assert [point.mean_score for point in trend(in_order(sweeps)).points] == [1.0, 0.5]


def test_a_retry_that_succeeded_is_reused_although_its_clock_was_behind_that_of_the_failure(
    folder: ProjectFolder,
) -> None:
    folder.write_answers(a="crash", b="crash")
    sweep_at(folder, AHEAD)
    folder.write_answers()
    retried = sweep_at(folder, TODAY)

    again = sweep_at(folder, TODAY + timedelta(hours=1))

    assert (retried.executed, again.executed, again.reused) == (2, 0, 2)
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",), ("passed",)]


def test_what_a_killed_sweep_executed_by_a_clock_ahead_does_not_stay_current(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(self: DuckDBWarehouse, *journals: object) -> None:
        raise OSError("killed before its journals were stored")

    session = session_at(folder, AHEAD)
    with monkeypatch.context() as patch:
        patch.setattr(DuckDBWarehouse, "ingest", lost)
        (outcome,) = carry_out(
            session.pairs([PAIR]),
            SweepOptions(),
            warehouse=session.warehouse,
            sweep_id=new_id(AHEAD),
            clock=session.clock,
        )

    counts = sweep_at(folder, TODAY, refresh="all")

    assert outcome.error is not None
    assert counts.executed == 2
    assert folder.ask("SELECT count(*), count(DISTINCT sweep_id) FROM target_executions") == [(4, 2)]
    assert folder.ask("SELECT count(*) FROM current_executions JOIN sweeps USING (sweep_id)") == [(2,)]


def test_moments_never_repeat_and_follow_the_wall_clock_again_once_it_has_caught_up() -> None:
    times = iter([AHEAD, TODAY, TODAY, AHEAD + timedelta(days=1)])
    clock = OrderClock(lambda: next(times))

    moments = [clock.now() for _ in range(4)]

    steps = [timedelta(), timedelta(microseconds=1), timedelta(microseconds=2), timedelta(days=1)]
    assert moments == [AHEAD + step for step in steps]
