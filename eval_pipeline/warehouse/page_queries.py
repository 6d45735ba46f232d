"""Published results → what the page shows: grids of a suite, found cases, histories, sweeps, changes, failures.

Each function takes a connection to published results and returns plain values; `pages/` makes documents of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.selections import Selection, existing_columns
from eval_pipeline.warehouse.store import Connection

if TYPE_CHECKING:
    from eval_pipeline.statistics.pair_sums import PairSums

_CELLS = """
    WITH chosen AS ({chosen}),
    cells AS (
        SELECT case_id, runner, any_value(suite_revision) AS suite_revision, avg(score) AS score,
               string_agg(CASE status WHEN 'passed' THEN 'p' WHEN 'expected-failed' THEN 'e' WHEN 'failed' THEN 'f'
                                      WHEN 'unexpected-passed' THEN 'u' ELSE 'x' END, '' ORDER BY repetition) AS marks
        FROM chosen GROUP BY case_id, runner),
    places AS (
        SELECT k.case_id, k.suite_revision, k.position, k.tags
        FROM cases k SEMI JOIN cells c ON c.case_id = k.case_id AND c.suite_revision = k.suite_revision
        WHERE k.suite = $suite_0),
    listed AS (
        SELECT c.case_id, min(p.position) AS position, any_value(p.tags) AS tags
        FROM cells c LEFT JOIN places p USING (case_id, suite_revision) GROUP BY c.case_id)"""
_CASES = f"{_CELLS} SELECT case_id, tags FROM listed ORDER BY position, case_id"
_BY_RUNNER = f"""{_CELLS}
    SELECT r.runner, list(coalesce(c.marks, '') ORDER BY l.position, l.case_id),
           list(round(c.score, 4) ORDER BY l.position, l.case_id)
    FROM (SELECT DISTINCT runner FROM cells) r CROSS JOIN listed l
    LEFT JOIN cells c ON c.runner = r.runner AND c.case_id = l.case_id
    GROUP BY r.runner ORDER BY r.runner"""
_ANSWERS = """v.case_id, v.runner, v.status, v.score, v.failure_class, left(v.reason, 400) AS reason,
    left(s.final_output, 400) AS output, v.repetition"""
_QUESTIONS = """SELECT case_id, arg_max(input, suite_revision = $revision)::VARCHAR FROM cases
    WHERE suite = $suite AND list_contains($cases::VARCHAR[], case_id) GROUP BY case_id"""
_FOUND = """
    SELECT DISTINCT v.case_id FROM ({chosen}) v
    LEFT JOIN session_reports s USING (execution_id)
    LEFT JOIN cases k ON k.suite = v.suite AND k.suite_revision = v.suite_revision AND k.case_id = v.case_id
    WHERE contains(lower(v.case_id), $text) OR contains(lower(coalesce(s.final_output, '')), $text)
       OR contains(lower(coalesce(v.reason, '')), $text) OR contains(lower(coalesce(k.input::VARCHAR, '')), $text)
       OR contains(lower(coalesce(k.criteria, '')), $text)"""
_HISTORY = """
    SELECT v.sweep_id, v.runner, v.repetition, v.status, v.score, v.decided_at::VARCHAR AS decided_at, v.execution_id,
           v.suite_revision
    FROM verdicts v WHERE v.suite = $suite AND v.case_id = $case
    QUALIFY row_number() OVER (
        PARTITION BY v.sweep_id, v.runner, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1
    ORDER BY v.runner, v.repetition, v.decided_at"""
_HISTORIES = """
    SELECT v.suite, v.case_id, v.sweep_id, v.runner, v.repetition, v.status, v.score,
           v.decided_at::VARCHAR AS decided_at
    FROM verdicts v
    WHERE (len($suites::VARCHAR[]) = 0 OR list_contains($suites::VARCHAR[], v.suite))
      AND (len($runners::VARCHAR[]) = 0 OR list_contains($runners::VARCHAR[], v.runner))
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.case_id, v.sweep_id, v.runner, v.repetition
        ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1
    ORDER BY v.suite, v.case_id, v.runner, v.repetition, v.decided_at LIMIT $most"""
_SWEEPS = """
    WITH pairs AS (
        SELECT sweep_id, count(*) AS pairs, sum(planned)::BIGINT AS planned, sum(executed)::BIGINT AS executed,
               sum(reused)::BIGINT AS reused, sum(rescored)::BIGINT AS rescored, sum(passed)::BIGINT AS passed,
               sum(failed)::BIGINT AS failed, sum(errored)::BIGINT AS errored
        FROM sweep_pairs GROUP BY sweep_id),
    money AS (
        SELECT e.sweep_id, sum(r.cost_usd) AS cost_usd, count(r.cost_usd) AS cost_known, count(*) AS cost_of
        FROM target_executions e LEFT JOIN session_reports r USING (execution_id) GROUP BY e.sweep_id)
    SELECT s.sweep_id, s.started_at::VARCHAR AS started_at, s.finished_at::VARCHAR AS finished_at, s.status, s.refresh,
           s.dagster_run_id, {name}, p.* EXCLUDE (sweep_id), m.cost_usd, m.cost_known, m.cost_of
    FROM sweeps s LEFT JOIN pairs p USING (sweep_id) LEFT JOIN money m USING (sweep_id)
    ORDER BY s.sweep_id DESC LIMIT $most"""
_CHANGES = """
    SELECT suite, runner, case_id, repetition, change, status_before, status_after, score_before, score_after,
           failure_class, left(reason, 300) AS reason, count(*) OVER (PARTITION BY change) AS of_change
    FROM changes_between($before, $after) WHERE change <> 'same'
    QUALIFY row_number() OVER (PARTITION BY change ORDER BY suite, case_id, runner, repetition) <= $most
    ORDER BY suite, case_id, runner, repetition"""
_BOARD_HISTORY = """
    SELECT board_id, computed_at::VARCHAR AS computed_at, suite, runner, pass_rate, pass_rate_low, pass_rate_high
    FROM leaderboards WHERE scope = 'suite' AND pass_rate IS NOT NULL
      AND board_id IN (SELECT DISTINCT board_id FROM leaderboards ORDER BY board_id DESC LIMIT $most)
    ORDER BY board_id, suite, runner"""
_FAILURES = """
    SELECT f.suite, f.runner, f.failure_class, f.label, f.origin, f.count, f.share, f.examples, f.example_reason
    FROM failure_classes f
    SEMI JOIN current_pairs c ON c.suite = f.suite AND c.runner = f.runner AND c.suite_revision = f.suite_revision
    ORDER BY f.count DESC, f.failure_class, f.suite, f.runner"""
_DIFFERENCES = """
    SELECT d.suite, d.runner, d.other_runner, d.shared, d.clusters, d.ups, d.downs, d.total, d.squares, d.products,
           d.sizes, d.step, d.changes
    FROM runner_differences d
    SEMI JOIN (SELECT suite, board_key FROM leaderboards WHERE board_id = $board) USING (suite, board_key)
    ORDER BY d.suite, d.runner, d.other_runner"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The cases of a suite in their order, and for each runner the marks of every case's repetitions (`p` passed, `e`
    failed as expected, `f` failed, `u` passed unexpectedly, `x` not graded) with its mean score."""

    cases: Sequence[str]
    tags: Sequence[Sequence[str]]
    marks: Mapping[str, Sequence[str]]
    scores: Mapping[str, Sequence[float | None]]


def suite_grid(connection: Connection, selection: Selection) -> Grid:
    """Return the grid of a selection of one suite."""
    chosen = selection.query("v.*")
    listed = connection.execute(_CASES.format(chosen=chosen), selection.values).fetchall()
    runners = connection.execute(_BY_RUNNER.format(chosen=chosen), selection.values).fetchall()
    return Grid(
        cases=[case_id for case_id, _ in listed],
        tags=[tags or [] for _, tags in listed],
        marks={runner: marks for runner, marks, _ in runners},
        scores={runner: scores for runner, _, scores in runners},
    )


def grid_answers(connection: Connection, selection: Selection) -> list[Row]:
    """Return verdict, reason and the beginning of the answer of each selected plan, by case, runner and repetition."""
    joins = "LEFT JOIN session_reports s USING (execution_id)"
    query = selection.query(_ANSWERS, joins, "ORDER BY v.case_id, v.runner, v.repetition")
    return _rows(connection, query, selection.values)


def suite_revision(connection: Connection, selection: Selection) -> str | None:
    """Return the revision of the first suite of a selection, the one that was loaded last where runners have several;
    None where nothing of it is selected."""
    values = {"suite": selection.suites[0]} | ({} if selection.id is None else {"id": selection.id})
    found = connection.execute(
        f"""SELECT p.suite_revision FROM ({selection.pairs}) p LEFT JOIN suites s USING (suite, suite_revision)
            WHERE p.suite = $suite ORDER BY s.loaded_at DESC NULLS LAST LIMIT 1""",
        values,
    )
    row = found.fetchone()
    return row[0] if row is not None else None


def questions(connection: Connection, suite: str, revision: str | None, cases: Sequence[str]) -> dict[str, str | None]:
    """Return the stored input (JSON) of cases, at a revision of their suite where it is stored."""
    values = {"suite": suite, "revision": revision or "", "cases": list(cases)}
    return dict(connection.execute(_QUESTIONS, values).fetchall())


def find_cases(connection: Connection, selection: Selection, text: str) -> list[str]:
    """Return the cases whose id, input, criteria, an answer or a reason contains a text, whatever its case."""
    values = selection.values | {"text": text.lower()}
    found = connection.execute(_FOUND.format(chosen=selection.query("v.*")), values).fetchall()
    return [case_id for (case_id,) in found]


def case_history(connection: Connection, suite: str, case_id: str) -> list[Row]:
    """Return the last verdict of each plan of a case in every sweep, oldest first."""
    return _rows(connection, _HISTORY, {"suite": suite, "case": case_id})


def histories(connection: Connection, suites: Sequence[str], runners: Sequence[str], most: int) -> list[Row]:
    """Return the histories of all cases of these suites and runners (empty: all); none of more than `most` verdicts."""
    values = {"suites": list(suites), "runners": list(runners), "most": most + 1}
    rows = _rows(connection, _HISTORIES, values)
    return rows if len(rows) <= most else []


def rows_of_view(connection: Connection, view: str) -> list[Row]:
    """Return all rows of one of our views; none where it does not exist."""
    found = connection.execute("SELECT 1 FROM duckdb_views() WHERE view_name = ?", [view]).fetchone()
    return _rows(connection, f'SELECT * FROM "{view}"', {}) if found is not None else []


def current_names(connection: Connection) -> list[tuple[str, str]]:
    """Return suite and runner of each current pair."""
    return connection.execute("SELECT suite, runner FROM current_pairs ORDER BY suite, runner").fetchall()


def sweep_rows(connection: Connection, most: int) -> list[Row]:
    """Return the newest sweeps with what they did and what their executions cost."""
    name = "s.name" if "name" in existing_columns(connection, "sweeps") else "NULL AS name"
    return _rows(connection, _SWEEPS.format(name=name), {"most": most})


def changes(connection: Connection, before: str, after: str, most: int) -> list[Row]:
    """Return what became of the plans of two sweeps, without those that are as before: at most so many of each kind
    of change; `of_change` counts all."""
    return _rows(connection, _CHANGES, {"before": before, "after": after, "most": most})


def board_history(connection: Connection, most: int) -> list[Row]:
    """Return the pass rates of suites and runners on the newest boards, oldest first."""
    return _rows(connection, _BOARD_HISTORY, {"most": most})


def current_failures(connection: Connection) -> list[Row]:
    """Return the failure classes of current results by suite and runner, the most frequent first."""
    names = set(existing_columns(connection, "failure_classes"))
    return _rows(connection, _FAILURES, {}) if "label" in names else []


def board_differences(connection: Connection, board_id: str) -> Iterator[tuple[str, str, str, PairSums]]:
    """Yield suite, runner, other runner and the sums of their differences, of the suites of a board."""
    if not existing_columns(connection, "runner_differences"):
        return
    from eval_pipeline.statistics.pair_sums import PairSums  # noqa: PLC0415 — imports numpy, which exports do not need

    for row in _rows(connection, _DIFFERENCES, {"board": board_id}):
        names = (row.pop("suite"), row.pop("runner"), row.pop("other_runner"))
        yield (*names, PairSums(**row))


def of_cases(selection: Selection, suite: str, cases: Sequence[str]) -> Selection:
    """Return the part of a selection that has these cases of a suite."""
    kept = [case for case in cases if not selection.cases or case in selection.cases]
    return replace(selection, suites=(suite,), cases=tuple(kept) or ("",))


def _rows(connection: Connection, query: str, values: dict[str, Any]) -> list[Row]:
    cursor = connection.execute(query, values)
    names = [str(column[0]) for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
