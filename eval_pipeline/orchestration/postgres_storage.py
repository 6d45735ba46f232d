"""Dagster's PostgreSQL storage, cheaper to write: one kept connection, and the events of many pairs in one commit.

It replaces the stock event log while a sweep runs in this process; the webserver, the daemon and other machines use the
same tables with the stock one. Needs the package dagster-postgres (the extra `team`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import EventLogStorage
from dagster._serdes import ConfigurableClassData
from dagster_postgres import DagsterPostgresStorage, PostgresEventLogStorage
from dagster_postgres.utils import create_pg_engine, get_token_provider_from_config, pg_url_from_config
from sqlalchemy import NullPool
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from eval_pipeline.orchestration.light_event_log import LightEventLog, inserted

Result = TypeVar("Result")
WAIT_S = 120.0
"""How long a database that is gone is waited for: a restart, a failover."""
_PAUSE_S = (0.1, 5.0)
"""The first and the longest pause between two tries to connect."""


class SweepPostgresStorage(DagsterPostgresStorage):
    """`DagsterPostgresStorage` with the event log below."""

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> Self:
        url, tokens = pg_url_from_config(config_value), get_token_provider_from_config(config_value)
        autocreate = config_value.get("should_autocreate_tables", True)
        storage = cls(url, autocreate, inst_data, tokens)
        storage._event_log_storage = PooledPostgresEventLog(url, autocreate, None, tokens)
        return storage


class PooledPostgresEventLog(LightEventLog, PostgresEventLogStorage):
    """The PostgreSQL event log over one open connection; a server that went away is waited for."""

    def __init__(self, postgres_url: str, *args: Any, **fields: Any) -> None:
        self._kept: Connection | None = None
        self._ready = False
        super().__init__(postgres_url, *args, **fields)
        self._engine = create_pg_engine(postgres_url, self._token_provider, poolclass=NullPool)
        self._ready = True

    def persist(self, report: Callable[[], None]) -> None:
        """Call what stores events, in one transaction; once more for each time that the server was lost in it."""
        self._patiently(lambda: super(PooledPostgresEventLog, self).persist(report))

    def store_event(self, event: EventLogEntry) -> None:
        """As the stock storage, in one transaction."""

        def store() -> None:
            with self._connect():
                super(PooledPostgresEventLog, self).store_event(event)

        store() if self._held else self._patiently(store)

    def dispose(self) -> None:
        with self._turn:
            self._close()
        super().dispose()

    def _store_with_line(self, event: EventLogEntry, row: dict[str, Any]) -> int:
        with self._connect() as conn:
            return inserted(conn, row)

    @contextmanager
    def _connect(self) -> Iterator[Connection]:
        """The connection inside a transaction: of its own, or the one that `together` ends."""
        if not self._ready:
            with super()._connect() as stock:
                yield stock
            return
        with self._turn:
            connection = self._open()
            if connection.in_transaction():
                yield connection
            elif self._held:
                connection.begin()
                yield connection
            else:
                with connection.begin():
                    yield connection

    def _open(self) -> Connection:
        if self._kept is not None and self._kept.in_transaction():
            return self._kept
        if self._kept is None or not _answers(self._kept):
            self._close()
            self._kept = self._patiently(self._engine.connect)
        return self._kept

    def _patiently(self, act: Callable[[], Result]) -> Result:
        """Act; again, with growing pauses, while the server is lost. Raises what it raised at last."""
        pause, deadline = _PAUSE_S[0], time.monotonic() + WAIT_S
        while True:
            try:
                return act()
            except DBAPIError as error:
                if not _is_lost(error) or time.monotonic() > deadline:
                    raise
            self._close()
            time.sleep(pause)
            pause = min(pause * 2, _PAUSE_S[1])

    def _end_all(self, *, commit: bool) -> None:
        transaction = self._kept.get_transaction() if self._kept is not None else None
        if transaction is None:
            return
        if commit:
            transaction.commit()
        else:
            with suppress(SQLAlchemyError):  # the server is gone, and the transaction with it
                transaction.rollback()

    def _close(self) -> None:
        if self._kept is not None:
            with suppress(SQLAlchemyError):
                self._kept.close()
        self._kept = None


def event_log_beside(stock: EventLogStorage) -> PooledPostgresEventLog | None:
    """Return our event log over the database of Dagster's own; None where it is not just that."""
    if type(stock) is not PostgresEventLogStorage:
        return None
    return PooledPostgresEventLog(stock.postgres_url, False, None, stock._token_provider)


def _answers(connection: Connection) -> bool:
    try:
        connection.exec_driver_sql("SELECT 1")
        connection.rollback()
    except SQLAlchemyError:
        return False
    return True


def _is_lost(error: DBAPIError) -> bool:
    """Return whether the server went away, or does not answer yet: not that it refuses who asks."""
    text = str(error.orig)
    refused = "authentication" in text or "does not exist" in text
    return not refused and (error.connection_invalidated or type(error).__name__ == "OperationalError")
