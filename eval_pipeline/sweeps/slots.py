"""Processes that work in one data folder: each has a slot, which is a lock that ends with it, and a file of progress.

Who wants the folder for itself takes all slots, and lets nobody in meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count

from filelock import BaseFileLock, Timeout

from eval_pipeline.stopping import StopRequest
from eval_pipeline.warehouse.storage import Storage
from eval_pipeline.warehouse.waiting import held

_SLOT = "sweep"
_ENTRANCE = "entrance"
"""The lock that is held while a slot is chosen, and by who has all."""


@contextmanager
def free_slot(storage: Storage, report: Callable[[str], object], stop: StopRequest) -> Iterator[Storage]:
    """Yield the storage of the first slot that no other process has. Raises Stopped while the folder is closed."""
    with held(storage.lock(_ENTRANCE), report, stop, silent_s=1.0):
        own, lock = _first_free(storage)
    try:
        with held(lock, report, stop):
            yield own
    finally:
        lock.release()


@contextmanager
def all_slots(storage: Storage, report: Callable[[str], object], stop: StopRequest) -> Iterator[None]:
    """Keep a data folder for this process: wait until every other one has ended. Raises Stopped while waiting."""
    with ExitStack() as taken:
        taken.enter_context(held(storage.lock(_ENTRANCE), report, stop))
        for slot in storage.slots:
            taken.enter_context(held(slot.lock(_SLOT), report, stop))
        yield


def if_alone(storage: Storage, work: Callable[[], object]) -> None:
    """Call a function while nobody works in the data folder; not at all where someone does."""
    with ExitStack() as taken:
        for lock in (storage.lock(_ENTRANCE), *(slot.lock(_SLOT) for slot in storage.slots)):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return
            taken.callback(lock.release)
        work()


def _first_free(storage: Storage) -> tuple[Storage, BaseFileLock]:
    for number in count():
        own = storage.slot(number)
        lock = own.lock(_SLOT)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            continue
        return own, lock
    raise AssertionError("numbers do not end")
