"""The queries of sweeps, boards and commands, each a named function.

Every other room calls these; none contains SQL of its own. Functions that take a `Warehouse` read or change the
pipeline's own file; functions that take a connection read the published results.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import polars as pl

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.macros import IS_STANDING
from eval_pipeline.warehouse.published import rows_frame
from eval_pipeline.warehouse.simulators import with_simulators
from eval_pipeline.warehouse.store import Connection, Warehouse
from eval_pipeline.warehouse.tables import BY_NAME

WHY_FAILED = "SELECT * FROM failure_summary"
"""The query that messages suggest to someone who wants to know why plans did not pass."""
_FAILED_CASES = """
    WITH pairs AS (SELECT unnest($1::VARCHAR[]) AS suite, unnest($2::VARCHAR[]) AS runner,
                          unnest($3::BOOLEAN[]) AS by_case),
    chosen AS (
        SELECT v.*, p.by_case, v.status NOT IN ('passed', 'expected-failed') AS bad
        FROM (
            SELECT v.* FROM verdicts v JOIN current_pairs USING (suite, runner, suite_revision, runner_revision)
            WHERE (v.suite, v.runner) IN (SELECT (suite, runner) FROM pairs)
            QUALIFY row_number() OVER (
                PARTITION BY v.suite, v.runner, v.case_id, v.repetition
                ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1) v
        JOIN pairs p USING (suite, runner)
        WHERE (len($4::VARCHAR[]) = 0 OR list_contains($4::VARCHAR[], v.case_id))
          AND (len($5::VARCHAR[]) = 0 OR list_has_any($5::VARCHAR[], v.tags))
          AND (v.suite, v.case_id) NOT IN (SELECT (unnest($7::VARCHAR[]), unnest($8::VARCHAR[])))),
    counted AS (
        SELECT suite, runner, case_id, bool_or(by_case) AS by_case,
               count(*)::BIGINT AS repetitions, (count(*) FILTER (bad))::BIGINT AS failed,
               first(status ORDER BY repetition) FILTER (bad) AS status,
               first(failure_class ORDER BY repetition) FILTER (bad) AS failure_class,
               first(reason ORDER BY repetition) FILTER (bad) AS reason,
               first(failure_label ORDER BY repetition) FILTER (bad) AS failure_label,
               first(execution_id ORDER BY repetition) FILTER (bad) AS execution_id
        FROM chosen GROUP BY suite, runner, case_id HAVING bool_or(bad))
    SELECT * EXCLUDE (by_case), (count(*) OVER ())::BIGINT AS total FROM counted c
    {settled}
    ORDER BY suite, case_id, runner LIMIT $6"""
_NOT_SETTLED = """WHERE NOT by_case OR NOT EXISTS (
        FROM case_results r
        WHERE r.suite = c.suite AND r.runner = c.runner AND r.case_id = c.case_id AND r.status = 'passed')"""

_FAILURE_COUNTS = """
    WITH pairs AS (
        SELECT suite, runner, suite_revision, runner_revision, finished_at FROM current_pairs
        WHERE (suite, runner) IN {pairs}),
    newest AS (
        SELECT {columns} FROM verdicts v JOIN pairs USING (suite, runner, suite_revision, runner_revision)
        ANTI JOIN retired_cases r
        ON r.suite = v.suite AND r.case_id = v.case_id AND r.retired_at >= pairs.finished_at
        QUALIFY row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1),
    executed AS (
        SELECT suite, runner, suite_revision, count(*)::BIGINT AS executed
        FROM newest GROUP BY suite, runner, suite_revision),
    by_case AS (
        SELECT suite, runner, suite_revision, failure_class, case_id, count(*) AS plans,
               arg_min(reason, repetition) AS reason, min(failure_label) AS label, min(failure_origin) AS origin
        FROM newest WHERE failure_class IS NOT NULL AND status <> 'expected-failed'
        GROUP BY suite, runner, suite_revision, failure_class, case_id)
    SELECT suite, runner, suite_revision, failure_class, sum(plans)::BIGINT AS count, executed,
           min(case_id, {examples}) AS examples, arg_min(reason, case_id) AS example_reason,
           min(label) AS label, min(origin) AS origin
    FROM by_case JOIN executed USING (suite, runner, suite_revision)
    GROUP BY suite, runner, suite_revision, failure_class, executed"""

_ORDERED_BY = (
    ("sweeps", "started_at"), ("sweeps", "finished_at"), ("sweep_pairs", "finished_at"), ("suites", "loaded_at"),
    ("target_executions", "selected_at"), ("verdicts", "decided_at"), ("leaderboards", "computed_at"),
    ("retired_pairs", "retired_at"), ("retired_cases", "retired_at"),
)  # fmt: skip
_MOMENTS = " UNION ALL ".join(f"SELECT max({time}) AS moment FROM {table}" for table, time in _ORDERED_BY)
_NEWEST_MOMENT = f"SELECT max(moment) FROM ({_MOMENTS})"

_FINISHED = """
    UPDATE unranked_pairs SET finished = true WHERE (suite, runner) IN (
        SELECT (suite, runner) FROM sweep_pairs WHERE sweep_id = $id)"""
_ANSWERED_BEFORE = """
    WITH pairs AS (
        SELECT suite, runner, suite_revision, runner_revision FROM current_pairs
        WHERE (suite, runner) IN (SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]))),
    newest AS (
        SELECT v.suite, v.runner, v.execution_id
        FROM verdicts v JOIN pairs USING (suite, runner, suite_revision, runner_revision)
        QUALIFY row_number() OVER (
            PARTITION BY v.suite, v.runner, v.case_id, v.repetition
            ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1)
    SELECT DISTINCT suite, runner FROM newest
    SEMI JOIN (SELECT e.execution_id FROM target_executions e SEMI JOIN pairs USING (suite, runner)
               WHERE e.sweep_id < $3) USING (execution_id)"""
_PAIRS = "(SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]))"


def _pair_values(pairs: Sequence[PairKey]) -> list[list[str]]:
    return [[pair.suite for pair in pairs], [pair.runner for pair in pairs]]


def stored_revisions(warehouse: Warehouse) -> dict[str, str]:
    """Return the newest stored revision of each suite."""
    query = "SELECT suite, arg_max(suite_revision, loaded_at) AS revision FROM suites GROUP BY suite"
    return dict(warehouse.frame(query).iter_rows())


def newest_moment(warehouse: Warehouse) -> datetime | None:
    """Return the newest of the times that stored rows are ordered by; None without any."""
    if not warehouse.exists():
        return None
    (newest,) = warehouse.read(lambda connection: connection.execute(_NEWEST_MOMENT).fetchone())
    return newest.astimezone(UTC) if newest is not None else None


def interrupt_running_sweeps(warehouse: Warehouse, goes_on: Callable[[str], bool] = lambda run_id: False) -> list[str]:
    """Mark every sweep that is still `running` as interrupted; return the Dagster run ids of those that had one.

    A sweep whose Dagster run `goes_on` stays as it is. Where several machines share the warehouse, so does one whose
    worker is alive, or may not have a lease yet.
    """
    where, values = "status = 'running'", dict[str, Any]()
    if warehouse.leases is not None:
        where += " AND NOT list_contains($live::VARCHAR[], sweep_id) AND started_at < now() - to_seconds($lease_s)"
        values = {"live": sorted(warehouse.leases.live_sweeps()), "lease_s": warehouse.leases.lease_s}

    def store(connection: Connection) -> list[str | None]:
        running = connection.execute(f"SELECT sweep_id, dagster_run_id FROM sweeps WHERE {where}", values).fetchall()
        ended = {sweep: run for sweep, run in running if run is None or not goes_on(run)}
        if ended:
            interrupt = "UPDATE sweeps SET status = 'interrupted' WHERE list_contains($1::VARCHAR[], sweep_id)"
            connection.execute(interrupt, [list(ended)])
        return list(ended.values())

    return [run_id for run_id in warehouse.run(store) if run_id is not None]


def sweeps_of_runs(warehouse: Warehouse, dagster_run_ids: Iterable[str]) -> set[str]:
    """Return the sweeps that these Dagster runs carried out."""
    ids = list(dagster_run_ids)
    if not ids:
        return set()
    query = "SELECT sweep_id FROM sweeps WHERE list_contains($1::VARCHAR[], dagster_run_id)"
    return {sweep_id for (sweep_id,) in warehouse.frame(query, [ids]).iter_rows()}


def end_sweep(warehouse: Warehouse, sweep_id: str, status: str, now: datetime) -> None:
    """Record that a sweep ended now, with this status."""

    def store(connection: Connection) -> None:
        connection.execute(
            "UPDATE sweeps SET finished_at = $now, status = $status WHERE sweep_id = $id",
            {"now": now, "status": status, "id": sweep_id},
        )
        if status == "finished":
            connection.execute(_FINISHED, {"id": sweep_id})

    warehouse.run(store)


def refreshes(warehouse: Warehouse, statuses: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    """Return the sweeps of these statuses that executed everything anew: id and selection, oldest first."""
    frame = warehouse.frame(
        """SELECT sweep_id, selection::VARCHAR FROM sweeps
           WHERE refresh = 'all' AND list_contains($1::VARCHAR[], status) ORDER BY sweep_id""",
        [list(statuses)],
    )
    return [(sweep_id, orjson.loads(selection or "{}")) for sweep_id, selection in frame.iter_rows()]


def pairs_with_answers_before(warehouse: Warehouse, sweep_id: str, pairs: Sequence[PairKey]) -> set[PairKey]:
    """Return those of the pairs that have a current answer of an earlier sweep."""
    if not pairs:
        return set()
    frame = warehouse.frame(_ANSWERED_BEFORE, [*_pair_values(pairs), sweep_id])
    return {PairKey(suite, runner) for suite, runner in frame.iter_rows()}


def abandon_refreshes(warehouse: Warehouse) -> None:
    """Mark interrupted sweeps that were to execute everything anew as abandoned: nothing of them is left to do."""
    with warehouse.transaction() as connection:
        connection.execute("UPDATE sweeps SET status = 'abandoned' WHERE status = 'interrupted' AND refresh = 'all'")


def interrupted_sweep(warehouse: Warehouse, name: str | None = None, *, narrowed: bool = False) -> str | None:
    """Return the id of the newest sweep of a name (None: of those without one) if it did not finish, else None.

    A part of a named sweep is stored without its name: where one is asked for (`narrowed`), it may be of either kind.
    """
    frame = warehouse.frame(
        """SELECT max(newest) AS sweep_id FROM (
               SELECT max(sweep_id) AS newest, arg_max(status, sweep_id) AS status FROM sweeps
               WHERE name IS NOT DISTINCT FROM $1 OR ($2 AND name IS NULL) GROUP BY name)
           WHERE status <> 'finished'""",
        [name, narrowed],
    )
    sweep_id: str | None = frame["sweep_id"][0]
    return sweep_id


def failure_counts(warehouse: Warehouse, pairs: Sequence[PairKey], examples: int) -> pl.DataFrame:
    """Return how many current verdicts of these pairs have each failure class: columns suite, runner, suite_revision,
    failure_class, count, executed, examples (the first case ids), example_reason, label, origin (both NULL in verdicts
    of an older version).

    Expected failures are left out: they need no action. `executed` counts the pair's verdicts of any status. The
    database counts: a pair may have many verdicts with long reasons.
    """
    columns = (
        "suite", "runner", "suite_revision", "failure_class", "case_id", "repetition", "reason", "status",
        "failure_label", "failure_origin",
    )  # fmt: skip
    chosen = ", ".join(f'v."{name}"' for name in columns)
    query = _FAILURE_COUNTS.format(columns=chosen, pairs=_PAIRS, examples=int(examples))
    return warehouse.frame(query, _pair_values(pairs))


def failed_cases(
    warehouse: Warehouse,
    by_case: Mapping[PairKey, bool],
    *,
    cases: Iterable[str] = (),
    tags: Iterable[str] = (),
    without: Collection[tuple[str, str]] = (),
    most: int,
) -> pl.DataFrame:
    """Return the cases of these pairs of which a current verdict is not as expected: columns suite, runner, case_id,
    repetitions, failed, status, failure_class, reason, failure_label, execution_id (of the first of them), total.

    The value of a pair is whether its repetitions become one result per case; then a case that passed by the strategy
    of its suite is left out. `cases` and `tags` narrow the cases down, `without` has suite and id of those to
    leave out; `total` counts the cases beyond `most` too.
    """
    values = [*_pair_values(list(by_case)), list(by_case.values()), list(cases), list(tags), most]
    values += [[suite for suite, _ in without], [case_id for _, case_id in without]]
    # The view `case_results` costs as much as all the rest: it is left out where no suite needs it.
    query = _FAILED_CASES.format(settled=_NOT_SETTLED if any(by_case.values()) else "")
    return warehouse.frame(query, values)


def workspace_places(warehouse: Warehouse, executions: Sequence[str]) -> dict[str, str]:
    """Return the folder of the workspace of each of these executions that has one; it may be deleted since."""
    query = """SELECT execution_id, json_extract_string(workspace, '$.path') AS path FROM target_executions
               WHERE execution_id IN (SELECT unnest($1::VARCHAR[])) AND path IS NOT NULL"""
    return dict(warehouse.frame(query, [list(executions)]).iter_rows())


def failed_lines(warehouse: Warehouse, executions: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return file and line of the first failed check of each of these executions that has one."""
    query = """SELECT execution_id, json_extract_string(details, '$.source[0]') AS file,
                      json_extract(details, '$.source[1]')::INTEGER AS line
               FROM current_scores
               WHERE execution_id IN (SELECT unnest($1::VARCHAR[])) AND file IS NOT NULL AND line IS NOT NULL
               ORDER BY evaluator DESC"""
    return {execution: (file, line) for execution, file, line in warehouse.frame(query, [list(executions)]).iter_rows()}


def pair_sizes(warehouse: Warehouse) -> pl.DataFrame:
    """Return the number of plans of each current pair: suite, runner, suite_plans."""
    return warehouse.frame("SELECT suite, runner, suite_plans::BIGINT AS suite_plans FROM current_pairs")


def failure_classes(warehouse: Warehouse, pairs: Sequence[PairKey] | None = None) -> pl.DataFrame:
    """Return the stored failure classes of these pairs (None: of all), most frequent first."""
    where, values = ("true", []) if pairs is None else (f"(suite, runner) IN {_PAIRS}", _pair_values(pairs))
    order = "ORDER BY suite, runner, count DESC, failure_class"
    return warehouse.frame(f"SELECT * FROM failure_classes WHERE {where} {order}", values)


def replace_failure_classes(warehouse: Warehouse, frame: pl.DataFrame, pairs: Sequence[PairKey]) -> pl.DataFrame:
    """Store a frame as the failure classes of these pairs in place of the present ones; return what is stored."""
    stored = frame.select(BY_NAME["failure_classes"].column_names)
    with warehouse.transaction() as connection:
        connection.execute(f"DELETE FROM failure_classes WHERE (suite, runner) IN {_PAIRS}", _pair_values(pairs))
        warehouse.write("failure_classes", stored.iter_rows(named=True))
    return stored


def append_standings(warehouse: Warehouse, frame: pl.DataFrame, board_id: str, now: datetime) -> pl.DataFrame:
    """Store a frame as a new board beside the older ones; return its standings. One without any is a row of a scope of
    its own, so that it is the newest board."""
    of_board = {"board_id": pl.lit(board_id), "computed_at": pl.lit(now.replace(tzinfo=None))}
    standings = frame.with_columns(**of_board).select(BY_NAME["leaderboards"].column_names)
    if standings.is_empty():
        warehouse.write("leaderboards", [{"board_id": board_id, "computed_at": now, "scope": "none"}])
    else:
        warehouse.replace("leaderboards", standings, {"board_id": board_id})
    return standings


def newest_standings(warehouse: Warehouse) -> pl.DataFrame:
    """Return the standings of the newest board, with who played the users."""
    standings = warehouse.frame(
        f"SELECT * FROM leaderboards WHERE board_id = (SELECT max(board_id) FROM leaderboards) AND {IS_STANDING}"
        " ORDER BY suite, rank, runner"
    )
    return with_simulators(standings, warehouse.frame)


def needs_ranking(warehouse: Warehouse) -> bool:
    """Return whether there is no board, or finished sweeps stored verdicts that the newest board does not have."""
    query = "SELECT 1 WHERE EXISTS (FROM unranked_pairs WHERE finished) OR NOT EXISTS (FROM leaderboards)"
    return bool(len(warehouse.frame(query)))


def unranked_pairs(warehouse: Warehouse) -> set[PairKey]:
    """Return the pairs whose verdicts a sweep stored that did not come to its end, and that no board has."""
    rows = warehouse.frame("SELECT suite, runner FROM unranked_pairs WHERE NOT finished").iter_rows()
    return {PairKey(suite, runner) for suite, runner in rows}


def mark_unranked(warehouse: Warehouse, pairs: Sequence[PairKey]) -> None:
    """Note that verdicts of these pairs are being stored that no board has."""

    def store(connection: Connection) -> None:
        connection.execute(f"DELETE FROM unranked_pairs WHERE (suite, runner) IN {_PAIRS}", _pair_values(pairs))
        connection.execute(
            "INSERT INTO unranked_pairs SELECT unnest($1::VARCHAR[]), unnest($2::VARCHAR[]), false", _pair_values(pairs)
        )

    warehouse.run(store)


class CaseCounts(NamedTuple):
    """A case of a pair: what it clusters with, its graded plans, how many of these passed at their first answer, the
    sum of the scores of these answers, and its weight (None: all count the same)."""

    case_id: str
    cluster: str
    graded: int
    passed: int
    score_sum: float
    weight: float | None


def case_counts(warehouse: Warehouse, pair: PairKey) -> list[CaseCounts]:
    """Return the cases of a current pair with their counts."""
    frame = warehouse.frame(
        """SELECT unnest(s.cases), unnest(s.clusters), unnest(s.graded), unnest(s.passed),
                  unnest(s.score_sums), unnest(s.weights)
           FROM current_pairs c JOIN pair_statistics s USING (statistics_id) WHERE c.suite = $1 AND c.runner = $2""",
        [pair.suite, pair.runner],
    )
    return [CaseCounts(*row) for row in frame.iter_rows()]


def suite_files(warehouse: Warehouse) -> dict[str, str]:
    """Return the file that each stored suite was last loaded from, by the suite's name, the newest last."""
    frame = warehouse.frame(
        """SELECT suite, arg_max(path, loaded_at) FROM suites WHERE path IS NOT NULL
           GROUP BY suite ORDER BY max(loaded_at), suite"""
    )
    return dict(frame.iter_rows())


def clear_unranked(warehouse: Warehouse) -> None:
    """Note that a board has every verdict that finished sweeps stored."""
    with warehouse.transaction() as connection:
        connection.execute("DELETE FROM unranked_pairs WHERE finished")


def costs_are_reported(warehouse: Warehouse, runner: str) -> bool | None:
    """Return whether any completed execution of a runner has a cost; None when nothing completed is stored."""
    if not warehouse.exists():
        return None
    frame = warehouse.frame(
        """SELECT bool_or(cost_usd IS NOT NULL) AS known FROM session_reports
           WHERE runner = $1 AND failure_class IS NULL""",
        [runner],
    )
    known: bool | None = frame["known"][0]
    return known


def published_boards(connection: Connection) -> list[tuple[Any, ...]]:
    """Return each published board: id, time it was computed, number of standings; newest first."""
    query = f"""SELECT board_id, max(computed_at), count(*) FILTER ({IS_STANDING}) FROM leaderboards
                GROUP BY board_id ORDER BY board_id DESC"""
    return connection.execute(query).fetchall()


def published_standings(connection: Connection, board_id: str) -> pl.DataFrame:
    """Return the standings of one published board, of the newest with who played the users; no rows for an unknown
    id."""
    query = f"SELECT * FROM leaderboards WHERE board_id = ? AND {IS_STANDING} ORDER BY scope DESC, suite, rank, runner"
    standings = rows_frame(connection, query, [board_id])
    newest = connection.execute("SELECT max(board_id) FROM leaderboards").fetchone()
    if newest != (board_id,):
        return standings
    return with_simulators(standings, lambda query: rows_frame(connection, query, []))
