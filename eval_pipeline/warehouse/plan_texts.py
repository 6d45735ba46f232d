"""Published results → each plan as JSON text, written by DuckDB: exports join the parts, and make no objects of rows.

The parts are those of `exports.rows.row_json`, and equal to them byte for byte, apart from how control characters are
escaped. A text is NULL where nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import duckdb

from eval_pipeline.reports.model import RETRIES_COST_UNKNOWN
from eval_pipeline.reports.usage import Usage
from eval_pipeline.warehouse.codec import decoder
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.records import TEXT_BESIDE, selected_groups
from eval_pipeline.warehouse.selections import Selection, existing_columns
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.tables import BY_NAME

_TABLES = (
    "verdicts", "cases", "suites", "runners", "target_executions", "session_reports", "session_events",
    "evaluator_scores", "member_scores",
)  # fmt: skip
_VERDICT_COLUMNS = (
    "suite", "runner", "suite_revision", "runner_revision", "case_id", "repetition", "execution_id", "sweep_id",
    "status", "score", "ungated_score", "threshold", "failure_class", "reason", "incomplete", "decided_at",
    "tags", "score_keys",
)  # fmt: skip
_CASE_COLUMNS = ("input", "expected_output", "criteria", "metadata", "case_group", "conversation_id")
_FETCHED = 1_000
_MEMORY_MB = 12
_MORE_MB = (256, 1_024)
_EMPTY = "('{}', '[]', 'null')"


class StoredCase(NamedTuple):
    """A case of a revision of its suite. `values` is None where no case is stored; `key` identifies it."""

    key: tuple[str, str, str]
    suite_path: str | None
    values: Sequence[Any] | None

    def decoded(self) -> Row:
        """Return its columns; those that are not known are None."""
        return _decode_case(self.values or (None,) * len(_CASE_COLUMNS))


_decode_case = decoder(_CASE_COLUMNS, BY_NAME["cases"])


class StoredEvent(NamedTuple):
    """An event, with its text where that is stored beside it."""

    event: str
    text: str | None
    position: int


class PlanText(NamedTuple):
    """What is stored of a plan. A text without a note has members of an object, each with a comma before it."""

    head: str
    """The object's beginning: from `{"suite"` to the execution."""
    tags: str
    """A list."""
    session: str | None
    """Output, id and agent of the session; None without a report."""
    measures: str
    """Usage and times of the session."""
    turns: str | None
    """A list of what the source knows of the starts of turns; None without."""
    skills: str
    file_changes: str
    status: str
    score: float | None
    case: StoredCase
    scores: str
    """What is inside a list."""
    events: Sequence[StoredEvent]

    @property
    def has_output(self) -> bool:
        """Whether the target said anything."""
        return self.session is not None and self.session.startswith(',"output":')


def _text(column: str) -> str:
    return f"to_json({column})"


def _time(column: str) -> str:
    return f"strftime({column}::TIMESTAMP, '\"%Y-%m-%dT%H:%M:%S.%gZ\"')"


def _filled(column: str) -> str:
    """JSON that is not empty."""
    return f"CASE WHEN {column}::VARCHAR NOT IN {_EMPTY} THEN {column}::VARCHAR END"


def _parts(values: Mapping[str, str]) -> str:
    """Members of an object, to be concatenated; those that are NULL are left out."""
    return ", ".join(f"""',"{name}":' || {value}""" for name, value in values.items())


def _members(values: Mapping[str, str]) -> str:
    return f"concat({_parts(values)})"


_MODEL = """to_json(coalesce(nullif(r.model, ''),
    CASE WHEN json_type(n.settings, '$.model') = 'VARCHAR' THEN n.settings->>'$.model' END))"""
_HEAD = f"""concat('{{"suite":', {_text("v.suite")}, ',"case_id":', {_text("v.case_id")}, ',"runner":',
    {_text("v.runner")}, ',"repetition":', v.repetition, ',"status":', {_text("v.status")}, ',"score":',
    coalesce({_text("v.score")}, 'null'), {_parts({
    "ungated_score": _text("v.ungated_score"),
    "threshold": _text("v.threshold"),
    "failure_class": _text("v.failure_class"),
    "reason": _text("v.reason"),
    "incomplete": _text("v.incomplete"),
    "execution_id": _text("v.execution_id"),
    "sweep_id": _text("v.sweep_id"),
    "suite_revision": _text("v.suite_revision"),
    "runner_revision": _text("v.runner_revision"),
    "started_at": _time("e.started_at"),
    "finished_at": _time("e.finished_at"),
    "decided_at": _time("v.decided_at"),
    "attempts": _text("e.attempt_count"),
    "adapter": _text("n.adapter"),
    "model": _MODEL,
    "answered_by": _text("e.answered_by"),
    "error": _text("e.error"),
    "hooks": _filled("(e.workspace->'$.hooks')"),
})})"""  # fmt: skip
_GIVEN_UP = "TRY_CAST(json_extract_string(r.given_up, '$[*].usage.cost_usd') AS DOUBLE[])"
_IS_APART = "(r.answer_cost_usd IS NULL AND r.cost_source IS NULL)"
_PAYS_RETRIES = f"({_IS_APART} AND coalesce(list_sum({_GIVEN_UP}), 0) > 0)"
"""Whether the cost is that of turns given up alone: that of the answer is not known (as `rows` reads it)."""
_RETRIES_UNKNOWN = f"""(r.answer_cost_usd IS NOT NULL AND coalesce(r.cost_usd, r.answer_cost_usd) = r.answer_cost_usd
    OR {_IS_APART} AND NOT {_PAYS_RETRIES} AND len({_GIVEN_UP}) > list_aggregate({_GIVEN_UP}, 'count'))"""
