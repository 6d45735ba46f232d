"""Each declared difference is one: a test in which the real `agentv` command and ours differ by nothing else."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.formats.agentv.differential.agentv_command import agentv_command
from eval_pipeline_tests.formats.agentv.differential.differences import OF_EVALUATORS, OF_TESTS
from eval_pipeline_tests.formats.agentv.differential.random_tests import Test
from eval_pipeline_tests.formats.agentv.differential.test_random_tests import both_answers, disagreements

pytestmark = [pytest.mark.slow, pytest.mark.real_agentv]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)


def an_answer(content: str, *tools: str, **known: Any) -> str:
    message = {"role": "assistant", "content": content, "tool_calls": [{"tool": tool} for tool in tools]}
    return json.dumps({"output": [message], "duration_ms": 100, **known})


def a_composite(aggregator: dict[str, Any], *members: dict[str, Any]) -> dict[str, Any]:
    named = [{"name": f"m{at}", **member} for at, member in enumerate(members)]
    return {"type": "composite", "aggregator": aggregator, "assertions": named}


def graded(score: float) -> dict[str, Any]:
    return {"type": "code-grader", "command": ["sh", "grade.sh", json.dumps({"score": score})]}


RED = {"type": "contains", "value": "red"}
HALF = graded(0.5)
REPLY = json.dumps({"checks": [{"id": "a", "satisfied": True, "reasoning": "r"}], "overall_reasoning": "r"})
CHECKLIST = [{"id": "a", "outcome": f"good REPLY<{REPLY.encode().hex()}>"}, {"id": "b", "outcome": "brief"}]
EXAMPLES: dict[str, Test] = {
    "negated member": {
        "input": an_answer("red"),
        "assertions": [a_composite({"type": "weighted_average"}, {**RED, "negate": True})],
    },
    "pass mark": {
        "input": an_answer("red"),
        "assertions": [a_composite({"type": "threshold", "threshold": 1}, HALF)],
        "execution": {"threshold": 0.5},
    },
    "incomplete checklist": {
        "input": an_answer("red"), "assertions": [{"type": "rubrics", "criteria": CHECKLIST}],
    },
    "no object": {
        "input": an_answer("42"),
        "expected_output": {"a": 1},
        "assertions": [{"type": "field-accuracy", "aggregation": "all_or_nothing",
                        "fields": [{"path": "a", "match": "exact", "required": False}]}],
    },
    "trajectory": {
        "input": an_answer("red", "bash", "bash"),
        "assertions": [{"type": "tool-trajectory", "mode": "exact", "expected": [{"tool": "bash"}]}],
    },
    "gate at 0": {
        "input": an_answer("blue"), "assertions": [{**RED, "required": True}], "execution": {"threshold": 0.0},
    },
    "rounding": {"input": an_answer("red"), "assertions": [graded(0.5), graded(0.9), graded(1.0)]},
    "gate of the threshold": {
        "input": an_answer("red"), "assertions": [{**HALF, "required": True}], "execution": {"threshold": 0.5},
    },
}  # fmt: skip
"""A test for each declared difference, in which both commands do differ."""


def test_each_declared_difference_is_one(tmp_path: Path) -> None:
    command = agentv_command()
    tests = [{"id": name.replace(" ", "-"), "criteria": "is right", **test} for name, test in EXAMPLES.items()]

    theirs, ours = both_answers(command, tmp_path, {"tests": tests})

    explained: dict[str, list[str]] = {}
    for name, test in zip(EXAMPLES, tests, strict=True):
        used: Counter[str] = Counter()
        problems = list(disagreements(test, theirs[test["id"]], ours.get(test["id"], {}), used))
        explained[name] = [*used, *problems]
    assert explained == {name: [name] for name in (*OF_EVALUATORS, *OF_TESTS)}
