"""The program of a worker process: it calls functions of users for the pipeline (`workers.py`), request by request.

It imports only what a call needs, so that it starts quickly. Requests are tuples (`frames.py`), replies have a head and
a body (`replies.py`):

    ("describe", id, reference)                                            → ["value", id], facts
    ("call", id, reference, positional, keywords, as_score, most_bytes)    → [kind, id], value (`replies.value_body`);
                                                                             before it ["begun", id] if it was loaded
    ("cancel", id)                                                         → none; the call ends with an error

While a coroutine blocks the event loop, ["blocked", its id] is sent. A function that raises gives ["error", id, kind]
with text and details. What it prints is sent as ["printed", stream] with the text.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from eval_pipeline.errors import error_text
from eval_pipeline.executions.frames import HEADER
from eval_pipeline.executions.replies import MOST_OTHER_BYTES, frame, json_body, text_body, value_body
from eval_pipeline.parsing.module_files import importing_from, run_module

_PR_SET_PDEATHSIG = 1
_LINE = 8_192
NO_MEMORY = 71
"""The exit code of a worker that has no memory left for a reply."""
_MOST_PRINTED = 200_000
_MOST_ERROR = 100_000
_BLOCKED_S = 0.25
"""An event loop that does not answer for so long is blocked by the coroutine that it runs."""
_COROUTINE = 0x80
"""The flag of the code of an `async def` function: `inspect.CO_COROUTINE`, but inspect takes 15 ms to import."""


def main(descriptor: int, parent: int, shared: bool, memory_bytes: int) -> None:
    """Serve requests until the pipeline closes the connection; `shared` carries several calls at once."""
    _end_with(parent)
    _limit_memory(memory_bytes)
    with socket.socket(fileno=descriptor) as connection:
        connection.set_inheritable(False)
        Worker(connection, shared).serve()


def _end_with(parent: int) -> None:
    """End when the pipeline does, however it ends; when memory runs out, end before it."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes  # noqa: PLC0415 — the pipeline imports this module, too, and has no use for it

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # noqa: PTH123 — no pathlib here
        file.write("1000")


def _limit_memory(memory_bytes: int) -> None:
    """Limit what this process, and each that it starts, may write to in memory: above it is a MemoryError. The limit of
    addresses (RLIMIT_AS) would count what is only reserved, 8 MB and more for a thread."""
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = memory_bytes if most == resource.RLIM_INFINITY else min(memory_bytes, most)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


class _Reply(NamedTuple):
    """How to reply to a request: what its function returns may have `most_bytes`; see `replies.value_body`."""

    id: int
    as_score: bool = False
    most_bytes: int = MOST_OTHER_BYTES


