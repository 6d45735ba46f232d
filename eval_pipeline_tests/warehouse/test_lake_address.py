"""Addresses of shared warehouses, and when their transactions are run again. No server is needed."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from eval_pipeline.errors import InputError, WarehouseError
from eval_pipeline.warehouse.catalog import LostConnection
from eval_pipeline.warehouse.lake_address import lake_address
from eval_pipeline.warehouse.lake_retries import CONFLICTS, LOST_S, Retries, is_transient

CONFLICT = duckdb.TransactionException("Failed to commit DuckLake transaction: conflict")
LOST = LostConnection("server closed the connection unexpectedly")


@pytest.mark.parametrize(
    ("address", "connection", "data_path"),
    [
        ("postgres:dbname=evals host=db data_path=/lake", "dbname=evals host=db", "/lake/"),
        ("postgres:dbname=evals data_path=lake/rows", "dbname=evals", "/root/lake/rows/"),
        ("postgres:service=evals", "service=evals", None),
        ("postgres:dbname='my evals' data_path='/a lake'", "dbname='my evals'", "/a lake/"),
        ("postgres://ann@db:5433/evals?data_path=s3://bucket/x", "host=db port=5433 user=ann dbname=evals", "s3://bucket/x/"),
        ("postgresql://db/evals?sslmode=verify-full", "host=db dbname=evals sslmode=verify-full", None),
    ],
)  # fmt: skip
def test_an_address_has_a_catalog_and_a_data_path(address: str, connection: str, data_path: str | None) -> None:
    read = lake_address(address, Path("/root"))

    assert (read.connection, read.data_path) == (connection, data_path)


@pytest.mark.parametrize(
    "address",
    [
        "postgres://ann:hidden@db/evals",
        "postgres:dbname=evals password=hidden",
        "postgres://db/evals?password=hidden",
        "postgres:dbname=evals hidden",
        "sqlite:hidden",
        "postgres:",
        "",
        "postgres:dbname='hidden",
        "postgres://db:hidden/evals",
    ],
)
def test_an_unusable_address_is_refused_and_a_password_is_not_shown(address: str) -> None:
    with pytest.raises(InputError) as refused:
        lake_address(address, Path("/root"))

    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["postgres:dbname=evals datapath=/rows", "postgres://me@db/evals?datapath=/rows"], ids=["words", "URL"]
)
def test_a_misspelled_part_of_an_address_names_the_nearest(address: str) -> None:
    with pytest.raises(InputError, match="no part 'datapath'; did you mean 'data_path'"):
        lake_address(address, Path("/project"))


@pytest.mark.parametrize("seconds", ["0", "soon", "nan", "100000"])
def test_a_lease_has_a_bounded_time(seconds: str) -> None:
    assert lake_address("postgres:dbname=evals lease_s=5", Path("/root")).lease_s == 5.0
    with pytest.raises(InputError, match="lease_s of the warehouse: expected 1 to 86400 seconds"):
        lake_address(f"postgres:dbname=evals lease_s={seconds}", Path("/root"))


def test_only_conflicts_and_lost_connections_are_run_again() -> None:
    assert is_transient(CONFLICT)
    assert is_transient(LOST)
    assert is_transient(duckdb.IOException("Unable to connect to Postgres at host=db: Connection refused"))
    assert not is_transient(duckdb.BinderException("no such column"))
    assert not is_transient(duckdb.IOException('connection to server at "db" failed: password authentication failed'))
    assert not is_transient(KeyError("conflict"))


@pytest.mark.parametrize(
    "text",
    [
        'server certificate for "db" does not match host name "10.0.0.1"',
        "SSL error: certificate verify failed",
        "server does not support SSL, but SSL was required",
    ],
)
def test_settings_of_tls_that_the_server_does_not_meet_are_not_waited_for(text: str) -> None:
    assert not is_transient(LostConnection(f'connection to server at "db" failed: {text}'))


def test_conflicts_are_run_again_a_bounded_number_of_times() -> None:
    slept: list[float] = []
    retries = Retries(clock=lambda: 0.0, sleep=slept.append, chance=lambda: 0.5)

    for _ in range(CONFLICTS):
        retries.wait(CONFLICT)
    with pytest.raises(WarehouseError, match="conflict of writers"):
        retries.wait(CONFLICT)

    assert slept == sorted(slept)
    assert slept[-1] <= 5.0


def test_a_lost_server_is_waited_for_a_bounded_time() -> None:
    now = [0.0]
    retries = Retries(clock=lambda: now[0], sleep=lambda seconds: None, chance=lambda: 0.0)

    retries.wait(LOST)
    now[0] = LOST_S
    retries.wait(LOST)
    now[0] = LOST_S + 1
    with pytest.raises(WarehouseError, match="PostgreSQL is away"):
        retries.wait(LOST)


def test_waits_differ_by_chance() -> None:
    slept: list[float] = []
    for chance in (0.0, 1.0):
        Retries(clock=lambda: 0.0, sleep=slept.append, chance=lambda value=chance: value).wait(CONFLICT)  # type: ignore[misc]

    assert slept[1] == 2 * slept[0]
