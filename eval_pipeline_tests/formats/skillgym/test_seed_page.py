"""The page's own examples, in Python word for word, run against recorded sessions: they get the page's statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.sweeps.deletion import delete_stored, remove_orphans
from eval_pipeline_tests.conformance.public_verbs import command
from eval_pipeline_tests.formats.skillgym.conftest import HEAD
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

SUITE = r"""
import re

def always_passes(report, ctx):
    assert re.search(r"skillgym ready", ctx.final_output())

def nothing(report, ctx):
    pass

def find_skills_expo(report, ctx):
    skills.has(report, "find-skills")
    commands.includes(report, "npx skills find")
    assert re.search(r"upgrading-expo", report.final_output, re.IGNORECASE)

def cursor_alias(result):
    if "wrong Cursor CLI alias" in result.error.message:
        return {"id": "wrong-cli-alias", "label": "Wrong CLI alias"}

def cursor_alias_check(report, ctx):
    with classify({"id": "wrong-cli-alias", "label": "Wrong CLI alias"}):
        assert not re.search(r"\bcursr\s+agent\b", ctx.final_output(), re.IGNORECASE), (
            "wrong Cursor CLI alias in final output")

def known_missing_skill_selection(report, ctx):
    skills.has(report, "required-skill")

def context_helpers(report, ctx):
    assert len(ctx.commands()) > 0
    assert re.search(r"ready", ctx.final_output())

cases = [
    Case(id="always-passes", prompt="Say only: skillgym ready", check=always_passes),
    Case(id="login-smoke", tags=["smoke", "auth"], prompt="Verify the login screen behavior.", check=nothing),
    Case(id="find-skills-expo", prompt="Find a skill for upgrading Expo SDK and tell me how to install it.",
         check=find_skills_expo),
    Case(id="cursor-alias-check", prompt='Say you would run: cursr agent "open README.md".',
         classify_failure=cursor_alias, check=cursor_alias_check),
    Case(id="known-missing-skill-selection", prompt="Use the correct installed skill before editing files.",
         expected_fail=True, check=known_missing_skill_selection),
    Case(id="the-agent-improved", prompt="Use the correct installed skill before editing files.",
         expected_fail=True, check=nothing),
    Case(id="context", prompt="Use the helpers.", check=context_helpers),
]
"""
STATUSES = {
    "always-passes": ("passed", None),
    "login-smoke": ("passed", None),
    "find-skills-expo": ("passed", None),
    "cursor-alias-check": ("failed", "wrong-cli-alias"),
    "known-missing-skill-selection": ("expected-failed", "assertion"),
    "the-agent-improved": ("unexpected-passed", "unexpected-passed"),
    "context": ("passed", None),
}
OUTPUTS = {
    "always-passes": "skillgym ready",
    "find-skills-expo": "npx skills add upgrading-expo",
    "cursor-alias-check": 'I would run: cursr agent "open README.md".',
    "context": "ready",
}
CALLS = [("Skill", {"skill": "find-skills"}), ("Bash", {"command": "npx skills find expo"})]


def session(case: str) -> str:
    """A session as Claude Code prints it: it uses the skill, runs a command and answers."""
    calls = CALLS if case in ("find-skills-expo", "context") else []
    records: list[object] = [{"type": "system", "subtype": "init", "session_id": case, "cwd": "/work"}]
    for number, (tool, arguments) in enumerate(calls):
        use = {"type": "tool_use", "id": f"t{number}", "name": tool, "input": arguments}
        records.append({"type": "assistant", "message": {"id": f"m{number}", "content": [use]}})
        done = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "ok"}
        records.append({"type": "user", "message": {"role": "user", "content": [done]}})
    usage = {"input_tokens": 90, "output_tokens": 10}
    answer = {"type": "result", "subtype": "success", "is_error": False, "session_id": case, "usage": usage}
    records.append({**answer, "result": OUTPUTS.get(case, "done")})
    return "".join(json.dumps(record) + "\n" for record in records)


@pytest.fixture(scope="module", params=["cases", "{case.id: case for case in cases}"], ids=["list", "mapping"])
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    folder = make_project(tmp_path_factory.mktemp("page"))
    root: Path = folder.root
    (root / "suites" / "sums.yaml").unlink()
    (root / "suites" / "page.py").write_text(f"{HEAD}{SUITE}\nsuite = {request.param}\n")
    folder.write_runners({"name": "recorded", "adapter": "replay", "recording": "recording.jsonl"})
    rows = []
    for case in STATUSES:
        (root / f"{case}.jsonl").write_text(session(case))
        row = {"case": case, "format": "claude-code", "stdout_file": f"{case}.jsonl", "exit_code": 0}
        rows.append(json.dumps(row))
    (root / "recording.jsonl").write_text("\n".join(rows) + "\n")
    return folder


def test_the_examples_get_the_statuses_of_the_page(page: ProjectFolder) -> None:
    ended = command("run", "--project", page.root, "--quiet")

    found = page.ask("SELECT case_id, status, failure_class FROM current_verdicts")
    assert {case: (status, class_) for case, status, class_ in found} == STATUSES
    assert ended.code == 1, "an unexpected pass fails the run"
    assert "the-agent-improved" in ended.out + ended.err


@pytest.mark.parametrize("tags", [("smoke",), ("smoke", "auth"), ("smoke,auth",)], ids=" ".join)
def test_the_commands_with_tags_run_the_case_of_the_page(page: ProjectFolder, tags: tuple[str, ...]) -> None:
    options = [word for tag in tags for word in ("--tag", tag)]

    ended = command("run", "--project", page.root, "--quiet", "--json", *options)

    (pair,) = ended.json["pairs"]
    assert (ended.code, pair["planned"], pair["passed"]) == (0, 1, 1)


def test_tags_of_the_project_file_hold_until_the_command_line_names_others(page: ProjectFolder) -> None:
    file = page.root / "eval-pipeline.yaml"
    before = file.read_text()
    file.write_text(json.dumps({**json.loads(before), "defaults": {"tags": ["smoke"]}}))

    ended = command("run", "--project", page.root, "--quiet", "--json")
    other = command("run", "--project", page.root, "--quiet", "--tag", "none")

    file.write_text(before)
    assert [pair["planned"] for pair in ended.json["pairs"]] == [1]
    assert (other.code, "no case matches" in other.err) == (2, True)


WORKSPACE = """
workspace = {
    "mode": "isolated",
    "templateDir": "./fixtures/base-app",
    "bootstrap": {"command": "sh", "args": ["./scripts/bootstrap-workspace.sh", "--seed", "demo"]},
}

