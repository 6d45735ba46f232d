"""The published results → what compares, follows and exports them: the cells of a sweep, of a board, or of now.

A sweep's cells are what stood for them when it ended: the newest verdict until then, whether the sweep carried the
cell out or found it done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import polars as pl

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.leaderboards.results import RESULT_COLUMNS, Results
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.model import Score, Status, SubScore, Verdict
from eval_pipeline.warehouse import rows
from eval_pipeline.warehouse.columns import decoded
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.tables import BY_NAME

BATCH = 2_000
_RECENT = {"latest": 0, "previous": 1}

_CELLS = {
    "current": """
        SELECT suite, runner, suite_revision, runner_revision, NULL::TIMESTAMP AS until, NULL::INTEGER AS repetitions
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
    WITH cells AS ({cells})
    SELECT v.* FROM verdicts v JOIN cells c USING (suite, runner, suite_revision, runner_revision)
    WHERE (c.until IS NULL OR v.decided_at <= c.until)
      AND (c.repetitions IS NULL OR v.repetition <= c.repetitions)
      AND (len($cases) = 0 OR list_contains($cases, v.case_id))
      AND (len($tags) = 0 OR list_has_any(v.tags, $tags))
      AND (len($suites) = 0 OR list_contains($suites, v.suite))
      AND (len($runners) = 0 OR list_contains($runners, v.runner))
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.runner, v.case_id, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1"""
_CONTENT = """
    SELECT suite, suite_revision, case_id,
           md5(concat_ws(chr(30), input::VARCHAR, coalesce(criteria, ''), coalesce(expected_output::VARCHAR, ''),
                         evaluators::VARCHAR, coalesce(threshold::VARCHAR, ''), expected_fail::VARCHAR)) AS content
    FROM cases"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cells are meant: those of now, of a sweep or of a board, of these suites and runners (empty: all).

    `cases` and `tags` are what the sweep itself was narrowed down to.
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
        """A query over the chosen verdicts, which are named `v`."""
        chosen = _CHOSEN.format(cells=_CELLS[self.kind])
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
    """What `current`, `sweep:ID` or `board:ID` means; ID may be the begin of one, `latest` or `previous`.

    Raises UnknownName for a sweep, board, suite or runner that there is not.
    """
    kind, _, wanted = what.partition(":")
    if kind not in _CELLS or (kind == "current") == bool(wanted):
        raise InputError(f"'{what}' names no results; expected current, sweep:ID or board:ID")
    found = _FIND[kind](connection, wanted) if wanted else Selection()
    _check_names(connection, found, suites, runners)
    return Selection(
        kind=found.kind, id=found.id, at=found.at, cases=found.cases, tags=found.tags, suites=tuple(suites),
        runners=tuple(runners),
    )  # fmt: skip


def _sweep(connection: Connection, wanted: str) -> Selection:
    id_ = _named("sweep", wanted, sweep_ids(connection))
    found = connection.execute("SELECT started_at, selection FROM sweeps WHERE sweep_id = ?", [id_]).fetchone()
    started_at, selection = found or (None, None)
    asked = decoded(selection, {})
    return Selection(
        kind="sweep", id=id_, at=_utc(started_at), cases=tuple(asked.get("cases") or ()),
        tags=tuple(asked.get("tags") or ()),
    )  # fmt: skip


def _board(connection: Connection, wanted: str) -> Selection:
    query = "SELECT board_id, max(computed_at) FROM leaderboards GROUP BY board_id ORDER BY board_id DESC"
    boards = dict(connection.execute(query).fetchall())
    id_ = _named("board", wanted, list(boards))
    return Selection(kind="board", id=id_, at=_utc(boards[id_]))


_FIND = {"sweep": _sweep, "board": _board}


def sweep_ids(connection: Connection, suites: Sequence[str] = (), runners: Sequence[str] = ()) -> list[str]:
    """The sweeps that stored something (of these suites and runners), newest first."""
    found = connection.execute(
        """SELECT DISTINCT sweep_id FROM sweep_pairs
           WHERE (len($suites) = 0 OR list_contains($suites, suite))
             AND (len($runners) = 0 OR list_contains($runners, runner)) ORDER BY sweep_id DESC""",
        {"suites": list(suites), "runners": list(runners)},
    ).fetchall()
    return [sweep_id for (sweep_id,) in found]


