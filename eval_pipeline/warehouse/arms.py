"""Published results → what arms of runners differ in, and how often skills are used where they should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eval_pipeline.statistics.gates import difference_interval, reach_of
from eval_pipeline.statistics.intervals import Interval
from eval_pipeline.warehouse.columns import Row
from eval_pipeline.warehouse.store import Connection


def arm_differences(connection: Connection, suites: Sequence[str], runners: Sequence[str]) -> list[Row]:
    """Return the differences between arms; `runners` are runners that have arms, or arms themselves. Empty: all.

    `low` and `high` are the 95 % interval, paired by case, in the measure's unit; None where it is unknown.
    """
    named = "coalesce(len($runners) = 0, true) OR list_has_any([runner, runner || '-' || arm], $runners)"
    rows = _rows(connection, "arm_differences", suites, runners, named)
    return [_with_interval(row) for row in rows]


def _with_interval(row: dict[str, Any]) -> Row:
    values, others = row.pop("case_values"), row.pop("other_case_values")
    low, high = _interval(values, others, is_rate=row["measure"] == "pass_rate") or (None, None)
    return {**row, "low": low, "high": high}


def _interval(values: Sequence[float], others: Sequence[float], *, is_rate: bool) -> Interval | None:
    """Return the interval of a mean difference, that of rates in [-1, 1]; None below two cases, and where all values of
    another measure are the same, which leaves unknown how far one can change."""
    if not is_rate and len({*values, *others}) < 2:
        return None
    interval = difference_interval([x - y for x, y in zip(values, others, strict=True)], reach_of([*values, *others]))
    if interval is None or not is_rate:
        return interval
    return max(-1.0, interval[0]), min(1.0, interval[1])


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
