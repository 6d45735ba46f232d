"""The size of a program's output files, watched while it runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path

_TICK_S = 0.05


class OutputLimitExceeded(Exception):
    """A program wrote more than the limit to one of its outputs; it was ended and the file is cut at the limit."""

    def __init__(self, name: str, max_bytes: int) -> None:
        super().__init__(f"{name} exceeds the limit of {max_bytes / 1e6:g} MB; the program was ended and the rest cut")


class OutputGuard:
    """Calls `stop` when one of `files` grows above `max_bytes`, from `start` until `end`."""

    def __init__(self, files: Sequence[Path], max_bytes: int, stop: Callable[[], None]) -> None:
        self._files = files
        self._max_bytes = max_bytes
        self._stop = stop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check the files now and then, until `end`."""
        self._timer = asyncio.get_running_loop().call_later(_TICK_S, self._check)

    def end(self) -> OutputLimitExceeded | None:
        """Cut every file to the limit. Return the problem of the first that was larger, or None."""
        if self._timer is not None:
            self._timer.cancel()
        large = [path for path in self._files if self._is_large(path)]
        for path in large:
            self._cut(path)
        return OutputLimitExceeded(large[0].name, self._max_bytes) if large else None

    def _check(self) -> None:
        if any(map(self._is_large, self._files)):
            self._stop()
            return
        self.start()

    def _is_large(self, path: Path) -> bool:
        try:
            return os.stat(path).st_size > self._max_bytes  # noqa: PTH116 — hot
        except OSError:
            return False

    def _cut(self, path: Path) -> None:
        """Cut a file. A link is removed instead: the file that it leads to is not ours."""
        with contextlib.suppress(OSError):
            if path.is_symlink():
                path.unlink()
            else:
                os.truncate(path, self._max_bytes)
