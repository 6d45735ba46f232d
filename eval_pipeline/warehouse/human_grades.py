"""What people say about grades: stored beside the scores, which stay as they are."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from datetime import datetime

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.selections import existing_columns
from eval_pipeline.warehouse.store import Connection, Warehouse

LONGEST_NAME = 200
LONGEST_COMMENT = 20_000
_EXECUTION = "SELECT suite, runner, case_id, repetition FROM target_executions WHERE execution_id = ?"
_SCORE = "SELECT evaluator FROM evaluator_scores WHERE execution_id = ? AND spec_key = ?"
_OF_CASE = """
    SELECT grade_id, execution_id, spec_key, evaluator, passed, comment, person, graded_at::VARCHAR AS graded_at
    FROM human_grades WHERE suite = ? AND case_id = ? ORDER BY graded_at, grade_id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanGrade:
    """What a person says about a score of an execution, or about its verdict (`spec_key` None).

    `passed` is None for a comment only.
    """

    execution_id: str
    spec_key: str | None
    passed: bool | None
    comment: str | None
    person: str


def store_grade(warehouse: Warehouse, grade: HumanGrade, now: datetime) -> str:
    """Store a grade, publish it, and return its id.

    Raises InputError for an empty grade, an unknown execution or score, and WarehouseError where nothing can be
    written.
    """
    _check(grade)
    grade_id = f"{now:%Y%m%dT%H%M%S.%f}-{secrets.token_hex(2)}"

    def store(connection: Connection) -> None:
        execution = connection.execute(_EXECUTION, [grade.execution_id]).fetchone()
        if execution is None:
            raise InputError(f"there is no execution '{grade.execution_id}' any more")
        names = dict(zip(("suite", "runner", "case_id", "repetition"), execution, strict=True))
        evaluator = _evaluator(connection, grade)
        row: Row = {**asdict(grade), **names, "grade_id": grade_id, "evaluator": evaluator, "graded_at": now}
        warehouse.write("human_grades", [row])

    warehouse.run(store)
    warehouse.publish()
    return grade_id


def _check(grade: HumanGrade) -> None:
    if not grade.person.strip() or len(grade.person) > LONGEST_NAME:
        raise InputError(f"person: expected a name of at most {LONGEST_NAME} characters: who grades?")
    if grade.passed is None and not (grade.comment or "").strip():
        raise InputError("expected passed, failed or a comment")
    if len(grade.comment or "") > LONGEST_COMMENT:
        raise InputError(f"comment: expected at most {LONGEST_COMMENT:,} characters")


def _evaluator(connection: Connection, grade: HumanGrade) -> str | None:
    """Return the name of the evaluator whose score is graded; None for the verdict."""
    if grade.spec_key is None:
        return None
    score = connection.execute(_SCORE, [grade.execution_id, grade.spec_key]).fetchone()
    if score is None:
        raise InputError(f"execution '{grade.execution_id}' has no such score any more")
    return str(score[0])


def grades_of(connection: Connection, suite: str, case_id: str) -> list[Row]:
    """Return all grades of a case, oldest first; none in results of an older version."""
    if not existing_columns(connection, "human_grades"):
        return []
    cursor = connection.execute(_OF_CASE, [suite, case_id])
    names = [str(column[0]) for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
