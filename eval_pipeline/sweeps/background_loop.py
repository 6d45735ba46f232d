"""A coroutine on an event loop in a thread of its own, so that what its caller does meanwhile delays no call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable


class BackgroundLoop:
    """Runs the coroutine `main()` in a thread of its own; `ended` is called in that thread when it ends or fails."""

    def __init__(self, main: Callable[[], object], ended: Callable[[], None]) -> None:
        self._main = main
        self._ended = ended
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweep", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait for the end; raise what the coroutine raised."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def cancel(self) -> None:
        """Cancel the coroutine and wait until it has released everything."""
        self._begun.wait()
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._carry_out())
        except BaseExceptionGroup as group:
            self._error = _first_of(group)
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            self._error = error
        finally:
            self._begun.set()
            self._ended()

    async def _carry_out(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._begun.set()
        await self._main()  # type: ignore[misc]


def _first_of(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a sweep: its tasks are ours, so the first error is the cause."""
    first = group.exceptions[0]
    return _first_of(first) if isinstance(first, BaseExceptionGroup) else first
