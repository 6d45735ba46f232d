"""What a call of a user's function costs: in the process of the sweep, and in a worker process."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline.executions.adapters.python import Python
from eval_pipeline.executions.model import Isolation
from eval_pipeline.executions.workers import end_workers
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent
from eval_pipeline.scores.evaluate import bind, evaluate_with
from eval_pipeline.scores.model import Subject
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_evaluator

_CODE = """
def answer(prompt): return prompt
async def answer_later(prompt): return prompt
def check(output): return True
def check_report(report): return bool(report.events)
"""
_CALLS = 50
_FIRST_CALLS = 5
_BOTH: tuple[Isolation, Isolation] = ("in-process", "process")


def measure_functions(quick: bool) -> None:
    """ms per call in turns of both ways: of many short rounds the shortest, which others on the machine disturb least,
    and the median; and the first call."""
    rounds = 20 if quick else 100
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "users.py").write_text(_CODE)
        for what, measure in _MEASURES.items():
            asyncio.run(measure(folder, "process", 20))
            taken = [[asyncio.run(measure(folder, way, _CALLS)) for way in _BOTH] for _ in range(rounds)]
            here, apart = zip(*taken, strict=True)
            median = statistics.median(after - before for before, after in taken)
            print(f"{what:<34} in-process {min(here):.3f} ms, worker {min(apart):.3f} ms: "
                  f"{min(apart) - min(here):+.3f} (median {median:+.3f})", flush=True)  # fmt: skip
        print(f"the first call of a worker: {_first_call(folder):.0f} ms", flush=True)


async def _targets(folder: Path, isolation: Isolation, count: int, function: str, at_once: int) -> float:
    settings = {"function": f"users:{function}"}
    adapter = Python(a_runner(adapter="python", settings=settings, folder=folder, isolation=isolation))
    call = a_call(folder, a_plan(a_case(text="a prompt of some length " * 10)))
    begun = time.perf_counter()
    for _ in range(count // at_once):
        await asyncio.gather(*(adapter.execute(call) for _ in range(at_once)))
    return (time.perf_counter() - begun) / count * 1000


async def _evaluators(folder: Path, isolation: Isolation, count: int, function: str, events: int) -> float:
    case = a_case()
    bound = bind(an_evaluator("python", function=f"users:{function}", isolation=isolation), case, folder)
    calls = [ToolCallEvent(tool="read", call_id=str(number), arguments={"path": "a"}) for number in range(events)]
    report = SessionReport(
        execution_id="e", final_output="4", events=(MessageEvent(role="assistant", text="4"), *calls)
    )
    client: Any = None
    begun = time.perf_counter()
    for _ in range(count):
        await evaluate_with(client, Subject(case, report, folder), [bound])
    return (time.perf_counter() - begun) / count * 1000


_MEASURES: dict[str, Callable[[Path, Isolation, int], Coroutine[Any, Any, float]]] = {
    "target": partial(_targets, function="answer", at_once=1),
    "target, 10 at once": partial(_targets, function="answer", at_once=10),
    "coroutine": partial(_targets, function="answer_later", at_once=1),
    "evaluator of the output": partial(_evaluators, function="check", events=0),
    "evaluator of a report": partial(_evaluators, function="check_report", events=0),
    "evaluator of a report, 100 events": partial(_evaluators, function="check_report", events=100),
}


def _first_call(folder: Path) -> float:
    taken = []
    for _ in range(_FIRST_CALLS):
        end_workers()
        begun = time.perf_counter()
        asyncio.run(_targets(folder, "process", 1, "answer", 1))
        taken.append((time.perf_counter() - begun) * 1000)
    return statistics.median(taken)
