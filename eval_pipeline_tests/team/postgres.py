"""Shared warehouses on a PostgreSQL server of the tests' own, and why there are none where they cannot be."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.lake_engine import extension_file
from eval_pipeline_tests.postgres_server import PASSWORD, USER, PostgresServer, postgres_server, why_no_server


def why_not() -> str | None:
    """Return what is missing for a shared warehouse, None when nothing is."""
    try:
        extension_file("ducklake"), extension_file("postgres_scanner")
    except WarehouseError as error:
        return str(error)
    return why_no_server()


def lake_url(server: PostgresServer, database: str, data_path: Path | str) -> str:
    """Return the URL of a warehouse; the password is in the environment."""
    return f"ducklake:postgres:host=127.0.0.1 port={server.port} user={USER} dbname={database} data_path={data_path}"


def new_database(server: PostgresServer) -> str:
    """Create a database; return its name."""
    name = f"lake_{uuid.uuid4().hex[:12]}"
    server.database(name)
    return name


def new_lake(server: PostgresServer, data_path: Path | str) -> str:
    """Return the URL of an empty warehouse."""
    return lake_url(server, new_database(server), data_path)


@contextmanager
def lake_server() -> Iterator[PostgresServer]:
    """Yield a server; PGPASSWORD of this process has the password of its owner."""
    with postgres_server() as server:
        os.environ["PGPASSWORD"] = PASSWORD  # the same for every server of this process
        yield server