class Worker:
    """Carries out requests: one after the other, or each in a thread of its own."""

    def __init__(self, connection: socket.socket, shared: bool) -> None:
        self._connection = connection
        self._shared = shared
        self._sending = threading.Lock()
        self._loading = threading.RLock()
        self._functions: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._loop: Any = None
        self._awaited: dict[int, Any] = {}
        self._awaiting = threading.Event()
        self._tasks: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        sys.stdout, sys.stderr = _Printed(self, "stdout", 1), _Printed(self, "stderr", 2)

    def serve(self) -> None:
        """Carry out requests until the connection ends."""
        handlers: dict[str, Callable[..., None]] = {
            "describe": self._describe,
            "call": self._call,
            "cancel": self._cancel,
        }
        with self._connection.makefile("rb") as stream:
            while len(header := stream.read(HEADER.size)) == HEADER.size:
                data = stream.read(*HEADER.unpack(header))
                try:
                    kind, *arguments = pickle.loads(data)
                except MemoryError:
                    os._exit(NO_MEMORY)
                except Exception as error:
                    raise SystemExit(f"a request could not be read: {error_text(error)}") from error
                handlers[kind](*arguments)

    def send(self, *head: Any, body: bytes = b"") -> None:
        """Send a message."""
        pieces = frame(head, body)
        with self._sending:
            for piece in pieces:
                self._connection.sendall(piece)

    def _describe(self, id_: int, reference: tuple[Any, ...]) -> None:
        self._carry_out(_Reply(id_), lambda: tuple(_facts(self._function(reference))))

    def _call(
        self, id_: int, reference: tuple[Any, ...], args: Any, keywords: Any, as_score: bool, most_bytes: int
    ) -> None:
        reply = _Reply(id_, as_score, most_bytes)
        function: Any = self._functions.get(reference)
        if self._shared and self._loop is not None and _is_coroutine_function(function):
            self._loop.call_soon_threadsafe(self._begin_task, reply, lambda: function(*args, **keywords))
            return

        def call() -> Any:
            value = self._loaded(id_, reference)(*args, **keywords)
            return self._result_of(id_, value) if hasattr(value, "__await__") else value

        self._carry_out(reply, call)

    def _carry_out(self, reply: _Reply, call: Callable[[], Any]) -> None:
        if self._shared:
            threading.Thread(target=self._reply, args=(reply, call), name="call", daemon=True).start()
        else:
            self._reply(reply, call)

    def _cancel(self, id_: int) -> None:
        awaited = self._awaited.get(id_)
        if awaited is not None:
            self._loop.call_soon_threadsafe(awaited.cancel)

    def _reply(self, reply: _Reply, call: Callable[[], Any]) -> None:
        """Send what a call returns, or what it raises, an exit included. Without memory for that, end the process."""
        try:
            self._send_reply(reply, call)
        except MemoryError:
            os._exit(NO_MEMORY)

    def _send_reply(self, reply: _Reply, call: Callable[[], Any]) -> None:
        raised: BaseException | None = None
        try:
            kind, body = value_body(call(), reply.most_bytes, reply.as_score)
            head = [kind, reply.id]
        except BaseException as error:  # noqa: BLE001 — the boundary to the user's code; it becomes a reply
            raised = error.with_traceback(None)  # its frames hold what the function has in memory
            raised.__context__ = None
        if raised is not None:
            kind, *fields = _error_fields(raised)
            head, body = ["error", reply.id, kind], json_body(fields)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the function may have put a stream of its own here
                stream.flush()
        self.send(*head, body=body)

    def _loaded(self, id_: int, reference: tuple[Any, ...]) -> Callable[..., Any]:
        """Return a function; report when it had to be loaded first: that takes no time of the call."""
        if reference in self._functions:
            return self._functions[reference]
        function = self._function(reference)
        self.send("begun", id_)
        return function

    def _function(self, reference: tuple[Any, ...]) -> Callable[..., Any]:
        function = self._functions.get(reference)
        if function is None:
            with self._loading:
                function = self._functions[reference] = _load(*reference)
        return function

    def _result_of(self, id_: int, value: Any) -> Any:
        """Await a value on the one event loop of this process."""
        # asyncio takes 40 ms to import, and most functions are synchronous.
        import asyncio  # noqa: PLC0415

        with self._loading:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                for target in (self._loop.run_forever, self._watch):
                    threading.Thread(target=target, name="loop", daemon=True).start()
        future = self._awaited[id_] = asyncio.run_coroutine_threadsafe(self._outcome(id_, lambda: value), self._loop)
        self._awaiting.set()
        try:
            return _value_of(*future.result())
        finally:
            del self._awaited[id_]

    def _begin_task(self, reply: _Reply, call: Callable[[], Any]) -> None:
        """Call a coroutine function in the thread of the event loop, and reply from there: a thread for each call takes
        twice the time."""

        def done(task: Any) -> None:
            del self._awaited[reply.id]
            self._reply(reply, lambda: _value_of(*task.result()))

        task = self._awaited[reply.id] = self._loop.create_task(self._outcome(reply.id, call))
        task.add_done_callback(done)
        self._awaiting.set()

    async def _outcome(self, id_: int, call: Callable[[], Any]) -> tuple[list[Any], BaseException | None]:
        """Return what a call's awaitable returns, or what it raises."""
        from asyncio import current_task  # noqa: PLC0415

        from eval_pipeline.executions.threads import outcome_of  # noqa: PLC0415

        async def awaited() -> Any:
            return await call()

        self._tasks[current_task()] = id_
        return await outcome_of(awaited())

    def _watch(self) -> None:
        """While coroutines run, look whether one of them blocks the event loop."""
        while self._awaiting.wait():
            time.sleep(_BLOCKED_S)
            self._awaiting.clear()
            if self._awaited:
                self._awaiting.set()
                self._report_block()

    def _report_block(self) -> None:
        """Report the call whose coroutine does not let the event loop go on."""
        from asyncio import current_task  # noqa: PLC0415

        current = current_task(self._loop)
        beat = threading.Event()
        self._loop.call_soon_threadsafe(beat.set)
        if not beat.wait(_BLOCKED_S) and current in self._tasks:
            self.send("blocked", self._tasks[current])


