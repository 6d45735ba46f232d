"""Which machine carries out which pair of a shared warehouse: leases with a heartbeat, in the catalog's PostgreSQL.

A worker holds a lease for each pair that it carries out, and one for its sweep; its heartbeat renews them. One that
dies renews nothing: after `lease_s` seconds its pairs are free, and its sweep counts as interrupted. Times are those of
the server.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from eval_pipeline.errors import WarehouseError
from eval_pipeline.warehouse.catalog import Catalog, LostConnection
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.lake_retries import Retries
from eval_pipeline.warehouse.shared_limits import EVERY_S, TABLES, SharedPauses, SharedSpending

_LOG = logging.getLogger(__name__)
_TABLES = f"""
    SELECT pg_advisory_xact_lock(1702257004, 2);
    CREATE TABLE IF NOT EXISTS eval_pipeline_leases (
        suite text NOT NULL, runner text NOT NULL, sweep_id text NOT NULL, holder text NOT NULL,
        expires_at timestamptz NOT NULL, PRIMARY KEY (suite, runner));
    CREATE TABLE IF NOT EXISTS eval_pipeline_stored (
        suite text NOT NULL, runner text NOT NULL, stored_at timestamptz NOT NULL, PRIMARY KEY (suite, runner));
    {TABLES}"""
"""One transaction, and one process at a time: PostgreSQL reports an error where two make a table at once."""
_CLAIM = """
    WITH requested AS (
        SELECT suite, runner FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS r (suite, runner, place)
        WHERE NOT EXISTS (SELECT 1 FROM eval_pipeline_leases l WHERE l.suite = r.suite AND l.runner = r.runner
                          AND l.expires_at >= clock_timestamp())
          AND NOT EXISTS (SELECT 1 FROM eval_pipeline_stored s WHERE s.suite = r.suite AND s.runner = r.runner
                          AND s.stored_at >= %s::timestamptz)
        ORDER BY place LIMIT %s)
    INSERT INTO eval_pipeline_leases AS held (suite, runner, sweep_id, holder, expires_at)
    SELECT suite, runner, %s, %s, clock_timestamp() + make_interval(secs => %s) FROM requested ORDER BY suite, runner
    ON CONFLICT (suite, runner) DO UPDATE
        SET sweep_id = excluded.sweep_id, holder = excluded.holder, expires_at = excluded.expires_at
        WHERE held.expires_at < clock_timestamp()
    RETURNING suite, runner"""
_RENEW = """UPDATE eval_pipeline_leases SET expires_at = clock_timestamp() + make_interval(secs => %s)
    WHERE holder = %s RETURNING suite, runner"""
_RELEASE = """DELETE FROM eval_pipeline_leases WHERE holder = %s
    AND (suite, runner) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"""
_STORED = """INSERT INTO eval_pipeline_stored SELECT suite, runner, clock_timestamp()
    FROM unnest(%s::text[], %s::text[]) AS r (suite, runner) ORDER BY suite, runner
    ON CONFLICT (suite, runner) DO UPDATE SET stored_at = excluded.stored_at"""
_NOW = "SELECT clock_timestamp()::text"
_NEVER = "infinity"
_ALIVE = "SELECT DISTINCT sweep_id FROM eval_pipeline_leases WHERE expires_at >= clock_timestamp()"
_HOLDERS = """SELECT DISTINCT holder FROM eval_pipeline_leases WHERE expires_at >= clock_timestamp()
    AND (suite, runner) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"""
_SWEEP = ""
"""The suite in the lease of a process for its sweep, of which there may be several: no suite has this name."""


class Leases:
    """The leases of one warehouse, as this process sees them."""

    def __init__(self, catalog: Catalog, lease_s: float) -> None:
        self._catalog = catalog
        self.lease_s = lease_s
        self._is_made = False
        self._held: dict[str, SweepLeases] = {}
        self.pauses = SharedPauses(self._query)

    def of(self, sweep_id: str) -> SweepLeases | None:
        """Return the leases of a sweep of this process, None when it has none."""
        return self._held.get(sweep_id)

    def live_sweeps(self) -> frozenset[str]:
        """Return the sweeps whose worker is alive."""
        return frozenset(sweep_id for (sweep_id,) in self._query(_ALIVE))

    @contextmanager
    def held(self, sweep_id: str) -> Iterator[SweepLeases]:
        """Keep a sweep alive inside the block; yield the leases of its pairs, which end with it."""
        leases = SweepLeases(self, sweep_id)
        leases.claim([PairKey(_SWEEP, f"{sweep_id} {leases.holder}")], 1)
        threads = [threading.Thread(target=work, daemon=True) for work in (leases.beat, leases.exchange_limits)]
        for thread in threads:
            thread.start()
        self._held[sweep_id] = leases
        try:
            yield leases
        finally:
            del self._held[sweep_id]
            leases.stopped.set()
            for thread in threads:
                thread.join()
            with suppress(WarehouseError):  # they expire
                leases.spending.exchange()
                leases.release(list(leases.pairs))

    def _query(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        retries = Retries()
        while True:
            try:
                if not self._is_made:
                    self._catalog.query(_TABLES)
                    self._is_made = True
                return self._catalog.query(statement, values)
            except LostConnection as error:
                retries.wait(error)


class SweepLeases:
    """The leases of one sweep of this process."""

    def __init__(self, leases: Leases, sweep_id: str) -> None:
        self._leases = leases
        self._sweep_id = sweep_id
        self._turn = threading.Lock()
        self.holder = f"{socket.gethostname()}, process {os.getpid()} ({uuid.uuid4().hex[:8]})"
        self.pairs: set[PairKey] = set()
        self.stopped = threading.Event()
        self.spending = SharedSpending(leases._query, sweep_id, self.holder)
        self._begun = str(leases._query(_NOW)[0][0])

    def claim(self, pairs: Sequence[PairKey], most: int) -> list[PairKey]:
        """Take leases of up to `most` of these pairs that no living worker has; return those taken."""
        return self._claim(pairs, most, _NEVER)

    def claim_unstored(self, pairs: Sequence[PairKey], most: int) -> list[PairKey]:
        """As `claim`, without the pairs that another worker stored since this one began."""
        return self._claim(pairs, most, self._begun)

    def _claim(self, pairs: Sequence[PairKey], most: int, stored_since: str) -> list[PairKey]:
        values = [*_columns(pairs), stored_since, most, self._sweep_id, self.holder, self._leases.lease_s]
        taken = {PairKey(suite, runner) for suite, runner in self._leases._query(_CLAIM, values)}
        with self._turn:
            self.pairs |= taken
        return [pair for pair in pairs if pair in taken]

    def release(self, pairs: Sequence[PairKey], stored: Sequence[PairKey] = ()) -> None:
        """Give leases up; the others may know that these of the pairs are stored."""
        with self._turn:
            self.pairs -= set(pairs)
        if stored:
            self._leases._query(_STORED, _columns(stored))
        self._leases._query(_RELEASE, [self.holder, *_columns(pairs)])

    def holders(self, pairs: Sequence[PairKey]) -> list[str]:
        """Return who has leases of these pairs, in words."""
        return sorted(str(holder) for (holder,) in self._leases._query(_HOLDERS, _columns(pairs)))

    def beat(self) -> None:
        """Renew the leases until the end of the sweep. One that another worker took over meanwhile is reported."""
        while not self.stopped.wait(self._leases.lease_s / 4):
            try:
                renewed = {PairKey(*row) for row in self._leases._query(_RENEW, [self._leases.lease_s, self.holder])}
            except WarehouseError as error:
                _LOG.warning("the leases of this sweep cannot be renewed: %s", error)
                continue
            with self._turn:
                lost = self.pairs - renewed
                self.pairs -= lost
            if lost:
                _LOG.warning("another worker took over %d pairs: this one was away for too long", len(lost))

    def exchange_limits(self) -> None:
        """Tell the others of pauses and spending, and learn theirs, until the end of the sweep."""
        while not self.stopped.wait(EVERY_S):
            try:
                self._leases.pauses.exchange()
                self.spending.exchange()
            except WarehouseError as error:
                _LOG.warning("the limits of other machines are not known: %s", error)


def _columns(pairs: Sequence[PairKey]) -> list[list[str]]:
    return [[pair.suite for pair in pairs], [pair.runner for pair in pairs]]
