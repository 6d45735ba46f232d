"""Random tests that are repeated, with another answer each time, through the real `agentv` command and through ours:
the scores of the tests are equal. Their texts have variables."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows
from eval_pipeline_tests.formats.agentv.differential.agentv_command import agentv_command, agentv_rows
from eval_pipeline_tests.formats.agentv.differential.differences import MARK
from eval_pipeline_tests.fuzzing.limits import SEED

pytestmark = [pytest.mark.slow, pytest.mark.real_agentv]
TESTS, REPETITIONS = 12, 3
TARGETS = """\
targets:
  - {name: default, provider: cli, command: "python3 answer.py {PROMPT_FILE} {OUTPUT_FILE}"}
"""
ANSWER = """\
import itertools, json, os, pathlib, sys
asked = json.load(open(sys.argv[1]))
for number in itertools.count():
    try:
        open(f"calls/{asked['id']}-{number}", "x").close()
        break
    except FileExistsError:
        continue
answers = asked["answers"]
pathlib.Path(sys.argv[2]).write_text(answers[number % len(answers)])
"""
"""Counts its calls: both commands make the same number of calls for each test."""
SAME_ANSWERS = {
    "id": "t-same",
    "input": '{"id": "t-same", "answers": ["red"]}',
    "criteria": "is red",
    "assertions": [{"type": "equals", "value": "red"}],
}
"""The interval of other answers mostly reaches down to 0."""
WORDS = ("red", "blue", "green tea", "42", '{"a": 1}')


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)


def a_test(number: int, draw: random.Random) -> dict[str, Any]:
    """A test with an answer for each repetition, whose input and expected output have variables."""
    answers = [" ".join(draw.choices((*WORDS, "{{ word }}"), k=2)) for _ in range(REPETITIONS)]
    word = draw.choice(WORDS[:3])
    entries = [
        {"type": "contains", "value": draw.choice(WORDS), "weight": draw.choice((0.5, 1, 2))},
        {"type": "contains-any", "value": draw.sample(WORDS, 2), "negate": draw.random() < 0.3},
        {"type": "equals", "value": f"{word} {draw.choice(WORDS)}"},
        {"type": "is-json", "weight": draw.choice((0, 1))},
    ]
    asked = {"id": f"t{number}", "answers": [json.dumps(answer)[1:-1] for answer in answers]}
    return {
        "id": f"t{number}",
        "vars": {"word": word},
        "input": json.dumps(asked),
        "expected_output": "{{ word }}",
        "criteria": "says {{ word }}",
        "assertions": draw.sample(entries, draw.randint(1, len(entries))),
    }


@pytest.mark.parametrize("strategy", ["mean", "pass_at_k", "confidence_interval"])
def test_repetitions_have_the_scores_of_the_real_command(tmp_path: Path, strategy: str) -> None:
    command = agentv_command()
    draw = random.Random(f"{SEED} {strategy}")
    tests = [*(a_test(number, draw) for number in range(TESTS)), SAME_ANSWERS]
    trials = {"count": REPETITIONS, "strategy": strategy}
    suite = {"name": "random", "execution": {"trials": trials}, "tests": tests}
    files = {".agentv/targets.yaml": TARGETS, "answer.py": ANSWER, "random.eval.yaml": json.dumps(suite)}
    project = an_agentv_project(tmp_path, {**files, "calls/none": ""})

    theirs = {row["test_id"]: row for row in agentv_rows(command, tmp_path, "random.eval.yaml")}
    for call in (tmp_path / "calls").glob("t*"):
        call.unlink()
    ran = project("run", "random.eval.yaml", "--quiet")

    assert ran.code in (0, 1), ran.text
    ours = {row["test_id"]: row for row in index_rows(project)}
    assert ours.keys() == theirs.keys()
    assert {name: row["score"] for name, row in ours.items() if not stops_early(theirs[name], strategy)} == {
        name: pytest.approx(row["score"]) for name, row in theirs.items() if not stops_early(row, strategy)
    }
    for name, row in theirs.items():
        assert not stops_early(row, strategy) or ours[name]["score"] >= row["score"] - 1e-9
    assert len({row["score"] for row in theirs.values()}) > 1


def stops_early(theirs: dict[str, Any], strategy: str) -> bool:
    """Return whether the first pass ended a test there; here all repetitions are carried out."""
    return strategy == "pass_at_k" and theirs["score"] >= MARK
