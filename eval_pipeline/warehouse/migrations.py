"""Migrations of older warehouses: numbered steps, each applied once, in one transaction.

Step 1 creates the tables of `tables.py`. A change of the schema adds a step that upgrades a database of the
previous version. A step that creates a table creates it as it is now, so each statement has no effect where the change
already exists. The last step also recreates comments and views, once every table and column that they name exists. An
empty database is made as it is now, without the steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.case_sums import TOTALS_TYPE
from eval_pipeline.warehouse.counted_again import COUNT_STORED
from eval_pipeline.warehouse.engines import IN_UTC
from eval_pipeline.warehouse.schema import (
    comment_statements,
    macro_statements,
    table_statements,
    view_comment_statements,
    view_statements,
)
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.tables import BY_NAME
from eval_pipeline.warehouse.verdict_history import STORED_CHANGES


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: the resulting version, a description, and its SQL."""

    version: int
    description: str
    statements: tuple[str, ...]


def _added(columns: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the statements that add columns (name → type) to tables where they do not exist."""
    for table, types in columns.items():
        for name, type_ in types.items():
            yield f'ALTER TABLE IF EXISTS "{table}" ADD COLUMN IF NOT EXISTS "{name}" {type_}'


_ADDED_IN_2: Mapping[str, Mapping[str, str]] = {
    "cases": {
        "conversation": "JSON",
        "workspace": "JSON",
        "depends_on": "VARCHAR[]",
        "conversation_id": "VARCHAR",
        "case_group": "VARCHAR",
        "strategy": "VARCHAR",
    },
    "sweep_cells": {"strategy": "VARCHAR", "threshold": "DOUBLE", "skipped": "INTEGER"},
    "target_executions": {"workspace": "JSON", "answered_by": "VARCHAR"},
    "session_reports": {"file_changes": "VARCHAR"},
    "evaluator_scores": {"passes": "BOOLEAN"},
}
_RENAMED_IN_3 = (
    "DROP VIEW IF EXISTS current_cells",
    "ALTER TABLE IF EXISTS sweep_cells RENAME COLUMN suite_cells TO suite_plans",
    "ALTER TABLE IF EXISTS sweep_cells RENAME TO sweep_pairs",
)
_ADDED_IN_4: Mapping[str, Mapping[str, str]] = {
    "session_reports": {"turns": "JSON"},
    "session_events": {"turn": "INTEGER"},
}
_ADDED_IN_5: Mapping[str, Mapping[str, str]] = {
    "runners": {"content": "JSON"},
    "sweep_pairs": {"updated": "INTEGER"},
    "target_executions": {"identity": "JSON"},
    "session_reports": {"prices": "VARCHAR"},
    "verdicts": {"executed_at": "TIMESTAMP"},
    "leaderboards": {"oldest_answer_at": "TIMESTAMP", "newest_answer_at": "TIMESTAMP"},
}
_DATED_IN_5 = (
    "UPDATE verdicts SET executed_at = e.finished_at FROM target_executions e"
    " WHERE e.execution_id = verdicts.execution_id AND verdicts.executed_at IS NULL"
)
_ADDED_IN_6: Mapping[str, Mapping[str, str]] = {"suites": {"category": "VARCHAR"}}
_UNRANKED_IN_7 = """INSERT INTO unranked_pairs
    SELECT suite, runner, false FROM verdicts EXCEPT SELECT suite, runner, false FROM unranked_pairs"""
_OF_13 = ("evaluator_specs", "verdict_changes")
_OF_15 = ("runner_differences",)
_OF_16 = ("explanations",)
_OF_17 = ("baselines",)
_OF_22 = ("human_grades",)
_OF_31 = ("anchor_scores",)
_OF_41 = ("retired_cases",)
_OF_42 = ("seen_plans",)
_LATER_TABLES = (
    "member_scores",
    "unranked_pairs",
    "pair_statistics",
    "retired_pairs",
    *_OF_13,
    *_OF_15,
    *_OF_16,
    *_OF_17,
    *_OF_22,
    *_OF_31,
    *_OF_41,
    *_OF_42,
)
_ADDED_IN_8: Mapping[str, Mapping[str, str]] = {
    "sweep_pairs": {"statistics_id": "VARCHAR"},
    "target_executions": {"retry_of": "VARCHAR"},
    "verdicts": {"grading_cost_usd": "DOUBLE", "incomplete": "VARCHAR"},  # read when answers are counted
    "leaderboards": {
        "panel_revision": "VARCHAR",
        "cases_revision": "VARCHAR",
        "statistics_id": "VARCHAR",
        "answers": "BIGINT",
        "apart": "VARCHAR",
        "note": "VARCHAR",
        "rank_best": "INTEGER",
        "rank_worst": "INTEGER",
    },
}
_ADDED_IN_13: Mapping[str, Mapping[str, str]] = {
    "evaluator_scores": {"score_key": "VARCHAR", "grading_cost_usd": "DOUBLE"},
    "verdicts": {"scores_key": "VARCHAR", "grading_cost_usd": "DOUBLE"},
    "pair_statistics": {"grading_cost_usd": "DOUBLE"},
    "leaderboards": {"grading_cost_usd": "DOUBLE"},
}
_ADDED_IN_9: Mapping[str, Mapping[str, str]] = {"session_reports": {"reported_times": "JSON"}}
_ADDED_IN_14: Mapping[str, Mapping[str, str]] = {"session_reports": {"ended_by": "VARCHAR"}}
_ADDED_IN_15: Mapping[str, Mapping[str, str]] = {
    "pair_statistics": {"plans": "BIGINT", "case_count": "BIGINT", "texts_id": "VARCHAR", "counts_id": "VARCHAR"},
    "leaderboards": {"board_key": "VARCHAR"},
}
_ADDED_IN_17: Mapping[str, Mapping[str, str]] = {
    "cases": {
        "difficulty": "VARCHAR",
        "status": "VARCHAR",
        "persona": "VARCHAR",
        "simulated_user": "JSON",
        "mocks": "JSON",
        "created_at": "TIMESTAMPTZ",
        "updated_at": "TIMESTAMPTZ",
    }
}
_DERIVED_IN_15 = """UPDATE pair_statistics SET plans = (list_sum(planned) + broken)::BIGINT,
    case_count = len(planned)::BIGINT, texts_id = statistics_id, counts_id = statistics_id"""
"""Their own ids identify stored rows: hashing 2,000 pairs of 2,500 cases needs more memory than DuckDB may use."""
_ADDED_IN_16: Mapping[str, Mapping[str, str]] = {
    "evaluator_scores": {"failure_label": "VARCHAR"},
    "verdicts": {"failure_label": "VARCHAR", "failure_origin": "VARCHAR"},
    "cases": {"should_trigger": "JSON"},
    "token_snapshots": {
        "model": "VARCHAR",
        "measured": "DOUBLE",
        "allowed": "DOUBLE",
        "answers": "INTEGER",
        "passed": "BOOLEAN",
        "reason": "VARCHAR",
        "checked_at": "TIMESTAMPTZ",
        "sweep_id": "VARCHAR",
    },
}
_ADDED_IN_20: Mapping[str, Mapping[str, str]] = {
    "pair_statistics": {"weights": "DOUBLE[]"},
    "leaderboards": {"effective_cases": "DOUBLE"},
}
_ADDED_IN_18: Mapping[str, Mapping[str, str]] = {"sweeps": {"name": "VARCHAR"}}
_ADDED_IN_19: Mapping[str, Mapping[str, str]] = {
    "cases": {"incomplete": "VARCHAR"},
    "verdicts": {"incomplete": "VARCHAR"},
    "pair_statistics": {"incomplete": "BIGINT"},
    "leaderboards": {"incomplete": "BIGINT"},
}
_ADDED_IN_21: Mapping[str, Mapping[str, str]] = {
    "runners": {"arm_of": "VARCHAR", "arm": "VARCHAR", "arm_place": "INTEGER"}
}
_ADDED_IN_33: Mapping[str, Mapping[str, str]] = {"pair_statistics": {"clustered": "BOOLEAN"}}
_ADDED_IN_40: Mapping[str, Mapping[str, str]] = {"pair_statistics": {"totals": TOTALS_TYPE, "outcomes": "BLOB"}}
_ADDED_IN_36: Mapping[str, Mapping[str, str]] = {"cases": {"repetitions": "INTEGER"}}
_ADDED_IN_37: Mapping[str, Mapping[str, str]] = {"cases": {"input_key": "VARCHAR"}}
_ADDED_IN_44: Mapping[str, Mapping[str, str]] = {"session_reports": {"given_up": "JSON", "answer_cost_usd": "DOUBLE"}}
_GIVEN_UP_IN_44 = """UPDATE session_reports SET given_up = json_extract(turns, '$[0].speech.given_up')
                     WHERE json_extract(turns, '$[0].speech.given_up') IS NOT NULL"""
_TOKENS_IN_45 = {
    name: f"list_sum(TRY_CAST(json_extract_string(given_up, '$[*].usage.{name}') AS BIGINT[]))"
    for name in ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
}
_GIVEN_UP_OF_45 = {
    **_TOKENS_IN_45,
    "total_tokens": f"coalesce({_TOKENS_IN_45['input_tokens']}, 0) + coalesce({_TOKENS_IN_45['output_tokens']}, 0)",
}
_ANSWERS_IN_45 = f"""UPDATE session_reports
    SET {", ".join(f"{name} = {name} - coalesce({used}, 0)" for name, used in _GIVEN_UP_OF_45.items())}
    WHERE normalizer = 'conversation/6' AND given_up IS NOT NULL"""
"""Reports of version 43 count the tokens of turns given up with those of the answer: a known sum has known parts."""
_TEXTS_IN_9 = (
    """UPDATE session_reports SET reported_times = json_array(started_at, ended_at)
       WHERE reported_times IS NULL AND coalesce(started_at, ended_at) IS NOT NULL""",
    *(
        f"""ALTER TABLE session_reports ALTER COLUMN {name} TYPE TIMESTAMPTZ
            USING TRY_CAST({name} AS TIMESTAMPTZ)"""
        for name in ("started_at", "ended_at")
    ),
)


def _zoned() -> Iterator[str]:
    """Yield the statements that give every time a zone."""
    for table in _TABLES_OF_9:
        for column in table.columns:
            if column.type == "TIMESTAMPTZ" and (table.name, column.name) not in (*_TEXTS, *_TIMES_OF_17):
                yield f'ALTER TABLE "{table.name}" ALTER COLUMN "{column.name}" TYPE TIMESTAMPTZ'


_TIMES_OF_17 = {("cases", "created_at"), ("cases", "updated_at")}
_TEXTS = {("session_reports", "started_at"), ("session_reports", "ended_at"), ("token_snapshots", "checked_at")}
"""Times that were texts then, or that no table had yet."""
_TABLES_OF_9 = [
    table
    for table in BY_NAME.values()
    if table.name not in ("retired_pairs", *_OF_13, *_OF_15, *_OF_16, *_OF_17, *_OF_22, *_OF_31, *_OF_41, *_OF_42)
]
_TABLES_OF_1 = [table for table in BY_NAME.values() if table.name not in _LATER_TABLES]
MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "first schema", tuple(table_statements(_TABLES_OF_1))),
    Migration(
        2,
        "workspaces, conversations, members of scores",
        (*_added(_ADDED_IN_2), *table_statements([BY_NAME["member_scores"]])),
    ),
    Migration(3, "sweep_cells is named sweep_pairs, its suite_cells suite_plans", _RENAMED_IN_3),
    Migration(4, "turns of sessions", tuple(_added(_ADDED_IN_4))),
    Migration(5, "what executions depend on, the age of answers", (*_added(_ADDED_IN_5), _DATED_IN_5)),
    Migration(6, "categories of suites", tuple(_added(_ADDED_IN_6))),
    Migration(7, "pairs that are to be ranked", (*table_statements([BY_NAME["unranked_pairs"]]), _UNRANKED_IN_7)),
    Migration(
        8,
        "answers counted by pair and case, answers that were tried again",
        (*_added(_ADDED_IN_8), *table_statements([BY_NAME["pair_statistics"]]), *COUNT_STORED),
    ),
    Migration(9, "times with a zone, times of sessions as times", (*_added(_ADDED_IN_9), *_TEXTS_IN_9, *_zoned())),
    Migration(10, "pairs that the project has no more", tuple(table_statements([BY_NAME["retired_pairs"]]))),
    Migration(11, "comments of the columns of views, macros", ()),
    Migration(12, "changes between two sweeps", ()),
    Migration(
        13,
        "what evaluators were, changes of verdicts, the cost of grading",
        (
            *_added(_ADDED_IN_13),
            *table_statements([BY_NAME["evaluator_specs"], BY_NAME["verdict_changes"]]),
            STORED_CHANGES,
        ),
    ),
    Migration(14, "what ended conversations, their turns by speaker", tuple(_added(_ADDED_IN_14))),
    Migration(
        15,
        "what boards of suites were computed from",
        (*_added(_ADDED_IN_15), *table_statements([BY_NAME["runner_differences"]]), _DERIVED_IN_15),
    ),
    Migration(
        16,
        "labels and origins of failures, token baselines, answers to questions about failed checks",
        (
            *_added(_ADDED_IN_16),
            'ALTER TABLE "token_snapshots" ALTER COLUMN "value" TYPE DOUBLE',
            *table_statements([BY_NAME["explanations"]]),
        ),
    ),
    Migration(
        17,
        "simulated users of cases, baselines",
        (*_added(_ADDED_IN_17), *table_statements([BY_NAME["baselines"]])),
    ),
    Migration(18, "names of sweeps", tuple(_added(_ADDED_IN_18))),
    Migration(19, "sessions that a limit ended, and that are graded", tuple(_added(_ADDED_IN_19))),
    Migration(20, "weights of cases", tuple(_added(_ADDED_IN_20))),
    Migration(21, "arms of runners, views of skills", tuple(_added(_ADDED_IN_21))),
    Migration(22, "grades of people", tuple(table_statements([BY_NAME["human_grades"]]))),
    Migration(23, "results of cases that are tried again on failure", ()),
    Migration(24, "agreement of graders on the order of values", ()),
    Migration(25, "views of analysts' questions", ()),
    Migration(26, "results by tag, difficulty, persona and metric count cases by their weights", ()),
    Migration(27, "the smallest difference that current results are likely to show", ()),
    Migration(28, "lines of simulated users that were not reviewed are counted", ()),
    Migration(29, "boards without standings", ()),
    Migration(30, "intervals of skills that nothing was counted of are unknown", ()),
    Migration(31, "grades of anchors", tuple(table_statements([BY_NAME["anchor_scores"]]))),
    Migration(32, "what stale pairs need", ()),
    Migration(33, "whether cases of pairs are clustered", tuple(_added(_ADDED_IN_33))),
    Migration(34, "control limits of judges that are unknown", ()),
    Migration(35, "values of cases that differences between arms are of", ()),
    Migration(36, "repetitions of cases, and all edits that stale pairs need graders for", tuple(_added(_ADDED_IN_36))),
    Migration(37, "stale pairs need executions for every edit that targets see", tuple(_added(_ADDED_IN_37))),
    Migration(38, "views of rates count first answers", ()),
    Migration(39, "failure_trends has reused executions, latencies are those of graded answers", ()),
    Migration(40, "sums over the cases of pairs", tuple(_added(_ADDED_IN_40))),
    Migration(41, "cases that the project has no more", tuple(table_statements([BY_NAME["retired_cases"]]))),
    Migration(42, "stale pairs by the plan of their files", tuple(table_statements([BY_NAME["seen_plans"]]))),
    Migration(43, "what was used in turns of conversations that began anew", ()),
    Migration(44, "turns given up and the cost of answers", (*_added(_ADDED_IN_44), _GIVEN_UP_IN_44)),
    Migration(45, "tokens of answers without those of turns given up", (_ANSWERS_IN_45,)),
    Migration(46, "causes of evaluators without a name, and unknown sweeps in macros", ()),
)


_VIEW_COLUMNS = """SELECT table_name, column_name FROM duckdb_columns()
    WHERE NOT internal AND table_name IN (SELECT view_name FROM duckdb_views() WHERE NOT internal)
      AND database_name IN (SELECT database_name FROM duckdb_databases() WHERE type = 'duckdb')"""


def migrate(connection: duckdb.DuckDBPyConnection, migrations: Sequence[Migration] = MIGRATIONS) -> list[int]:
    """Upgrade a database to the newest version; return the versions applied. Raises WarehouseError for a newer one."""
    connection.execute(IN_UTC)
    current = schema_version(connection)
    newest = max(migration.version for migration in migrations)
    if current > newest:
        raise WarehouseError(f"the warehouse has schema version {current}, this program knows {newest}: update it")
    steps = sorted((step for step in migrations if step.version > current), key=lambda step: step.version)
    if not current and migrations is MIGRATIONS:
        _apply(connection, steps, table_statements(), last=True)  # an empty database is made as it is now, at once
        return [step.version for step in steps]
    for step in steps:
        _apply(connection, [step], step.statements, last=step is steps[-1])
    return [step.version for step in steps]


def _describe(connection: duckdb.DuckDBPyConnection) -> None:
    """Make comments, views and macros anew. DuckLake keeps no comments of columns of views."""
    for statement in (";\n".join(comment_statements()), *view_statements(), *macro_statements()):
        connection.execute(statement)
    of_views = view_comment_statements(connection.execute(_VIEW_COLUMNS).fetchall())
    connection.execute(";\n".join(of_views))  # a thousand in all: each alone takes half as long again


def schema_version(connection: Connection) -> int:
    """Return the version of a database; 0 for an empty one."""
    exists = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'schema_migrations'").fetchone()
    if exists is None:
        return 0
    row = connection.execute("SELECT coalesce(max(version), 0) FROM schema_migrations").fetchone()
    return int(row[0]) if row else 0


def _apply(
    connection: duckdb.DuckDBPyConnection, steps: Iterable[Migration], statements: Iterable[str], *, last: bool
) -> None:
    """Apply steps in one transaction; with the `last` one come comments and views, which name the newest columns."""
    connection.execute("BEGIN")
    try:
        for statement in statements:
            connection.execute(statement)
        if last:
            _describe(connection)
        for step in steps:
            connection.execute("INSERT INTO schema_migrations VALUES (?, ?, now())", [step.version, step.description])
        connection.execute("COMMIT")
    except Exception:
        with suppress(duckdb.Error):  # keep the first error
            connection.execute("ROLLBACK")
        raise