def prepared(report, ctx):
    assert "seed demo in workspace-check for shell" in ctx.final_output()
    assert ".hidden app.txt" in ctx.final_output()

suite = [Case(id="workspace-check", prompt="Describe the prepared workspace.", check=prepared)]
"""
BOOTSTRAP = """
echo "seed $2 in $SKILLGYM_CASE_ID for $SKILLGYM_RUNNER_ID" > "$SKILLGYM_WORKSPACE/seed.txt"
echo installed > "$SKILLGYM_ARTIFACT_DIR/install.log"; echo once > "$SKILLGYM_OUTPUT_DIR/versions.txt"
"""


def test_the_workspace_of_the_page_is_copied_and_prepared_for_its_case(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    suites = folder.root / "suites"
    (suites / "sums.yaml").unlink()
    (suites / "fixtures" / "base-app").mkdir(parents=True)
    (suites / "scripts").mkdir()
    for name in (".hidden", "app.txt"):
        (suites / "fixtures" / "base-app" / name).write_text(name)
    (suites / "scripts" / "bootstrap-workspace.sh").write_text(BOOTSTRAP)
    (suites / "page.py").write_text(f"{HEAD}{WORKSPACE}")
    program = "cat seed.txt; ls -A | tr '\\n' ' '"
    folder.write_runners({"name": "shell", "adapter": "command", "command": ["sh", "-c", program]})

    ended = command("run", "--project", folder.root, "--quiet", "--json")

    assert ended.code == 0, ended.out
    left = folder.root / "data" / "workspaces"
    files = {path.name: path.read_text() for path in left.rglob("*") if path.is_file() and ".artifacts" in path.parts}
    assert files == {"install.log": "installed\n", "versions.txt": "once\n"}
    assert [path.parent.name for path in left.rglob("install.log")] == ["workspace-check-1"]
    ((sweep,),) = folder.ask("SELECT DISTINCT sweep_id FROM target_executions")
    store = folder.session().store
    with store.exclusive():
        assert remove_orphans(store).files == 0, "what a bootstrap left belongs to its sweep"
        delete_stored(store, "sweep", [sweep], dry_run=False)
    assert not list(left.rglob("install.log"))
