"""Random projects for a few seconds (item 11), and inputs that once ended in a stack trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.fuzzing.check import check_project, fuzz
from eval_pipeline_tests.fuzzing.limits import SECONDS, SEED

LONG = "a" * 300
MEMBERS = {"type": "composite", "assertions": 5, "aggregator": {"type": "weighted_average"}}


def suite(**fields: Any) -> dict[str, str]:
    return {"suites/fuzz.yaml": json.dumps({"tests": [{"id": "a", "input": "x", "criteria": "c", **fields}]})}


KNOWN: dict[str, dict[str, str]] = {
    "a composite of a number": suite(assertions=[MEMBERS]),
    "a set of a number": suite(assertions=[{"type": "assert-set", "assertions": 5}]),
    "runners in a file of no name": {"eval-pipeline.yaml": 'suites: [suites]\nrunners: "\\0"\n'},
    "suites in a file of no name": {"eval-pipeline.yaml": 'suites: ["\\0"]\n'},
    "suites in a file of a long name": {"eval-pipeline.yaml": f"suites: [{'a' * 300}]\n"},
    "a warehouse of a long name": {"eval-pipeline.yaml": f"warehouse: {'a' * 300}\n", **suite()},
    "data in a folder of a long name": {"eval-pipeline.yaml": f"data: {'a' * 300}\n", **suite()},
    "a recording of a long name": {
        "runners.yaml": f"runners: [{{name: r, adapter: replay, recording: {'a' * 300}}}]\n"
    },
    "a grader's script of a long name": suite(
        assertions=[{"type": "code-grader", "command": ["python3", f"{LONG}.py"]}]
    ),
    "a grader's module of a long name": suite(assertions=[{"type": "code-grader", "command": ["python3", "-m", LONG]}]),
    "a prompt's script of a long name": suite(
        assertions=[{"type": "llm-grader", "prompt": {"command": ["python3", f"{LONG}.py", "x"]}}]
    ),
    "a function of a long name": suite(assertions=[{"type": "python", "value": f"file://{LONG}.py"}]),
    "a target of a long name": {"runners.yaml": f"runners: [{{name: r, adapter: python, function: '{LONG}:f'}}]\n"},
    "an import of a long name": {
        "suites/checks.py": f"import {LONG}\n\ndef check(output):\n    return True\n",
        **suite(assertions=[{"type": "python", "function": "checks:check"}]),
    },
    "a session of a long name": {
        "runners.yaml": f"runners: [{{name: r, adapter: copilot-log, session_dir: {LONG}}}]\n"
    },
    "suites of nobody": {"eval-pipeline.yaml": "suites: [~nobody/suites]\nrunners: ~nobody/runners.yaml\n"},
}


@pytest.mark.parametrize("files", KNOWN.values(), ids=KNOWN)
def test_an_input_that_ended_in_a_stack_trace_does_not_any_more(tmp_path: Path, files: dict[str, str]) -> None:
    assert check_project(tmp_path / "project", files) is None


def test_random_projects_give_a_result_or_an_error(tmp_path: Path) -> None:
    findings = [each for each in fuzz(tmp_path / "project", SEED, SECONDS) if each is not None]

    assert not findings, "\n\n".join(map(str, findings))


def test_a_seed_makes_the_same_input_again(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    written = []
    for _ in range(2):
        list(fuzz(folder, "some seed", 60, examples=1))
        written.append({path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    assert written[0] == written[1]
