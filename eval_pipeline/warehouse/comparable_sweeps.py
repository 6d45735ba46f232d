"""Which sweeps a comparison or a trend takes by itself: finished ones of one scope."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from eval_pipeline.errors import InputError
from eval_pipeline.warehouse.selections import existing_columns
from eval_pipeline.warehouse.store import Connection

RECENT = 10
"""A sweep that covers a part of one of so many sweeps before it, or of a later one, is passed over."""
PLACES = {"latest": 0, "previous": 1}


@dataclass(frozen=True, slots=True)
class _Scope:
    """What a sweep was to cover; without cases or tags, all of them."""

    suites: frozenset[str]
    runners: frozenset[str]
    cases: frozenset[str]
    tags: frozenset[str]

    def is_part_of(self, other: _Scope) -> bool:
        return (
            self != other
            and self.suites <= other.suites
            and self.runners <= other.runners
            and _narrows(self.cases, other.cases)
            and _narrows(self.tags, other.tags)
        )


def _narrows(chosen: frozenset[str], others: frozenset[str]) -> bool:
    return not others or (bool(chosen) and chosen <= others)


def comparable_sweeps(connection: Connection, suites: Sequence[str] = (), runners: Sequence[str] = ()) -> list[str]:
    """Return the ids of finished sweeps with results of these suites and runners (empty: all), newest first.

    All have the scope of the newest that is no part of another recent one: a single pair that was run between two whole
    sweeps is passed over. Where suites or runners are named, only these make the scope.
    """
    stored = connection.execute(
        """SELECT sweep_id, selection::VARCHAR FROM sweeps SEMI JOIN (
               SELECT sweep_id FROM sweep_pairs
               WHERE (len($suites) = 0 OR list_contains($suites, suite))
                 AND (len($runners) = 0 OR list_contains($runners, runner))) USING (sweep_id)
           WHERE status = 'finished' ORDER BY sweep_id DESC""",
        {"suites": list(suites), "runners": list(runners)},
    ).fetchall()
    scopes = [(id_, _scope(selection, suites, runners)) for id_, selection in stored]
    whole = next((scope for place, (_, scope) in enumerate(scopes) if not _is_part(place, scopes)), None)
    return [id_ for id_, scope in scopes if scope == whole]


def sweeps_named(connection: Connection, name: str) -> list[str]:
    """Return the ids of finished sweeps of a name of the project file, newest first; none for any other name."""
    if "name" not in existing_columns(connection, "sweeps"):
        return []  # results of an older version
    stored = connection.execute(
        "SELECT sweep_id FROM sweeps WHERE name = ? AND status = 'finished' ORDER BY sweep_id DESC", [name]
    ).fetchall()
    return [id_ for (id_,) in stored]


def run_of(connection: Connection, sweep_id: str) -> str | None:
    """Return the Dagster run that carried out a sweep; None for an unknown sweep, and without a run."""
    row = connection.execute("SELECT dagster_run_id FROM sweeps WHERE sweep_id = ?", [sweep_id]).fetchone()
    return row[0] if row is not None else None


def sweep_of_name(connection: Connection, name: str, place: str) -> str:
    """Return the id of the `latest` or the `previous` finished sweep of a name. Raises InputError if there is none."""
    ids = sweeps_named(connection, name)
    if len(ids) > PLACES[place]:
        return ids[PLACES[place]]
    finished = f"{len(ids)} of this name has" if len(ids) == 1 else "none of this name has"
    raise InputError(f"no {place} sweep '{name}': {finished} finished; run eval-pipeline run --sweep {name}")


def comparable_sweep(connection: Connection, name: str, suites: Sequence[str], runners: Sequence[str]) -> str:
    """Return the id of the sweep `latest` or `previous`. Raises InputError if there is none."""
    ids = comparable_sweeps(connection, suites, runners)
    if len(ids) > PLACES[name]:
        return ids[PLACES[name]]
    if not ids:
        raise InputError("no sweep has finished; run one first (eval-pipeline run)")
    raise InputError(
        f"no sweep before {ids[0]} finished with the same suites, runners, cases and tags; name one: sweep:ID"
    )


def _is_part(place: int, scopes: Sequence[tuple[str, _Scope]]) -> bool:
    scope = scopes[place][1]
    return any(scope.is_part_of(other) for _, other in scopes[: place + 1 + RECENT])


def _scope(selection: str | None, suites: Sequence[str], runners: Sequence[str]) -> _Scope:
    stored = json.loads(selection or "{}")
    return _Scope(
        suites=_among(stored.get("suites"), suites),
        runners=_among(stored.get("runners"), runners),
        cases=frozenset(stored.get("cases") or ()),
        tags=frozenset(stored.get("tags") or ()),
    )


def _among(covered: Sequence[str] | None, named: Sequence[str]) -> frozenset[str]:
    return frozenset(name for name in covered or () if not named or name in named)
