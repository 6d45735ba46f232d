"""Run a module file of a user under a private name; light, because every worker process imports it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


def run_module(private: str, file: str, loader: Any = None) -> ModuleType:
    """Return the module of a file, registered under its private name. `loader` is the usual one where none is given.
    Raises what the module's code raises."""
    spec = importlib.util.spec_from_file_location(private, file, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module


@contextmanager
def importing_from(folder: str) -> Iterator[None]:
    """Let `import` find the modules of a folder first; no bytecode is written there: a user's folder stays as it is."""
    importlib.invalidate_caches()
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes_bytecode
        sys.path.remove(folder)
