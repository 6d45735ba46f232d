"""Published results → the rows that comparisons, trends and exports read: of a sweep, of a board, or the current ones.

A sweep's rows are the newest verdicts at its end, whether the sweep executed the plan or reused its execution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.results import ATTEMPT, RESULT_COLUMNS, Results
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Score
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.codec import decoder, utc, value_of
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.stored_pairs import grouped
from eval_pipeline.warehouse.tables import BY_NAME

BATCH = 2_000
_RECENT = {"latest": 0, "previous": 1}

_PAIRS = {
    "current": """
        SELECT suite, runner, suite_revision, runner_revision, NULL::TIMESTAMPTZ AS until, NULL::INTEGER AS repetitions
        FROM current_pairs SEMI JOIN (
            SELECT suite, arg_max(suite_revision, finished_at) AS suite_revision FROM current_pairs GROUP BY suite)
            USING (suite, suite_revision)""",
    "sweep": """
        SELECT suite, runner, suite_revision, runner_revision, finished_at AS until, repetitions
        FROM sweep_pairs WHERE sweep_id = $id""",
    "board": """
        SELECT suite, runner, suite_revision, runner_revision, computed_at AS until, NULL::INTEGER AS repetitions
        FROM leaderboards WHERE board_id = $id AND scope = 'suite'""",
}
_CHOSEN = """
    WITH pairs AS ({pairs})
    SELECT v.* FROM verdicts v JOIN pairs c USING (suite, runner, suite_revision, runner_revision)
    WHERE (c.until IS NULL OR v.decided_at <= c.until)
      AND (c.repetitions IS NULL OR v.repetition <= c.repetitions)
      AND (len($cases) = 0 OR list_contains($cases, v.case_id))
      AND (len($tags) = 0 OR list_has_any(v.tags, $tags))
      AND (len($suites) = 0 OR list_contains($suites, v.suite))
      AND (len($runners) = 0 OR list_contains($runners, v.runner))
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.runner, v.case_id, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1"""
_ATTEMPTS = """
    WITH chosen AS ({chosen}),
    earlier AS (
        SELECT c.suite, c.runner, c.suite_revision, c.case_id, c.repetition, v.status, v.score, v.executed_at,
               v.execution_id
        FROM chosen c JOIN target_executions e USING (execution_id)
        JOIN target_executions o ON coalesce(o.retry_of, o.execution_id) = e.retry_of AND o.started_at < e.started_at
        JOIN verdicts v ON v.execution_id = o.execution_id AND v.decision_key = c.decision_key
        WHERE v.status <> 'error'
        QUALIFY row_number() OVER (PARTITION BY c.verdict_id, v.execution_id ORDER BY v.decided_at DESC) = 1),
    answers AS (
        SELECT suite, runner, suite_revision, case_id, repetition, status, score, executed_at, execution_id FROM chosen
        UNION ALL SELECT * FROM earlier)
    SELECT *, row_number() OVER (
        PARTITION BY suite, runner, case_id, repetition
        ORDER BY status = 'error', executed_at, execution_id)::INTEGER AS attempt
    FROM answers QUALIFY attempt = 1 OR status <> 'error'"""
_CONTENT = """
    SELECT suite, suite_revision, case_id,
           md5(concat_ws(chr(30), input::VARCHAR, coalesce(criteria, ''), coalesce(expected_output::VARCHAR, ''),
                         evaluators::VARCHAR, coalesce(threshold::VARCHAR, ''), expected_fail::VARCHAR)) AS content,
           json_extract_string(metadata, $cluster_by) AS cluster
    FROM cases"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which plans are selected: current, of a sweep or of a board, of these suites and runners (empty: all).

    `cases` and `tags` are the selection of the sweep itself.
    """

    kind: str = "current"
    id: str | None = None
    at: datetime | None = None
    cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.kind if self.id is None else f"{self.kind}:{self.id}"

    def query(self, columns: str, joins: str = "", order: str = "") -> str:
        """Return a query over the selected verdicts, aliased `v`."""
        chosen = _CHOSEN.format(pairs=_PAIRS[self.kind])
        return f"SELECT {columns} FROM ({chosen}) v {joins} {order}"

    @property
    def values(self) -> dict[str, Any]:
        lists = {name: list(getattr(self, name)) for name in ("cases", "tags", "suites", "runners")}
        return lists if self.id is None else {**lists, "id": self.id}


def select(
    connection: Connection,
    what: str = "current",
    *,
    suites: Sequence[str] = (),
    runners: Sequence[str] = (),
) -> Selection:
    """Return the selection of `current`, `sweep:ID` or `board:ID`; ID may be a prefix, `latest` or `previous`.

    Raises UnknownName for a sweep, board, suite or runner that does not exist.
    """
    kind, _, requested = what.partition(":")
    if kind not in _PAIRS or (kind == "current") == bool(requested):
        raise InputError(f"'{what}' names no results; expected current, sweep:ID or board:ID")
    selection = _FIND[kind](connection, requested) if requested else Selection()
    _check_names(connection, selection, suites, runners)
    return Selection(
        kind=selection.kind, id=selection.id, at=selection.at, cases=selection.cases, tags=selection.tags,
        suites=tuple(suites), runners=tuple(runners),
    )  # fmt: skip


def _sweep(connection: Connection, requested: str) -> Selection:
    id_ = _named("sweep", requested, sweep_ids(connection))
    stored = connection.execute("SELECT started_at, selection FROM sweeps WHERE sweep_id = ?", [id_]).fetchone()
    row = decoder(("started_at", "selection"), BY_NAME["sweeps"])(stored or (None, None))
    selection = row["selection"] or {}
    return Selection(
        kind="sweep", id=id_, at=row["started_at"], cases=tuple(selection.get("cases") or ()),
        tags=tuple(selection.get("tags") or ()),
    )  # fmt: skip


def _board(connection: Connection, requested: str) -> Selection:
    query = "SELECT board_id, max(computed_at) FROM leaderboards GROUP BY board_id ORDER BY board_id DESC"
    boards = dict(connection.execute(query).fetchall())
    id_ = _named("board", requested, list(boards))
    return Selection(kind="board", id=id_, at=utc(boards[id_]) if boards[id_] is not None else None)


_FIND = {"sweep": _sweep, "board": _board}


def sweep_ids(connection: Connection, suites: Sequence[str] = (), runners: Sequence[str] = ()) -> list[str]:
    """Return the sweeps that stored results (of these suites and runners), newest first."""
    stored = connection.execute(
        """SELECT DISTINCT sweep_id FROM sweep_pairs
           WHERE (len($suites) = 0 OR list_contains($suites, suite))
             AND (len($runners) = 0 OR list_contains($runners, runner)) ORDER BY sweep_id DESC""",
        {"suites": list(suites), "runners": list(runners)},
    ).fetchall()
    return [sweep_id for (sweep_id,) in stored]


def runner_names(connection: Connection) -> list[str]:
    """Return the runners of all sweeps."""
    names = connection.execute("SELECT DISTINCT runner FROM sweep_pairs ORDER BY runner").fetchall()
    return [runner for (runner,) in names]


def _named(kind: str, requested: str, ids: Sequence[str]) -> str:
    """Return the id that a text selects. `ids` are newest first."""
    if requested in _RECENT and len(ids) > _RECENT[requested]:
        return ids[_RECENT[requested]]
    matches = [id_ for id_ in ids if id_ == requested] or [id_ for id_ in ids if id_.startswith(requested)]
    if len(matches) != 1:
        raise UnknownName(kind, requested, matches or ids[:20])
    return matches[0]


def _check_names(connection: Connection, selection: Selection, suites: Sequence[str], runners: Sequence[str]) -> None:
    query = f"SELECT DISTINCT suite, runner FROM ({_PAIRS[selection.kind]})"
    pairs = connection.execute(query, {"id": selection.id} if selection.id is not None else {}).fetchall()
    for kind, names, known in (("suite", suites, {s for s, _ in pairs}), ("runner", runners, {r for _, r in pairs})):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)


def read_results(
    connection: Connection, selection: Selection, name: str | None = None, cluster_by: str | None = None
) -> Results:
    """Return the selected plans as rows to compare, each with the first of its graded answers: what was tried again
    because it failed is no better for it. `cluster_by` is the key of the metadata of cases that clusters them."""
    results = read_attempts(connection, selection, name, cluster_by)
    frame = results.frame.filter(pl.col(ATTEMPT) == 1).drop(ATTEMPT)
    return Results(results.name, frame, results.at)


def read_attempts(
    connection: Connection, selection: Selection, name: str | None = None, cluster_by: str | None = None
) -> Results:
    """Return every graded answer to the selected plans, with the column ATTEMPT; one row of a plan without any."""
    query = selection.query("v.*")
    if "retry_of" in _columns(connection, "target_executions"):
        query = _ATTEMPTS.format(chosen=query)
    else:  # results of an older version
        query = f"SELECT *, 1 AS {ATTEMPT} FROM ({query})"
    columns = f"v.suite, v.runner, v.case_id, v.repetition, v.status, v.score, t.content, t.cluster, v.{ATTEMPT}"
    joins = f"LEFT JOIN ({_CONTENT}) t USING (suite, suite_revision, case_id)"
    values = selection.values | {"cluster_by": None if cluster_by is None else f"$.{orjson.dumps(cluster_by).decode()}"}
    answers = connection.execute(f"SELECT {columns} FROM ({query}) v {joins}", values).fetchall()
    frame = pl.DataFrame(answers, schema={**RESULT_COLUMNS, ATTEMPT: pl.Int32}, orient="row")
    return Results(name or selection.name, frame, selection.at)


def count_plans(connection: Connection, selection: Selection) -> int:
    """Return the number of selected plans."""
    row = connection.execute(selection.query("count(*)"), selection.values).fetchone()
    return int(row[0]) if row else 0


def read_records(connection: Connection, selection: Selection) -> Iterator[ResultRow]:
    """Yield everything about the selected plans, by suite and runner, cases in their order; fetched in batches."""
    in_verdicts = set(BY_NAME["verdicts"].column_names)
    columns = [f'v."{name}"' for name in _columns(connection, "verdicts")]
    columns += [f't."{name}"' for name in _columns(connection, "cases") if name not in in_verdicts]
    columns += ["s.path AS suite_path", "r.adapter", "r.settings"]
    columns += [f"s.{name}" for name in _columns(connection, "suites") if name == "category"]
    joins = """LEFT JOIN cases t USING (suite, suite_revision, case_id)
               LEFT JOIN suites s USING (suite, suite_revision)
               LEFT JOIN runners r USING (runner, runner_revision)"""
    order = "ORDER BY v.suite, v.runner, t.position, v.case_id, v.repetition"
    chosen = connection.cursor()  # a second cursor: each batch runs queries while this one is open
    chosen.execute(selection.query(", ".join(columns), joins, order), selection.values)
    names = [column[0] for column in chosen.description or ()]
    decode = decoder(names, *(BY_NAME[table] for table in ("verdicts", "cases", "runners", "suites")))
    while batch := chosen.fetchmany(BATCH):
        yield from _records(connection, [decode(row) for row in batch])
    chosen.close()


def _records(connection: Connection, verdicts: list[Row]) -> Iterator[ResultRow]:
    ids = [row["execution_id"] for row in verdicts]
    executions = {row["execution_id"]: row for row in _of_table(connection, "target_executions", ids)}
    reports = {row["execution_id"]: row for row in _of_table(connection, "session_reports", ids)}
    events = grouped(_of_table(connection, "session_events", ids, "ORDER BY execution_id, position"))
    scores = grouped(_of_table(connection, "evaluator_scores", ids))
    members = grouped(_of_table(connection, "member_scores", ids, "ORDER BY execution_id, spec_key, position"))
    for verdict in verdicts:
        id_ = verdict["execution_id"]
        stored = {row["spec_key"]: _score(row, members.get(id_, ())) for row in scores.get(id_, ())}
        report = rows.stored_report(reports[id_], events.get(id_, ())) if id_ in reports else None
        counted = tuple(stored[key] for key in verdict["score_keys"] or () if key in stored)
        yield _record(verdict, executions.get(id_, {}), report, counted)


_LARGE = frozenset({"raw", "attempts"})


def _columns(connection: Connection, table: str) -> list[str]:
    """Return the existing columns of a table: results of an older version lack newer ones, or all."""
    stored = connection.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()
    existing = {name for (name,) in stored} - _LARGE
    return [name for name in BY_NAME[table].column_names if name in existing]


def _of_table(connection: Connection, table: str, ids: list[str], order: str = "") -> Iterator[Row]:
    """Yield the rows of these executions; columns that an older version lacks are None."""
    names = _columns(connection, table)
    if not names:
        return
    columns = ", ".join(f'"{name}"' for name in names)
    query = f'SELECT {columns} FROM "{table}" WHERE execution_id IN (SELECT unnest($ids::VARCHAR[])) {order}'
    yield from map(decoder(names, BY_NAME[table]), connection.execute(query, {"ids": ids}).fetchall())


def _record(verdict: Row, execution: Row, report: SessionReport | None, scores: tuple[Score, ...]) -> ResultRow:
    workspace = execution.get("workspace") or {}
    path = workspace.get("path")
    return value_of(
        ResultRow,
        {**{name: execution.get(name) for name in _EXECUTION_FIELDS}, **verdict},
        verdict=rows.stored_verdict(verdict),
        runner_settings=verdict["settings"] or {},
        attempts=execution.get("attempt_count"),
        group=verdict.get("case_group"),
        report=report,
        hooks=workspace.get("hooks") or {},
        workspace_path=path if path is not None and Path(path).is_dir() else None,
        scores=scores,
    )


_EXECUTION_FIELDS = ("started_at", "finished_at", "error", "answered_by", "retry_of")


def _score(row: Row, members: Sequence[Row]) -> Score:
    return rows.stored_score(row, [member for member in members if member["spec_key"] == row["spec_key"]])
