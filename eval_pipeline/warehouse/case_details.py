"""Published results → single plans: the list of a selection, and everything stored about the plans of one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.warehouse.codec import decoder
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.records import read_records
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline.warehouse.store import Connection
from eval_pipeline.warehouse.tables import BY_NAME

_STORED = ("execution_id", "attempts", "artifacts", "workspace", "exit_code")
_PLAN = "v.suite, v.case_id, v.runner, v.repetition, v.status, v.score, v.failure_class, v.reason"
_ORDER = "ORDER BY v.suite, t.position, v.case_id, v.runner, v.repetition"
_IN_FILE_ORDER = "LEFT JOIN cases t USING (suite, suite_revision, case_id)"
_NOT_PASSED = "WHERE v.status NOT IN ('passed', 'expected-failed')"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """One plan of a selection with its verdict."""

    suite: str
    case_id: str
    runner: str
    repetition: int
    status: str
    score: float | None
    failure_class: str | None
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDetails:
    """Everything stored about one plan.

    `attempts` has an entry per attempt, `artifacts` one per file (role, path, bytes, sha256; a relative path starts at
    the folder of artifacts). `workspace` has its folder (`path`), `changes` and output of `hooks`; empty without one.
    """

    row: ResultRow
    attempts: Sequence[Mapping[str, Any]] = ()
    artifacts: Sequence[Mapping[str, Any]] = ()
    workspace: Mapping[str, Any]
    exit_code: int | None = None


def stored_case_names(connection: Connection) -> dict[str, list[str]]:
    """Return the ids of the cases of each suite's newest revision, in their order, evaluated or not."""
    stored = connection.execute(
        """SELECT suite, case_id FROM cases
           SEMI JOIN (SELECT suite, arg_max(suite_revision, loaded_at) AS suite_revision FROM suites GROUP BY suite)
               USING (suite, suite_revision)
           ORDER BY suite, position"""
    ).fetchall()
    names: dict[str, list[str]] = {}
    for suite, case_id in stored:
        names.setdefault(suite, []).append(case_id)
    return names


def plan_summaries(connection: Connection, selection: Selection, *, not_passed: bool = False) -> list[PlanSummary]:
    """Return the selected plans by suite, case, runner and repetition; with `not_passed` only those not as expected."""
    order = f"{_NOT_PASSED if not_passed else ''} {_ORDER}"
    stored = connection.execute(selection.query(_PLAN, _IN_FILE_ORDER, order), selection.values).fetchall()
    names = PlanSummary.__dataclass_fields__
    return [PlanSummary(**dict(zip(names, plan, strict=True))) for plan in stored]


def case_details(connection: Connection, selection: Selection, suite: str, case_id: str) -> list[CaseDetails]:
    """Return everything stored about the selected plans of a case, by runner and repetition."""
    if selection.cases and case_id not in selection.cases:
        return []
    narrowed = replace(selection, suites=(suite,), cases=(case_id,))
    records = list(read_records(connection, narrowed))
    executions = _executions(connection, [record.execution_id for record in records])
    return [_details(record, executions.get(record.execution_id, {})) for record in records]


def _executions(connection: Connection, ids: Sequence[str]) -> dict[str, Row]:
    columns = ", ".join(_STORED)
    query = f"SELECT {columns} FROM target_executions WHERE execution_id IN (SELECT unnest($ids::VARCHAR[]))"
    decode = decoder(_STORED, BY_NAME["target_executions"])
    rows = map(decode, connection.execute(query, {"ids": list(ids)}).fetchall())
    return {row["execution_id"]: row for row in rows}


def _details(record: ResultRow, execution: Mapping[str, Any]) -> CaseDetails:
    return CaseDetails(
        row=record,
        attempts=execution.get("attempts") or (),
        artifacts=execution.get("artifacts") or (),
        workspace=execution.get("workspace") or {},
        exit_code=execution.get("exit_code"),
    )
