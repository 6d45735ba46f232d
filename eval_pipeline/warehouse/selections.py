"""Published results → the rows that comparisons, trends and exports read: of a sweep, of a board, or the current ones.

A sweep's rows are the newest verdicts at its end, whether the sweep executed the plan or reused its execution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import polars as pl

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.leaderboards.results import ATTEMPT, EVALUATOR, RESULT_COLUMNS, RUNNER_CASE, WEIGHT, Results
from eval_pipeline.warehouse.codec import decoder, utc
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.tables import BY_NAME

_RECENT = {"latest": 0, "previous": 1}

_STANDING = """
    SELECT c.suite, c.runner, c.suite_revision, c.runner_revision, c.statistics_id, NULL::INTEGER AS repetitions,
           CASE WHEN c.sweep_id <> p.sweep_id OR u.suite IS NOT NULL THEN c.finished_at END AS until,
           c.finished_at AS held_since
    FROM sweep_pairs c JOIN current_pairs p ON p.suite = c.suite AND p.runner = c.runner
    LEFT JOIN (FROM unranked_pairs WHERE NOT finished) u ON u.suite = c.suite AND u.runner = c.runner
    LEFT JOIN pair_statistics s ON s.statistics_id = c.statistics_id
    QUALIFY row_number() OVER (
        PARTITION BY c.suite, c.runner
        ORDER BY coalesce(s.complete, false) DESC, c.finished_at DESC, c.sweep_id DESC) = 1"""
"""The pairs of boards: each by its newest sweep that left nothing to carry out, else by its newest. Verdicts of a sweep
that is under way, or broke off while it stored a pair, are later than that."""
_PAIRS = {
    "current": """
        SELECT suite, runner, suite_revision, runner_revision, NULL::TIMESTAMPTZ AS until, NULL::INTEGER AS repetitions,
               finished_at AS held_since
        FROM current_pairs""",
    "standing": f"SELECT * EXCLUDE (statistics_id) FROM ({_STANDING})",
    "sweep": """
        SELECT suite, runner, suite_revision, runner_revision, finished_at AS until, repetitions
        FROM sweep_pairs WHERE sweep_id = $id""",
    "baseline": """
        SELECT p.suite, p.runner, p.suite_revision, p.runner_revision, p.finished_at AS until, p.repetitions
        FROM sweep_pairs p JOIN (
            SELECT suite, runner, arg_max(sweep_id, set_at) AS sweep_id FROM baselines GROUP BY suite, runner) b
            ON b.suite = p.suite AND b.runner = p.runner AND b.sweep_id = p.sweep_id""",
    "board": """
        SELECT suite, runner, suite_revision, runner_revision, computed_at AS until, NULL::INTEGER AS repetitions
        FROM leaderboards WHERE board_id = $id AND scope = 'suite'""",
}
_STATISTICS = {
    "current": "SELECT statistics_id FROM current_pairs",
    "standing": f"SELECT statistics_id FROM ({_STANDING})",
    "sweep": "SELECT statistics_id FROM sweep_pairs WHERE sweep_id = $id",
    "baseline": """
        SELECT p.statistics_id FROM sweep_pairs p JOIN (
            SELECT suite, runner, arg_max(sweep_id, set_at) AS sweep_id FROM baselines GROUP BY suite, runner) b
            ON b.suite = p.suite AND b.runner = p.runner AND b.sweep_id = p.sweep_id""",
    "board": "SELECT statistics_id FROM leaderboards WHERE board_id = $id AND scope = 'suite'",
}
"""The counts by case of the selected pairs."""
_CHOSEN = """
    WITH pairs AS ({pairs})
    SELECT v.* FROM verdicts v JOIN pairs c USING (suite, runner, suite_revision, runner_revision)
    {without}
    WHERE (c.until IS NULL OR v.decided_at <= c.until)
      AND (c.repetitions IS NULL OR v.repetition <= c.repetitions)
      AND (len($cases) = 0 OR list_contains($cases, v.case_id))
      AND (len($tags) = 0 OR list_has_any(v.tags, $tags))
      AND {within}
    QUALIFY row_number() OVER (
        PARTITION BY v.suite, v.runner, v.case_id, v.repetition ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1"""
_WITHOUT_RETIRED = (
    "ANTI JOIN retired_cases r ON r.suite = v.suite AND r.case_id = v.case_id AND r.retired_at >= c.held_since"
)
_ATTEMPTS = """
    WITH chosen AS ({chosen}),
    earlier AS (
        SELECT c.suite, c.runner, c.suite_revision, c.case_id, c.repetition, coalesce(v.status, 'error') AS status,
               v.score, v.executed_at, o.execution_id, v.score_keys, v.threshold,
               o.execution_id = e.retry_of AND coalesce(v.status, 'error') = 'error' AS unknown
        FROM chosen c JOIN target_executions e USING (execution_id)
        JOIN target_executions o ON coalesce(o.retry_of, o.execution_id) = e.retry_of AND o.started_at < e.started_at
        LEFT JOIN verdicts v ON v.execution_id = o.execution_id AND v.decision_key = c.decision_key
        WHERE v.status <> 'error' OR unknown
        QUALIFY row_number() OVER (PARTITION BY c.verdict_id, o.execution_id ORDER BY v.decided_at DESC) = 1),
    answers AS (
        SELECT *, bool_or(unknown) OVER (PARTITION BY suite, runner, case_id, repetition) AS unknown_first
        FROM (
            SELECT suite, runner, suite_revision, case_id, repetition, status, score, executed_at, execution_id,
                   score_keys, threshold, false AS unknown
            FROM chosen
            UNION ALL SELECT * FROM earlier))
    SELECT * EXCLUDE (unknown, unknown_first), row_number() OVER (
        PARTITION BY suite, runner, case_id, repetition
        ORDER BY (status = 'error') <> unknown_first, executed_at, execution_id)::INTEGER AS attempt
    FROM answers QUALIFY attempt = 1 OR (status <> 'error' AND NOT unknown_first)"""
_SCORES = """
    SELECT a.suite, a.runner, a.case_id, a.repetition,
           CASE WHEN s.value IS NULL THEN 'error'
                WHEN coalesce(s.passes, s.value >= coalesce(s.minimum, a.threshold)) THEN 'passed'
                ELSE 'failed' END AS status,
           s.value AS score, NULL AS content, NULL AS cluster, a.attempt, s.evaluator
    FROM ({attempts}) a JOIN evaluator_scores s
         ON s.execution_id = a.execution_id AND list_contains(a.score_keys, s.spec_key)"""
_TALK = "coalesce(simulated_user::VARCHAR, ''), coalesce(mocks::VARCHAR, '')"
_CONTENT = """
    SELECT suite, suite_revision, case_id,
           md5(concat_ws(chr(30), input::VARCHAR, coalesce(criteria, ''), coalesce(expected_output::VARCHAR, ''),
                         evaluators::VARCHAR, coalesce(threshold::VARCHAR, ''),
                         expected_fail::VARCHAR{talk})) AS content,
           json_extract_string(metadata, $cluster_by) AS cluster
    FROM cases"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which plans are selected: current, of a sweep or of a board, of these suites and runners (empty: all).

    `cases` and `tags` are the selection of the sweep itself. With `lacks_retired` it is without cases that the project
    has no more.
    """

    kind: str = "current"
    id: str | None = None
    at: datetime | None = None
    cases: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    suites: tuple[str, ...] = ()
    runners: tuple[str, ...] = ()
    lacks_retired: bool = False

    @property
    def pairs(self) -> str:
        """A query of the selected pairs, at their revisions."""
        return _PAIRS[self.kind]

    @property
    def name(self) -> str:
        kind = "current" if self.kind == "standing" else self.kind
        return kind if self.id is None else f"{kind}:{self.id}"

    def query(self, columns: str, joins: str = "", order: str = "") -> str:
        """Return a query over the selected verdicts, aliased `v`."""
        without = _WITHOUT_RETIRED if self.lacks_retired else ""
        chosen = _CHOSEN.format(pairs=_PAIRS[self.kind], within=self.within("v"), without=without)
        return f"SELECT {columns} FROM ({chosen}) v {joins} {order}"

    def within(self, table: str) -> str:
        """Return the condition on suite and runner of a table. It names each value, so that DuckDB reads no column of
        other pairs."""
        lists = {name: getattr(self, f"{name}s") for name in ("suite", "runner")}
        conditions = [
            f"{table}.{name} IN ({', '.join(f'${name}_{place}' for place in range(len(values)))})"
            for name, values in lists.items()
            if values
        ]
        return " AND ".join(conditions) or "true"

    @property
    def names(self) -> dict[str, str]:
        """The values of `within`."""
        lists = {"suite": self.suites, "runner": self.runners}
        return {f"{name}_{place}": value for name, values in lists.items() for place, value in enumerate(values)}

    @property
    def values(self) -> dict[str, Any]:
        values = {"cases": list(self.cases), "tags": list(self.tags), **self.names}
        return values if self.id is None else {**values, "id": self.id}


def select(
    connection: Connection,
    what: str = "current",
    *,
    suites: Sequence[str] = (),
    runners: Sequence[str] = (),
) -> Selection:
    """Return the selection of `current`, `standing`, `baseline`, `sweep:ID` or `board:ID`.

    ID may be a prefix, `latest` or `previous`. Of a pair whose newest sweep is unfinished, `current` has what it
    reached; `standing` has what the board shows, the results of the last sweep that finished it.

    Raises UnknownName for a sweep, board, suite or runner that does not exist.
    """
    kind, _, requested = what.partition(":")
    if kind not in _PAIRS or (kind in _WITHOUT_ID) == bool(requested):
        raise InputError(f"'{what}' names no results; expected current, baseline, sweep:ID or board:ID")
    if kind == "standing" and "complete" not in existing_columns(connection, "pair_statistics"):
        kind = "current"  # results of an older version
    selection = _FIND[kind](connection, requested) if requested else Selection(kind=kind)
    _check_names(connection, selection, suites, runners)
    return Selection(
        kind=selection.kind, id=selection.id, at=selection.at, cases=selection.cases, tags=selection.tags,
        suites=tuple(suites), runners=tuple(runners),
        lacks_retired=kind in ("current", "standing") and bool(existing_columns(connection, "retired_cases")),
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


_WITHOUT_ID = ("current", "standing", "baseline")
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


def current_runners(connection: Connection) -> list[str]:
    """Return the runners that boards show: results of one that was removed are of sweeps only."""
    return sorted({runner for _, runner in _pair_names(connection, Selection())})


def _named(kind: str, requested: str, ids: Sequence[str]) -> str:
    """Return the id that a text selects. `ids` are newest first."""
    if requested in _RECENT and len(ids) > _RECENT[requested]:
        return ids[_RECENT[requested]]
    matches = [id_ for id_ in ids if id_ == requested] or [id_ for id_ in ids if id_.startswith(requested)]
    if len(matches) != 1:
        raise UnknownName(kind, requested, matches or ids[:20])
    return matches[0]


def _check_names(connection: Connection, selection: Selection, suites: Sequence[str], runners: Sequence[str]) -> None:
    pairs = _pair_names(connection, selection)
    if selection.kind == "baseline" and not pairs:
        raise InputError("no baseline is set; eval-pipeline baseline set SWEEP sets one")
    for kind, names, known in (("suite", suites, {s for s, _ in pairs}), ("runner", runners, {r for _, r in pairs})):
        for name in names:
            if name not in known:
                raise UnknownName(kind, name, known)


def _pair_names(connection: Connection, selection: Selection) -> list[tuple[str, str]]:
    """Return suite and runner of the selected pairs."""
    if selection.kind == "baseline" and not existing_columns(connection, "baselines"):
        return []  # results of an older version
    query = f"SELECT DISTINCT suite, runner FROM ({selection.pairs})"
    return connection.execute(query, {"id": selection.id} if selection.id is not None else {}).fetchall()


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
    query = _attempts(connection, selection)
    columns = f"v.suite, v.runner, v.case_id, v.repetition, v.status, v.score, t.content, t.cluster, v.{ATTEMPT}"
    talk = f", {_TALK}" if "simulated_user" in existing_columns(connection, "cases") else ""
    joins = f"LEFT JOIN ({_CONTENT.format(talk=talk)}) t USING (suite, suite_revision, case_id)"
    values = selection.values | {"cluster_by": None if cluster_by is None else f"$.{orjson.dumps(cluster_by).decode()}"}
    answers = connection.execute(f"SELECT {columns} FROM ({query}) v {joins}", values).fetchall()
    frame = pl.DataFrame(answers, schema={**RESULT_COLUMNS, ATTEMPT: pl.Int32}, orient="row")
    return Results(name or selection.name, _with_weights(connection, selection, frame), selection.at)


def read_weights(connection: Connection, selection: Selection) -> dict[tuple[str, str, str], float]:
    """Return how much cases count in rates and means, by suite, runner and case; nothing where all count the same."""
    if "weights" not in existing_columns(connection, "pair_statistics"):
        return {}  # results of an older version
    query = f"""SELECT suite, runner, unnest(cases), unnest(weights) FROM pair_statistics s
                WHERE weights IS NOT NULL AND {selection.within("s")}
                  AND statistics_id IN ({_STATISTICS[selection.kind]})"""
    values = selection.names | ({"id": selection.id} if selection.id is not None else {})
    rows = connection.execute(query, values).fetchall()
    return {(suite, runner, case_id): weight for suite, runner, case_id, weight in rows}


def _with_weights(connection: Connection, selection: Selection, frame: pl.DataFrame) -> pl.DataFrame:
    """Return results with the column WEIGHT; as they are where all cases count the same."""
    weights = read_weights(connection, selection)
    if not weights:
        return frame
    keys = frame.select(RUNNER_CASE).iter_rows()
    return frame.with_columns(pl.Series(WEIGHT, [weights.get(key) for key in keys], dtype=pl.Float64))


def read_scores(connection: Connection, selection: Selection) -> Results:
    """Return the scores of every graded answer to the selected plans, with the columns ATTEMPT and EVALUATOR: a score
    passes by its own gate, else by the threshold of its case."""
    query = _SCORES.format(attempts=_attempts(connection, selection))
    scores = connection.execute(query, selection.values).fetchall()
    schema = {**RESULT_COLUMNS, ATTEMPT: pl.Int32, EVALUATOR: pl.String}
    return Results(selection.name, pl.DataFrame(scores, schema=schema, orient="row"), selection.at)


def _attempts(connection: Connection, selection: Selection) -> str:
    """A query of every graded answer to the selected plans, numbered in the column ATTEMPT."""
    query = selection.query("v.*")
    if "retry_of" in existing_columns(connection, "target_executions"):
        return _ATTEMPTS.format(chosen=query)
    return f"SELECT *, 1 AS {ATTEMPT} FROM ({query})"  # results of an older version


def existing_columns(connection: Connection, table: str) -> dict[str, str]:
    """Return the columns of a table that exist, with their types: results of an older version lack newer ones."""
    query = "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = ?"
    types = dict(connection.execute(query, [table]).fetchall())
    return {name: types[name] for name in BY_NAME[table].column_names if name in types}
