"""`prepare` and `grade`: the work on a case is done outside of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.cli.sample_project import CliProject

RUNNERS = """\
runners:
  - {name: agent, adapter: command, command: [sh, -c, "echo called >> ../calls.log"]}
"""
CHECK = """\
import json, sys
asked = json.load(sys.stdin)
workspace = asked["workspace_path"]
fixed = open(workspace + "/code.txt").read().strip() == "fixed" if workspace else True
print(json.dumps({"score": float(fixed and "+fixed" in (asked["file_changes"] or "+fixed")),
                  "assertions": [{"text": str(asked["trace"]), "passed": True}]}))
"""
SUITE = """\
workspace:
  template: start
  hooks:
    before_each: {command: [sh, -c, "echo set > {{workspace_path}}/setup.txt"]}
tests:
  - id: fix
    input: Fix code.txt
    assertions:
      - {type: code-grader, name: code, command: [python3, check.py]}
      - {type: contains, value: done}
  - {id: other, input: hi, assertions: [{type: contains, value: hi}]}
"""


@pytest.fixture
def project(tmp_path: Path) -> CliProject:
    make_repository(tmp_path)
    made = CliProject(tmp_path)
    for name, text in {"runners.yaml": RUNNERS, "suites/fixes.yaml": SUITE, "suites/check.py": CHECK,
                       "suites/start/code.txt": "broken\n"}.items():  # fmt: skip
        made.write(name, text)
    return made


def test_work_on_a_prepared_case_is_graded_without_calling_the_target(project: CliProject) -> None:
    prepared = project("prepare", "suites/fixes.yaml", "--case", "fix", "--output", "work")

    assert prepared.code == 0, prepared.text
    folder = project.root / "work"
    assert (folder / "prompt.md").read_text() == "Fix code.txt\n"
    assert (folder / "workspace" / "setup.txt").read_text() == "set\n"
    assert project("grade", "work").code == 1
    (folder / "workspace" / "code.txt").write_text("fixed\n")
    (folder / "response.md").write_text("done")
    graded = project("grade", "work")
    assert graded.code == 0, graded.text
    assert not (project.root / "calls.log").exists()
    rows = project("sql", "--json", "SELECT runner, case_id, status FROM current_verdicts")
    assert json.loads(rows.out) == {"runner": "agent-prepared", "case_id": "fix", "status": "passed"}, rows.text


def test_an_answer_may_have_messages_and_tool_calls(project: CliProject) -> None:
    project("prepare", "suites/fixes.yaml", "--case", "fix", "--output", "work")
    (project.root / "work" / "workspace" / "code.txt").write_text("fixed\n")
    calls = [{"tool": "edit", "input": {"path": "code.txt"}}]
    messages = [{"role": "assistant", "content": "done", "tool_calls": calls}]
    (project.root / "answer.json").write_text(json.dumps({"output": messages}))

    assert project("grade", "work", "--response", "answer.json").code == 0

    shown = project("show", "fixes/fix", "--runner", "agent-prepared")
    assert "edit" in shown.text


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("prepare", "suites/fixes.yaml", "--case", "fix", "--output", "suites"), "suites is not empty"),
        (("prepare", "suites/fixes.yaml", "--case", "fxi", "--output", "w"), "no case 'fxi'"),
        (("grade", "suites"), "suites is no prepared case: it has no prepared.json"),
    ],
    ids=["folder", "case", "not prepared"],
)
def test_what_cannot_be_prepared_or_graded_is_an_error(
    project: CliProject, arguments: tuple[str, ...], problem: str
) -> None:
    ran = project(*arguments)

    assert (ran.code, problem in ran.text) == (2, True), ran.text
