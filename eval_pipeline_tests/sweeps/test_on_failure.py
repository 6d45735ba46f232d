"""Repetitions that are tried again on failure: how often the target is called, and what becomes of the case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance.public_verbs import command
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, make_project

COUNTS = """
import pathlib
FILE = pathlib.Path(__file__).with_name("count")

def answer(prompt, case):
    number = int(FILE.read_text()) + 1 if FILE.exists() else 1
    FILE.write_text(str(number))
    return f"call {number}"
"""
RUNNER = {"name": "echo", "adapter": "python", "function": "counts:answer", "isolation": "in-process"}


def project(folder: Path, passing: str, **fields: Any) -> ProjectFolder:
    made = make_project(folder)
    (folder / "counts.py").write_text(COUNTS)
    made.write_runners(RUNNER)
    made.write_suite(a_test("a", {"type": "regex", "value": f"call ({passing})$"}), **fields)
    return made


def calls(made: ProjectFolder) -> int:
    file = made.root / "count"
    return int(file.read_text()) if file.exists() else 0


@pytest.mark.parametrize(
    ("passing", "called", "status"),
    [("1|2", 2, "passed"), ("1|4", 4, "passed"), ("1", 4, "failed"), ("3|5", 5, "passed"), ("9", 3, "failed")],
    ids=["each at once", "the second late", "the second never", "both late", "the first never"],
)
def test_each_repetition_passes_by_its_first_pass_and_the_first_that_does_not_is_the_last(
    tmp_path: Path, passing: str, called: int, status: str
) -> None:
    made = project(tmp_path, passing, execution={"trials": {"count": 2, "on_failure": 2}})

    made.sweep()

    assert calls(made) == called
    assert made.ask("SELECT status, strategy FROM case_results") == [(status, "on_failure")]
    assert made.sweep().executed == 0, "what is settled is not tried again"


def test_the_option_holds_for_a_suite_that_sets_nothing_and_decides_the_exit_code(tmp_path: Path) -> None:
    made = project(tmp_path, "2|4")

    ended = command("run", "--project", tmp_path, "--quiet", "--json", "--repeat", "2", "--on-failure", "1")

    assert ended.code == 0, ended.err
    assert calls(made) == 4
    assert made.ask("SELECT status FROM case_results") == [("passed",)]
    assert json.loads(ended.out)["failed_cases"]["total"] == 0


def test_a_strategy_beside_on_failure_is_refused(tmp_path: Path) -> None:
    project(tmp_path, "1", execution={"trials": {"count": 2, "on_failure": 1, "strategy": "mean"}})

    ended = command("validate", "--project", tmp_path)

    assert ended.code != 0
    assert "decides by itself" in ended.out + ended.err
