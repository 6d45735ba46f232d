"""Deleting rows for good: of suites, of runners, of sweeps. Each deletion is one transaction.

A deleted sweep takes its boards along, and the executions and verdicts that no remaining sweep or board reads; what a
later sweep reused stays. Files are deleted afterwards, by `sweeps/deletion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.errors import UnknownName
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import Connection, Warehouse
from eval_pipeline.warehouse.tables import TABLES

Owner = Literal["suite", "runner", "sweep"]
_BY_PAIR = ("failure_classes", "unranked_pairs", "retired_pairs", "evaluator_specs", "seen_plans")
_BY_EXECUTION = ("session_reports", "session_events", "evaluator_scores", "member_scores", "human_grades")
_NAMES = {
    "suite": "SELECT DISTINCT suite FROM suites UNION SELECT DISTINCT suite FROM sweep_pairs ORDER BY 1",
    "runner": "SELECT DISTINCT runner FROM runners UNION SELECT DISTINCT runner FROM sweep_pairs ORDER BY 1",
    "sweep": "SELECT sweep_id FROM sweeps ORDER BY 1",
}
_SUMMARIES = {
    "suite": """SELECT n.suite, count(e.execution_id), max(e.finished_at)
                FROM (SELECT suite FROM suites UNION SELECT suite FROM sweep_pairs) n
                LEFT JOIN target_executions e USING (suite) GROUP BY n.suite ORDER BY n.suite""",
    "runner": """SELECT n.runner, count(e.execution_id), max(e.finished_at)
                 FROM (SELECT runner FROM runners UNION SELECT runner FROM sweep_pairs) n
                 LEFT JOIN target_executions e USING (runner) GROUP BY n.runner ORDER BY n.runner""",
    "sweep": """SELECT s.sweep_id, count(e.execution_id), any_value(s.started_at) FROM sweeps s
                LEFT JOIN target_executions e USING (sweep_id) GROUP BY s.sweep_id ORDER BY s.sweep_id""",
}
_READ = """
    CREATE OR REPLACE TEMP TABLE still_read AS
    WITH readers AS (
        SELECT sweep_id AS reader, suite, runner, suite_revision, runner_revision, finished_at AS until, repetitions
        FROM sweep_pairs
        UNION ALL
        SELECT board_id, suite, runner, suite_revision, runner_revision, computed_at, NULL
        FROM leaderboards WHERE scope = 'suite')
    SELECT DISTINCT verdict_id, execution_id FROM (
        SELECT v.verdict_id, v.execution_id FROM verdicts v
        JOIN readers r USING (suite, runner, suite_revision, runner_revision)
        WHERE v.decided_at <= r.until
          AND (r.repetitions IS NULL OR v.repetition <= r.repetitions)
        QUALIFY row_number() OVER (PARTITION BY r.reader, v.suite, v.runner, v.case_id, v.repetition
                                   ORDER BY v.decided_at DESC, v.verdict_id DESC) = 1)"""
_READ_BESIDE = """
    INSERT INTO still_read
    SELECT v.verdict_id, v.execution_id FROM verdicts v JOIN target_executions o USING (execution_id)
    WHERE coalesce(o.retry_of, o.execution_id) IN (
        SELECT e.retry_of FROM target_executions e SEMI JOIN still_read USING (execution_id)
        WHERE e.retry_of IS NOT NULL)"""
_READ_BY_GRADERS = """
    INSERT INTO still_read SELECT verdict_id, execution_id FROM verdicts SEMI JOIN anchor_scores USING (execution_id)"""
_UNUSED_STATISTICS = "statistics_id NOT IN (SELECT statistics_id FROM sweep_pairs WHERE statistics_id IS NOT NULL)"
_BOARDS_OF_SWEEPS = """
    DELETE FROM leaderboards WHERE list_contains($names, (
        SELECT max_by(s.sweep_id, s.started_at) FROM sweeps s WHERE s.started_at <= leaderboards.computed_at))"""
_UNUSED_REVISIONS = {
    "suites": ("suite", "suite_revision", "loaded_at"),
    "cases": ("suite", "suite_revision", None),
    "runners": ("runner", "runner_revision", "used_at"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFolders:
    """Where executions keep files, each with the time at which its execution finished (UTC).

    `artifacts` are folders below the artifacts: runner, suite, start of the plan's key, sweep. `workspaces` are folders
    below the workspaces: sweep, suite, runner, name.
    """

    artifacts: Mapping[tuple[str, ...], datetime | None] = field(default_factory=dict)
    workspaces: Mapping[tuple[str, ...], datetime | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """What a deletion removed: rows by table, the sweeps that are gone with their Dagster runs, and the pairs whose
    current results it changed. `remaining` are the folders of what is left."""

    rows: Mapping[str, int]
    sweeps: Sequence[str] = ()
    dagster_runs: Sequence[str] = ()
    pairs: Sequence[PairKey] = ()
    remaining: StoredFolders = field(repr=False)

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.rows.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSummary:
    """What is stored under a name: executions, and the time of the newest (of a sweep: its start)."""

    name: str
    executions: int
    at: datetime | None


def stored_names(warehouse: Warehouse, owner: Owner) -> list[str]:
    """Return the names that have rows."""
    return [str(name) for (name,) in warehouse.frame(_NAMES[owner]).iter_rows()] if warehouse.exists() else []


def stored_summaries(warehouse: Warehouse, owner: Owner) -> list[StoredSummary]:
    """Return what is stored, by name."""
    rows = warehouse.frame(_SUMMARIES[owner]).iter_rows() if warehouse.exists() else ()
    return [StoredSummary(name=name, executions=executions, at=at) for name, executions, at in rows]


def expired_sweeps(
    warehouse: Warehouse, before: datetime | None, keep_last: int | None, name: str | None = None
) -> list[str]:
    """Return the sweeps that started before a time (UTC) and are not among the newest `keep_last`; each None: no limit.

    With a name only sweeps of that name count. Those whose results are current are left out: nothing newer replaces
    them.
    """
    frame = warehouse.frame(
        """WITH named AS (FROM sweeps WHERE $3::VARCHAR IS NULL OR name = $3::VARCHAR)
           SELECT sweep_id FROM named
           WHERE ($1::TIMESTAMPTZ IS NULL OR started_at < $1::TIMESTAMPTZ)
             AND sweep_id NOT IN (SELECT sweep_id FROM named ORDER BY sweep_id DESC LIMIT coalesce($2::BIGINT, 0))
             AND sweep_id NOT IN (SELECT sweep_id FROM current_pairs)
           ORDER BY sweep_id""",
        [before, keep_last, name],
    )
    return frame["sweep_id"].to_list()


def all_sweeps_named(warehouse: Warehouse, name: str) -> frozenset[str]:
    """Return the ids of the sweeps of a name of the project file, however they ended."""
    return frozenset(warehouse.frame("SELECT sweep_id FROM sweeps WHERE name = $1", [name])["sweep_id"].to_list())


def full_names(warehouse: Warehouse, owner: Owner, names: Sequence[str]) -> list[str]:
    """Return stored names; a sweep may be named by the start of its id. Raises UnknownName."""
    known = stored_names(warehouse, owner)
    return [_full_name(owner, name, known) for name in names]


def _full_name(owner: Owner, name: str, known: Sequence[str]) -> str:
    starting = [each for each in known if each.startswith(name)] if owner == "sweep" and name else []
    if name in known:
        return name
    if len(starting) != 1:
        raise UnknownName(owner, name, starting or known)
    return starting[0]


class _DryRunEnds(Exception):
    """Rolls a transaction back."""


def delete_rows(warehouse: Warehouse, owner: Owner, names: Sequence[str], *, dry_run: bool) -> DeletedRows:
    """Delete all rows of suites, runners or sweeps; a dry run counts them and changes nothing."""
    deleted = DeletedRows(rows={}, remaining=StoredFolders())
    with _rolled_back(dry_run), warehouse.transaction() as connection:
        sweeps = _sweeps(connection)
        current = _current(connection)
        counts = _DELETE[owner](connection, list(names))
        counts["sweeps"] = counts.get("sweeps", 0) + _delete_empty_sweeps(connection, sweeps)
        gone = [sweep for sweep in sweeps if sweep not in _sweeps(connection)]
        deleted = DeletedRows(
            rows={table: count for table, count in counts.items() if count},
            sweeps=gone,
            dagster_runs=[run for sweep in gone if (run := sweeps[sweep]) is not None],
            pairs=[pair for pair, sweep in current.items() if _current(connection).get(pair) != sweep],
            remaining=stored_folders(warehouse),
        )
        if dry_run:
            raise _DryRunEnds
    return deleted


@contextmanager
def _rolled_back(dry_run: bool) -> Iterator[None]:
    try:
        yield
    except _DryRunEnds:
        assert dry_run


def _sweeps(connection: Connection) -> dict[str, str | None]:
    return dict(connection.execute("SELECT sweep_id, dagster_run_id FROM sweeps ORDER BY sweep_id").fetchall())


def _current(connection: Connection) -> dict[PairKey, str]:
    rows = connection.execute("SELECT suite, runner, sweep_id FROM current_pairs ORDER BY suite, runner").fetchall()
    return {PairKey(suite, runner): sweep_id for suite, runner, sweep_id in rows}


def _delete(connection: Connection, table: str, where: str, values: Mapping[str, Any] | None = None) -> int:
    row = connection.execute(f'DELETE FROM "{table}" WHERE {where}', dict(values or {})).fetchone()
    return int(row[0]) if row else 0


def _delete_suites(connection: Connection, names: list[str]) -> dict[str, int]:
    values = {"names": names}
    overall = _delete(
        connection,
        "leaderboards",
        "scope = 'overall' AND board_id IN (SELECT board_id FROM leaderboards WHERE list_contains($names, suite))",
        values,
    )
    counts = _delete_named(connection, "suite", names)
    counts["leaderboards"] = counts.get("leaderboards", 0) + overall
    _forget_requested(connection, "suites", names)
    return counts


def _delete_runners(connection: Connection, names: list[str]) -> dict[str, int]:
    counts = _delete_named(connection, "runner", names)
    where = "list_contains($names, baseline) OR list_contains($names, candidate)"
    counts["comparisons"] = _delete(connection, "comparisons", where, {"names": names})
    other = "list_contains($names, other_runner)"
    counts["runner_differences"] += _delete(connection, "runner_differences", other, {"names": names})
    _forget_requested(connection, "runners", names)
    return counts


def _delete_named(connection: Connection, column: str, names: list[str]) -> dict[str, int]:
    tables = [table.name for table in TABLES if column in table.column_names]
    return {table: _delete(connection, table, f"list_contains($names, {column})", {"names": names}) for table in tables}


def _forget_requested(connection: Connection, field: str, names: list[str]) -> None:
    """Remove names from what the remaining sweeps say they selected."""
    listed = f"from_json(selection->'{field}', '[\"VARCHAR\"]')"
    connection.execute(
        f"""UPDATE sweeps SET selection = json_merge_patch(selection, json_object('{field}',
                list_filter({listed}, lambda name: NOT list_contains($names, name))))
            WHERE list_has_any({listed}, $names)""",
        {"names": names},
    )


def _delete_empty_sweeps(connection: Connection, candidates: Mapping[str, str | None]) -> int:
    """Delete finished sweeps that no row refers to any more."""
    return _delete(
        connection,
        "sweeps",
        """list_contains($ids, sweep_id) AND status = 'finished'
           AND sweep_id NOT IN (SELECT sweep_id FROM sweep_pairs)
           AND sweep_id NOT IN (SELECT sweep_id FROM target_executions)""",
        {"ids": list(candidates)},
    )


def _delete_sweeps(connection: Connection, names: list[str]) -> dict[str, int]:
    values = {"names": names}
    counts = {"leaderboards": _deleted(connection.execute(_BOARDS_OF_SWEEPS, values))}
    counts["sweep_pairs"] = _delete(connection, "sweep_pairs", "list_contains($names, sweep_id)", values)
    counts["sweeps"] = _delete(connection, "sweeps", "list_contains($names, sweep_id)", values)
    connection.execute(_READ)
    connection.execute(_READ_BESIDE)
    connection.execute(_READ_BY_GRADERS)
    counts["pair_statistics"] = _delete(connection, "pair_statistics", _UNUSED_STATISTICS)
    unread = "execution_id NOT IN (SELECT execution_id FROM still_read)"
    counts["target_executions"] = _delete(
        connection, "target_executions", f"list_contains($names, sweep_id) AND {unread}", values
    )
    without = "execution_id NOT IN (SELECT execution_id FROM target_executions)"
    written = "list_contains($names, sweep_id) AND verdict_id NOT IN (SELECT verdict_id FROM still_read)"
    counts["verdicts"] = _delete(connection, "verdicts", f"{without} OR ({written})", values)
    counts |= {table: _delete(connection, table, without) for table in _BY_EXECUTION}
    for table in ("evaluator_scores", "member_scores"):
        counts[table] += _delete(connection, table, f"list_contains($names, sweep_id) AND {_uncounted(table)}", values)
    changed = "verdict_id NOT IN (SELECT verdict_id FROM verdicts)"
    counts["verdict_changes"] = _delete(connection, "verdict_changes", changed)
    pairs = "(suite, runner) NOT IN (SELECT (suite, runner) FROM sweep_pairs)"
    counts |= {table: _delete(connection, table, pairs) for table in _BY_PAIR}
    counts |= {table: _delete_unused_revisions(connection, table) for table in ("cases", "suites", "runners")}
    connection.execute("DROP TABLE still_read")
    return counts


def _deleted(cursor: Any) -> int:
    row = cursor.fetchone()
    return int(row[0]) if row else 0


def _uncounted(table: str) -> str:
    """The condition that no verdict counts a score."""
    return f"""NOT EXISTS (SELECT 1 FROM verdicts v WHERE v.execution_id = "{table}".execution_id
                           AND list_contains(v.score_keys, "{table}".spec_key))"""


def _delete_unused_revisions(connection: Connection, table: str) -> int:
    """Delete revisions that no pair or verdict has any more, except for the newest of a name."""
    name, revision, time = _UNUSED_REVISIONS[table]
    source, by = (table, time) if time is not None else ("suites", "loaded_at")
    newest = f"SELECT ({name}, arg_max({revision}, {by})) FROM {source} GROUP BY {name}"
    used = f"SELECT ({name}, {revision}) FROM sweep_pairs UNION SELECT ({name}, {revision}) FROM verdicts"
    return _delete(connection, table, f"({name}, {revision}) NOT IN ({used} UNION {newest})")


_DELETE = {"suite": _delete_suites, "runner": _delete_runners, "sweep": _delete_sweeps}


def stored_folders(warehouse: Warehouse) -> StoredFolders:
    """Return the folders that executions keep files in."""
    if not warehouse.exists():
        return StoredFolders()
    stored = warehouse.frame(
        """SELECT runner, suite, left(key, 24) AS key, sweep_id, workspace->>'path' AS workspace, finished_at
           FROM target_executions"""
    )
    return StoredFolders(
        artifacts={tuple(row[:4]): row[5] for row in stored.iter_rows()},
        workspaces={Path(row[4]).parts[-4:]: row[5] for row in stored.iter_rows() if row[4] is not None},
    )
