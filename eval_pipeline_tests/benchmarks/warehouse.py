"""What a large warehouse costs: lookups of a pair, publishing, an export, and an unchanged run beside it.

Rows are generated through the real schema (`generated_rows`). Every figure is of a process of its own: CPU seconds and
peak memory.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from eval_pipeline_tests.benchmarks.generated_rows import SIZES, Size

_QUICK = Size(suites=4, runners=10, cases=250)
_PART = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path

import numpy  # noqa: F401 - its import is not part of a board

from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.queries import failure_counts, pairs_with_answers_before
from eval_pipeline.warehouse.stored_pairs import stored_executions

PAIRS = [PairKey("bulk-0001", "runner-001")]
PARTS = {
    "answers of a pair before a sweep": lambda warehouse: pairs_with_answers_before(warehouse, "9", PAIRS),
    "what is stored of a pair": lambda warehouse: stored_executions(warehouse, PAIRS),
    "failures of a pair": lambda warehouse: failure_counts(warehouse, PAIRS, 5),
    "publish": lambda warehouse: (warehouse.write("sweeps", [{"sweep_id": str(time.time())}]), warehouse.publish()),
    "publish, nothing written": lambda warehouse: warehouse.publish(),
}
warehouse = DuckDBWarehouse(Path(sys.argv[2]))
warehouse.frame("SELECT 1")
begun = time.process_time()
PARTS[sys.argv[1]](warehouse)
print(time.process_time() - begun)
"""
PARTS = (
    "what is stored of a pair",
    "failures of a pair", "answers of a pair before a sweep", "publish", "publish, nothing written",
)  # fmt: skip
TIMES = 5


class Cost(Protocol):
    """What one process took."""

    @property
    def cpu_s(self) -> float: ...

    @property
    def peak_mb(self) -> float: ...


Timed = Callable[[list[str], Path], Cost]


def measure_warehouse(timed: Timed, python: str, quick: bool) -> None:
    """Lookups, publishing, an export and an unchanged run, beside 1 M generated scores (--quick: 20,000)."""
    size = _QUICK if quick else SIZES["1M"]
    command = [python, "-m", "eval_pipeline_tests.benchmarks.command"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        filling = [python, "-m", "eval_pipeline_tests.benchmarks.generated_rows", "all", "data"]
        timed([*filling, *map(str, (size.suites, size.runners, size.cases))], root)  # a child begins with our own peak
        idle = [python, "-c", _PART, "publish, nothing written", str(root / "data")]
        timed(idle, root)  # the first time everything is published
        for part in PARTS:
            cost, alone = timed([python, "-c", _PART, part, str(root / "data")], root), timed(idle, root)
            more = f"CPU {cost.cpu_s - alone.cpu_s:+.2f} s beside an idle process, peak {cost.peak_mb:.0f} MB"
            print(f"{size.executions:,} executions, {part}: {more}", flush=True)
        export = [*command, "export", "--data", str(root / "data"), "--format", "jsonl", "--output", "export.jsonl"]
        cost = timed(export, root)
        print(f"{size.executions:,} executions, export: CPU {cost.cpu_s:.1f} s, peak {cost.peak_mb:.0f} MB", flush=True)
        _measure_unchanged_run(timed, [*command, "run", "suites", "--quiet"], root / "data", size)


def _measure_unchanged_run(timed: Timed, run: list[str], data: Path, size: Size) -> None:
    """An unchanged run of 100 pairs of 20 cases, in turns alone and beside the generated rows."""
    with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as beside:
        shutil.copytree(data, Path(beside) / "data")
        for folder in (alone, beside):
            _write_project(Path(folder))
            timed(run, Path(folder))
        for _ in range(TIMES):
            first, second = timed(run, Path(alone)), timed(run, Path(beside))
            print(f"unchanged run of 100 pairs: CPU {first.cpu_s:.2f} s alone, {second.cpu_s:.2f} s beside "
                  f"{size.executions:,} executions ({second.cpu_s / first.cpu_s:.2f} ×)", flush=True)  # fmt: skip


def _write_project(folder: Path) -> None:
    (folder / "suites").mkdir()
    for suite in range(10):
        checks = [{"type": "contains", "value": "apples"}]
        tests = [{"id": f"c{case}", "input": f"{case} apples", "assertions": checks} for case in range(20)]
        (folder / "suites" / f"s{suite}.yaml").write_text(json.dumps({"name": f"s{suite}", "tests": tests}))
    entries = [{"name": f"r{number}", "adapter": "mock", "response": "2 apples"} for number in range(10)]
    (folder / "runners.yaml").write_text(json.dumps({"runners": entries}))
