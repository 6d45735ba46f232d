"""Functions of users that exit, crash, hang, cancel, or return what cannot be stored: each costs one call."""

from __future__ import annotations

import os

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

CODE = """
import asyncio, ctypes, os, sys, time

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
    if how == "end": os._exit(5)
    if how == "fault": ctypes.string_at(0)
    if how == "stall": time.sleep(60)
    if how == "unwritable": return Unwritable()
    if how == "key": return {"output": "2", "metadata": {"x": Unwritable()}}
    return "2 apples"

def plain(prompt):
    return misbehave(prompt)

async def coroutine(prompt):
    await asyncio.sleep(0.01)
    if prompt == "block": time.sleep(60)
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
    "interrupt": "KeyboardInterrupt",
    "unprintable": "Unprintable, whose message cannot be read (RuntimeError)",
    "cancelled": "CancelledError",
}
ENDINGS = {
    "end": "the process of the function ended with exit code 5",
    "fault": "the process of the function was ended by SIGSEGV",
}
ANSWERS = {"unwritable": "RuntimeError: no text", "key": "RuntimeError: no text"}


@pytest.mark.parametrize("function", ["plain", "coroutine"])
def test_a_target_that_misbehaves_costs_one_execution(folder: ProjectFolder, function: str) -> None:
    ways = {**WAYS, **ENDINGS, **ANSWERS, **({"cancel": "CancelledError"} if function == "coroutine" else {})}
    (folder.root / "odd.py").write_text(CODE)
    folder.write_suite(*(a_test(way, text=way) for way in ways), a_test("well", text="2"))
    folder.write_runners(a_runner_entry(function=f"odd:{function}", arguments={}, isolation="process"))

    counts = folder.sweep()

    rows = folder.ask("SELECT case_id, failure_class, error FROM target_executions")
    assert {case: error for case, class_, error in rows if class_ == "target-crash"} == ways
    assert (counts.executed, counts.passed, counts.errored) == (len(ways) + 1, 1, len(ways))


@pytest.mark.parametrize("function", ["check", "check_later"])
def test_an_evaluator_that_misbehaves_costs_one_score(folder: ProjectFolder, function: str) -> None:
    hangs = {"stall": "it took longer than 0.5 s and was ended"}
    ways = {**WAYS, **ENDINGS, **hangs, **({"cancel": "CancelledError"} if function == "check_later" else {})}
    (folder.root / "suites" / "odd.py").write_text(CODE)
    evaluator = {"type": "python", "function": f"odd:{function}"}
    limited = {way: {**evaluator, "timeout_s": 0.5} for way in hangs}
    tests = (a_test(way, limited.get(way, evaluator), text=way) for way in ways)
    folder.write_suite(*tests, a_test("well", evaluator, text="2 apples"))

    counts = folder.sweep()

    rows = folder.ask("SELECT case_id, value, reason FROM evaluator_scores")
    assert {case: reason for case, value, reason in rows if value is None} == {
        way: f"evaluator failed: {text}" for way, text in ways.items()
    }
    assert (counts.executed, counts.passed, counts.errored) == (len(ways) + 1, 1, len(ways))


def test_a_target_that_hangs_costs_one_execution(folder: ProjectFolder) -> None:
    (folder.root / "odd.py").write_text(CODE)
    folder.write_suite(*(a_test(id_, text=id_) for id_ in ("stall", "2", "22")))
    folder.write_runners(a_runner_entry(function="odd:plain", arguments={}, isolation="process", timeout_s=2.0))

    counts = folder.sweep()

    assert folder.ask("SELECT case_id, failure_class FROM target_executions WHERE failure_class IS NOT NULL") == [
        ("stall", "timeout")
    ]
    assert (counts.executed, counts.passed, counts.errored) == (3, 2, 1)


def test_a_coroutine_that_blocks_its_event_loop_costs_one_execution(folder: ProjectFolder) -> None:
    (folder.root / "odd.py").write_text(CODE)
    folder.write_suite(*(a_test(id_, text=id_) for id_ in ("2", "22", "block", "222")))
    folder.write_runners(
        a_runner_entry(function="odd:coroutine", arguments={}, isolation="process", timeout_s=2.5, retries=1)
    )

    counts = folder.sweep()

    assert folder.ask("SELECT case_id, failure_class FROM target_executions WHERE failure_class IS NOT NULL") == [
        ("block", "timeout")
    ]
    assert (counts.executed, counts.passed, counts.errored) == (4, 3, 1)


def test_the_project_file_may_have_functions_run_in_the_process_of_the_sweep(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "place.py").write_text("import os\ndef check(ours): return os.getpid() == ours")
    (folder.root / "place.py").write_text("import os\ndef answer(prompt): return str(os.getpid())")
    evaluator = {"type": "python", "function": "place:check", "arguments": {"ours": os.getpid()}}
    folder.write_suite(a_test("default", evaluator), a_test("apart", {**evaluator, "isolation": "process"}))
    folder.write_runners({"name": "echo", "adapter": "python", "function": "place:answer"})
    (folder.root / "eval-pipeline.yaml").write_text("defaults: {isolation: in-process}")
    defaults = folder.session().project.defaults
    make_project(folder.root / "other").session()  # of a project with another default

    folder.sweep_once(defaults=defaults)

    assert dict(folder.ask("SELECT case_id, value FROM evaluator_scores")) == {"default": 1.0, "apart": 0.0}
    assert folder.ask("SELECT DISTINCT final_output FROM session_reports") == [(str(os.getpid()),)]
