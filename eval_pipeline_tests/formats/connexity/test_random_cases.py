"""Random test cases: each file loads, or is an error in words; nothing ends in a stack trace."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from eval_pipeline.errors import EvalPipelineError
from eval_pipeline.formats.connexity.conversion import ANSWER_PER_CALL, PAGE, PERSONA_TEXT
from eval_pipeline.formats.connexity.fields import CASE_OF_PAGE, CASE_WITH_ANSWER, RUN_CONFIG, SET
from eval_pipeline.suites.case_store import stored_cases
from eval_pipeline.suites.conversion import read_raw
from eval_pipeline.suites.load import load_suite

FIELDS = sorted({*CASE_OF_PAGE.names, *CASE_WITH_ANSWER.names})
VALUES: tuple[Any, ...] = (
    None, "", "x" * 300, 0, -1, 1, 2.5, 1e400, True, [], {}, [None], [1, "a"], ["a"], {"a": {"b": [1]}}, "active",
    "hard", "agent", [{"tool": "t"}], [{"tool": "t", "mock_responses": [{"response": {}}]}], [{"tool": 1}], "\0",
    [{"tool": "t", "mock_response": {"a": 1}, "expected_params": None}], {"type": "t", "description": "d"},
    {"type": "t", "description": "d", "instructions": "i"}, "\ud800", "2026-01-01T00:00:00Z",
)  # fmt: skip


def random_case(chance: random.Random) -> Any:
    if chance.random() < 0.05:
        return chance.choice(VALUES)
    names = chance.sample(FIELDS, chance.randint(0, 6))
    return {"name": "n", **{name: chance.choice(VALUES) for name in names}}


def random_document(chance: random.Random) -> Any:
    cases = [random_case(chance) for _ in range(chance.randint(0, 3))]
    kind = chance.randrange(4)
    if kind == 0:
        return random_case(chance)
    if kind == 1:
        return cases
    more = {name: chance.choice(VALUES) for name in chance.sample(sorted(SET.names), chance.randint(0, 4))}
    config = {name: chance.choice(VALUES) for name in chance.sample(sorted(RUN_CONFIG.names), 2)}
    return {**more, **({"config": config} if kind == 3 else {}), "test_cases": cases}


def test_random_files_load_or_are_errors_in_words(tmp_path: Path) -> None:
    path = tmp_path / "cases.json"
    loaded = 0

    for seed in range(400):
        path.write_text(json.dumps(random_document(random.Random(seed))))
        for step in (load_suite, lambda file: stored_cases([file]), read_raw):
            try:
                step(path)
                loaded += 1
            except EvalPipelineError as error:
                assert "cases.json" in str(error), seed
        for writer in (PAGE, PERSONA_TEXT, ANSWER_PER_CALL):
            try:
                writer.write(read_raw(path), tmp_path / "out.json")
            except EvalPipelineError as error:
                assert str(error), seed

    assert loaded > 200
