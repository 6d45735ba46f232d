"""The PostgreSQL database of a lake's catalog: one writer at a time, and errors without addresses of clients' secrets.

DuckLake keeps rows apart by snapshots, but two writers that delete from one table conflict. A writer takes an advisory
lock of PostgreSQL for the length of its transaction, so that conflicts are left to programs that do not know it. The
server releases the lock of a process that dies, or whose connection breaks.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from eval_pipeline.errors import WarehouseError
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.warehouse.lake_address import LakeAddress

_LOG = logging.getLogger(__name__)
_LOCK = (0x6576616C, 1)
"""The advisory lock of writers: a number of ours, and which of our locks."""
_LOOK_EVERY_MS = 1_000
_CONNECT_S = 10
_HOLDER = """SELECT a.application_name, a.client_addr::text, a.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid)
    WHERE l.locktype = 'advisory' AND l.granted AND l.classid = %s AND l.objid = %s
      AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


_LASTING = (
    "password",
    "authentication",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "invalid sslmode",
    "could not translate host name",
    "certificate",
    "does not support SSL",
    "invalid connection option",
)


RIGHTS = "its user has no rights of a writer: see the roles in docs/how-to/share-a-warehouse.md"


def is_lasting(text: str) -> bool:
    """Return whether a message of PostgreSQL is about settings: waiting does not help."""
    return any(each in text for each in _LASTING)


class LostConnection(Exception):
    """The server cannot be reached or went away; the same may succeed later."""


class Catalog:
    """A connection to the PostgreSQL database of a lake's catalog, which threads share."""

    def __init__(self, address: LakeAddress, name: str = "eval-pipeline") -> None:
        self._address = address
        self._name = name
        self._turn = threading.Lock()
        self._open: Any = None
        self._is_writing = False

    @contextmanager
    def writing(self, timeout_s: float) -> Iterator[None]:
        """Let one writer at a time into the block. A wait is reported with who writes; a long one raises
        WarehouseError, a broken connection LostConnection. A block inside of another one needs no lock."""
        if self._is_writing:
            yield
            return
        try:
            self._acquire(timeout_s)
            self._is_writing = True
            yield
        finally:
            self._is_writing = False
            # All: a lock that is granted in the moment in which its wait ends is held, though the wait failed.
            with suppress(LostConnection):  # the server has released it
                self.query("SELECT pg_advisory_unlock_all()")

    def query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which is committed. Raises LostConnection, WarehouseError."""
        driver = _driver()
        try:
            with self._connection().cursor() as cursor:
                cursor.execute(statement, values)
                return [] if cursor.description is None else list(cursor.fetchall())
        except driver.errors.LockNotAvailable:
            raise
        except driver.Error as error:
            self.close()
            text = redact_text(str(error).partition("\nLINE ")[0].strip())
            if isinstance(error, driver.errors.InsufficientPrivilege):
                raise WarehouseError(f"PostgreSQL of the warehouse: {text}; {RIGHTS}") from None
            if isinstance(error, (driver.OperationalError, driver.InterfaceError)) and not is_lasting(text):
                raise LostConnection(text) from None
            raise WarehouseError(f"PostgreSQL of the warehouse: {text}") from None

    def close(self) -> None:
        """End the connection; the next statement opens another."""
        with self._turn:
            connection, self._open = self._open, None
        if connection is not None:
            with suppress(Exception):
                connection.close()

    def forget(self) -> None:
        """Leave the connection to the process that opened it: this one is its child."""
        self._turn, self._open, self._is_writing = threading.Lock(), None, False

    def _connection(self) -> Any:
        with self._turn:
            if self._open is None:
                self._open = _driver().connect(
                    self._address.connection, application_name=self._name, connect_timeout=_CONNECT_S
                )
                self._open.autocommit = True
            return self._open

    def _acquire(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        is_reported = False
        self.query(f"SET lock_timeout = {_LOOK_EVERY_MS}")
        while True:
            try:
                self.query("SELECT pg_advisory_lock(%s, %s)", _LOCK)
            except _driver().errors.LockNotAvailable:
                holder = self._holder()
                if time.monotonic() > deadline:
                    raise WarehouseError(
                        f"the warehouse is held by {holder}: waited {timeout_s:g} s; end it first"
                    ) from None
                if not is_reported:
                    _LOG.warning("the warehouse is locked: waiting for %s", holder)
                is_reported = True
            else:
                return

    def _holder(self) -> str:
        for name, host, pid in self.query(_HOLDER, _LOCK):
            return f"{name} on {host or 'this machine'} (connection {pid})"
        return "another process"


def _driver() -> Any:
    """Return psycopg2, which only a shared warehouse needs. Raises WarehouseError without it."""
    try:
        return importlib.import_module("psycopg2")
    except ModuleNotFoundError:
        raise WarehouseError(
            "a ducklake warehouse needs psycopg2, which is not installed: pip install 'eval-pipeline[team]'"
        ) from None
