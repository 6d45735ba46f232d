"""Functions of users that exit, cancel, or return what cannot be stored: each costs one execution or one score."""

from __future__ import annotations

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

CODE = """
import asyncio, sys

class Stop(BaseException):
    pass

class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")

class Unwritable:
    def __str__(self):
        raise RuntimeError("no text")

def misbehave(how):
    if how == "exit": sys.exit(3)
    if how == "stop": raise Stop("enough")
    if how == "interrupt": raise KeyboardInterrupt
    if how == "unprintable": raise Unprintable
    if how == "cancelled": raise asyncio.CancelledError
    if how == "unwritable": return Unwritable()
    if how == "key": return {"output": "2", "metadata": {"x": Unwritable()}}
    return "2 apples"

def plain(prompt):
    return misbehave(prompt)

async def coroutine(prompt):
    await asyncio.sleep(0)
    if prompt == "cancel":
        asyncio.current_task().cancel()
        await asyncio.sleep(60)
    return misbehave(prompt)

def check(output):
    return misbehave(output) == "2 apples"

async def check_later(output):
    await asyncio.sleep(0)
    if output == "cancel":
        asyncio.current_task().cancel()
        await asyncio.sleep(60)
    return misbehave(output) == "2 apples"
"""
WAYS = {
    "exit": "SystemExit: 3",
    "stop": "Stop: enough",
    "interrupt": "KeyboardInterrupt: ",
    "unprintable": "Unprintable, whose message cannot be read (RuntimeError)",
    "cancelled": "CancelledError: ",
}
ANSWERS = {"unwritable": "RuntimeError: no text", "key": "RuntimeError: no text"}


@pytest.mark.parametrize("function", ["plain", "coroutine"])
def test_a_target_that_misbehaves_costs_one_execution(folder: ProjectFolder, function: str) -> None:
    ways = {**WAYS, **ANSWERS, **({"cancel": "CancelledError: "} if function == "coroutine" else {})}
    (folder.root / "odd.py").write_text(CODE)
    folder.write_suite(*(a_test(way, text=way) for way in ways), a_test("well", text="2"))
    folder.write_runners(a_runner_entry(function=f"odd:{function}", arguments={}))

    counts = folder.sweep()

    rows = folder.ask("SELECT case_id, failure_class, error FROM target_executions")
    assert {case: error for case, class_, error in rows if class_ == "target-crash"} == ways
    assert (counts.executed, counts.passed, counts.errored) == (len(ways) + 1, 1, len(ways))


@pytest.mark.parametrize("function", ["check", "check_later"])
def test_an_evaluator_that_misbehaves_costs_one_score(folder: ProjectFolder, function: str) -> None:
    ways = {**WAYS, **({"cancel": "CancelledError: "} if function == "check_later" else {})}
    (folder.root / "suites" / "odd.py").write_text(CODE)
    evaluator = {"type": "python", "function": f"odd:{function}"}
    folder.write_suite(*(a_test(way, evaluator, text=way) for way in ways), a_test("well", evaluator, text="2 apples"))

    counts = folder.sweep()

    rows = folder.ask("SELECT case_id, value, reason FROM evaluator_scores")
    assert {case: reason for case, value, reason in rows if value is None} == {
        way: f"evaluator failed: {text}" for way, text in ways.items()
    }
    assert (counts.executed, counts.passed, counts.errored) == (len(ways) + 1, 1, len(ways))
