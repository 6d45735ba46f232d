"""Hidden tests: laid over a copy of the workspace, run there, and read by exit code or JUnit XML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.scores.model import Score
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.scores.fake_grader import graded
from eval_pipeline_tests.scores.single_scores import a_report

JUNIT = """\
<testsuites><testsuite name="s">
<testcase classname="tests.test_app" name="test_old"/>
<testcase classname="tests.test_app" name="test_new[a]">{failure}</testcase>
<testcase classname="tests.test_app" name="test_other"><skipped/></testcase>
</testsuite></testsuites>
"""
CHECK = f"""\
if grep -q fixed app.txt; then f=''; else f='<failure message="app is not fixed"/>'; fi
cat > results.xml <<END
{JUNIT.replace("{failure}", "$f")}END
ls > seen-by-tests
"""
PATCH = """\
--- a/app.txt
+++ b/app.txt
@@ -1 +1 @@
-broken
+fixed
"""
RUNNERS = """\
runners:
  - {name: fixer, adapter: command, command: [sh, -c, "find . ..; echo fixed > app.txt"]}
"""
RUN = {"command": ["sh", "check.sh"], "junit": "results.xml"}
BY_JUNIT = {"type": "tests", "name": "hidden", **RUN}


def a_project(root: Path, *, evaluator: Any = None, **case: Any) -> CliProject:
    project = CliProject(root)
    project.write("eval-pipeline.yaml", "suites: [suites]\n")
    project.write("runners.yaml", RUNNERS)
    project.write("suites/template/app.txt", "broken\n")
    project.write("suites/hidden/check.sh", CHECK)
    project.write("suites/fix.patch", PATCH)
    test = {
        "id": "c1",
        "input": "Fix it.",
        "assertions": [{"files": "hidden", **BY_JUNIT, **(evaluator or {})}],
        **case,
    }
    suite = {"workspace": {"template": "template", "isolation": "per_test"}, "tests": [test]}
    project.write("suites/apps.json", json.dumps(suite))
    return project


def hidden_score(folder: Path, app: str = "fixed", **given: Any) -> Score:
    """The score of a workspace whose app has this text."""
    workspace = folder / "workspace"
    for path, text in {workspace / "app.txt": app, folder / "hidden" / "check.sh": CHECK}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    spec = an_evaluator("tests", **{"files": "hidden", **RUN, **given})
    return graded(spec, a_report("done"), folder=folder, workspace=workspace)


def test_results_that_the_target_wrote_are_not_read(tmp_path: Path) -> None:
    forged = tmp_path / "workspace" / "results.xml"
    forged.parent.mkdir()
    forged.write_text(JUNIT.replace("{failure}", ""))

    score = hidden_score(tmp_path, command=["sh", "-c", "exit 1"])

    assert score.value is None
    assert "the tests wrote no 'results.xml'" in score.reason


def test_the_share_of_tests_that_pass_is_the_score(tmp_path: Path) -> None:
    fixed, idle = hidden_score(tmp_path), hidden_score(tmp_path, "broken")

    assert (fixed.value, fixed.reason) == (1.0, "2 of 2 tests pass")
    assert (idle.value, idle.reason) == (0.5, "1 of 2 tests pass; not: tests.test_app.test_new[a]")
    assert [finding.evidence for finding in idle.findings if not finding.passed] == ["app is not fixed"]


def test_named_tests_count_and_one_that_did_not_run_has_failed(tmp_path: Path) -> None:
    names: dict[str, Any] = {
        "fail_to_pass": ["tests/test_app.py::test_new"],
        "pass_to_pass": ["test_old", "test_gone", "test_other"],
    }

    score = hidden_score(tmp_path, **names)

    assert (score.value, score.reason) == (0.5, "2 of 4 tests pass; not: test_gone (did not run), test_other")
    assert (score.details["fail_to_pass"], score.details["pass_to_pass"]) == (1.0, 1 / 3)


@pytest.mark.parametrize(("app", "value"), [("fixed", 1.0), ("broken", 0.0)])
def test_without_a_junit_file_the_exit_code_decides(tmp_path: Path, app: str, value: float) -> None:
    assert hidden_score(tmp_path, app, command="grep -q fixed app.txt", junit=None).value == value


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"junit": "other.xml"}, "wrote no 'other.xml'"),
        ({"command": "cp app.txt results.xml"}, "cannot be read: it is no XML"),
        ({"command": ["sleep", "9"], "timeout_s": 0.1}, "took longer than 0.1 s"),
        ({"command": ["no-such-program"]}, "cannot be started"),
        ({"command": "echo '<testsuite/>' > results.xml"}, "has no test that ran"),
        ({"command": "echo '<!DOCTYPE a><testsuite/>' > results.xml"}, "declares a document type"),
    ],
    ids=["no file", "no xml", "too long", "no program", "no test", "entities"],
)
def test_tests_that_tell_nothing_leave_the_case_ungraded(tmp_path: Path, given: dict[str, Any], reason: str) -> None:
    score, failed = hidden_score(tmp_path, **given), hidden_score(tmp_path, **given, on_error="fail")

    assert score.value is None
    assert reason in score.reason
    assert failed.value == 0.0


def test_tests_leave_the_workspace_as_it_is(tmp_path: Path) -> None:
    hidden_score(tmp_path)

    assert [path.name for path in (tmp_path / "workspace").iterdir()] == ["app.txt"]


def test_tests_get_no_secret_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_PASSWORD", "s3cret-of-the-team")
    monkeypatch.setenv("BUILD_NUMBER", "4711")

    score = hidden_score(tmp_path, command="env | grep -E 'TEAM|BUILD' >&2; exit 1", junit=None, pass_env=["BUILD_*"])

    assert score.findings[0].evidence == "BUILD_NUMBER=4711"


def test_edited_tests_give_another_score_key(tmp_path: Path) -> None:
    before = hidden_score(tmp_path).spec_key
    (tmp_path / "hidden" / "more.txt").write_text("")

    assert hidden_score(tmp_path).spec_key != before


@pytest.mark.slow
def test_the_target_sees_neither_tests_nor_solution(tmp_path: Path) -> None:
    project = a_project(tmp_path, solution={"patch": "fix.patch"})

    answer = project("run", "--runner", "fixer", "--json")

    ((looked,),) = project.ask("SELECT final_output FROM session_reports")
    assert answer.counts["passed"] == 1
    assert "app.txt" in looked
    assert not any(name in looked for name in ("check.sh", "fix.patch", "apps.json"))


def oracle_findings(project: CliProject) -> list[str]:
    return [finding["message"] for finding in project("validate", "--oracle", "--json").document]


@pytest.mark.parametrize(
    "solution",
    [{"patch": "fix.patch"}, {"patch": PATCH}, {"files": {"app.txt": "solved/app.txt"}}, {"files": "solved"},
     {"command": "echo fixed > app.txt"}],
    ids=["patch file", "patch", "file", "folder", "command"],
)  # fmt: skip
def test_a_case_that_its_solution_solves_is_valid(tmp_path: Path, solution: dict[str, Any]) -> None:
    project = a_project(tmp_path, evaluator={"fail_to_pass": ["test_new"]}, solution=solution)
    project.write("suites/solved/app.txt", "fixed\n")

    assert oracle_findings(project) == []


def test_a_case_that_nothing_solves_or_everything_is_found(tmp_path: Path) -> None:
    unsolved = a_project(tmp_path / "one", evaluator={"fail_to_pass": ["test_new"]}, solution={"command": "true"})
    easy = a_project(tmp_path / "two", evaluator={"fail_to_pass": ["test_old"]}, solution={"patch": "fix.patch"})
    broken = a_project(
        tmp_path / "three",
        evaluator={"fail_to_pass": ["test_new"]},
        solution={"patch": PATCH.replace("-broken", "-other")},
    )

    assert "its solution does not solve it" in oracle_findings(unsolved)[0]
    assert oracle_findings(easy) == ["it is solved by doing nothing"]
    assert "the solution's patch ended with" in oracle_findings(broken)[0]
    assert unsolved("validate", "--oracle").code == 2
    assert not (tmp_path / "one" / "data").exists()


def test_a_case_without_solution_is_a_warning(tmp_path: Path) -> None:
    answer = a_project(tmp_path / "one")("validate", "--oracle")
    easy = a_project(tmp_path / "two", evaluator={"fail_to_pass": ["test_old"]})("validate", "--oracle")

    assert (answer.code, easy.code) == (0, 0)
    assert "whether it can be solved is not checked: the case has no solution" in answer.text
    assert "solved by doing nothing" not in answer.text
    assert "it is solved by doing nothing" in easy.text


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ({"solution": {"patch": "none.patch"}}, "no file 'none.patch'"),
        ({"solution": {"pach": "fix.patch"}}, "did you mean 'patch'?"),
        ({"solution": {}}, "expected a patch, files or a command"),
        ({"solution": {"files": {"../out": "fix.patch"}}}, "no path inside a workspace"),
        ({"assertions": [{**BY_JUNIT, "files": "nowhere"}]}, "no file or folder 'nowhere'"),
        ({"assertions": [{"type": "tests", "command": "true", "fail_to_pass": ["a"]}]}, "set junit to its path"),
    ],
    ids=["no patch", "near name", "empty", "outside", "no tests", "no junit"],
)
def test_what_cannot_be_used_is_refused_before_anything_runs(tmp_path: Path, case: Any, problem: str) -> None:
    answer = a_project(tmp_path, **case)("validate")

    assert answer.code == 2
    assert problem in answer.text
