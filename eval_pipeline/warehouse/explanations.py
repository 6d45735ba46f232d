"""Questions about failed checks that are stored, and what agents answered to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.selections import Selection
from eval_pipeline.warehouse.store import Connection, Warehouse

_COLUMNS = """
    v.suite, v.case_id, v.runner, v.repetition, v.execution_id, r.session_id, x.raw, x.artifacts, x.workspace,
    s.details"""
_JOINS = """
    JOIN target_executions x USING (execution_id) LEFT JOIN session_reports r USING (execution_id)
    JOIN evaluator_scores s ON s.execution_id = v.execution_id AND list_contains(v.score_keys, s.spec_key)"""
_ASKED = """
    WHERE json_array_length(s.details, '$.questions') > 0
    ORDER BY v.suite, v.case_id, v.runner, v.repetition, s.evaluator"""
_ANSWERED = ("question", "source", "answer", "error", "session_id", "duration_ms", "cost_usd")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedExecution:
    """An execution with questions about its failed checks, and what of its session is stored.

    `answers` are stored rows of `explanations` by question. `log_name` is the place of the session's log in the
    folder of its CLI; `artifacts` are the files of the execution by role, relative to the folder of artifacts.
    """

    suite: str
    case_id: str
    runner: str
    repetition: int
    execution_id: str
    session_id: str | None
    payload: Mapping[str, Any]
    artifacts: Mapping[str, str]
    workspace: str | None
    questions: tuple[tuple[str, str | None], ...]
    answers: Mapping[str, Row]

    @property
    def name(self) -> str:
        """Suite, case and runner for people."""
        repetition = f" (repetition {self.repetition})" if self.repetition > 1 else ""
        return f"{self.suite}/{self.case_id} × {self.runner}{repetition}"


def asked_executions(connection: Connection, selection: Selection, case_id: str | None = None) -> list[AskedExecution]:
    """Return the selected executions with questions, by suite, case, runner and repetition."""
    rows = connection.execute(selection.query(_COLUMNS, _JOINS, _ASKED), selection.values).fetchall()
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in rows:
        if case_id in (None, row[1]):
            found.setdefault(row[4], []).append(row)
    answers = _answers(connection, list(found))
    return [_execution(of_one, answers.get(id_, {})) for id_, of_one in found.items()]


def _answers(connection: Connection, executions: Sequence[str]) -> dict[str, dict[str, Row]]:
    """Return stored answers by execution and question."""
    query = f"""
        SELECT execution_id, {", ".join(_ANSWERED)} FROM explanations
        WHERE execution_id IN (SELECT unnest($ids::VARCHAR[])) ORDER BY position"""
    answers: dict[str, dict[str, Row]] = {}
    for id_, *values in connection.execute(query, {"ids": list(executions)}).fetchall():
        answers.setdefault(id_, {})[values[0]] = dict(zip(_ANSWERED, values, strict=True))
    return answers


def _execution(rows: Sequence[tuple[Any, ...]], answers: Mapping[str, Row]) -> AskedExecution:
    suite, case_id, runner, repetition, execution_id, session_id, *stored = rows[0]
    raw, artifacts, workspace = (json.loads(value) if value is not None else None for value in stored[:3])
    questions = {each["question"]: each.get("source") for row in rows for each in json.loads(row[-1])["questions"]}
    return AskedExecution(
        suite=suite, case_id=case_id, runner=runner, repetition=repetition, execution_id=execution_id,
        session_id=session_id,
        payload=(raw or {}).get("payload") or {},
        artifacts={each["role"]: each["path"] for each in artifacts or ()},
        workspace=(workspace or {}).get("path"),
        questions=tuple(questions.items()),
        answers=answers,
    )  # fmt: skip


def store_answers(warehouse: Warehouse, asked: AskedExecution, answers: Iterable[Row]) -> None:
    """Store answers to an execution's questions, and publish them; they replace earlier ones to the same questions."""
    place = {name: getattr(asked, name) for name in ("execution_id", "suite", "case_id", "runner", "repetition")}
    order = [question for question, _ in asked.questions]
    rows = [
        {
            "explanation_id": fingerprint([asked.execution_id, answer["question"]]),
            "position": order.index(answer["question"]),
            **place,
            **answer,
        }
        for answer in answers
    ]
    warehouse.write("explanations", rows)
    warehouse.publish()
