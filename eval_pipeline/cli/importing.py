"""Imports without garbage collection: modules stay, so looking through them again and again is in vain."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 100
"""Modules whose objects are worth being left out of later collections."""


@contextmanager
def importing() -> Iterator[None]:
    """Collect no garbage inside the block, and leave out of later collections what many new modules hold.

    Without that a run looks three times through all that Polars, DuckDB and Dagster make as they are imported: 100 ms.
    """
    if not gc.isenabled():
        yield
        return
    before = len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) - before >= MANY:
            gc.freeze()
        gc.enable()
