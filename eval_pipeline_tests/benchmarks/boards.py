"""What boards of 1 M and 10 M scores cost, in a warehouse with only what boards read (`generated_rows.fill_boards`).

Each board is computed and stored by a process of its own; what it took from the first statement to the closed file is
printed beside what the process takes without it (imports, and opening and closing the file).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from pathlib import Path

from eval_pipeline_tests.benchmarks.generated_rows import SIZES, Size, of_scores

_QUICK = 20_000
_TIMES = 5
_PART = '''
import resource, sys, time
from pathlib import Path

import numpy  # noqa: F401 - its import is not part of a board

import eval_pipeline.sweeps.boards
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


name, warehouse = sys.argv[1], DuckDBWarehouse(Path(sys.argv[2]))
warehouse.frame("SELECT 1")
if name == "one pair changed":
    warehouse.run(lambda connection: connection.execute(ONE_CHANGED))
idle = time.process_time()
cpu = board(time.time() % 1 / 2) if name == "every suite new" else board()  # by another floor every suite is new
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(cpu, idle, peak)
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
    """Return CPU seconds of the board, of the process before it, and the peak memory in MB."""
    command = [python, "-c", _PART, part, str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [float(value) for value in printed.split()]


def _show(name: str, boards: list[list[float]]) -> None:
    cpu, idle, peak = ([board[place] for board in boards] for place in range(3))
    print(
        f"{name}: CPU {statistics.median(cpu):.2f} s ({min(cpu):.2f} to {max(cpu):.2f}, n={len(cpu)}), "
        f"peak {max(peak):.0f} MB; the process before it {statistics.median(idle):.2f} s",
        flush=True,
    )