def runner_names(connection: Connection) -> list[str]:
    """The runners that ever were in a sweep."""
    found = connection.execute("SELECT DISTINCT runner FROM sweep_pairs ORDER BY runner").fetchall()
    return [runner for (runner,) in found]


def _named(kind: str, wanted: str, ids: Sequence[str]) -> str:
    """The id that a text means. `ids` are newest first."""
    if wanted in _RECENT and len(ids) > _RECENT[wanted]:
        return ids[_RECENT[wanted]]
    near = [id_ for id_ in ids if id_ == wanted] or [id_ for id_ in ids if id_.startswith(wanted)]
    if len(near) != 1:
        raise UnknownName(kind, wanted, near or ids[:20])
    return near[0]


def _check_names(connection: Connection, found: Selection, suites: Sequence[str], runners: Sequence[str]) -> None:
    query = f"SELECT DISTINCT suite, runner FROM ({_CELLS[found.kind]})"
    cells = connection.execute(query, {"id": found.id} if found.id is not None else {}).fetchall()
    for kind, names, known in (("suite", suites, {s for s, _ in cells}), ("runner", runners, {r for _, r in cells})):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)


def read_results(connection: Connection, selection: Selection, name: str | None = None) -> Results:
    """The chosen cells as rows to compare."""
    columns = "v.suite, v.runner, v.case_id, v.repetition, v.status, v.score, t.content"
    joins = f"LEFT JOIN ({_CONTENT}) t USING (suite, suite_revision, case_id)"
    found = connection.execute(selection.query(columns, joins), selection.values).fetchall()
    frame = pl.DataFrame(found, schema=RESULT_COLUMNS, orient="row")
    return Results(name or selection.name, frame, selection.at)


def count_plans(connection: Connection, selection: Selection) -> int:
    """How many cells are chosen."""
    found = connection.execute(selection.query("count(*)"), selection.values).fetchone()
    return int(found[0]) if found else 0


def read_records(connection: Connection, selection: Selection) -> Iterator[ResultRow]:
    """Everything about the chosen cells, suite by suite and runner by runner, cases in their order; a few at a time."""
    own = set(BY_NAME["verdicts"].column_names)
    columns = [f'v."{name}"' for name in _columns(connection, "verdicts")]
    columns += [f't."{name}"' for name in _columns(connection, "cases") if name not in own]
    columns += ["s.path AS suite_path", "r.adapter", "r.settings"]
    joins = """LEFT JOIN cases t USING (suite, suite_revision, case_id)
               LEFT JOIN suites s USING (suite, suite_revision)
               LEFT JOIN runners r USING (runner, runner_revision)"""
    order = "ORDER BY v.suite, v.runner, t.position, v.case_id, v.repetition"
    chosen = connection.cursor()  # its own, since the batches are asked for while it is being read
    chosen.execute(selection.query(", ".join(columns), joins, order), selection.values)
    names = [column[0] for column in chosen.description or ()]
    while batch := chosen.fetchmany(BATCH):
        yield from _records(connection, [dict(zip(names, row, strict=True)) for row in batch])
    chosen.close()


def _records(connection: Connection, verdicts: list[dict[str, Any]]) -> Iterator[ResultRow]:
    ids = [row["execution_id"] for row in verdicts]
    executions = {row["execution_id"]: row for row in _of_table(connection, "target_executions", ids)}
    reports = {row["execution_id"]: row for row in _of_table(connection, "session_reports", ids)}
    events = _grouped(_of_table(connection, "session_events", ids, "ORDER BY execution_id, position"))
    scores = _grouped(_of_table(connection, "evaluator_scores", ids))
    members = _grouped(_of_table(connection, "member_scores", ids, "ORDER BY execution_id, spec_key, position"))
    for verdict in verdicts:
        id_ = verdict["execution_id"]
        asked = verdict["score_keys"] or ()
        found = {row["spec_key"]: _score(row, members.get(id_, ())) for row in scores.get(id_, ())}
        yield _record(
            verdict,
            executions.get(id_, {}),
            _report(reports.get(id_), events.get(id_, ())),
            tuple(found[key] for key in asked if key in found),
        )


