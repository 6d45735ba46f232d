"""Random suites through the real `agentv` command and through ours: scores and verdicts are equal, test by test.

Each batch is one suite and one process of each command. `FUZZ_SEED` draws the same tests again; `AGENTV_TESTS` sets how
many tests a batch has.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows
from eval_pipeline_tests.formats.agentv.differential.agentv_command import agentv_command, agentv_rows
from eval_pipeline_tests.formats.agentv.differential.differences import OF_EVALUATORS, OF_TESTS, Answers
from eval_pipeline_tests.formats.agentv.differential.random_tests import Test, draw_tests
from eval_pipeline_tests.fuzzing.limits import SEED

pytestmark = [pytest.mark.slow, pytest.mark.real_agentv]
TESTS = int(os.environ.get("AGENTV_TESTS", "60"))
TARGETS = """\
targets:
  - {name: default, provider: cli, command: "cat {PROMPT_FILE} > {OUTPUT_FILE}", grader_target: judge}
  - {name: judge, provider: cli, command: "python3 judge.py {PROMPT_FILE} {OUTPUT_FILE}"}
"""
JUDGE = """\
import re, sys
reply = re.search(r"REPLY<([0-9a-f]+)>", open(sys.argv[1]).read())
open(sys.argv[2], "w").write(bytes.fromhex(reply[1]).decode() if reply else "no reply")
"""
GRADE = 'cat > /dev/null\nprintf %s "$1"\n'
Rows = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)


def both_answers(command: str, root: Path, suite: dict[str, Any]) -> tuple[Rows, Rows]:
    """Return the rows of AgentV's command and of ours, by test."""
    files = {".agentv/targets.yaml": TARGETS, "judge.py": JUDGE, "grade.sh": GRADE}
    project = an_agentv_project(root, {**files, "random.eval.yaml": json.dumps({"name": "random", **suite})})
    theirs = agentv_rows(command, root, "random.eval.yaml")
    ran = project("run", "random.eval.yaml", "--quiet")
    assert ran.code in (0, 1, 2), ran.text
    ours = index_rows(project)
    return {row["test_id"]: row for row in theirs}, {row["test_id"]: row for row in ours}


def as_mappings(entries: list[Any]) -> list[dict[str, Any]]:
    """Return the evaluators of a list: its texts are criteria of one, in place of the first."""
    texts = [entry for entry in entries if isinstance(entry, str)]
    merged = (
        [{"type": "rubrics", "criteria": texts} if entry is texts[0] else entry for entry in entries]
        if texts
        else entries
    )
    return [entry for entry in merged if not isinstance(entry, str)]


def disagreements(test: Test, theirs: dict[str, Any], ours: dict[str, Any], used: Counter[str]) -> Iterator[str]:
    """Yield what is different and explained by no declared difference; those that explain something are counted."""
    pairs = list(zip(theirs["scores"], ours.get("scores", ()), strict=False))
    entries = as_mappings(test["assertions"])
    test = {**test, "assertions": entries}
    if len(pairs) != len(entries) or len(pairs) != len(theirs["scores"]):
        yield f"{len(theirs['scores'])} and {len(ours.get('scores', ()))} evaluators answered: {ours.get('error')}"
        return
    is_explained = False
    for entry, (their, our) in zip(entries, pairs, strict=True):
        if our["verdict"] != "skip" and our["score"] == pytest.approx(their["score"], abs=1e-9):
            continue
        answers = Answers(test, entry, their, our)
        name = next((name for name, each in OF_EVALUATORS.items() if each.explains(answers)), "")
        if not name:
            yield f"{json.dumps(entry)}: {their['score']} there, {our['score']} here ({our.get('reasoning')})"
        used[name] += 1
        is_explained = True
    if is_explained or (ours["score"], ours["execution_status"]) == (
        pytest.approx(theirs["score"], abs=1e-9), theirs["execution_status"],
    ):  # fmt: skip
        return
    name = next((name for name, (explains, _) in OF_TESTS.items() if explains(test, theirs, ours)), "")
    used[name] += 1
    if not name:
        yield (
            f"the test: {theirs['score']} {theirs['execution_status']} there, "
            f"{ours['score']} {ours['execution_status']} here"
        )


def test_random_tests_have_the_scores_and_verdicts_of_the_real_command(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    command = agentv_command()
    tests = draw_tests(TESTS, SEED)

    theirs, ours = both_answers(command, tmp_path, {"requires": {"agentv": ">=4.40"}, "tests": tests})

    used: Counter[str] = Counter()
    wrong = [
        f"{test['id']}: {problem}\n    {json.dumps(test)}"
        for test in tests
        for problem in disagreements(test, theirs[test["id"]], ours.get(test["id"], {}), used)
    ]
    assert not wrong, f"{len(wrong)} of {len(tests)} tests differ (FUZZ_SEED={SEED}):\n" + "\n".join(wrong)
    assert sum(used.values()) < len(tests) / 2, f"the declared differences explain too much: {used}"
