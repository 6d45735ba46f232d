"""Published results → what arms of runners differ in, and how often skills are used where they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.store import Connection


def arm_differences(connection: Connection, suites: Sequence[str], runners: Sequence[str]) -> list[Row]:
    """Return the differences between arms; `runners` are runners that have arms, or arms themselves. Empty: all."""
    named = "coalesce(len($runners) = 0, true) OR list_has_any([runner, runner || '-' || arm], $runners)"
    return _rows(connection, "arm_differences", suites, runners, named)


def skill_activation(connection: Connection, suites: Sequence[str], runners: Sequence[str]) -> list[Row]:
    """Return how often runners use skills; `runners` as for `arm_differences`. Empty: all."""
    named = """coalesce(len($runners) = 0, true) OR list_has_any(
        [runner] || (SELECT coalesce(list(DISTINCT arm_of), []) FROM runners r WHERE r.runner = v.runner), $runners)"""
    return _rows(connection, "skill_activation", suites, runners, named)


def names_with_arms(connection: Connection) -> set[str]:
    """Return the names of all runners, and of those that they are arms of."""
    stored = connection.execute("SELECT runner FROM runners UNION SELECT arm_of FROM runners WHERE arm_of IS NOT NULL")
    return {name for (name,) in stored.fetchall()}


def _rows(
    connection: Connection, view: str, suites: Sequence[str], runners: Sequence[str], named: str
) -> list[dict[str, Any]]:
    query = f"""
        SELECT * FROM {view} v
        WHERE (len($suites::VARCHAR[]) = 0 OR list_contains($suites::VARCHAR[], suite))
          AND ({named.replace("$runners", "$runners::VARCHAR[]")})"""
    cursor = connection.execute(query, {"suites": list(suites), "runners": list(runners)})
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
