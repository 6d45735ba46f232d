"""The request that stores a person's grade: the only one by which the page changes something."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.human_grades import HumanGrade, grades_of, store_grade
from eval_pipeline.warehouse.store import Warehouse

MOST_BYTES = 200_000
_TEXTS = ("execution_id", "spec_key", "comment", "person")


def store(warehouse: Warehouse, body: bytes, suite: str, case_id: str) -> dict[str, Any]:
    """Store the grade that a request has, and return all grades of its case.

    Raises InputError for a body that is no grade, WarehouseError where nothing can be written.
    """
    store_grade(warehouse, _grade(body), datetime.now(UTC))
    with warehouse.published() as connection:
        return {"grades": grades_of(connection, suite, case_id)}


def _grade(body: bytes) -> HumanGrade:
    if len(body) > MOST_BYTES:
        raise InputError(f"expected at most {MOST_BYTES:,} bytes")
    try:
        values = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise InputError("expected JSON") from None
    if not isinstance(values, dict):
        raise InputError("expected an object")
    passed = values.get("passed")
    if not isinstance(passed, bool | None):
        raise InputError("passed: expected true, false or null")
    texts = {name: _text(values, name) for name in _TEXTS}
    if texts["execution_id"] is None:
        raise InputError("execution_id: expected a text")
    return HumanGrade(
        execution_id=texts["execution_id"],
        spec_key=texts["spec_key"],
        passed=passed,
        comment=(texts["comment"] or "").strip() or None,
        person=(texts["person"] or "").strip(),
    )


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if not isinstance(value, str | None):
        raise InputError(f"{name}: expected a text")
    return value


def why_read_only(warehouse: Warehouse) -> str | None:
    """Return why no grade can be stored, None where one can."""
    if warehouse.is_missing():
        return "grades cannot be stored: the warehouse beside these published results is not here"
    return None
