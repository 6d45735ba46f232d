"""Worker processes that call functions of users, so that one that hangs, exits or crashes costs one call.

A pool serves the functions of one folder. A *shared* pool sends several calls to one worker at once, as targets need
it; a function that brings its worker down with several calls in it runs alone from then on, and those calls are made
again, each by itself: only the one that is at fault ends its worker again. Other pools send one call at a time. Every
pool has a limit of workers; a call that finds all of them busy waits, and its time limit begins when it is sent.
"""

from __future__ import annotations

import asyncio
import atexit
import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.executions.frames import pack
from eval_pipeline.executions.function_calls import BlockedByAnother, FunctionCall, WorkerDied, resolve
from eval_pipeline.executions.function_facts import FunctionFacts, facts_from
from eval_pipeline.executions.replies import text_of
from eval_pipeline.executions.started_programs import OWNER
from eval_pipeline.executions.worker_process import WorkerProcess, no_memory_text, usual_memory_bytes
from eval_pipeline.parsing.user_modules import FunctionReference, file_versions, module_versions

GRACE_S = 2.0
"""How long a call that is over its limit may take to end before its worker is replaced."""
IMPORT_LIMIT_S = 120.0
"""How long importing the module of a function may take; it does not count in the limit of a call."""
PATIENCE_S = 0.1
"""How long a call waits for a busy worker before another one is started."""
MOST_ALONE = 2
"""How many workers an unshared pool has at most."""
MOST_SHARED = 4
"""How many workers a shared pool has at most: one takes all calls, until it is blocked or its functions run alone."""


@dataclass(slots=True, eq=False)
class _Request:
    """A request on its way: as a frame, and who waits for it. `alone`: no other call may be in its worker;
    `accompanied`: there was one. `begun` is when its function was loaded and called."""

    id: int
    reference: FunctionReference
    frame: bytes
    future: Future[Any]
    most_bytes: int
    since: float = field(default_factory=time.monotonic)
    alone: bool = False
    accompanied: bool = False
    given_up: bool = False
    worker: WorkerProcess | None = None
    begun: float | None = None


