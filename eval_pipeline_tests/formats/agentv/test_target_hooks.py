"""`execution.targets` as mappings: hooks of a target, and names that a suite gives to targets of the targets file."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows

SHOW = "    provider: cli\n    command: cat $PWD/*.txt > {OUTPUT_FILE}\n"
TARGETS = f"targets:\n  - name: base\n{SHOW}  - name: other\n{SHOW}"
HOOK = """\
import json, sys
told = json.load(sys.stdin)
name, folder = sys.argv[1], told["workspace_path"]
open(folder + "/log.txt", "a").write(name + ":" + told["test_id"] + "\\n")
open("../all.log", "a").write(name + ":" + told["test_id"] + "\\n")
"""
OWN = "[python3, ../hook.py, {}]"
SUITE = f"""\
workspace:
  hooks:
    before_all: {{command: {OWN.format("all")}}}
    before_each: {{command: {OWN.format("each")}}}
    after_each: {{command: {OWN.format("after-each")}}}
    after_all: {{command: {OWN.format("after-all")}}}
execution:
  targets:
    - name: plain
      use_target: ${{{{ BASE }}}}
    - name: tuned
      use_target: base
      hooks:
        before_all: {{command: "python3 ../hook.py target-all && true"}}
        before_each: {{command: {OWN.format("target-each")}}}
        after_each: {{command: {OWN.format("target-after-each")}}}
        after_all: {{command: {OWN.format("target-after-all")}}}
tests:
  - {{id: t, input: hi, assertions: [{{type: contains, value: "target-each:t"}}]}}
"""


def a_project(root: Path, suite: str = SUITE, **files: str):  # type: ignore[no-untyped-def]
    return an_agentv_project(
        root,
        {".agentv/targets.yaml": TARGETS, "hook.py": HOOK, ".env": "BASE=base\n", "evals/s.eval.yaml": suite, **files},
    )


def test_hooks_of_a_target_run_inside_of_those_of_the_workspace(tmp_path: Path) -> None:
    project = a_project(tmp_path)

    ran = project("run", "evals", "--quiet")

    assert ran.code == 1, ran.text
    rows = {row["target"]: row for row in index_rows(project)}
    assert {name: row["score"] for name, row in rows.items()} == {"plain": 0, "tuned": 1}
    before = ["all:__before_all__", "target-all:__target_before_all__", "each:t", "target-each:t"]
    after = ["target-after-each:t", "after-each:t", "target-after-all:__target_after_all__", "after-all:__after_all__"]
    logged = (tmp_path / "all.log").read_text().splitlines()
    assert [line for line in logged if "target" in line] == [line for line in [*before, *after] if "target" in line]
    assert sorted(logged) == sorted([*before, *after, before[0], before[2], after[1], after[3]])
    assert "2 executed, 0 reused" in ran.text


def test_another_hook_of_a_target_executes_its_cases_again_and_no_others(tmp_path: Path) -> None:
    project = a_project(tmp_path)
    project("run", "evals", "--quiet")
    project.write("evals/s.eval.yaml", SUITE.replace("target-each]", "target-each, again]"))

    assert "1 executed, 1 reused" in project("run", "evals", "--quiet").text


def test_a_hook_of_a_target_that_fails_is_an_error_of_its_cases(tmp_path: Path) -> None:
    project = a_project(tmp_path, SUITE.replace("../hook.py target-all && true", "-c 'exit(3)'"))

    project("run", "evals", "--quiet")

    rows = {row["target"]: row for row in index_rows(project)}
    assert (rows["plain"]["execution_status"], rows["tuned"]["failure_stage"]) == ("quality_failure", "setup")
    assert "target_before_all hook failed" in rows["tuned"]["error"]


@pytest.mark.parametrize("restricted", [False, True], ids=["any target", "only this one"])
def test_work_that_is_graded_gets_the_hooks_and_cases_of_its_target(tmp_path: Path, restricted: bool) -> None:
    of_test = "{id: t, execution: {targets: [tuned]}," if restricted else "{id: t,"
    project = a_project(tmp_path, SUITE.replace("{id: t,", of_test))
    prepared = project("prepare", "evals/s.eval.yaml", "--case", "t", "--runner", "tuned", "--output", "work")
    assert prepared.code == 0, prepared.text
    (tmp_path / "work" / "response.md").write_text("target-each:t")
    (tmp_path / "all.log").unlink()

    graded = project("grade", "work")

    assert graded.code == 0, graded.text
    names = [line.partition(":")[0] for line in (tmp_path / "all.log").read_text().splitlines()]
    assert names == ["all", "target-all", "each", "target-each", "target-after-each", "after-each", "target-after-all",
                     "after-all"]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        pytest.param("use_target: base", "use_target: bse", "no runner 'bse'", id="unknown target"),
        pytest.param("use_target: base", "provider: cli", "'provider': write this of the target in the runners file",
                     id="setting"),
        pytest.param("hooks:\n        before_all", "hooks:\n        befor_all",
                     "unknown workspace field 'befor_all', ignored; did you mean 'before_all'?", id="hook"),
        pytest.param("workspace:\n  hooks:", "x:\n  hooks:", "hooks of a target run in a workspace", id="no workspace"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_of_a_target_is_reported(tmp_path: Path, old: str, new: str, problem: str) -> None:
    project = a_project(tmp_path, SUITE.replace(old, new))

    assert problem in project("plan", "evals").text
