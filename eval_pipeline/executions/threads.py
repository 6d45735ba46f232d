"""Calling a plain function from the event loop, each call in a thread of its own.

No pool: in one, calls would wait for each other while their time limits run, and a call that never returns would keep
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
    """What the function returns; raises what it raises. Cancelling this leaves the thread to end by itself."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    context = contextvars.copy_context()
    values: list[Value] = []
    errors: list[BaseException] = []

    def call() -> None:
        try:
            values.append(context.run(function, *args, **kwargs))
        except BaseException as error:  # noqa: BLE001 — raised again where it is awaited
            errors.append(error)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=call, name="call", daemon=True).start()
    await ended.wait()
    if errors:
        raise errors.pop()
    return values[0]
