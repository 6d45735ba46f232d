"""Call a plain function from the event loop, each call in its own thread; whether the current task is cancelled.

There is no pool: calls would wait for each other while their time limits run, and a call that never returns would keep
the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")


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


def is_cancelled() -> bool:
    """Return whether the current task is cancelled; a CancelledError may also come from inside what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
