"""What an execution and a score depend on: an edit of it is seen by the next run, and of nothing else."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test

CURRENT = "SELECT case_id, status FROM current_verdicts ORDER BY case_id"


def wrote(folder: ProjectFolder, **files: str) -> None:
    """Write files of the project; `__` in a name is a slash, a trailing `_ext` its extension."""
    for name, text in files.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder.root / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


# Scores


GRADERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "python-evaluator": (
        {"type": "python", "function": "checks:good"},
        {"suites__checks_py": "from words import WORD\n\ndef good(output):\n    return WORD in output\n"},
    ),
    "python-file": (
        {"type": "python", "value": "file://checks.py"},
        {"suites__checks_py": "from words import WORD\n\ndef get_assert(output):\n    return WORD in output\n"},
    ),
    "grading-script": (
        {"type": "code-grader", "command": [sys.executable, "checks.py"]},
        {"suites__checks_py": "import json, sys\nfrom words import WORD\n"
         "print(json.dumps({'score': float(WORD in sys.stdin.read()), 'assertions': []}))\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evaluator", "files"), GRADERS.values(), ids=GRADERS)
def test_editing_a_module_that_a_grader_imports_scores_again_with_the_new_code(
    folder: ProjectFolder, evaluator: dict[str, Any], files: dict[str, str]
) -> None:
    wrote(folder, suites__words_py='WORD = "apples"\n', **files)
    folder.write_suite(a_test("a", evaluator), a_test("b"))
    folder.sweep()
    before = folder.ask(CURRENT)
    folder.take_calls()
    wrote(folder, suites__words_py='WORD = "no such word"\n')

    counts = folder.sweep()

    assert before == [("a", "passed"), ("b", "passed")]
    assert (counts.rescored, counts.reused, counts.executed, folder.take_calls()) == (1, 1, 0, [])
    assert folder.ask(CURRENT) == [("a", "failed"), ("b", "passed")]
