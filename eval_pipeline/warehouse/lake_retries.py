"""When a transaction of a shared warehouse is run again: soon after a conflict, for minutes without a connection."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable

import duckdb

from eval_pipeline.errors import WarehouseError
from eval_pipeline.parsing.redaction import redact_text
from eval_pipeline.warehouse.catalog import RIGHTS, LostConnection, is_lasting
from eval_pipeline.warehouse.publishing import first_line

_LOG = logging.getLogger(__name__)
CONFLICTS = 20
"""How often one transaction is run again after conflicts."""
LOST_S = 300.0
"""How long a server that cannot be reached is waited for, seconds."""
_LONGEST_S = 5.0
_CONFLICT = ("conflict", "Failed to commit DuckLake transaction", "Current transaction is aborted")
"""The last one is what a statement reports after another one of its transaction was lost, and that was overlooked."""
_DENIED = re.compile(r"permission denied for \w+ \S*\w")
"""What PostgreSQL says of a role without a right; DuckDB has it below a line about the transaction."""
_LOST = (
    "server closed the connection",
    "could not connect",
    "connection to server",
    "Unable to connect to Postgres",
    "terminating connection",
    "Connection refused",
    "no connection to the server",
    "SSL connection has been closed",
    "could not receive data from server",
    "could not send data to server",
    "the database system is",
    "server login failed",
)


def is_transient(error: BaseException) -> bool:
    """Return whether the same transaction may succeed later: a conflict, or a server that went away."""
    return _is_conflict(error) or _is_lost(error)


def denied(error: BaseException) -> WarehouseError | None:
    """Return the error that names what the catalog's user may not do, where PostgreSQL refused that, else None."""
    found = _DENIED.search(str(error)) if isinstance(error, duckdb.Error) else None
    return None if found is None else WarehouseError(f"the warehouse cannot be written or read: {found[0]}; {RIGHTS}")


def _is_conflict(error: BaseException) -> bool:
    if not isinstance(error, duckdb.Error) or _is_lost(error) or denied(error) is not None:
        return False
    return any(text in str(error) for text in _CONFLICT)


def _is_lost(error: BaseException) -> bool:
    if is_lasting(str(error)):
        return False
    if isinstance(error, LostConnection):
        return True
    return isinstance(error, duckdb.Error) and any(text in str(error) for text in _LOST)


class Retries:
    """The retries of one transaction; times in seconds. `chance` returns a number from 0 to 1."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock, self._sleep, self._chance = clock, sleep, chance
        self._conflicts = 0
        self._losses = 0
        self._lost_since: float | None = None

    def wait(self, error: BaseException) -> None:
        """Wait before the next attempt, and report why. Raises WarehouseError when it is not worth another."""
        if _is_conflict(error):
            self._conflicts += 1
            reason, until = f"conflict of writers: {_text(error)}", f"{CONFLICTS + 1} at most"
            self._wait(self._conflicts, self._conflicts > CONFLICTS, reason, until)
            return
        self._losses += 1
        if self._lost_since is None:
            self._lost_since = self._clock()
        reason, is_over = f"PostgreSQL is away: {_text(error)}", self._clock() - self._lost_since > LOST_S
        self._wait(self._losses, is_over, reason, f"for {LOST_S / 60:g} minutes")

    def _wait(self, count: int, is_over: bool, reason: str, until: str) -> None:
        if is_over:
            raise WarehouseError(f"the warehouse cannot be written or read ({count} attempts): {reason}") from None
        if count in (1, 5) or not count % 20:
            _LOG.warning("the warehouse is tried again (attempt %d, %s): %s", count + 1, until, reason)
        longest = min(_LONGEST_S, 0.05 * 2.0 ** min(count, 10))
        self._sleep(longest * (0.5 + self._chance() / 2))


def _text(error: BaseException) -> str:
    return redact_text(first_line(error) if isinstance(error, Exception) else str(error), cut=True)
