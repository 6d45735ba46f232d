"""Limits that hold over all processes of a shared warehouse: pauses of providers, and what a sweep has spent.

Each process writes what it knows into tables in the catalog's PostgreSQL and reads what the others wrote, once in
`EVERY_S`. What a process learns is therefore up to two such spans old. Times are those of the server.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

EVERY_S = 1.0
TABLES = """
    CREATE TABLE IF NOT EXISTS eval_pipeline_pauses (provider text PRIMARY KEY, ends_at timestamptz NOT NULL);
    CREATE TABLE IF NOT EXISTS eval_pipeline_spending (
        sweep_id text NOT NULL, holder text NOT NULL, account text NOT NULL, usd double precision NOT NULL,
        calls double precision NOT NULL, tokens double precision NOT NULL, written_at timestamptz NOT NULL,
        PRIMARY KEY (sweep_id, holder, account))"""
_PAUSE = """INSERT INTO eval_pipeline_pauses AS known VALUES (%s, clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (provider) DO UPDATE SET ends_at = greatest(known.ends_at, excluded.ends_at)"""
_PAUSES = """SELECT provider, extract(epoch FROM ends_at - clock_timestamp())::double precision
    FROM eval_pipeline_pauses WHERE ends_at > clock_timestamp()"""
_SPEND = """INSERT INTO eval_pipeline_spending VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp())
    ON CONFLICT (sweep_id, holder, account) DO UPDATE SET usd = excluded.usd, calls = excluded.calls,
        tokens = excluded.tokens, written_at = excluded.written_at"""
_SPENT = """SELECT account, sum(usd), sum(calls), sum(tokens) FROM eval_pipeline_spending
    WHERE sweep_id = %s AND holder <> %s GROUP BY account"""
_FORGET = "DELETE FROM eval_pipeline_spending WHERE written_at < clock_timestamp() - interval '30 days'"
Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Amounts = tuple[float, float, float]
"""USD, calls, tokens."""
Totals = Mapping[str, Amounts]
"""What was spent by account: that of the sweep has the name ''."""


class SharedPauses:
    """The pauses of providers that any process of the warehouse reported, by this process's monotonic clock."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._turn = threading.Lock()
        self._until: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}

    def report(self, provider: str, seconds: float) -> None:
        """Note a pause; the others see it after the next exchange."""
        until = time.monotonic() + seconds
        with self._turn:
            for pauses in (self._until, self._unwritten):
                pauses[provider] = max(until, pauses.get(provider, -math.inf))

    def until(self, provider: str) -> float:
        """Return when a provider may be called again; minus infinity without a pause."""
        return self._until.get(provider, -math.inf)

    def exchange(self) -> None:
        """Write the pauses of this process, and read those of all."""
        with self._turn:
            unwritten, self._unwritten = self._unwritten, {}
        for provider, until in unwritten.items():
            self._query(_PAUSE, [provider, max(0.0, until - time.monotonic())])
        rows = self._query(_PAUSES, [])
        now = time.monotonic()
        with self._turn:
            self._until = {provider: now + left for provider, left in rows} | self._unwritten


class SharedSpending:
    """What the processes of one sweep have spent; each writes its own totals."""

    def __init__(self, query: Query, sweep_id: str, holder: str) -> None:
        self._query = query
        self._sweep_id, self._holder = sweep_id, holder
        self._totals: Callable[[], Totals] = dict
        self._see: Callable[[Totals], None] | None = None
        self._written: dict[str, Amounts] = {}

    def share(self, totals: Callable[[], Totals], see: Callable[[Totals], None]) -> None:
        """Write what `totals` returns from now on, and pass what the others spent to `see`: at once, then regularly."""
        self._query(_FORGET, [])
        self._totals, self._see = totals, see
        self.exchange()

    def exchange(self) -> None:
        """Write what changed, and read what the others spent; nothing where nothing is shared."""
        if self._see is None:
            return
        for account, amounts in self._totals().items():
            if self._written.get(account) != amounts:
                self._query(_SPEND, [self._sweep_id, self._holder, account, *amounts])
                self._written[account] = amounts
        rows = self._query(_SPENT, [self._sweep_id, self._holder])
        self._see({account: (usd, calls, tokens) for account, usd, calls, tokens in rows})
