"""The same rows in a DuckDB file and in a lake on PostgreSQL: what reading them takes, in turns."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path

from eval_pipeline.sweeps.sweep_store import SweepStore
from eval_pipeline.warehouse.copying import copy_warehouse
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.storage import LocalStorage
from eval_pipeline.warehouse.store import Warehouse, open_warehouse
from eval_pipeline.warehouse.stored_pairs import stored_executions
from eval_pipeline_tests.benchmarks.generated_rows import SIZES, Size, fill_boards, fill_warehouse
from eval_pipeline_tests.postgres_server import PostgresServer
from eval_pipeline_tests.team.postgres import lake_server, new_lake, why_not

_QUICK = Size(suites=4, runners=10, cases=250)
_TIMES = 5
_SCORES = "SELECT suite, runner, avg(value), count(*) FROM evaluator_scores GROUP BY ALL ORDER BY ALL"
_STANDINGS = "SELECT suite, runner, count(*), avg(score) FROM current_verdicts GROUP BY ALL ORDER BY ALL"
_PAIRS = [PairKey("bulk-0001", "runner-001")]


def _answered(query: str) -> Callable[[Warehouse], object]:
    def answer(warehouse: Warehouse) -> object:
        with warehouse.published() as connection:
            return connection.execute(query).fetchall()

    return answer


_floors = count(1)


def _new_board(warehouse: Warehouse) -> None:
    """Rank every suite anew: by another floor of coverage than any board before."""
    SweepStore(warehouse, coverage_floor=next(_floors) / 1_000_000).update_leaderboards()


PARTS: dict[str, Callable[[Warehouse], object]] = {
    "board, every suite new": _new_board,
    "board, unchanged": lambda warehouse: SweepStore(warehouse).update_leaderboards(),
    "newest board": _answered("SELECT * FROM leaderboards QUALIFY board_id = max(board_id) OVER ()"),
    "means of all scores": _answered(_SCORES),
    "means of current verdicts": _answered(_STANDINGS),
    "what is stored of a pair": lambda warehouse: stored_executions(warehouse, _PAIRS),
}


def measure_lakes(quick: bool) -> None:
    """Boards, group-bys and a look-up beside 1 M scores (--quick: 20,000), copying them, and boards of 10 M."""
    if (reason := why_not()) is not None:
        print(f"not measured: {reason}", flush=True)
        return
    with lake_server() as server, tempfile.TemporaryDirectory() as folder:
        _measure(_QUICK if quick else SIZES["1M"], server, Path(folder))
    if not quick:
        with lake_server() as server, tempfile.TemporaryDirectory() as folder:
            _measure_boards(SIZES["10M"], server, Path(folder))


def _measure(size: Size, server: PostgresServer, folder: Path) -> None:
    begun = time.perf_counter()
    file = fill_warehouse(DuckDBWarehouse(folder / "file"), size)
    file.publish()
    print(f"{2 * size.executions:,} scores made in a file: {time.perf_counter() - begun:.1f} s", flush=True)
    lake = open_warehouse(new_lake(server, folder / "lake"), storage=LocalStorage(folder / "machine"))
    begun = time.perf_counter()
    rows = sum(table.rows for table in copy_warehouse(file, lake))
    print(f"copied {rows:,} rows into the lake: {time.perf_counter() - begun:.1f} s", flush=True)
    _compare_parts(size, PARTS, file, lake)


def _measure_boards(size: Size, server: PostgresServer, folder: Path) -> None:
    """Boards, in warehouses with only what they read: other rows take far longer to make."""
    file = fill_boards(DuckDBWarehouse(folder / "file"), size)
    file.publish()
    lake = open_warehouse(new_lake(server, folder / "lake"), storage=LocalStorage(folder / "machine"))
    _compare_parts(size, [name for name in PARTS if "board" in name], file, fill_boards(lake, size))


def _compare_parts(size: Size, names: Iterable[str], file: Warehouse, lake: Warehouse) -> None:
    for name in names:
        _compare(f"{2 * size.executions:,} scores, {name}", partial(PARTS[name], file), partial(PARTS[name], lake))


def _compare(name: str, of_file: Callable[[], object], of_lake: Callable[[], object]) -> None:
    """Print the median wall and CPU times of both; the first time of each is left out."""
    of_file(), of_lake()
    turns = [(_timed(of_file), _timed(of_lake)) for _ in range(_TIMES)]
    file, lake = ([statistics.median(turn[side][kind] for turn in turns) for kind in (0, 1)] for side in (0, 1))
    print(
        f"{name}: wall {file[0]:.3f} s file, {lake[0]:.3f} s lake ({lake[0] / file[0]:.1f} ×); "
        f"CPU {file[1]:.3f} s, {lake[1]:.3f} s ({lake[1] / file[1]:.1f} ×)",
        flush=True,
    )


def _timed(part: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    part()
    return time.perf_counter() - wall, time.process_time() - cpu
