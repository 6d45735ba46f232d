"""Programs of an AgentV project find the values of its `.env` in their environment, under what is exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows

SUITE = """\
workspace:
  hooks: {before_all: {command: [sh, -c, 'echo "hook $COLOUR" > ../hook.txt']}}
assertions:
  - {type: equals, value: answer %s}
  - {name: g, type: code-grader, command: 'test "$COLOUR" = %s && echo "{\\"score\\": 1}"'}
tests:
  - {id: t, input: hi}
"""
TARGETS = """\
targets:
  - {name: default, provider: cli, command: 'echo "answer $COLOUR" > {OUTPUT_FILE}'}
"""


@pytest.mark.parametrize("exported", [None, "blue"], ids=["written only", "exported, too"])
def test_a_target_a_hook_and_a_grader_have_the_values_of_env(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exported: str | None
) -> None:
    if exported is not None:
        monkeypatch.setenv("COLOUR", exported)
    colour = exported or "green"
    files = {".agentv/targets.yaml": TARGETS, "evals/s.yaml": SUITE % (colour, colour), "evals/.env": "COLOUR=green\n"}
    project = an_agentv_project(tmp_path, files)

    project("run", "evals/s.yaml")

    (row,) = index_rows(project)
    assert (row["score"], (tmp_path / "hook.txt").read_text()) == (1.0, f"hook {colour}\n")
