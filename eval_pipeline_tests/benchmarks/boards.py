"""What boards of 1 M and 10 M scores cost, in a warehouse with only what boards read (`generated_rows.fill_boards`).

Each board is computed and stored by a process of its own. Printed is what computing it took, what all of it took from
opening the file to closing it with the stored board, and what the process took before (imports, a first opening).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from eval_pipeline_tests.benchmarks.generated_rows import SIZES, Size, of_scores

_QUICK = 20_000
_TIMES = 5
_PART = '''
import resource, sys, time
from pathlib import Path

import numpy  # noqa: F401 - its import is not part of a board

from eval_pipeline.sweeps import boards
from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse

ONE_CHANGED = """UPDATE pair_statistics SET counts_id = uuid()::VARCHAR
    WHERE suite = 'bulk-0001' AND runner = 'runner-001'"""


def took(part):
    begun = time.process_time()
    part()
    return time.process_time() - begun


def board(floor=0.9):
    return took(SweepStore(warehouse, coverage_floor=floor).update_leaderboards)


def computed(*asked, compute=boards.current_standings):
    begun = time.process_time()
    try:
        return compute(*asked)
    finally:
        computing.append(time.process_time() - begun)


computing, boards.current_standings = [], computed
name, warehouse = sys.argv[1], DuckDBWarehouse(Path(sys.argv[2]))
warehouse.frame("SELECT 1")
if name == "one pair changed":
    warehouse.run(lambda connection: connection.execute(ONE_CHANGED))
idle = time.process_time()
cpu = board(time.time() % 1 / 2) if name == "every suite new" else board()  # by another floor every suite is new
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(computing[0], cpu, idle, peak)
'''


def measure_boards(python: str, quick: bool, scores: int | None) -> None:
    """Boards of 1 M and 10 M scores (--quick: 20,000; --scores: so many)."""
    chosen = _QUICK if quick else scores
    for size in SIZES.values() if chosen is None else [of_scores(chosen)]:
        with tempfile.TemporaryDirectory() as folder:
            _measure(python, size, Path(folder))


def _measure(python: str, size: Size, folder: Path) -> None:
    filling = [python, "-m", "eval_pipeline_tests.benchmarks.generated_rows", "boards", str(folder)]
    subprocess.run([*filling, *map(str, (size.suites, size.runners, size.cases))], check=True)
    name = f"{2 * size.executions:,} scores of {size.suites * size.runners:,} pairs"
    _show(f"{name}, every suite new", [_board(python, "every suite new", folder) for _ in range(_TIMES)])
    _board(python, "nothing changed", folder)  # with the floor of those that follow
    for part in ("nothing changed", "one pair changed"):
        _show(f"{name}, {part}", [_board(python, part, folder) for _ in range(_TIMES)])


def _board(python: str, part: str, folder: Path) -> list[float]:
    """Return CPU seconds of computing the board, of all of it, of the process before it, and the peak memory in MB."""
    command = [python, "-c", _PART, part, str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(value) for value in printed.split()]


def _show(name: str, boards: list[list[float]]) -> None:
    computing, cpu, idle, peak = zip(*boards, strict=True)
    print(
        f"{name}: computing it CPU {_spread(computing)}, with opening, storing and closing {_spread(cpu)}, "
        f"n={len(boards)}, peak {max(peak):.0f} MB; the process before it {statistics.median(idle):.2f} s",
        flush=True,
    )


def _spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