class WorkerPool:
    """The workers of the functions of one folder."""

    def __init__(self, *, shared: bool) -> None:
        self.surroundings = _surroundings()
        self._facts: dict[FunctionReference, FunctionFacts] = {}
        self.versions: dict[str, frozenset[tuple[Path, int, int]]] = {}
        self._shared = shared
        self._most = MOST_SHARED if shared else MOST_ALONE
        self._lock = threading.RLock()
        self._workers: list[WorkerProcess] = []
        self._waiting: deque[_Request] = deque()
        self._timer: threading.Timer | None = None

    async def call(self, call: FunctionCall, timeout_s: float) -> Any:
        """Return what a function returns within `timeout_s` seconds of its own. A cancellation ends the call.

        Raises FunctionError, WorkerDied, TimeoutError, BlockedByAnother, and what pickling the arguments raises.
        """
        request = self._submit("call", *call, most_bytes=call.most_bytes)
        future = asyncio.wrap_future(request.future)
        future.add_done_callback(_retrieve)
        try:
            left = timeout_s
            while left > 0:
                if (await asyncio.wait([future], timeout=left))[0]:
                    return future.result()
                left = _left(request, timeout_s)
        except asyncio.CancelledError:
            self._give_up(request)
            raise
        blocked = _is_blocked_by_another(request)
        self._give_up(request)
        raise BlockedByAnother if blocked else TimeoutError

    def call_and_wait(self, call: FunctionCall, timeout_s: float) -> Any:
        """Return what `call` returns, in a thread without an event loop."""
        return self._wait(self._submit("call", *call, most_bytes=call.most_bytes), timeout_s)

    def describe(self, reference: FunctionReference) -> FunctionFacts:
        """Return the facts of a function. Raises FunctionError, WorkerDied and TimeoutError."""
        facts = self._facts.get(reference)
        if facts is None:
            request = self._submit("describe", reference)
            facts = self._facts[reference] = facts_from(self._wait(request, IMPORT_LIMIT_S))
        return facts

    def _wait(self, request: _Request, timeout_s: float) -> Any:
        left: float = timeout_s
        while left > 0:
            with suppress(TimeoutError):
                return request.future.result(left)
            left = _left(request, timeout_s)
        self._give_up(request)
        raise TimeoutError

    def end(self) -> None:
        """End every worker and wait for it."""
        with self._lock:
            workers = list(self._workers)
            if self._timer is not None:
                self._timer.cancel()
        for worker in workers:
            worker.kill() if worker.calls else worker.end()
        for worker in workers:
            worker.join()

    def _submit(self, kind: str, reference: FunctionReference | None, *arguments: Any, most_bytes: int = 0) -> _Request:
        if reference is None:
            raise ValueError("a function that only this process has cannot be called in a worker")
        id_ = next(_IDS)
        frame = pack((kind, id_, tuple(reference), *arguments))
        request = _Request(id_, reference, frame, Future(), most_bytes=most_bytes)
        request.future.set_running_or_notify_cancel()  # nobody but its reply ends it
        with self._lock:
            self._waiting.append(request)
            self._send_waiting()
        return request

    def _send_waiting(self) -> None:
        """Send as many requests as workers can take now."""
        while self._waiting:
            request = self._waiting[0]
            worker = self._worker_for(request)
            if worker is None:
                self._look_again()
                return
            self._waiting.popleft()
            now = time.monotonic()
            request.worker, request.since = worker, now
            request.begun = now if request.reference in worker.loaded else None
            worker.loaded.add(request.reference)
            for call in (*worker.calls.values(), request) if worker.calls else ():
                call.accompanied = True
            worker.calls[request.id] = request
            worker.most_bytes = max(call.most_bytes for call in worker.calls.values())
            worker.send(request.frame)

    def _worker_for(self, request: _Request) -> WorkerProcess | None:
        """Return a worker that can take a request: one that runs, else a new one, None while all are busy."""
        usable = [worker for worker in self._workers if not worker.retiring]
        alone = request.alone or not self._shared
        for worker in usable:
            if not worker.calls or (not alone and not any(other.alone for other in worker.calls.values())):
                return worker
        waited = time.monotonic() - request.since
        if len(self._workers) >= self._most or (usable and not request.alone and waited < PATIENCE_S):
            return None
        return self._start()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(
            shared=self._shared,
            memory_bytes=_MEMORY.bytes,
            received=self._receive,
            ended=self._worker_ended,
            is_idle=self._is_idle,
        )
        self._workers.append(worker)
        _POOLS.add(self)
        return worker

    def _look_again(self) -> None:
        """Look after a while whether a request still waits."""
        if self._timer is None and len(self._workers) < self._most:
            self._timer = threading.Timer(PATIENCE_S, self._grow)
            self._timer.daemon = True
            self._timer.start()

    def _grow(self) -> None:
        with self._lock:
            self._timer = None
            self._send_waiting()

    def _is_idle(self, worker: WorkerProcess) -> bool:
        with self._lock:
            worker.retiring = not worker.calls
            return worker.retiring

    def _receive(self, worker: WorkerProcess, head: list[Any], body: bytearray) -> None:
        kind, id_, *rest = head
        if kind == "printed":
            _print(text_of(body))
            return
        if kind == "blocked":
            with self._lock:
                worker.blocked_by, worker.retiring = id_, True
                self._send_waiting()
            return
        if kind == "begun":
            if id_ in worker.calls:
                worker.calls[id_].begun = time.monotonic()
            return
        with self._lock:
            request = worker.calls.pop(id_, None)
            if rest == ["memory"]:
                worker.retiring = True  # what the function keeps is in the way of other calls
                if request is not None and request.accompanied and not request.alone:
                    self._repeat_alone([request])
                    request = None
                body = bytearray(orjson.dumps([f"the function {no_memory_text(worker.memory_bytes)}"]))
            self._retire_if_done(worker)
            self._send_waiting()
        if request is not None and not request.given_up:
            resolve(request.future, kind, rest, body)

    def _repeat_alone(self, lost: Sequence[_Request]) -> None:
        """Make calls again, each by itself: one of them, nobody knows which, was too much for their worker."""
        for request in lost:
            request.alone, request.since = True, time.monotonic()
            request.worker = request.begun = None
        self._waiting.extendleft(reversed(lost))

    def _worker_ended(self, worker: WorkerProcess, how: str) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)
            lost = [request for request in worker.calls.values() if not request.given_up]
            was_by_itself = len(worker.calls) == 1  # one that was given up may still have run, and ended it
            worker.calls.clear()
            if lost and was_by_itself:
                lost[0].future.set_exception(WorkerDied(f"the process of the function {how}"))
                lost = []
            if lost:
                self._shared = False  # which of them did it is found out by repeating each by itself
                self._repeat_alone(lost)
            self._send_waiting()

    def _give_up(self, request: _Request) -> None:
        """Forget a call that is over its limit. A worker that does not end it soon is replaced."""
        with self._lock:
            request.given_up = True
            if request.worker is None or request.id not in request.worker.calls:
                if request in self._waiting:
                    self._waiting.remove(request)
                return
            worker = request.worker
            if len(worker.calls) == 1 and not self._shared:
                self._retire(worker)
                return
            worker.send(pack(("cancel", request.id)))
            timer = threading.Timer(GRACE_S, self._retire_hanging, (request, worker))
            timer.daemon = True
            timer.start()

    def _retire_hanging(self, request: _Request, worker: WorkerProcess) -> None:
        with self._lock:
            if request.id in worker.calls:
                self._retire(worker)

    def _retire(self, worker: WorkerProcess) -> None:
        """Send a worker nothing more, and end it when nobody waits for what it does."""
        worker.retiring = True
        self._retire_if_done(worker)
        self._send_waiting()

    def _retire_if_done(self, worker: WorkerProcess) -> None:
        if worker.retiring and worker.calls and all(request.given_up for request in worker.calls.values()):
            worker.kill()
        elif worker.retiring and not worker.calls:
            worker.end()


