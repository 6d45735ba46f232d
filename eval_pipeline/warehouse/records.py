"""Published results → everything about each plan, as exports write it, in a stream: a few pairs are in memory at a
time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import duckdb

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.model import SessionReport, Usage
from eval_pipeline.scores.model import Score, Status, SubScore, Verdict
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.codec import decoder, field_names, value_of
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.first_verdicts import FIRST_ANSWERS, FIRST_SCORE, FIRST_STATUS
from eval_pipeline.warehouse.rows import LONG_TEXT
from eval_pipeline.warehouse.selections import Selection, existing_columns, read_weights
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.stored_pairs import grouped
from eval_pipeline.warehouse.tables import BY_NAME

BATCH = 1_000
_AT_ONCE = 4_000
"""Plans of the pairs that are read with one query."""
_COUNTING_MB = 64
"""What DuckDB takes while plans are counted: what it reads stays in memory, up to this limit."""
_ZONED = "TIMESTAMP WITH TIME ZONE"
_MEMORY_MB = 96
_PLAN_MB = 1 / 128
"""What DuckDB needs at most to sort a plan."""


_EXECUTION_FIELDS = ("started_at", "finished_at", "error", "answered_by", "retry_of")
_OF_EXECUTIONS = ("target_executions", "session_reports", "session_events", "evaluator_scores", "member_scores")
_READ: Mapping[str, frozenset[str]] = {
    "verdicts": field_names(ResultRow, Verdict) | {"score_keys"},
    "cases": (field_names(ResultRow) | {"case_group", "position"}) - {"strategy", *BY_NAME["verdicts"].column_names},
    "suites": frozenset({"category"}),
    "target_executions": frozenset({*_EXECUTION_FIELDS, "execution_id", "attempt_count", "workspace"}),
    "session_reports": field_names(SessionReport, Usage) | {"reported_times", "turns", "answer_cost_usd"},
    "session_events": frozenset({"execution_id", "event", "text"}),
    "evaluator_scores": field_names(Score),
    "member_scores": field_names(SubScore) | {"execution_id", "spec_key", "member"},
}
"""The columns of each table that are part of a ResultRow."""
Layout = Mapping[str, Sequence[tuple[str, str]]]
"""The columns of each table that are read, with their types: those of _READ that exist."""
TEXT_BESIDE = f"CASE WHEN strlen(t.text) > {LONG_TEXT} THEN t.text END"
"""The text of an event where it may be stored beside it only."""
_STRATEGIES = """
    LEFT JOIN (SELECT suite, runner, suite_revision, runner_revision, arg_max(strategy, sweep_id) AS strategy
               FROM sweep_pairs GROUP BY ALL) p USING (suite, runner, suite_revision, runner_revision)"""
_ORDER = {"session_events": "execution_id, position", "member_scores": "execution_id, spec_key, position"}


def read_records(connection: Connection, selection: Selection) -> Iterator[ResultRow]:
    """Yield everything about the selected plans, by suite and runner, cases in their order; fetched in batches."""
    layout = {table: _existing(connection, table, names) for table, names in _READ.items()}
    for group in selected_groups(connection, selection):
        yield from _records_of(connection, group, layout)


def selected_groups(connection: Connection, selection: Selection, memory_mb: int = _MEMORY_MB) -> Iterator[Selection]:
    """Yield the selection a few pairs at a time, sorted. While it is read, DuckDB takes `memory_mb`, and what plans
    take beyond that."""
    try:
        connection.execute(f"SET memory_limit = '{_COUNTING_MB}MB'")
        counts = _plans_by_pair(connection, selection)
        most = max((plans for *_, plans in counts), default=0)
        connection.execute(f"SET memory_limit = '{int(memory_mb + max(_AT_ONCE, most) * _PLAN_MB)}MB'")
        for suite, runners in _groups(counts):
            yield replace(selection, suites=(suite,), runners=tuple(runners))
    finally:
        with suppress(duckdb.Error):  # the connection may be closed before the last row is read
            connection.execute("RESET memory_limit")


def _plans_by_pair(connection: Connection, selection: Selection) -> list[tuple[str, str, int]]:
    """Return the selected pairs, sorted, with a number that is at least that of their plans."""
    return connection.execute(
        f"""SELECT v.suite, v.runner, count(*)
            FROM verdicts v SEMI JOIN ({selection.pairs}) USING (suite, runner, suite_revision, runner_revision)
            WHERE {selection.within("v")} GROUP BY v.suite, v.runner ORDER BY v.suite, v.runner""",
        selection.names if selection.id is None else {**selection.names, "id": selection.id},
    ).fetchall()


def _groups(counts: Sequence[tuple[str, str, int]]) -> Iterator[tuple[str, list[str]]]:
    """Yield runners of one suite that have few plans together."""
    for suite, pairs in groupby(counts, key=lambda pair: pair[0]):
        runners, together = list[str](), 0
        for _, runner, plans in pairs:
            if runners and together + plans > _AT_ONCE:
                yield suite, runners
                runners, together = [], 0
            runners.append(runner)
            together += plans
        yield suite, runners


def _records_of(connection: Connection, selection: Selection, layout: Layout) -> Iterator[ResultRow]:
    columns = [_chosen("v", *column) for column in layout["verdicts"]]
    columns += [_chosen("t", *column) for column in layout["cases"]]
    columns += ["s.path AS suite_path", "r.adapter", "r.settings", *(f"s.{name}" for name, _ in layout["suites"])]
    joins = """LEFT JOIN cases t USING (suite, suite_revision, case_id)
               LEFT JOIN suites s USING (suite, suite_revision)
               LEFT JOIN runners r USING (runner, runner_revision)"""
    if all("strategy" in existing_columns(connection, table) for table in ("cases", "sweep_pairs")):
        columns.append("coalesce(t.strategy, p.strategy) AS strategy")
        joins += _STRATEGIES
    order = "ORDER BY v.suite, v.runner, t.position, v.case_id, v.repetition"
    chosen = connection.cursor()  # a second cursor: each batch runs queries while this one is open
    chosen.execute(selection.query(", ".join(columns), joins, order), selection.values)
    names = [column[0] for column in chosen.description or ()]
    decode = decoder(names, *(BY_NAME[table] for table in ("verdicts", "cases", "runners", "suites")))
    weights, counted = read_weights(connection, selection), _counted(connection, selection)
    while batch := chosen.fetchmany(BATCH):
        verdicts = [decode(row) for row in batch]
        for row in verdicts if weights else ():
            row["weight"] = weights.get((row["suite"], row["runner"], row["case_id"]))
        for row in verdicts if counted else ():
            row["counted"] = counted.get(row["execution_id"])
        yield from _records(connection, selection, layout, verdicts)
    chosen.close()


def _counted(connection: Connection, selection: Selection) -> dict[str, tuple[Status, float | None]]:
    """Return what counts in rates of the selected plans that were executed again, by execution."""
    if "retry_of" not in existing_columns(connection, "target_executions"):
        return {}  # results of an older version
    retried = f"SELECT 1 FROM target_executions t WHERE retry_of IS NOT NULL AND {selection.within('t')} LIMIT 1"
    if connection.execute(retried, selection.names).fetchone() is None:
        return {}
    columns = f"v.execution_id, {FIRST_STATUS}, {FIRST_SCORE}"
    query = selection.query(columns, f"JOIN ({FIRST_ANSWERS}) f USING (verdict_id)")
    stored = connection.execute(query, selection.values).fetchall()
    return {execution_id: (Status(status), score) for execution_id, status, score in stored}


def _existing(connection: Connection, table: str, names: frozenset[str]) -> list[tuple[str, str]]:
    return [(name, type_) for name, type_ in existing_columns(connection, table).items() if name in names]


def _chosen(table: str, name: str, type_: str) -> str:
    """Return a column of a query; a time is converted by DuckDB, which takes a tenth of what Python takes."""
    if (name, type_) == ("text", "VARCHAR"):
        return f"{TEXT_BESIDE} AS text"
    return f'{table}."{name}"::TIMESTAMP AS "{name}"' if type_ == _ZONED else f'{table}."{name}"'


def _records(connection: Connection, selection: Selection, layout: Layout, verdicts: list[Row]) -> Iterator[ResultRow]:
    ids = [row["execution_id"] for row in verdicts]
    selection = replace(selection, runners=tuple(sorted({row["runner"] for row in verdicts})))  # fewer than the group's
    tables = {name: _of_table(connection, selection, name, layout[name], ids) for name in _OF_EXECUTIONS}
    executions = {row["execution_id"]: row for row in tables["target_executions"]}
    reports = {row["execution_id"]: row for row in tables["session_reports"]}
    lists = ("session_events", "evaluator_scores", "member_scores")
    events, scores, members = (grouped(tables[name]) for name in lists)
    for verdict in verdicts:
        id_ = verdict["execution_id"]
        stored = {row["spec_key"]: _score(row, members.get(id_, ())) for row in scores.get(id_, ())}
        report = rows.stored_report(reports[id_], events.get(id_, ())) if id_ in reports else None
        counted = tuple(stored[key] for key in verdict["score_keys"] or () if key in stored)
        yield _record(verdict, executions.get(id_, {}), report, counted)


def _of_table(
    connection: Connection, selection: Selection, table: str, columns: Sequence[tuple[str, str]], ids: list[str]
) -> list[Row]:
    """Return the rows of these executions of the selected pairs; columns that an older version lacks are None."""
    if not columns:
        return []
    chosen = ", ".join(_chosen("t", *column) for column in columns)
    order = f"ORDER BY {_ORDER[table]}" if table in _ORDER else ""
    query = f"""SELECT {chosen} FROM "{table}" t
                WHERE {selection.within("t")} AND t.execution_id IN (SELECT unnest($ids::VARCHAR[])) {order}"""
    stored = connection.execute(query, {"ids": ids, **selection.names}).fetchall()
    return list(map(decoder([name for name, _ in columns], BY_NAME[table]), stored))


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


def _score(row: Row, members: Sequence[Row]) -> Score:
    return rows.stored_score(row, [member for member in members if member["spec_key"] == row["spec_key"]])