_LARGE = frozenset({"raw", "attempts"})


def _columns(connection: Connection, table: str) -> list[str]:
    """The columns of a table that there are: results published by an older version lack the newest, or all of them."""
    found = connection.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = ?", [table]).fetchall()
    there = {name for (name,) in found} - _LARGE
    return [name for name in BY_NAME[table].column_names if name in there]


def _of_table(connection: Connection, table: str, ids: list[str], order: str = "") -> Iterator[dict[str, Any]]:
    """The rows of these executions; columns that are not there yet are None."""
    names = _columns(connection, table)
    if not names:
        return
    columns = ", ".join(f'"{name}"' for name in names)
    query = f'SELECT {columns} FROM "{table}" WHERE execution_id IN (SELECT unnest($ids::VARCHAR[])) {order}'
    unknown = dict.fromkeys(BY_NAME[table].column_names)
    for row in connection.execute(query, {"ids": ids}).fetchall():
        yield {**unknown, **dict(zip(names, row, strict=True))}


def _grouped(found: Iterator[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(row["execution_id"], []).append(row)
    return groups


def _record(
    verdict: dict[str, Any], execution: Mapping[str, Any], report: SessionReport | None, scores: tuple[Score, ...]
) -> ResultRow:
    workspace = decoded(execution.get("workspace"), {})
    return ResultRow(
        **{name: verdict[name] for name in _VERDICT_FIELDS},
        verdict=_verdict(verdict),
        adapter=verdict["adapter"],
        runner_settings=decoded(verdict["settings"], {}),
        started_at=_utc(execution.get("started_at")),
        finished_at=_utc(execution.get("finished_at")),
        decided_at=_utc(verdict["decided_at"]),
        error=execution.get("error"),
        attempts=execution.get("attempt_count"),
        answered_by=execution.get("answered_by"),
        input=decoded(verdict["input"], []),
        expected_output=decoded(verdict["expected_output"], []),
        tags=tuple(verdict["tags"] or ()),
        metadata=decoded(verdict["metadata"], {}),
        conversation_id=verdict.get("conversation_id"),
        group=verdict.get("case_group"),
        report=report,
        hooks=workspace.get("hooks") or {},
        scores=scores,
    )


_VERDICT_FIELDS = (
    "suite", "case_id", "runner", "repetition", "execution_id", "suite_path", "suite_revision", "runner_revision",
    "sweep_id", "criteria",
)  # fmt: skip


def _verdict(row: Mapping[str, Any]) -> Verdict:
    return Verdict(
        status=Status(row["status"]), score=row["score"], ungated_score=row["ungated_score"],
        threshold=row["threshold"], failure_class=row["failure_class"], reason=row["reason"],
    )  # fmt: skip


def _report(row: Mapping[str, Any] | None, events: Sequence[Mapping[str, Any]]) -> SessionReport | None:
    if row is None:
        return None
    happened = [decoded(event["event"], {}) for event in events]
    skills, unknown, turns = (decoded(row["skills"], []), decoded(row["unknown_events"], {}), decoded(row["turns"], []))
    return rows.stored_report(row, happened, skills, unknown, turns)


def _score(row: Mapping[str, Any], members: Sequence[Mapping[str, Any]]) -> Score:
    score = rows.stored_score(row, decoded(row["findings"], []), decoded(row["details"], {}))
    parts = tuple(
        SubScore(
            name=part["member"], type=part["type"], value=part["value"], reason=part["reason"], weight=part["weight"],
            grader=part["grader"], details=decoded(part["details"], {}),
        )
        for part in members if part["spec_key"] == row["spec_key"]
    )  # fmt: skip
    return score._replace(members=parts)


def _utc(value: datetime | None) -> datetime | None:
    return value.replace(tzinfo=UTC) if value is not None else None
