"""`validate` of four times the wrong tests takes four times the steps: calls of functions, not time, are counted."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from eval_pipeline.cli.checks import check_files
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline_tests.thoroughness import part_or_all

FEW, MANY = 30, 120
CHECKS = [{"type": "contains", "value": "x"}]
WRONG: dict[str, Callable[[int], dict[str, Any]]] = {
    "equal-ids": lambda number: {"id": "same", "input": "?", "assertions": CHECKS},
    "unknown-dependency": lambda number: {
        "id": f"c{number}", "input": "?", "assertions": CHECKS, "depends_on": [f"case{number}"]
    },
    "unknown-evaluator": lambda number: {
        "id": f"c{number}", "input": "?", "assertions": [{"type": f"contians{number}"}]
    },
    "unknown-argument": lambda number: {
        "id": f"c{number}", "input": "?", "assertions": [{"type": "equals", "valeu": 1}]
    },
    "unknown-runner": lambda number: {
        "id": f"c{number}", "input": "?", "assertions": CHECKS, "execution": {"target": f"nobody{number}"}
    },
    "unknown-field": lambda number: {"id": f"c{number}", "inputt": "?", "assertions": CHECKS},
    "no-id": lambda number: {"input": "?"},
    "fine": lambda number: {"id": f"c{number}", "input": "?", "assertions": CHECKS},
}  # fmt: skip


def _steps(action: Callable[[], object]) -> int:
    """How many functions an action calls."""
    count = 0

    def called(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


EACH = [(kind, suffix) for kind in WRONG for suffix in (".jsonl", ".yaml")]
TRIED = part_or_all([each for number, each in enumerate(EACH) if number % 4 in (0, 3)], EACH)
"""Every kind once, each format of files with half of them."""


@pytest.mark.parametrize(("kind", "suffix"), TRIED, ids=[f"{kind}{suffix}" for kind, suffix in TRIED])
def test_four_times_the_tests_take_about_four_times_the_steps(kind: str, suffix: str, tmp_path: Path) -> None:
    (tmp_path / "runners.yaml").write_text("runners: [{name: a, adapter: mock, response: x}]")
    session = ProjectSession(load_project(tmp_path))
    few, many = (_written(tmp_path / f"s{count}{suffix}", [WRONG[kind](number) for number in range(count)])
                 for count in (FEW, MANY))  # fmt: skip
    check_files(session, [few.name], tmp_path)  # imports what it needs

    steps = [_steps(partial(check_files, session, [path.name], tmp_path)) for path in (few, many)]

    assert steps[1] < 1.5 * steps[0] * MANY / FEW


def _written(path: Path, tests: list[dict[str, Any]]) -> Path:
    lines = "".join(json.dumps(test) + "\n" for test in tests)
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps({"tests": tests}))
    return path
