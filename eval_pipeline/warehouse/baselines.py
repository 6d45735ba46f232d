"""Baselines: the sweep of each pair that later results are compared with, by suite, runner and runner revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.warehouse.codec import utc
from eval_pipeline.warehouse.comparable_sweeps import PLACES, comparable_sweep, comparable_sweeps
from eval_pipeline.warehouse.selections import existing_columns, select
from eval_pipeline.warehouse.store import Connection, Warehouse

_CHOSEN = """
    SELECT p.suite, p.runner, p.runner_revision FROM sweep_pairs p
    WHERE p.sweep_id = $id AND (len($suites) = 0 OR list_contains($suites, p.suite))
      AND (len($runners) = 0 OR list_contains($runners, p.runner)) ORDER BY ALL"""
_NEWEST = """
    SELECT b.suite, b.runner, b.runner_revision, b.sweep_id, b.set_at, b.note, s.started_at
    FROM baselines b LEFT JOIN sweeps s USING (sweep_id)
    QUALIFY row_number() OVER (PARTITION BY b.suite, b.runner ORDER BY b.set_at DESC, b.sweep_id DESC) = 1
    ORDER BY b.suite, b.runner"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The baseline of a pair: a sweep, when it was set, and why."""

    suite: str
    runner: str
    runner_revision: str
    sweep_id: str
    set_at: datetime | None
    note: str | None
    started_at: datetime | None


def baselines(connection: Connection) -> list[Baseline]:
    """Return the newest baseline of each pair; none in results of an older version."""
    if not existing_columns(connection, "baselines"):
        return []
    rows = connection.execute(_NEWEST).fetchall()
    return [
        Baseline(
            suite=suite, runner=runner, runner_revision=revision, sweep_id=sweep_id, set_at=utc(set_at), note=note,
            started_at=utc(started_at),
        )
        for suite, runner, revision, sweep_id, set_at, note, started_at in rows
    ]  # fmt: skip


def set_baseline(
    warehouse: Warehouse,
    sweep: str,
    now: datetime,
    *,
    suites: Sequence[str] = (),
    runners: Sequence[str] = (),
    note: str | None = None,
) -> list[tuple[str, str]]:
    """Make a finished sweep the baseline of its pairs (of these suites and runners), and return these.

    `latest` and `previous` are the sweeps that `compare` finds by these names. A pair of the same runner revision has
    one baseline: the new one replaces the old one. Raises UnknownName for an unknown sweep, suite or runner, and
    InputError for a sweep that has not finished.
    """

    def store(connection: Connection) -> list[tuple[str, str]]:
        by_place = sweep in PLACES and comparable_sweeps(connection, suites, runners)
        id_ = comparable_sweep(connection, sweep, suites, runners) if by_place else sweep
        selection = select(connection, f"sweep:{id_}", suites=suites, runners=runners)
        _check_finished(connection, str(selection.id))
        values = {"id": selection.id, "suites": list(suites), "runners": list(runners)}
        pairs = connection.execute(_CHOSEN, values).fetchall()
        for pair in pairs:
            connection.execute(
                "DELETE FROM baselines WHERE suite = ? AND runner = ? AND runner_revision = ?", list(pair)
            )
            connection.execute("INSERT INTO baselines VALUES (?, ?, ?, ?, ?, ?)", [*pair, selection.id, now, note])
        return [(suite, runner) for suite, runner, _ in pairs]

    stored = warehouse.run(store)
    warehouse.publish()
    return stored


def _check_finished(connection: Connection, sweep_id: str) -> None:
    row = connection.execute("SELECT status FROM sweeps WHERE sweep_id = ?", [sweep_id]).fetchone()
    status = row[0] if row is not None else "unknown"
    if status != "finished":
        raise InputError(f"only finished sweeps can be a baseline: {sweep_id} is {status}")


def clear_baselines(warehouse: Warehouse, *, suites: Sequence[str] = (), runners: Sequence[str] = ()) -> int:
    """Remove the baselines of some suites and runners (empty: all), and return how many there were.

    Raises UnknownName for a suite or runner without a baseline.
    """
    condition = (
        "(len($suites) = 0 OR list_contains($suites, suite)) AND (len($runners) = 0 OR list_contains($runners, runner))"
    )
    values = {"suites": list(suites), "runners": list(runners)}

    def clear(connection: Connection) -> int:
        known = connection.execute("SELECT DISTINCT suite, runner FROM baselines").fetchall()
        for kind, names, place in (("suite", suites, 0), ("runner", runners, 1)):
            for name in names:
                if name not in {pair[place] for pair in known}:
                    raise UnknownName(kind, name, sorted({pair[place] for pair in known}))
        found = connection.execute(f"SELECT count(*) FROM baselines WHERE {condition}", values).fetchone()
        connection.execute(f"DELETE FROM baselines WHERE {condition}", values)
        return int(found[0]) if found is not None else 0

    count = warehouse.run(clear)
    warehouse.publish()
    return count
