"""What a pair costs through the command line: suites × runners of one case each, with the `mock` adapter."""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from eval_pipeline.sweeps.dagster_files import dagster_home

RUNNERS = 10
NAMES = ("first run", "unchanged run", "evaluators edited")


class PairCost(NamedTuple):
    """What each additional pair took in one run."""

    cpu_ms: float
    storage_kb: float
    """By how much the files of Dagster grew, in kB."""


class Cost(Protocol):
    """What one process took: CPU seconds of user and system."""

    @property
    def cpu_s(self) -> float: ...


Run = Callable[[Path], Cost]


def measure_pairs(run: Run, quick: bool) -> None:
    """CPU and Dagster's storage per pair at 100 and 1,000 pairs: first run, unchanged run, and a run after every
    evaluator was edited."""
    for pairs in (100,) if quick else (100, 1_000):
        costs = [_pair_costs(run, pairs) for _ in range(1 if quick else 3)]
        for name, values in zip(NAMES, zip(*costs, strict=True), strict=True):
            times = [value.cpu_ms for value in values]
            storage = statistics.median(value.storage_kb for value in values)
            cpu = (
                f"CPU {statistics.median(times):.1f} ms a pair ({min(times):.1f} to {max(times):.1f}, n={len(values)})"
            )
            print(f"{pairs:>5} pairs, {name}: {cpu}, Dagster's storage {storage:+.1f} kB a pair", flush=True)


def _pair_costs(run: Run, pairs: int) -> list[PairCost]:
    """Return the cost of each additional pair, against the same runs of a project of one pair."""
    with tempfile.TemporaryDirectory() as small, tempfile.TemporaryDirectory() as large:
        small_root, large_root = Path(small), Path(large)
        _write_project(small_root, suites=1, runners=1)
        _write_project(large_root, suites=pairs // RUNNERS, runners=RUNNERS)
        return [
            _more(run, small_root, large_root, pairs),
            _more(run, small_root, large_root, pairs),
            _edited(run, small_root, large_root, pairs),
        ]


def _edited(run: Run, small_root: Path, large_root: Path, pairs: int) -> PairCost:
    for folder, count in ((small_root, 1), (large_root, pairs // RUNNERS)):
        _write_suites(folder, count, "apple")
    return _more(run, small_root, large_root, pairs)


def _more(run: Run, small_root: Path, large_root: Path, pairs: int) -> PairCost:
    before = [_storage_kb(root) for root in (small_root, large_root)]
    little, much = run(small_root), run(large_root)
    small_kb, large_kb = (_storage_kb(root) - kb for root, kb in zip((small_root, large_root), before, strict=True))
    return PairCost((much.cpu_s - little.cpu_s) / (pairs - 1) * 1000, (large_kb - small_kb) / (pairs - 1))


def _storage_kb(root: Path) -> float:
    home = dagster_home(root / "data", root)
    return sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) / 1000


def _write_project(folder: Path, *, suites: int, runners: int) -> None:
    (folder / "suites").mkdir()
    _write_suites(folder, suites, "apples")
    entries = [{"name": f"r{number:03d}", "adapter": "mock", "response": "2 apples"} for number in range(runners)]
    (folder / "runners.yaml").write_text(json.dumps({"runners": entries}))


def _write_suites(folder: Path, count: int, expected: str) -> None:
    for number in range(count):
        test = {"id": "a", "input": f"{number} apples", "assertions": [{"type": "contains", "value": expected}]}
        document = {"name": f"s{number:04d}", "tests": [test]}
        (folder / "suites" / f"s{number:04d}.yaml").write_text(json.dumps(document))
