"""The roles of the docs are enough for their work, and for no more: a writer sweeps, an analyst only reads."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.ducklake import DuckLakeWarehouse
from eval_pipeline.warehouse.lake_address import lake_address
from eval_pipeline.warehouse.lake_engine import lake_engine
from eval_pipeline_tests.postgres_server import PASSWORD, PostgresServer
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.postgres import lake_url, new_database

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "share-a-warehouse.md"


def statements(database: str) -> list[str]:
    """Return the SQL of the docs that creates the roles, for this database."""
    (block,) = re.findall(r"```sql\n(-- roles.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    return [each for each in block.replace("evals", database).split(";") if each.strip()]


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> str:
    name = new_database(server)
    for statement in statements(name):
        server.sql(name, statement)
    for role in ("writer", "analyst"):
        server.sql(name, f"ALTER ROLE {role} PASSWORD '{PASSWORD}'")
    return name


def url_of(server: PostgresServer, database: str, role: str, folder: Path) -> str:
    return lake_url(server, database, folder / "lake").replace("user=pipeline", f"user={role}")


@pytest.fixture
def writer(
    server: PostgresServer, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DuckLakeWarehouse]:
    folder = tmp_path_factory.getbasetemp() / "roles"
    opened = machine(url_of(server, database, "writer", folder), folder / "writer")
    opened.write("sweeps", [{"sweep_id": "a"}])
    yield opened
    opened.close()


@pytest.fixture
def analyst_url(server: PostgresServer, database: str, writer: DuckLakeWarehouse) -> str:
    return url_of(server, database, "analyst", writer.folder.parent)


def test_a_writer_makes_the_tables_and_takes_leases(writer: DuckLakeWarehouse) -> None:
    assert writer.leases is not None
    with writer.leases.held("a"):
        assert writer.leases.live_sweeps() == {"a"}
    writer.compact()

    assert writer.frame("SELECT count(*) FROM sweeps").item() == 1


def test_an_analyst_reads_by_our_commands_and_by_duckdb(
    writer: DuckLakeWarehouse, analyst_url: str, tmp_path: Path
) -> None:
    with machine(analyst_url, tmp_path / "analyst").published() as connection:
        assert connection.execute("SELECT sweep_id FROM sweeps").fetchall() == [("a",)]

    engine = lake_engine(lake_address(analyst_url.removeprefix("ducklake:"), tmp_path), {}, read_only=True)
    assert engine.execute("SELECT count(*) FROM current_verdicts").fetchall() == [(0,)]
    engine.close()


def test_an_analyst_cannot_write_even_where_nothing_is_attached_read_only(
    writer: DuckLakeWarehouse, analyst_url: str, tmp_path: Path
) -> None:
    engine = lake_engine(lake_address(analyst_url.removeprefix("ducklake:"), tmp_path), {})
    for statement in ("INSERT INTO sweeps (sweep_id) VALUES ('b')", "DELETE FROM sweeps", "CREATE TABLE t (x INT)"):
        with pytest.raises(duckdb.Error, match="permission denied"):
            engine.execute(statement)
    engine.close()

    assert writer.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["a"]


@pytest.mark.parametrize(
    "statement", ["DELETE FROM ducklake_snapshot", "DROP TABLE ducklake_table", "CREATE TABLE t ()"]
)
def test_an_analyst_cannot_change_the_catalog(
    server: PostgresServer, database: str, analyst_url: str, statement: str
) -> None:
    driver: Any = importlib.import_module("psycopg2")
    connection = driver.connect(lake_address(analyst_url.removeprefix("ducklake:"), Path()).connection)
    try:
        with connection.cursor() as cursor, pytest.raises(driver.Error, match=r"permission denied|must be owner"):
            cursor.execute(statement)
    finally:
        connection.close()


def test_an_analyst_who_starts_a_sweep_is_told_of_the_roles(analyst_url: str, tmp_path: Path) -> None:
    leases = machine(analyst_url, tmp_path / "analyst").leases
    assert leases is not None

    with pytest.raises(WarehouseError, match="permission denied for schema public; its user has no"):
        leases.live_sweeps()


@pytest.mark.parametrize("work", ["write", "compact"])
def test_an_analyst_who_writes_is_told_of_the_roles_at_once(
    work: str, writer: DuckLakeWarehouse, analyst_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    opened = machine(analyst_url, tmp_path / "analyst")

    with pytest.raises(WarehouseError, match=r"permission denied for .*; its user has no rights of a writer"):
        opened.write("sweeps", [{"sweep_id": "b"}]) if work == "write" else opened.compact()

    assert "tried again" not in caplog.text
    assert writer.frame("SELECT sweep_id FROM sweeps")["sweep_id"].to_list() == ["a"]


def test_a_wrong_password_is_said_at_once_and_without_it(
    analyst_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "never-shown-anywhere")

    with pytest.raises(WarehouseError, match="password authentication failed") as refused:
        machine(analyst_url, tmp_path / "analyst").exists()

    assert "never-shown-anywhere" not in str(refused.value)
