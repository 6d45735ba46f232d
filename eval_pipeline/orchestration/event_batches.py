"""Several events of an instance in one transaction, and light, where its storage is one that we know better."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import dagster as dg
from dagster._core.events.log import EventLogEntry
from dagster._core.storage.event_log import EventLogStorage, SqliteEventLogStorage

from eval_pipeline.orchestration.light_event_log import LightEventLog
from eval_pipeline.orchestration.sqlite_storage import PooledEventLogStorage

PLANNED_AT_ONCE = 200
"""Events of what a run plans that are stored in one transaction."""


def store_plans_together() -> None:
    """Let this process, a daemon or a web server of Dagster, store what runs plan in few transactions from now on.

    A run of 2,000 pairs begins with 8,000 such events; each on its own takes 10 ms, and together 1 ms.
    """
    SqliteEventLogStorage.store_event_batch = _store_together  # type: ignore[method-assign, assignment]
    dg.DagsterInstance._get_event_batch_size = lambda self: PLANNED_AT_ONCE  # type: ignore[method-assign]


def _store_together(stock: SqliteEventLogStorage, events: Sequence[EventLogEntry]) -> None:
    light = PooledEventLogStorage(stock._base_dir)
    try:
        light.register_instance(stock._instance)
        light.store_event_batch(events)
    finally:
        light.dispose()


@contextmanager
def light_events_of(instance: dg.DagsterInstance) -> Iterator[None]:
    """Store the events of an instance with a storage of Dagster's own as a sweep of the command line does."""
    stock = instance.event_log_storage
    light = _light(stock)
    if light is None:
        yield
        return
    instance._event_storage = light
    try:
        light.register_instance(instance)
        yield
    finally:
        instance._event_storage = stock
        light.dispose()


def _light(stock: EventLogStorage) -> LightEventLog | None:
    """Return our storage over the database of a stock one; None for another, or one that is ours."""
    if type(stock) is SqliteEventLogStorage:
        return PooledEventLogStorage(stock._base_dir)
    if type(stock).__module__.startswith("dagster_postgres."):
        from eval_pipeline.orchestration.postgres_storage import event_log_beside  # noqa: PLC0415 — of an extra

        return event_log_beside(stock)
    return None


def newest_storage_id(instance: dg.DagsterInstance, asset: dg.AssetKey, partition: str) -> int | None:
    """Return the storage id of a partition's materialization that was just stored."""
    storage = instance.event_log_storage
    if isinstance(storage, LightEventLog):
        return storage.newest_asset_event
    materialized = dg.DagsterEventType.ASSET_MATERIALIZATION
    return storage.get_latest_storage_id_by_partition(asset, materialized, {partition}).get(partition)


@contextmanager
def events_together(instance: dg.DagsterInstance) -> Iterator[None]:
    """Store the events reported inside in one transaction, where the instance's storage can."""
    storage = instance.event_log_storage
    if isinstance(storage, LightEventLog):
        with storage.together():
            yield
    else:
        yield


def store_together(instance: dg.DagsterInstance, report: Callable[[], None]) -> None:
    """Call what reports events, all in one transaction; again where the database was gone meanwhile."""
    storage = instance.event_log_storage
    if isinstance(storage, LightEventLog):
        storage.persist(report)
    else:
        report()
