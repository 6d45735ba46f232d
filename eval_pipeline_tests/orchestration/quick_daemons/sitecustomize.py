"""Daemons of Dagster look every few seconds for what there is to do, not every 5 to 30: on the path of test servers.

Python imports a module of this name at its start; this one changes a few numbers of modules once they are imported.
The code server forks the processes of runs where everything is imported, instead of importing it for each.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

NUMBERS = {
    "dagster._daemon.controller": ("DEFAULT_DAEMON_INTERVAL_SECONDS", 2),
    "dagster._daemon.sensor": ("MIN_INTERVAL_LOOP_TIME", 2),
    "dagster._daemon.asset_daemon": ("MIN_INTERVAL_LOOP_SECONDS", 2),
    "dagster._core.run_coordinator.queued_run_coordinator": ("QueuedRunCoordinator.dequeue_interval_seconds", 1),
    "eval_pipeline.orchestration.sensors": ("INTERVAL_S", 4),
}
"""What the seconds between two looks are called, by module, and how many they are."""


CODE_SERVER = "dagster._grpc.server"
PRELOADED = ["dagster._grpc.server", "eval_pipeline.orchestration.build", "eval_pipeline.sweeps.sweep"]
"""What processes of runs have imported; not the definitions, which read the project as it is when a run begins."""


def _fork_runs() -> None:
    spawning, forking = multiprocessing.get_context, multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(PRELOADED)
    multiprocessing.get_context = lambda method=None: forking if method == "spawn" else spawning(method)  # type: ignore


class _Changed(Loader):
    """Executes a module as its own loader does, and changes its number."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        if module.__name__ == CODE_SERVER:
            _fork_runs()
            return
        name, seconds = NUMBERS[module.__name__]
        *owners, number = name.split(".")
        owner = getattr(module, owners[0]) if owners else module
        assert hasattr(owner, number), f"{module.__name__} has no {number} any more"
        setattr(owner, number, seconds)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in NUMBERS or name == CODE_SERVER else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Changed(spec.loader)
        return spec


sys.meta_path.insert(0, _Finder())
