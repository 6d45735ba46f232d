"""What a case of a shared workspace has changed: everything since the first case, as in AgentV, or its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows

CODER = """\
targets:
  - name: default
    provider: cli
    command: echo done | tee {EVAL_ID}.txt > {OUTPUT_FILE}
"""
GRADER = """\
import json, sys
lines = json.load(sys.stdin)["file_changes"].splitlines()
print(json.dumps({"score": 1, "details": {"created": [line[6:] for line in lines if line[:4] == "+++ "]}}))
"""
SUITE = """\
workspace: {template: files%s}
assertions: [{name: changes, type: code-grader, command: [python3, changes.py]}]
tests:
  - {id: first, input: go}
  - {id: second, input: go}
"""


PREPARED = ', hooks: {before_each: {command: [sh, -c, "cat > /dev/null; date +%N > $AGENTV_WORKSPACE_PATH/made"]}}'
"""A command before each case: what it makes is no change of the target."""


@pytest.mark.parametrize(
    ("setting", "created"),
    [
        ("", [["first.txt"], ["first.txt", "second.txt"]]),
        (", file_changes: all", [["first.txt"], ["first.txt", "second.txt"]]),
        (", file_changes: case", [["first.txt"], ["second.txt"]]),
        (", isolation: per_test", [["first.txt"], ["second.txt"]]),
        (PREPARED, [["first.txt"], ["second.txt"]]),
        (f"{PREPARED}, file_changes: all", [["first.txt"], ["first.txt", "made", "second.txt"]]),
        (", hooks: {before_each: {reset: none}}", [["first.txt"], ["first.txt", "second.txt"]]),
    ],
    ids=["unset", "all", "case", "a workspace each", "prepared", "prepared, all", "no command"],
)
def test_changes_of_a_shared_workspace_add_up_unless_a_case_has_its_own(
    tmp_path: Path, setting: str, created: list[list[str]]
) -> None:
    files = {".agentv/targets.yaml": CODER, "changes.py": GRADER, "s.yaml": SUITE % setting, "files/a": "a"}
    project = an_agentv_project(tmp_path, files)

    project("run", "s.yaml")

    rows = sorted(index_rows(project), key=lambda row: row["test_id"])
    assert [row["scores"][0]["details"]["created"] for row in rows] == created
