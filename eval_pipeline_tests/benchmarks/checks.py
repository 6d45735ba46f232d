"""What Python suites cost: loading 1,000 cases, calling their checks, and a second run over what did not change."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from eval_pipeline.executions.workers import end_workers
from eval_pipeline.reports.model import CommandEvent, MessageEvent, SessionReport
from eval_pipeline.scores.evaluate import bind, evaluate_with
from eval_pipeline.scores.model import Subject
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Suite

_CASES = 1_000
_MODULE = """
from pathlib import Path

from eval_pipeline import Case, command, commands, output

with Path({imports!r}).open("a") as file:
    file.write("imported\\n")


def check(report, ctx):
    commands.not_includes(report, command("npm").arg("install"))
    output.includes(report, "done")


suite = [Case(id=f"case-{{number}}", prompt=f"Do {{number}}.", check=check) for number in range({cases})]
"""
_FUNCTION = """
def check_{number}(report, ctx):
    assert report.final_output
    assert "done {number}" in report.final_output
    assert len(ctx.get_commands()) > {number}
"""
_CASE = '    Case(id="case-{number}", prompt="Do {number}.", check=check_{number}),'
_ROUNDS = 5


def measure_checks(timed: Callable[[list[str], Path], Any], run: list[str], quick: bool) -> None:
    """Seconds to load 1,000 cases in a new worker, checks per second in one after another and at once, and how often a
    first and an unchanged run import the module."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        suite_file = _project(folder)
        for what, file in (("", suite_file), (" of a function with three asserts each", _with_asserts(folder))):
            loads = [_load_cpu_s(file) for _ in range(2 if quick else _ROUNDS)]
            print(f"loading {_CASES:,} Python cases{what}: CPU {_shown(loads, 's')}", flush=True)
        suite = load_suite(suite_file)
        for what, at_once in (("one after another", 1), ("50 at once", 50)):
            rates = [
                asyncio.run(_checks_per_s(suite, suite_file.parent, at_once)) for _ in range(2 if quick else _ROUNDS)
            ]
            print(f"checks, {what}: {_shown(rates, 'per second', 0)}", flush=True)
        end_workers()
        _runs(timed, run, folder)


def _project(folder: Path) -> Path:
    (folder / "suites").mkdir()
    suite_file = folder / "suites/load.py"
    suite_file.write_text(_MODULE.format(imports=str(folder / "imports.txt"), cases=_CASES))
    line = json.dumps({"output": "done"})
    (folder / "sessions.jsonl").write_text("".join(f'{line[:-1]}, "id": "case-{n}"}}\n' for n in range(_CASES)))
    (folder / "runners.yaml").write_text("runners:\n- {name: echo, adapter: replay, recording: sessions.jsonl}\n")
    return suite_file


def _with_asserts(folder: Path) -> Path:
    functions = [_FUNCTION.format(number=number) for number in range(_CASES)]
    cases = [_CASE.format(number=number) for number in range(_CASES)]
    suite_file = folder / "asserts.py"
    suite_file.write_text("\n".join(["from eval_pipeline import Case", *functions, "suite = [", *cases, "]\n"]))
    return suite_file


def _load_cpu_s(suite_file: Path) -> float:
    """Load in a new worker, whose CPU counts, too: a comment makes it another module."""
    end_workers()
    with suite_file.open("a") as file:
        file.write("# again\n")
    begun = _cpu_s()
    assert len(load_suite(suite_file).cases) == _CASES
    end_workers()
    return _cpu_s() - begun


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


async def _checks_per_s(suite: Suite, folder: Path, at_once: int) -> float:
    events = (CommandEvent(command="npm test"), MessageEvent(role="assistant", text="done"))
    report = SessionReport(execution_id="e", final_output="done", events=events)
    client: Any = None
    limit = asyncio.Semaphore(at_once)

    async def checked(case: Any) -> float | None:
        async with limit:
            (score,) = await evaluate_with(
                client, Subject(case, report, folder), [bind(case.evaluators[0], case, folder)]
            )
            return score.value

    begun = time.perf_counter()
    values = await asyncio.gather(*(checked(case) for case in suite.cases))
    assert values == [1.0] * _CASES
    return _CASES / (time.perf_counter() - begun)


def _runs(timed: Callable[[list[str], Path], Any], run: list[str], folder: Path) -> None:
    imports = folder / "imports.txt"
    for what in ("first run", "unchanged run"):
        imports.write_text("")
        cost = timed([*run, "missing"], folder)
        print(f"{what}: imported {len(imports.read_text().splitlines())} times, CPU {cost.cpu_s:.2f} s, "
              f"wall {cost.wall_s:.2f} s", flush=True)  # fmt: skip


def _shown(values: list[float], unit: str, digits: int = 2) -> str:
    return f"{statistics.median(values):,.{digits}f} {unit} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
