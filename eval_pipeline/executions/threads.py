"""Call a plain function from the event loop, each call in its own thread; await a user's coroutine in its own task.

There is no pool: calls would wait for each other while their time limits run, and a call that never returns would keep
the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Value = TypeVar("Value")
ENDING_S = 5.0


async def in_thread(function: Callable[..., Value], *args: Any, **kwargs: Any) -> Value:
    """Return the function's value or raise its exception. After a cancellation the thread runs to its end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    context = contextvars.copy_context()
    values: list[Value] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            values.append(context.run(function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 — raised again in the awaiting task
            errors.append(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed; no task awaits the result
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=call, name="call", daemon=True).start()
    await ended.wait()
    if errors:
        raise errors.pop()
    return values[0]


async def in_own_task(awaitable: Awaitable[Value]) -> Value:
    """Return the value of a user's awaitable or raise its exception; code that cancels its own task cancels only this.

    After a cancellation it has ENDING_S to end.
    """
    task = asyncio.ensure_future(outcome_of(awaitable))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task], timeout=ENDING_S)
        raise
    values, error = task.result()
    if error is not None:
        raise error
    return values[0]


async def outcome_of(awaitable: Awaitable[Value]) -> tuple[list[Value], BaseException | None]:
    """Return the value, or the exception as a value: one like SystemExit that leaves a task stops the event loop."""
    try:
        return [await awaitable], None
    except BaseException as error:  # noqa: BLE001 — raised again by the caller
        return [], error


def is_cancelled() -> bool:
    """Return whether the current task is cancelled; a CancelledError may also come from inside what it awaits."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


def is_interruption(error: BaseException) -> bool:
    """Return whether an exception was raised at the code that it left, not by it: Ctrl-C, or a cancellation."""
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, asyncio.CancelledError) and is_cancelled()