_IDS = itertools.count(1)
_POOLS: set[WorkerPool] = set()
_BY_FOLDER: dict[tuple[str, bool], WorkerPool] = {}
_FINDING = threading.RLock()
_USERS: list[object] = []


def pool_for(
    reference: FunctionReference, *, shared: bool, anew: bool = False, files: Iterable[Path] | None = None
) -> WorkerPool:
    """Return the pool of a function: that of its folder, a new one after an edit of its module, of what that
    imports and of `files`, and, with `anew`, where the environment, the current folder or the search path differ."""
    versions = {reference.module: module_versions(reference)}
    if files is not None:
        versions[f"{reference.module} files"] = file_versions(files)
    key = reference.folder, shared
    with _FINDING:
        pool = _BY_FOLDER.get(key)
        if pool is not None and anew and pool.surroundings != _surroundings():
            pool = None
        if pool is None or any(pool.versions.setdefault(name, each) != each for name, each in versions.items()):
            pool = _BY_FOLDER[key] = WorkerPool(shared=shared)
            pool.versions |= versions
        return pool


class _Memory:
    """How much memory a worker may have that is started now."""

    def __init__(self) -> None:
        self.bytes = usual_memory_bytes()

    def limit(self, megabytes: float | None) -> None:
        """Set the limit; workers that run with another one end."""
        limit = usual_memory_bytes() if megabytes is None else int(megabytes * 1_000_000)
        if limit != self.bytes:
            self.bytes = limit
            for pool in list(_POOLS):
                pool.end()


_MEMORY = _Memory()


@contextmanager
def workers_in_use(max_memory_mb: float | None = None) -> Iterator[None]:
    """Keep workers for a while; they end with the last block that uses them. `max_memory_mb` is the most memory of one
    (None: half of the machine's)."""
    _MEMORY.limit(max_memory_mb)
    user = object()
    with _FINDING:
        _USERS.append(user)
    try:
        yield
    finally:
        with _FINDING:
            _USERS.remove(user)
            last = not _USERS
        if last:
            end_workers()
            _MEMORY.limit(None)


def end_workers() -> None:
    """End all workers."""
    with _FINDING:
        pools = list(_POOLS)
        _POOLS.clear()
        _BY_FOLDER.clear()
    for pool in pools:
        pool.end()


def _forget() -> None:
    """In a copy of this process the workers are those of the original."""
    _POOLS.clear()
    _BY_FOLDER.clear()


atexit.register(end_workers)
os.register_at_fork(after_in_child=_forget)


def _surroundings() -> tuple[object, ...]:
    environment = {name: value for name, value in os.environ.items() if name != OWNER}
    return environment, os.getcwd(), tuple(sys.path)  # noqa: PTH109 — compared only


def _print(text: str) -> None:
    """Write what a function printed to our standard error; our standard output holds what a command returns."""
    target = sys.stderr
    try:
        target.write(text)
        target.flush()
    except UnicodeEncodeError:
        target.write(text.encode("ascii", "backslashreplace").decode())
    except (AttributeError, ValueError, OSError):
        return  # there is none, or it is closed: the call goes on


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Mark the exception of a future as seen: asyncio prints those of calls that were cancelled meanwhile."""
    if not future.cancelled():
        future.exception()


def _is_blocked_by_another(request: _Request) -> bool:
    worker = request.worker
    if worker is None or worker.blocked_by is None or request.id not in worker.calls:
        return False
    return worker.blocked_by != request.id and worker.blocked_by in worker.calls


def _left(request: _Request, timeout_s: float) -> float:
    """Return how long to wait until looking again, 0 or less at the limit, which counts from when a function is loaded.

    While it is not, its call waits no longer than its own limit at once: it may begin meanwhile.
    """
    now = time.monotonic()
    if request.begun is not None:
        return request.begun + timeout_s - now
    if request.worker is None:
        return timeout_s  # it waits for calls that have limits of their own
    return min(request.since + IMPORT_LIMIT_S + timeout_s - now, timeout_s)