_RETRIES = f"CASE WHEN {_PAYS_RETRIES} THEN r.cost_usd ELSE nullif(r.cost_usd - r.answer_cost_usd, 0) END"
_RETRIES_NOTE = f"CASE WHEN {_RETRIES_UNKNOWN} THEN '{RETRIES_COST_UNKNOWN}' END"
_MEASURES = {name: f"r.{name}" for name in Usage.__dataclass_fields__} | {
    "cost_usd": f"CASE WHEN NOT {_PAYS_RETRIES} THEN coalesce(r.answer_cost_usd, r.cost_usd) END"
}
_USAGE = f"""CASE WHEN {" OR ".join(f"{value} IS NOT NULL" for value in _MEASURES.values())}
    THEN '{{' || substr({_members({name: _text(value) for name, value in _MEASURES.items()})}, 2) || '}}' END"""
_CHOSEN = """
    CREATE OR REPLACE TEMP TABLE chosen_plans AS
    SELECT v.*, row_number() OVER (ORDER BY v.suite, v.runner, t.position, v.case_id, v.repetition) AS place
    FROM ({chosen}) v LEFT JOIN cases t USING (suite, suite_revision, case_id)"""
_PARTS = {
    "head": _HEAD,
    "tags": "coalesce(to_json(v.tags), '[]')",
    "session": f"""CASE WHEN r.execution_id IS NOT NULL THEN {_members({
        "output": _text("r.final_output"), "session_id": _text("r.session_id"),
        "agent_version": _text("r.agent_version"),
        "retries_cost_usd": _text(_RETRIES), "retries_cost_note": _text(_RETRIES_NOTE),
    })} END""",
    "measures": _members({
        "usage": _USAGE, "duration_ms": _text("r.duration_ms"), "ttft_ms": _text("r.ttft_ms"),
        "model_calls": _text("r.model_calls"),
    }),
    "turns": _filled("r.turns"),
    "skills": _members({"skills": _filled("r.skills")}),
    "file_changes": _members({"file_changes": _text("r.file_changes")}),
}  # fmt: skip
_PLANS = f"""
    SELECT {", ".join(f"{part} AS {name}" for name, part in _PARTS.items())},
           v.status, v.score, v.suite_revision, v.case_id, v.execution_id, v.score_keys, v.place
    FROM chosen_plans v
    LEFT JOIN (SELECT * FROM target_executions e WHERE WITHIN(e)) e ON e.execution_id = v.execution_id
    LEFT JOIN (SELECT * FROM session_reports r WHERE WITHIN(r)) r ON r.execution_id = v.execution_id
    LEFT JOIN runners n ON n.runner = v.runner AND n.runner_revision = v.runner_revision"""
_MEMBER = f"""concat('{{"name":', {_text("m.member")}, {_parts({
    "type": _text("m.type"), "value": _text("m.value"), "reason": _text("m.reason"), "weight": _text("m.weight"),
    "grader": _text("m.grader"),
})}, ',"details":', coalesce(m.details::VARCHAR, '{{}}'),
    CASE WHEN m.value IS NULL THEN ',"value":null' END, '}}')"""  # fmt: skip
_MEMBERS = f"""
    SELECT m.execution_id, m.spec_key, string_agg({_MEMBER}, ',' ORDER BY m.position) AS members
    FROM member_scores m SEMI JOIN chosen_plans v USING (execution_id) WHERE WITHIN(m) GROUP BY ALL"""
