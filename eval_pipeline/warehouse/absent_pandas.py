"""DuckDB 1 tries `import pandas` for each value of each parameter, and Python searches its whole path for it where
there is none: 0.08 ms of CPU a value, 1 to 2 ms for each case that a sweep stores."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, cast

import duckdb

_NAME = "pandas"


def remember_absent_pandas() -> None:
    """Let `import pandas` fail without a search, where it is not installed and DuckDB is of a version that tries it."""
    if duckdb.__version__.startswith("1.") and importlib.util.find_spec(_NAME) is None:
        cast(dict[str, Any], sys.modules).setdefault(_NAME, None)  # Python's own mark of a module that cannot be had