def _is_coroutine_function(function: Any) -> bool:
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _COROUTINE)


def _value_of(values: list[Any], error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return values[0]


def _facts(function: Callable[..., Any]) -> tuple[Any, ...]:
    # inspect takes 15 ms to import; only the first worker describes.
    from eval_pipeline.executions.function_facts import describe  # noqa: PLC0415

    return describe(function)


class NotCallable(Exception):
    """The name is not that of a function."""


def _load(module: str, attribute: str, folder: str, private: str | None, file: str | None) -> Callable[..., Any]:
    """Return a function. Raises what importing its module raises."""
    if private is None or file is None:
        value: Any = importlib.import_module(module)
    elif private in sys.modules:
        value = sys.modules[private]
    else:
        with importing_from(folder):
            value = run_module(private, file)
        if folder not in sys.path:
            sys.path.append(folder)  # for functions that import when they are called
    for part in attribute.split("."):
        value = getattr(value, part)
    if not callable(value):
        raise NotCallable(f"{module}:{attribute}")
    function: Callable[..., Any] = value
    return function


def _error_fields(error: BaseException) -> tuple[str, str, Any]:
    """Return the kind of an exception, its text, and what else the caller needs of it."""
    text = error_text(error)[:_MOST_ERROR]
    if isinstance(error, MemoryError):
        return "memory", text, None
    if isinstance(error, AssertionError):
        return "assertion", text, text.partition(": ")[2]
    failure = _target_failure(error)
    if failure is not None:
        return "failure", text, failure
    kind = "not-callable" if isinstance(error, NotCallable) else "exception"
    return kind if isinstance(error, Exception) else "exit", text, None


def _target_failure(error: BaseException) -> dict[str, Any] | None:
    """Return the fields of a TargetFailure, which only a function that imports it can raise."""
    model = sys.modules.get("eval_pipeline.executions.model")
    if model is None or not isinstance(error, model.TargetFailure):
        return None
    failure: Any = error
    fields = {name: getattr(failure, name) for name in ("retryable", "status", "retry_after_s")}
    class_ = failure.failure
    return {**fields, "message": str(failure)[:_MOST_ERROR], "class": (class_.id, class_.label, class_.origin.value)}


class _Printed(io.TextIOBase):
    """Standard output or error of functions: sent to the pipeline line by line, which writes it to its own."""

    encoding = "utf-8"

    def __init__(self, worker: Worker, name: str, descriptor: int) -> None:
        self._worker = worker
        self._name = name
        self._descriptor = descriptor
        self._text: list[str] = []

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        self._text.append(str(text))
        if "\n" in text or len(self._text) > _LINE:
            self.flush()
        return len(text)

    def flush(self) -> None:
        texts, self._text = self._text, []
        text = "".join(texts)
        for at in range(0, len(text), _MOST_PRINTED):
            self._worker.send("printed", self._name, body=text_body(text[at : at + _MOST_PRINTED]))
