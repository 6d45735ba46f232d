"""Eight workers, which are processes with folders of their own, on one lake in PostgreSQL, beside one worker alone.

The target answers after 50 ms; each worker has one call under way, and then a few. Counted are calls a second in the
middle half of all calls, where every worker has begun and none has ended; the time until the last process ended; CPU of
the workers apart from what their starts and ends take, and of PostgreSQL; and whether a plan was lost or carried out
twice. A machine carries out no more calls a second than its cores have CPU for: with few cores that is less than what
eight workers could make.
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
AT_ONCE = (1, 4)
"""How many calls a worker has under way. With one, two cores carry out what eight workers can make."""
_ROWS = "SELECT count(*), count(DISTINCT (suite, runner, case_id, repetition)) FROM verdicts WHERE status = 'passed'"
_DOUBLED = """SELECT count(*) - count(DISTINCT execution_id) FROM target_executions"""
Stub = Callable[..., AbstractContextManager[int]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep of some workers took (seconds), the calls that the target saw, and the plans lost and doubled."""

    workers: int
    steady: float
    """Calls a second in the middle half of all calls."""
    wall_s: float
    cpu_s: float
    start_s: float
    """CPU of a worker that finds all stored: its start, its records of the pairs, and its end."""
    server_s: float
    calls: int
    lost: int
    doubled: int

    @property
    def call_ms(self) -> float:
        """CPU of a call beside starts and ends, PostgreSQL included."""
        return (self.cpu_s - self.workers * self.start_s + self.server_s) / self.calls * 1000

    def __str__(self) -> str:
        times = f"{self.steady:.0f} calls a second, {self.wall_s:.1f} s with start and end"
        cpu = f"CPU {self.cpu_s:.1f} s, {self.start_s:.1f} s of it for each start and end, server {self.server_s:.1f} s"
        most = f"{self.call_ms:.1f} ms a call beside starts: {1000 / self.call_ms:.0f} calls a second and core at most"
        return f"{times}; {cpu}; {most}; {self.calls} calls, lost {self.lost}, doubled {self.doubled}"


def measure_workers(stub: Stub, command: Sequence[str], make_project: Callable[..., Path], quick: bool) -> None:
    """One worker and eight, in turns, with one call under way each and with a few."""
    if (reason := why_not()) is not None:
        print(f"not measured: {reason}", flush=True)
        return
    suites, cases = (32, 50) if quick else (64, 100)
    with lake_server() as server:
        for at_once in AT_ONCE[:1] if quick else AT_ONCE:
            run = [*command, "missing", "--concurrency", str(at_once)]
            one, eight = (_sweep(server, stub, run, make_project, workers, suites, cases) for workers in (1, 8))
            for name, sweep in (("1 worker", one), ("8 workers", eight)):
                print(f"{name} of {at_once} at once, {suites} pairs of {cases} cases: {sweep}", flush=True)
            print(f"8 workers are {eight.steady / one.steady:.1f} × one, {one.wall_s / eight.wall_s:.1f} × with start"
                  f" and end, on {os.cpu_count()} cores", flush=True)  # fmt: skip


def _sweep(
    server: PostgresServer, stub: Stub, run: Sequence[str], make_project: Callable[..., Path],
    workers: int, suites: int, cases: int,
) -> Sweep:  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, stub("--latency-ms", str(LATENCY_MS)) as port:
        url, reader = _lake(new_lake(server, Path(folder, "lake")), Path(folder, "reader"))
        environment = {**os.environ, "EVAL_PIPELINE_WAREHOUSE": url}
        roots = [make_project(Path(folder, str(number)), cases, port, suites=suites) for number in range(workers)]

        def carry_out(roots: Sequence[Path]) -> tuple[float, float, float]:
            """Return wall, CPU of the workers and CPU of the server."""
            begun, used, served = time.perf_counter(), _children_cpu(), _server_cpu(server)
            quiet = subprocess.DEVNULL
            started = [subprocess.Popen(run, cwd=root, env=environment, stdout=quiet, stderr=quiet) for root in roots]
            codes = [process.wait() for process in started]
            assert codes == [0] * len(roots), codes
            return time.perf_counter() - begun, _children_cpu() - used, _server_cpu(server) - served

        wall_s, cpu_s, server_s = carry_out(roots)
        _, start_s, _ = carry_out(roots[:1])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            seen = json.load(answer)
        verdicts, plans = reader.frame(_ROWS).row(0)
        doubled = verdicts - plans + int(reader.frame(_DOUBLED).item())
    calls, planned = int(seen["calls"]), suites * cases
    steady = calls / 2 / seen["middle_s"]
    doubled = max(doubled, calls - planned)
    return Sweep(workers, steady, wall_s, cpu_s, start_s, server_s, calls, planned - plans, doubled)


def _lake(url: str, folder: Path) -> tuple[str, Warehouse]:
    """Return a lake with tables: making them is no part of a sweep."""
    opened = open_warehouse(url, storage=LocalStorage(folder))
    opened.write("sweeps", [{"sweep_id": "0"}])
    return url, opened


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _server_cpu(server: PostgresServer) -> float:
    """Return the CPU seconds that a server took, of its processes that ended too."""
    first = (server.folder / "data" / "postmaster.pid").read_text().split()[0]
    found = subprocess.run(["pgrep", "-P", first], capture_output=True, text=True, check=False).stdout.split()
    fields = [of for pid in (first, *found) if (of := _stat(pid))]
    ticks = sum(int(part) for process in fields for part in process[11:13])
    return (ticks + sum(map(int, fields[0][13:15]))) / os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> list[str]:
    """Return what the system knows of a process after its name; nothing of one that has just ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
