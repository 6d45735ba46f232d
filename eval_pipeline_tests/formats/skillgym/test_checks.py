"""Checks of Python suites in a sweep: statuses, classes, and what an edit costs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from eval_pipeline_tests.formats.skillgym.conftest import HEAD
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, make_project

SUITE = """
import asyncio
import os

READY = "2 apples"

def passes(report, ctx):
    assert READY in ctx.final_output()
    assert report.final_output == ctx.final_output() and ctx.commands() == []

def passes_with_the_report_alone(report):
    assert report.final_output == READY

def passes_without_looking():
    assert READY

def passes_all(*both):
    report, ctx = both
    assert report.final_output == ctx.final_output()

async def passes_later(report, ctx):
    await asyncio.sleep(0)
    output.includes(report, "apples")

def fails(report, ctx):
    output.includes(report, "pears", message="wrong fruit")

def classified(report, ctx):
    with classify("timeout", "Called like one of ours"):
        soft.output.includes(report, "pears")

def crashes(report, ctx):
    raise KeyError("lost")

def crashes_silently(report, ctx):
    raise MemoryError

def interrupts(report, ctx):
    raise KeyboardInterrupt

def misspells(report, ctx):
    return ctx.finalOutput()

def lost(report, ctx):
    passes_later(report, ctx)

def yields(report, ctx):
    output.includes(report, "pears")
    yield

async def yields_later(report, ctx):
    output.includes(report, "pears")
    yield

async def returns_one(report, ctx):
    return yields(report, ctx)

def dies(report, ctx):
    os._exit(3)

def exits(report, ctx):
    raise SystemExit(2)

def relabel(result):
    assert (result.failure_origin, result.failure_class.id) == ("assertion", "assertion")
    return {"id": "fruit", "label": "Wrong fruit"} if "wrong fruit" in result.error.message else None

def broken(result):
    raise ValueError("no class")

def of_target(result):
    return {"id": "flaky", "label": f"Flaky {result.failure_origin}"}

def case(id, check, **fields):
    return Case(id=id, prompt="2 apples", check=check, **fields)

suite = [
    case("passes", passes), case("one-parameter", passes_with_the_report_alone), case("none", passes_without_looking),
    case("any", passes_all), case("later", passes_later), case("fails", fails), case("classified", classified),
    case("crashes", crashes, expected_fail=True), case("lost", lost), case("dies", dies), case("exits", exits),
    case("misspells", misspells), case("yields", yields), case("yields-later", yields_later),
    case("returns-one", returns_one), case("silent", crashes_silently), case("interrupts", interrupts),
    case("expected", fails, expected_fail=True), case("unexpected", passes, expected_fail=True),
    case("relabelled", fails, classify_failure=relabel), case("broken", fails, classify_failure=broken),
    case("target", passes, classify_failure=of_target, expected_fail=True),
]
"""
PASSED = ("passed", None, None, None)
STATUSES = {
    **dict.fromkeys(("passes", "one-parameter", "none", "any", "later"), PASSED),
    "fails": ("failed", "assertion", "Assertion failure", "quality"),
    "classified": ("failed", "timeout", "Called like one of ours", "quality"),
    "crashes": ("error", "assert-hook", "Assert hook crash", "grader"),
    "lost": ("error", "assert-hook", "Assert hook crash", "grader"),
    **dict.fromkeys(
        ("yields", "yields-later", "returns-one", "silent", "interrupts"),
        ("error", "assert-hook", "Assert hook crash", "grader"),
    ),
    "dies": ("error", "assert-hook", "Assert hook crash", "grader"),
    "exits": ("error", "assert-hook", "Assert hook crash", "grader"),
    "misspells": ("error", "assert-hook", "Assert hook crash", "grader"),
    "expected": ("expected-failed", "assertion", "Assertion failure", "quality"),
    "unexpected": ("unexpected-passed", "unexpected-passed", "Unexpected pass", "quality"),
    "relabelled": ("failed", "fruit", "Wrong fruit", "quality"),
    "broken": ("failed", "assertion", "Assertion failure", "quality"),
    "target": ("error", "flaky", "Flaky target-crash", "target"),
}


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    project = make_project(tmp_path_factory.mktemp("python-suite"))
    (project.root / "suites" / "sums.yaml").unlink(missing_ok=True)
    project.write_runners(a_runner_entry())
    return project


def write(folder: ProjectFolder, source: str) -> None:
    (folder.root / "suites" / "cases.py").write_text(HEAD + source)


def verdicts(folder: ProjectFolder, columns: str) -> list[tuple[Any, ...]]:
    return folder.ask(f"SELECT case_id, {columns} FROM current_verdicts")


def test_every_end_of_a_check_has_its_status_class_label_and_origin(folder: ProjectFolder) -> None:
    write(folder, SUITE)
    folder.write_answers(target="crash")

    folder.sweep("cases")

    rows = verdicts(folder, "status, failure_class, failure_label, failure_origin")
    assert {case: tuple(rest) for case, *rest in rows} == STATUSES
    reasons = dict(verdicts(folder, "reason"))
    assert "wrong fruit. Expected the agent to end with an output that includes" in reasons["fails"]
    assert "classify_failure raised ValueError: no class" in reasons["broken"]
    assert "'passes_later' was never awaited" in reasons["lost"]
    assert "the generator 'yields', which never ran; write the check without `yield`" in reasons["yields"]
    assert "the generator 'yields_later'" in reasons["yields-later"] and "'yields'" in reasons["returns-one"]
    assert re.search(r"check crashed \(cases.py:\d+\): KeyError: 'lost'", reasons["crashes"])
    assert reasons["silent"].endswith(": MemoryError"), reasons["silent"]
    assert "KeyboardInterrupt" in reasons["interrupts"] and "KeyboardInterrupt:" not in reasons["interrupts"]
    assert "no attribute 'finalOutput'; did you mean 'final_output'?" in reasons["misspells"]
    assert "although the case expects a failure (expected_fail)" in reasons["unexpected"]


def test_another_check_scores_anew_and_another_prompt_executes(folder: ProjectFolder) -> None:
    source = (
        "from words import WORD\n"
        "def check(report, ctx): output.includes(report, WORD)\n"
        "suite = [Case(id='a', prompt='2 apples', check=check), Case(id='b', prompt='3 pears', check=check)]\n"
    )
    (folder.root / "suites" / "words.py").write_text("WORD = 'apples'\n")
    write(folder, source)
    folder.sweep("cases")
    first = dict(verdicts(folder, "status"))

    (folder.root / "suites" / "words.py").write_text("WORD = 'pears'  # edited\n")
    rescored = folder.sweep("cases")
    second = dict(verdicts(folder, "status"))
    write(folder, source.replace("3 pears", "4 pears"))
    executed = folder.sweep("cases")

    assert (first, second) == ({"a": "passed", "b": "failed"}, {"a": "failed", "b": "passed"})
    assert rescored.executed == 0 and executed.executed == 1
    assert len(folder.take_calls()) == 3


def test_a_check_that_hangs_ends_with_the_timeout_of_its_case(folder: ProjectFolder) -> None:
    source = """
def hangs(report, ctx):
    while True: pass

suite = [Case(id="hangs", prompt="2 apples", timeout_ms=999, check=hangs)]
"""
    write(folder, source)

    folder.sweep("cases")

    ((_, status, class_, reason),) = verdicts(folder, "status, failure_class, reason")
    assert (status, class_) == ("error", "assert-hook")
    assert "it took longer than 1 s and was ended; the limit is timeout_ms of the case" in reason
