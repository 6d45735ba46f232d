"""What our event logs share, whichever database they are in: light events, and several events in one transaction.

A storage of ours is this class before Dagster's own: it says how a transaction over its connections begins and ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log import SqlEventLogStorage
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable
from dagster._serdes import serialize_value
from sqlalchemy.engine import Connection

from eval_pipeline.orchestration.checks import CONDITIONAL
from eval_pipeline.orchestration.light_events import bare_check, indexed_event, light_event

_MATERIALIZATION = dg.DagsterEventType.ASSET_MATERIALIZATION
_OBSERVATION = dg.DagsterEventType.ASSET_OBSERVATION
_CHECK = dg.DagsterEventType.ASSET_CHECK_EVALUATION
_PLANNED = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED


class LightEventLog(SqlEventLogStorage):
    """Events in few bytes, and several of them in one transaction on request."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        self._turn = threading.RLock()
        self._held = False
        self._tables: dict[str, bool] = {}
        self._newest_of_assets: dict[tuple[str, str], tuple[EventLogEntry, int]] = {}
        self.newest_asset_event: int | None = None
        super().__init__(*args, **fields)  # type: ignore[no-untyped-call]

    def _end_all(self, *, commit: bool) -> None:
        """End the transactions that `together` left open."""
        raise NotImplementedError

    def _store_with_line(self, event: EventLogEntry, row: dict[str, Any]) -> int:
        """Store the row of a materialization or observation, with its line in the log of its run; return its id."""
        raise NotImplementedError

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit what is stored inside once, at the end. Other threads and processes wait meanwhile: keep it short."""
        with self._turn:
            if self._held:
                yield
                return
            self._held = True
            try:
                yield
                self._store_newest_of_assets()
                self._end_all(commit=True)
            except BaseException:  # a commit that fails, as on a full disk, leaves its transaction and those after it
                self._end_all(commit=False)
                raise
            finally:
                self._newest_of_assets.clear()
                self._held = False

    def persist(self, report: Callable[[], None]) -> None:
        """Call what stores events, in one transaction."""
        with self.together():
            report()

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        with self.together():
            for event in events:
                self.store_event(event)

    def store_event(self, event: EventLogEntry) -> None:
        """As the stock storage, in fewer bytes (`light_events`), and without what a pair's events say of it twice.

        What a run planned of a partition is removed when it is there.
        """
        kind = event.dagster_event_type if event.is_dagster_event else None
        if kind is _CHECK and event.run_id:
            self.store_asset_check_event(event, self._id_of_check(self._event_to_row(event)))
        elif kind in (_MATERIALIZATION, _OBSERVATION):
            self._store_of_asset(event)
        else:
            super().store_event(event)

    def _store_of_asset(self, event: EventLogEntry) -> None:
        row = self._event_to_row(event)
        event_id = self._store_with_line(event, row)
        with self.index_connection() as conn:
            self._store_asset_event_tags(conn, [event], [event_id])
            self._store_asset_event(conn, event, event_id)
        if event.run_id and row["partition"] is not None:
            self._remove_planned(row)

    def _id_of_check(self, row: dict[str, Any]) -> int:
        """Return the id of an evaluated check: that of the materialization which is stored together with it, else of an
        event in the index. What a check found is in Dagster's table of checks."""
        if self._newest_of_assets and self.newest_asset_event is not None:
            return self.newest_asset_event
        with self.index_connection() as conn:
            return inserted(conn, {**row, "event": bare_check(row["event"])})

    def _event_to_row(self, event: EventLogEntry) -> dict[str, Any]:
        row: dict[str, Any] = super()._event_to_row(event)
        return {**row, "event": light_event(row["event"])}

    def _remove_planned(self, row: dict[str, Any]) -> None:
        """Remove what the run planned of a partition that is there now: only the others can fail or be under way."""
        with self.index_connection() as conn:
            conn.execute(SqlEventLogStorageTable.delete().where(planned_of(row)))

    def has_table(self, table_name: str) -> bool:
        if not self._tables.get(table_name):
            with self.index_connection() as conn:
                self._tables[table_name] = bool(conn.dialect.has_table(conn, table_name))
        return self._tables[table_name]

    def _store_asset_event(self, conn: Connection, event: EventLogEntry, event_id: int) -> None:
        self.newest_asset_event = event_id
        if not self._held:
            super()._store_asset_event(conn, event, event_id)
            return
        of_asset = event.get_dagster_event()
        kind = (str(of_asset.asset_key), of_asset.event_type_value)
        self._newest_of_assets.pop(kind, None)  # to the end: the newest event of an asset is stored last
        self._newest_of_assets[kind] = (event, event_id)

    def _store_newest_of_assets(self) -> None:
        """Update the row of each asset with its newest event of each kind: those before would be overwritten."""
        for event, event_id in self._newest_of_assets.values():
            with self.index_connection() as conn:
                super()._store_asset_event(conn, event, event_id)

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """As the stock storage, without the event, which lists every partition: it is in the log. A check that most
        pairs have nothing to say about is not planned: it would be shown as skipped, run after run."""
        planned: Any = event.get_dagster_event().event_specific_data
        if planned.check_name in CONDITIONAL:
            return
        keys = planned.partitions_subset.get_partition_keys() if planned.partitions_subset else [None]
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "evaluation_event": None,
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
        }
        with self.index_connection() as conn:
            conn.execute(AssetCheckExecutionsTable.insert(), [{**row, "partition": key} for key in keys])

    def _update_asset_check_evaluation(self, event: EventLogEntry, event_id: int | None) -> None:
        """As the stock storage, in fewer bytes, for a check that its run planned."""
        found: Any = event.get_dagster_event().event_specific_data
        checks, target = AssetCheckExecutionsTable.c, found.target_materialization_data
        status = AssetCheckExecutionRecordStatus.SUCCEEDED if found.passed else AssetCheckExecutionRecordStatus.FAILED
        planned = (
            (checks.asset_key == found.asset_key.to_string())
            & (checks.check_name == found.check_name)
            & (checks.run_id == event.run_id)
            & (checks.partition == found.partition)
        )
        values = {
            "execution_status": status.value,
            "evaluation_event": indexed_event(light_event(serialize_value(event))),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),  # type: ignore[no-untyped-call]
            "evaluation_event_storage_id": event_id,
            "materialization_event_storage_id": target.storage_id if target else None,
        }
        with self.index_connection() as conn:
            updated = conn.execute(AssetCheckExecutionsTable.update().where(planned).values(**values)).rowcount
        if not updated:
            super()._update_asset_check_evaluation(event, event_id)


def planned_of(row: dict[str, Any]) -> Any:
    """Return the condition of what the run of an event planned of its partition."""
    events = SqlEventLogStorageTable.c
    return (
        (events.run_id == row["run_id"])
        & (events.asset_key == row["asset_key"])
        & (events.dagster_event_type == _PLANNED.value)
        & (events.partition == row["partition"])
    )


def inserted(conn: Connection, row: dict[str, Any]) -> int:
    """Store an event. Returns its id."""
    result = conn.execute(SqlEventLogStorageTable.insert().values(**row))
    return int(result.inserted_primary_key[0])  # type: ignore[index]
