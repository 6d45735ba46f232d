"""Eight workers, which are processes with folders of their own, on one lake in PostgreSQL, beside one worker alone.

The target answers after 50 ms; each worker has a few calls under way. Counted is the time from the first call to the
last one, and until the last process ended; and whether a plan was lost or carried out twice.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.warehouse.storage import LocalStorage
from eval_pipeline.warehouse.store import Warehouse, open_warehouse
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.postgres import lake_server, new_lake, why_not

LATENCY_MS = 50
AT_ONCE = 4
_ROWS = "SELECT count(*), count(DISTINCT (suite, runner, case_id, repetition)) FROM verdicts WHERE status = 'passed'"
_DOUBLED = """SELECT count(*) - count(DISTINCT execution_id) FROM target_executions"""
Stub = Callable[..., AbstractContextManager[int]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep of some workers took (seconds), the calls that the target saw, and the plans lost and doubled."""

    calls_s: float
    wall_s: float
    cpu_s: float
    calls: int
    lost: int
    doubled: int

    def __str__(self) -> str:
        times = f"{self.calls_s:.1f} s, wall {self.wall_s:.1f} s, CPU {self.cpu_s:.1f} s"
        return f"{self.calls} calls in {times}, lost {self.lost}, doubled {self.doubled}"


def measure_workers(stub: Stub, command: Sequence[str], make_project: Callable[..., Path], quick: bool) -> None:
    """One worker and eight, in turns."""
    if (reason := why_not()) is not None:
        print(f"not measured: {reason}", flush=True)
        return
    suites, cases = (16, 50) if quick else (64, 50)
    with lake_server() as server:
        for _ in range(1 if quick else 2):
            one, eight = (_sweep(server, stub, command, make_project, workers, suites, cases) for workers in (1, 8))
            for name, sweep in (("1 worker", one), ("8 workers", eight)):
                print(f"{name}, {suites} pairs of {cases} cases: {sweep}", flush=True)
            calls, wall = one.calls_s / eight.calls_s, one.wall_s / eight.wall_s
            print(f"8 workers are {calls:.1f} × one by calls, {wall:.1f} × with start and end", flush=True)


def _sweep(
    server: PostgresServer, stub: Stub, command: Sequence[str], make_project: Callable[..., Path],
    workers: int, suites: int, cases: int,
) -> Sweep:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, stub("--latency-ms", str(LATENCY_MS)) as port:
        lake = _lake(new_lake(server, Path(folder, "lake")), Path(folder, "reader"))
        environment = {**os.environ, "EVAL_PIPELINE_WAREHOUSE": lake[0]}
        roots = [make_project(Path(folder, str(number)), cases, port, suites=suites) for number in range(workers)]
        run = [*command, "missing", "--concurrency", str(AT_ONCE)]
        begun, used = time.perf_counter(), _children_cpu()
        started = [subprocess.Popen(run, cwd=root, env=environment, stdout=subprocess.DEVNULL) for root in roots]
        codes = [process.wait() for process in started]
        wall, cpu = time.perf_counter() - begun, _children_cpu() - used
        assert codes == [0] * workers, codes
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            seen = json.load(answer)
        verdicts, plans = lake[1].frame(_ROWS).row(0)
        doubled = verdicts - plans + int(lake[1].frame(_DOUBLED).item())
    calls = int(seen["calls"])
    return Sweep(float(seen["seconds"]), wall, cpu, calls, suites * cases - plans, max(doubled, calls - suites * cases))


def _lake(url: str, folder: Path) -> tuple[str, Warehouse]:
    """Return a lake with tables: making them is no part of a sweep."""
    opened = open_warehouse(url, storage=LocalStorage(folder))
    opened.write("sweeps", [{"sweep_id": "0"}])
    return url, opened


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
