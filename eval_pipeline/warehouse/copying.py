"""All rows of one warehouse into another: a DuckDB file into a shared one, or back.

A table is copied in one transaction and compared afterwards: its number of rows, and a hash of them that ignores their
order. A copy that broke off goes on with the tables that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, WarehouseError
from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.warehouse.columns import Table
from eval_pipeline.warehouse.engines import sql_text
from eval_pipeline.warehouse.scraps import scratch_path
from eval_pipeline.warehouse.store import Warehouse
from eval_pipeline.warehouse.tables import TABLES

_KEPT = frozenset({"schema_migrations"})
"""Tables of the database itself, which a copy has already."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A table that both warehouses have alike now; `is_new`: its rows were copied, not there before."""

    name: str
    rows: int
    is_new: bool


def copy_warehouse(source: Warehouse, target: Warehouse) -> Iterator[CopiedTable]:
    """Copy table by table; yield each when both have the same rows.

    Raises InputError where the source is empty, either has a sweep under way, or the target has sweeps of its own;
    WarehouseError where rows differ after the copy.
    """
    _check(source, target)
    for table in TABLES:
        if table.name not in _KEPT:
            yield _copied(source, target, table)
    target.publish()


def _check(source: Warehouse, target: Warehouse) -> None:
    if not source.exists():
        raise InputError("the warehouse to copy from has no results")
    for warehouse in (source, target):
        if warehouse.exists() and warehouse.frame("SELECT 1 FROM sweeps WHERE status = 'running'").height:
            raise InputError("a sweep is under way, or was killed: finish it first (eval-pipeline run)")
    if not target.exists():
        return
    known = set(source.frame("SELECT sweep_id FROM sweeps")["sweep_id"])
    others = set(target.frame("SELECT sweep_id FROM sweeps")["sweep_id"]) - known
    if others:
        raise InputError(
            f"the warehouse to copy to has {len(others)} sweeps that the other has not, such as {min(others)}; "
            "nothing was copied"
        )


def _copied(source: Warehouse, target: Warehouse, table: Table) -> CopiedTable:
    before = _fingerprint(source, table)
    if _fingerprint(target, table) == before:
        return CopiedTable(table.name, before[0], is_new=False)
    columns = _columns(table)
    path = scratch_path(source.storage.progress.parent.absolute(), "answer", ".parquet")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with private_files():
            source.read(lambda connection: _write(connection, f'SELECT {columns} FROM "{table.name}"', path))
        target.run(lambda connection: _fill(connection, table.name, columns, path))
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
    after = _fingerprint(target, table)
    if after != before:
        raise WarehouseError(
            f"table {table.name}: {after[0]} rows after the copy, {before[0]} before it, or other values; copy again"
        )
    return CopiedTable(table.name, after[0], is_new=True)


def _fingerprint(warehouse: Warehouse, table: Table) -> tuple[int, str | None]:
    """Return the number of rows, and a hash of them whatever their order."""
    query = f"""SELECT count(*), sum(hash({_columns(table)}))::VARCHAR FROM "{table.name}" """
    rows, hashed = warehouse.frame(query).row(0)
    return int(rows), hashed


def _columns(table: Table) -> str:
    return ", ".join(f'"{name}"' for name in table.column_names)


def _write(connection: Any, query: str, path: Path) -> None:
    connection.execute(f"COPY ({query}) TO {sql_text(str(path))} (FORMAT parquet)")


def _fill(connection: Any, table: str, columns: str, path: Path) -> None:
    connection.execute(f'DELETE FROM "{table}"')
    connection.execute(f'INSERT INTO "{table}" ({columns}) SELECT {columns} FROM read_parquet({sql_text(str(path))})')
