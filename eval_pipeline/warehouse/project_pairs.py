"""The pairs that a project has: where each comes from, and noting those that it has no more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.migrations import schema_version
from eval_pipeline.warehouse.schema import SCHEMA_VERSION
from eval_pipeline.warehouse.store import Connection, Warehouse

_CURRENT = """
    SELECT c.suite, c.runner, coalesce(s.path, n.path) AS path, w.started_at,
           w.selection ->> '$.runners_file' AS runners_file, c.suite_revision
    FROM current_pairs c
    LEFT JOIN sweeps w USING (sweep_id)
    LEFT JOIN suites s ON s.suite = c.suite AND s.suite_revision = c.suite_revision
    LEFT JOIN (SELECT suite, arg_max(path, loaded_at) AS path FROM suites GROUP BY suite) n ON n.suite = c.suite
    ORDER BY c.suite, c.runner"""


class CurrentPair(NamedTuple):
    """A current pair, the file that its suite was loaded from (at its revision, else last), and the start of the sweep
    that it is of, with the runners file that an option named for it (None: none did), and the suite's revision."""

    pair: PairKey
    path: str | None
    since: datetime | None
    runners_file: str | None
    suite_revision: str | None = None


def stored_pairs(warehouse: Warehouse) -> list[CurrentPair]:
    """Return the current pairs of a warehouse."""
    return [_pair(*row) for row in warehouse.frame(_CURRENT).iter_rows()]


def published_pairs(connection: Connection) -> list[CurrentPair]:
    """Return the current pairs of published results; none of those that another version published."""
    if schema_version(connection) != SCHEMA_VERSION:
        return []
    return [_pair(*row) for row in connection.execute(_CURRENT).fetchall()]


def _pair(suite: str, runner: str, *rest: Any) -> CurrentPair:
    return CurrentPair(PairKey(suite, runner), *rest)


def retire_pairs(warehouse: Warehouse, pairs: Sequence[PairKey], now: datetime) -> None:
    """Note that pairs are not current any more, and that no board knows it yet."""
    rows: list[dict[str, Any]] = [{"suite": pair.suite, "runner": pair.runner} for pair in pairs]

    def store(connection: Connection) -> None:
        warehouse.write("retired_pairs", [row | {"retired_at": now} for row in rows])
        warehouse.write("unranked_pairs", [row | {"finished": True} for row in rows])

    warehouse.run(store)
