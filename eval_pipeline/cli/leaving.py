"""The end of the process `eval-pipeline`: an exit code without clearing the memory object by object."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn


@contextmanager
def quick_exit() -> Iterator[None]:
    """Leave the process at once when the block ends it with an exit code.

    The interpreter clears every module at its end: 0.3 s of CPU once Dagster is imported, to no effect outside the
    process. Threads have been waited for and later handlers have run before this one does; an error that nobody
    caught ends the process as usual.
    """
    codes: list[int] = []
    atexit.register(_leave, codes)
    try:
        yield
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            codes.append(end.code or 0)
        raise


def _leave(codes: list[int]) -> None:
    if not codes:
        return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return  # a closed pipe: the interpreter reports it as usual
    os._exit(codes[0])


def leave_at_once(code: int) -> NoReturn:
    """Leave the process without waiting for threads; what can still be printed is."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