_PASSED = (
    "CASE WHEN s.value IS NOT NULL THEN coalesce(s.passes, s.value >= coalesce(s.minimum, v.threshold) - 1e-9) END"
)
_FINDINGS = f"""replace({_filled("s.findings")}, ',"evidence":null', '')"""
_SCORE = f"""concat('{{"evaluator":', {_text("s.evaluator")}, ',"type":', {_text("s.type")}, ',"value":',
    coalesce({_text("s.value")}, 'null'), ',"reason":', coalesce({_text("s.reason")}, 'null'), {_parts({
    "passed": f"({_PASSED})", "weight": _text("s.weight"), "minimum": _text("s.minimum"),
    "failure_class": _text("s.failure_class"),
    "findings": _FINDINGS,
    "details": _filled("s.details"), "members": "'[' || m.members || ']'", "duration_ms": _text("s.duration_ms"),
})}, '}}')"""  # fmt: skip
_SCORES = f"""
    SELECT s.execution_id, s.spec_key, {_SCORE}
    FROM evaluator_scores s JOIN chosen_plans v USING (execution_id)
         LEFT JOIN ({_MEMBERS}) m USING (execution_id, spec_key)
    WHERE WITHIN(s)"""
_EVENTS = f"""
    SELECT t.execution_id, t.event::VARCHAR, {TEXT_BESIDE}, t.position
    FROM session_events t SEMI JOIN chosen_plans USING (execution_id) WHERE WITHIN(t)"""
_CASES = f"""
    SELECT t.suite_revision, t.case_id, {", ".join(f't."{name}"' for name in _CASE_COLUMNS)}
    FROM cases t SEMI JOIN chosen_plans v USING (suite, suite_revision, case_id)"""
_PATHS = "SELECT suite_revision, path FROM suites WHERE suite = ?"


def read_plan_texts(connection: Connection, selection: Selection) -> Iterator[PlanText]:
    """Yield the selected plans, by suite and runner, cases in their order; a few pairs are in memory at a time."""
    connection.execute("SET threads = 1")  # each takes memory of its own, and Python takes the time
    for group in selected_groups(connection, selection, _MEMORY_MB):
        yield from _read(connection, group)


def has_every_column(connection: Connection) -> bool:
    """Whether the results have every column that is read; those of an older version do not."""
    return all(len(existing_columns(connection, name)) == len(BY_NAME[name].column_names) for name in _TABLES)


def _read(connection: Connection, selection: Selection) -> Iterator[PlanText]:
    """Return the plans of a few pairs; where they do not fit into memory, DuckDB is given more of it."""
    for memory_mb in _MORE_MB:
        try:
            return _texts_of(connection, selection)
        except duckdb.OutOfMemoryException:
            connection.execute(f"SET memory_limit = '{memory_mb}MB'")
    return _texts_of(connection, selection)


def _texts_of(connection: Connection, selection: Selection) -> Iterator[PlanText]:
    columns = ", ".join(f"v.{name}" for name in _VERDICT_COLUMNS)
    connection.execute(_CHOSEN.format(chosen=selection.query(columns)), selection.values)
    (suite,) = selection.suites
    paths = dict(connection.execute(_PATHS, [suite]).fetchall())
    cases = {
        (revision, id_): StoredCase((suite, revision, id_), paths.get(revision), values)
        for revision, id_, *values in _rows(connection, selection, _CASES)
    }
    scores = {(id_, key): text for id_, key, text in _rows(connection, selection, _SCORES)}
    events = _events(_rows(connection, selection, _EVENTS))
    plans = sorted(_rows(connection, selection, _PLANS), key=itemgetter(-1))

    def joined(texts: Sequence[Any], revision: str, case_id: str, id_: str, keys: Sequence[str] | None) -> PlanText:
        case = cases.get((revision, case_id)) or StoredCase((suite, revision, case_id), paths.get(revision), None)
        counted = ",".join([scores[id_, key] for key in keys or () if (id_, key) in scores])
        return PlanText._make((*texts, case, counted, events.get(id_, ())))

    return (joined(row[:-5], *row[-5:-1]) for row in plans)


def _rows(connection: Connection, selection: Selection, query: str) -> Iterator[Sequence[Any]]:
    """Yield the rows of a query in whose place of `WITHIN(t)` is the condition on the pairs of `t`.

    No query sorts: DuckDB would hold every text twice.
    """
    text = re.sub(r"WITHIN\((\w)\)", lambda alias: selection.within(alias[1]), query)
    found = connection.execute(text, selection.names if text != query else {})
    while batch := found.fetchmany(_FETCHED):
        yield from batch


def _events(stored: Iterator[Sequence[Any]]) -> dict[str, list[StoredEvent]]:
    """Return the events of each execution, in their order."""
    events: dict[str, list[StoredEvent]] = {}
    for id_, *event in stored:
        events.setdefault(id_, []).append(StoredEvent(*event))
    for several in events.values():
        several.sort(key=itemgetter(2))
    return events
