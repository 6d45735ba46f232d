"""Limits that hold over all processes of a shared warehouse: pauses of providers, who uses a runner, what a sweep and
its month have spent.

Each process writes what it knows into tables in the catalog's PostgreSQL and reads what the others wrote, once in
`EVERY_S`. What a process learns is therefore up to two such spans old. Times are those of the server.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

EVERY_S = 1.0
SLOWED_S = 10.0
"""A refusal is news to the other processes for so long."""
USED_S = 10.0
"""A process uses a runner until so long after it last began a call of it, or waited to."""
TABLES = """
    CREATE TABLE IF NOT EXISTS eval_pipeline_pauses (provider text PRIMARY KEY, ends_at timestamptz NOT NULL);
    CREATE TABLE IF NOT EXISTS eval_pipeline_spending (
        sweep_id text NOT NULL, holder text NOT NULL, account text NOT NULL, usd double precision NOT NULL,
        calls double precision NOT NULL, tokens double precision NOT NULL, written_at timestamptz NOT NULL,
        PRIMARY KEY (sweep_id, holder, account));
    CREATE TABLE IF NOT EXISTS eval_pipeline_refusals (
        provider text NOT NULL, holder text NOT NULL, share double precision NOT NULL, seen_at timestamptz NOT NULL,
        PRIMARY KEY (provider, holder));
    CREATE TABLE IF NOT EXISTS eval_pipeline_users (
        runner text NOT NULL, holder text NOT NULL, seen_at timestamptz NOT NULL, PRIMARY KEY (runner, holder))"""
_USE = """INSERT INTO eval_pipeline_users SELECT unnest(%s::text[]), %s, clock_timestamp()
    ON CONFLICT (runner, holder) DO UPDATE SET seen_at = excluded.seen_at"""
_USERS = f"""SELECT runner, count(*) FROM eval_pipeline_users WHERE holder <> %s
    AND seen_at > clock_timestamp() - interval '{USED_S:g} s' GROUP BY runner"""
_UNUSED = "DELETE FROM eval_pipeline_users WHERE seen_at < clock_timestamp() - interval '1 hour'"
_NO_NEWS = "DELETE FROM eval_pipeline_refusals WHERE seen_at < clock_timestamp() - interval '1 hour'"
_PAUSE = """INSERT INTO eval_pipeline_pauses AS known VALUES (%s, clock_timestamp() + make_interval(secs => %s))
    ON CONFLICT (provider) DO UPDATE SET ends_at = greatest(known.ends_at, excluded.ends_at)"""
_PAUSES = """SELECT provider, extract(epoch FROM ends_at - clock_timestamp())::double precision
    FROM eval_pipeline_pauses WHERE ends_at > clock_timestamp()"""
_SLOW = """INSERT INTO eval_pipeline_refusals VALUES (%s, %s, %s, clock_timestamp())
    ON CONFLICT (provider, holder) DO UPDATE SET share = excluded.share, seen_at = excluded.seen_at"""
_SLOWED = f"""SELECT DISTINCT ON (provider) provider, (extract(epoch FROM seen_at) * 1000)::bigint, share
    FROM eval_pipeline_refusals WHERE holder <> %s AND seen_at > clock_timestamp() - interval '{SLOWED_S:g} s'
    ORDER BY provider, seen_at DESC"""
_SPEND = """INSERT INTO eval_pipeline_spending VALUES (%s, %s, %s, %s, %s, %s, clock_timestamp())
    ON CONFLICT (sweep_id, holder, account) DO UPDATE SET usd = excluded.usd, calls = excluded.calls,
        tokens = excluded.tokens, written_at = excluded.written_at"""
_SPENT = """SELECT account, sum(usd), sum(calls), sum(tokens) FROM eval_pipeline_spending
    WHERE sweep_id = %s AND holder <> %s AND NOT starts_with(account, %s) GROUP BY account"""
_SPENT_IN_MONTH = """SELECT sweep_id, sum(usd) FROM eval_pipeline_spending
    WHERE account = %s AND holder <> %s GROUP BY sweep_id"""
_FORGET = "DELETE FROM eval_pipeline_spending WHERE written_at < clock_timestamp() - interval '30 days'"
Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
Amounts = tuple[float, float, float]
"""USD, calls, tokens."""
Totals = Mapping[str, Amounts]
"""What was spent by account: that of the sweep has the name '', those of suites theirs, of months `month_account`."""
_MONTH = "month\x1f"


def month_account(sweep: str, month: str) -> str:
    """Return the name of the account that all sweeps of a name have in a month."""
    return f"{_MONTH}{month}\x1f{sweep}"


class SharedPauses:
    """The pauses of providers that any process of the warehouse reported, by this process's monotonic clock."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._turn = threading.Lock()
        self._holder = uuid.uuid4().hex
        self._used: dict[str, float] = {}
        self._others: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}
        self._refused: dict[str, float] = {}
        self._slowed: dict[str, tuple[int, float]] = {}

    def report(self, provider: str, seconds: float) -> None:
        """Note a pause; the others see it after the next exchange."""
        until = time.monotonic() + seconds
        with self._turn:
            for pauses in (self._until, self._unwritten):
                pauses[provider] = max(until, pauses.get(provider, -math.inf))

    def until(self, provider: str) -> float:
        """Return when a provider may be called again; minus infinity without a pause."""
        return self._until.get(provider, -math.inf)

    def sharers(self, runner: str) -> int:
        """Note that this process uses a runner; return how many processes do. The others know it after the next
        exchange."""
        self._used[runner] = time.monotonic()
        return 1 + self._others.get(runner, 0)

    def slow(self, provider: str, share: float) -> None:
        """Note that a provider refused this share of calls; the others know it after the next exchange."""
        with self._turn:
            self._refused[provider] = share

    def slowed(self, provider: str) -> tuple[int, float]:
        """Return the number of the last report of another process, and its share; 0 without one of late."""
        return self._slowed.get(provider, (0, 0.0))

    def exchange(self) -> None:
        """Write the pauses and refusals of this process and what it uses, and read those of all."""
        since = time.monotonic() - USED_S
        used = [runner for runner, at in list(self._used.items()) if at > since]
        if used:
            self._query(_USE, [used, self._holder])
            self._others = dict(self._query(_USERS, [self._holder]))
        with self._turn:
            unwritten, self._unwritten = self._unwritten, {}
            refused, self._refused = self._refused, {}
        for provider, share in refused.items():
            self._query(_SLOW, [provider, self._holder, share])
        for provider, until in unwritten.items():
            self._query(_PAUSE, [provider, max(0.0, until - time.monotonic())])
        news = self._query(_SLOWED, [self._holder])
        self._slowed = {provider: (number, share) for provider, number, share in news}
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
        self._months: Mapping[str, Mapping[str, float]] = {}

    def share(
        self,
        totals: Callable[[], Totals],
        see: Callable[[Totals], None],
        months: Mapping[str, Mapping[str, float]] = MappingProxyType({}),
    ) -> None:
        """Write what `totals` returns from now on, and pass what the others spent to `see`: at once, then regularly.

        `months` are the accounts that other sweeps have too, each with what is known of their spending (USD by sweep).
        """
        self._query(_FORGET, [])
        self._query(_UNUSED, [])
        self._query(_NO_NEWS, [])
        self._totals, self._see, self._months = totals, see, months
        self.exchange()

    def exchange(self) -> None:
        """Write what changed, and read what the others spent; nothing where nothing is shared."""
        if self._see is None:
            return
        for account, amounts in self._totals().items():
            if self._written.get(account) != amounts:
                self._query(_SPEND, [self._sweep_id, self._holder, account, *amounts])
                self._written[account] = amounts
        rows = self._query(_SPENT, [self._sweep_id, self._holder, _MONTH])
        others = {account: (usd, calls, tokens) for account, usd, calls, tokens in rows}
        self._see(others | {account: (self._beyond(account), 0.0, 0.0) for account in self._months})

    def _beyond(self, account: str) -> float:
        """Return what the other processes of a month have spent (USD) beyond what is known."""
        known = self._months[account]
        spent = self._query(_SPENT_IN_MONTH, [account, self._holder])
        return sum(max(0.0, float(usd) - known.get(sweep_id, 0.0)) for sweep_id, usd in spent)
