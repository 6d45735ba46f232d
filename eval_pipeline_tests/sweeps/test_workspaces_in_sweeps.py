"""Workspaces through a whole sweep: the target works in one, what it changed is known, graders see it as it was left,
also those that are added later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.session_folders import SESSIONS_VARIABLE
from eval_pipeline.sweeps.deletion import delete_stored, remove_orphans
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

AGENT = """\
import os, sys
who = sys.stdin.read().strip()
open("notes.txt", "a").write(who + "\\n")
open("made-" + who, "w").write(who)
print("worked in", sorted(os.listdir(".")))
"""
GRADER = """\
import json, pathlib, sys
seen = json.load(sys.stdin)
folder = pathlib.Path(seen["workspace_path"])
there = sorted(path.name for path in folder.iterdir())
details = {"there": there, "changes": seen["file_changes"]}
print(json.dumps({"score": 1.0 if WANTED in there else 0.0, "details": details}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    (made.root / "agent.py").write_text(AGENT)
    write_grader(made, "made-one")
    template = made.root / "suites" / "template"
    template.mkdir()
    (template / "notes.txt").write_text("begun\n")
    made.write_runners({"name": "echo", "adapter": "command", "command": ["python3", f"{made.root}/agent.py"]})
    return made


def write_grader(folder: ProjectFolder, expected: str) -> None:
    (folder.root / "suites" / "grade.py").write_text(GRADER.replace("WANTED", repr(expected)))


def write_suite(folder: ProjectFolder, *cases: str, **workspace: Any) -> None:
    tests = [{"id": case, "input": case, "assertions": [{"type": "code-grader", "command": ["python3", "grade.py"]}]}
             for case in cases]  # fmt: skip
    folder.write_suite(*tests, workspace={"template": "template", **workspace})


def changes(folder: ProjectFolder) -> dict[str, str]:
    return dict(folder.ask("SELECT case_id, file_changes FROM session_reports ORDER BY case_id"))


def test_the_target_works_in_a_copy_of_the_template_and_its_changes_are_known(folder: ProjectFolder) -> None:
    write_suite(folder, "one")

    counts = folder.sweep()

    assert counts.passed == 1
    assert "+one" in changes(folder)["one"]
    assert "made-one" in changes(folder)["one"]
    assert (folder.root / "suites" / "template" / "notes.txt").read_text() == "begun\n"
    assert folder.ask("SELECT final_output FROM session_reports") == [("worked in ['made-one', 'notes.txt']",)]


@pytest.mark.parametrize(
    ("isolation", "seen"),
    [
        pytest.param("per_test", "worked in ['made-two', 'notes.txt']", id="a workspace each"),
        pytest.param("shared", "worked in ['made-one', 'made-two', 'notes.txt']", id="one for all"),
    ],
)
def test_cases_have_workspaces_of_their_own_or_share_one(folder: ProjectFolder, isolation: str, seen: str) -> None:
    write_suite(folder, "one", "two", isolation=isolation, file_changes="case")

    folder.sweep_once()

    assert folder.ask("SELECT final_output FROM session_reports WHERE case_id = 'two'") == [(seen,)]
    assert "made-one" not in changes(folder)["two"]


def test_graders_look_before_the_workspace_is_tidied(folder: ProjectFolder) -> None:
    tidy = "import os, sys; os.remove(sys.argv[1] + '/made-one'); open('tidied', 'w')"
    write_suite(folder, "one", hooks={"after_each": {"command": ["python3", "-c", tidy, "{{workspace_path}}"]}})

    counts = folder.sweep()

    assert (folder.root / "suites" / "tidied").exists()
    assert counts.passed == 1


def test_a_grader_edited_later_sees_the_workspace_as_it_was_left(folder: ProjectFolder) -> None:
    write_suite(folder, "one")
    folder.sweep_once()
    write_grader(folder, "notes.txt")

    counts = folder.sweep()

    assert (counts.executed, counts.rescored, counts.passed) == (0, 1, 1)


def test_a_workspace_that_cannot_be_prepared_makes_the_case_an_error(folder: ProjectFolder) -> None:
    write_suite(folder, "one", hooks={"before_each": {"command": ["python3", "-c", "raise SystemExit('no disk')"]}})

    counts = folder.sweep()

    assert counts.errored == 1
    ((failure, error),) = folder.ask("SELECT failure_class, error FROM target_executions")
    assert failure == "workspace-bootstrap"
    assert "no disk" in error


@pytest.mark.parametrize("hook", ["before_each", "before_all"])
def test_a_failed_bootstrap_leaves_its_whole_output_and_its_folder(folder: ProjectFolder, hook: str) -> None:
    lines = "import sys; print('first line'); print('x' * 5_000); sys.exit('no disk')"
    command = ["python3", "-c", lines]
    write_suite(folder, "one", isolation="per_test", hooks={hook: {"command": command}})

    folder.sweep_once()

    ((stored,),) = folder.ask("SELECT workspace FROM target_executions")
    workspace = json.loads(stored)
    assert workspace["hooks"][hook].startswith("first line\nxxx")
    assert workspace["hooks"][hook].endswith("no disk\n")
    assert (Path(workspace["path"]) / "notes.txt").read_text() == "begun\n"


def test_a_failed_bootstrap_of_a_shared_workspace_names_the_same_folder_for_every_case(folder: ProjectFolder) -> None:
    command = ["python3", "-c", "raise SystemExit('no disk')"]
    write_suite(folder, "one", "two", isolation="shared", hooks={"before_all": {"command": command}})

    folder.sweep_once()

    rows = folder.ask("SELECT workspace->>'path', workspace->'hooks'->>'before_all' FROM target_executions")
    assert rows[0] == rows[1]
    assert Path(rows[0][0]).is_dir()
    assert rows[0][1] == "no disk\n"


def test_nothing_is_left_of_workspaces_whose_cases_passed(folder: ProjectFolder) -> None:
    write_suite(folder, "one")

    folder.sweep_once()

    left = [path.name for path in (folder.data / "workspaces").rglob("*") if path.is_file()]
    assert left == [".lock"]


def test_an_edited_template_makes_the_case_new(folder: ProjectFolder) -> None:
    write_suite(folder, "one")
    folder.sweep_once()
    (folder.root / "suites" / "template" / "more.txt").write_text("more")

    assert folder.sweep().executed == 1


LOOKS = """\
def looks(workspace, context):
    here = sorted(path.name for path in workspace.iterdir())
    return {"score": 1.0 if context["workspace_path"] == str(workspace) else 0.0, "reason": ", ".join(here)}
"""


def test_a_python_evaluator_alone_sees_the_workspace(folder: ProjectFolder) -> None:
    """Item 12: it saw one only when another evaluator of the case ran a program."""
    (folder.root / "suites" / "checks.py").write_text(LOOKS)
    alone = {"id": "one", "input": "one", "assertions": [{"type": "python", "function": "checks:looks"}]}
    folder.write_suite(alone, workspace={"template": "template"})

    counts = folder.sweep()

    assert counts.passed == 1
    assert folder.ask("SELECT reason FROM evaluator_scores") == [("made-one, notes.txt",)]


def test_a_python_evaluator_added_later_sees_the_workspace_as_it_was_left(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "checks.py").write_text(LOOKS)
    case: dict[str, Any] = {"id": "one", "input": "one", "assertions": [{"type": "contains", "value": "worked"}]}
    folder.write_suite(case, workspace={"template": "template"})
    folder.sweep_once()
    case["assertions"].append({"type": "python", "function": "checks:looks"})
    folder.write_suite(case, workspace={"template": "template"})

    counts = folder.sweep()

    assert (counts.executed, counts.rescored, counts.passed) == (0, 1, 1)
    assert ("made-one, notes.txt",) in folder.ask("SELECT reason FROM evaluator_scores")


def test_the_python_evaluator_of_a_turn_sees_the_workspace_while_the_conversation_is_held(
    folder: ProjectFolder,
) -> None:
    (folder.root / "suites" / "checks.py").write_text("def looks(workspace):\n    return workspace is not None\n")
    looks = [{"type": "python", "function": "checks:looks"}]
    turns = [{"input": f"turn {number}", "assertions": looks} for number in (1, 2)]
    case = {"id": "one", "mode": "conversation", "on_turn_failure": "stop", "turns": turns, "input": "hello"}
    folder.write_suite(case, workspace={"template": "template"})

    counts = folder.sweep()

    assert counts.passed == 1
    ((payload,),) = folder.ask("SELECT raw FROM target_executions")
    assert str(payload).count('"format":"command"') == 2


WALKS_UP = """\
import os, pathlib, sys
sys.stdin.read()
here = pathlib.Path.cwd()
names = [str(here)]
for above in here.parents:
    for path in above.iterdir() if above != pathlib.Path("/") and os.access(above, os.R_OK) else ():
        names.append(path.name)
        if path.is_file() and "CANARY" in path.read_text("utf-8", "replace"):
            print("found in", path)
open("seen", "w").write("\\n".join(names))
print("looked")
"""


@pytest.mark.parametrize("isolation", ["per_test", "shared"])
def test_a_target_that_walks_up_from_its_folder_finds_no_suite_and_no_project(
    folder: ProjectFolder, isolation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SESSIONS_VARIABLE, str(tmp_path / "elsewhere"))
    (tmp_path / "elsewhere").mkdir()
    (folder.root / "agent.py").write_text(WALKS_UP)
    (folder.root / "CLAUDE.md").write_text("CANARY of the project")
    case: dict[str, Any] = {"id": "one", "input": "one", "assertions": [{"type": "contains", "value": "CANARY"}]}
    folder.write_suite(case, workspace={"template": "template", "isolation": isolation})

    folder.sweep()

    assert folder.ask("SELECT final_output FROM session_reports") == [("looked",)]
    ((path,),) = folder.ask("SELECT workspace->>'path' FROM target_executions")
    kept = Path(path)
    assert kept.is_relative_to(folder.data / "workspaces")
    own, *beside = (kept / "seen").read_text().splitlines()
    assert not any(word in own.removeprefix(str(tmp_path)) for word in ("sums", "echo", "one", "project", "eval"))
    assert not any(word in name for word in ("sums", "echo") for name in beside)
    assert [each.name for each in (tmp_path / "elsewhere").rglob("*") if each.is_file()] == []


def test_kept_workspaces_are_deleted_with_their_sweep(folder: ProjectFolder) -> None:
    case: dict[str, Any] = {"id": "one", "input": "one", "assertions": [{"type": "contains", "value": "nothing"}]}
    folder.write_suite(case, workspace={"template": "template"})
    folder.sweep_once()
    ((path, sweep),) = folder.ask("SELECT workspace->>'path', sweep_id FROM target_executions")
    store = folder.session().store
    assert (Path(path) / "made-one").read_text() == "one"

    with store.exclusive():
        untouched = remove_orphans(store)
        delete_stored(store, "sweep", [sweep], dry_run=False)

    assert untouched.files == 0
    assert not Path(path).exists()
