"""Token snapshots as verdicts: a case above its baseline has failed, in every table, count and report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance.public_verbs import CommandResult, command
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder

EXAMPLE = Path(__file__).parents[2] / "examples" / "skills"
SUITE = """
from eval_pipeline import Case, output

def answers(report, ctx):
    output.not_empty(report)

def names_it(report, ctx):
    output.includes(report, "no such word")

suite = [
    Case(id="find-skill", prompt="Find a skill.", check=answers),
    Case(id="gap", prompt="Find a gap.", check=names_it, expected_fail=True),
]
snapshots = {"tolerance": {"absolute": 10}}
"""
VERDICTS = "SELECT case_id, status, failure_class, failure_label, failure_origin FROM current_verdicts ORDER BY case_id"
ABOVE = ("failed", "snapshot", "Snapshot verification", "quality")
EXPECTED = ("expected-failed", "assertion", "Assertion failure", "quality")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """Two cases, one of which fails as expected, with recorded sessions of 1,240 tokens, after their first run."""
    root = tmp_path_factory.mktemp("snapshots") / "project"
    root.mkdir()
    (root / "cases.py").write_text(SUITE)
    (root / "eval-pipeline.yaml").write_text("suites: [cases.py]\n")
    folder = ProjectFolder(root)
    folder.write_runners({"name": "recorded", "adapter": "replay", "recording": "recording.jsonl"})
    shutil.copytree(EXAMPLE / "sessions", root / "sessions")
    session = json.loads((EXAMPLE / "with-skill.jsonl").read_text().splitlines()[0])
    rows = [json.dumps({**session, "case": case}) for case in ("find-skill", "gap")]
    (root / "recording.jsonl").write_text("\n".join(rows) + "\n")
    assert run(folder).code == 0
    return folder


@pytest.fixture(scope="module")
def above(template: ProjectFolder) -> tuple[ProjectFolder, CommandResult]:
    """The project after a second run, with baselines that both cases exceed; and that run."""
    root = template.root.with_name("above")
    shutil.copytree(template.root, root)
    folder = ProjectFolder(root)
    set_baselines(folder, find_skill=10, gap=10)
    return folder, run(folder)


@pytest.fixture
def project(above: tuple[ProjectFolder, CommandResult], tmp_path: Path) -> ProjectFolder:
    """A copy of the project whose cases are both above their baselines."""
    shutil.copytree(above[0].root, tmp_path / "project")
    return ProjectFolder(tmp_path / "project")


def run(project: ProjectFolder, *options: str) -> CommandResult:
    return command("run", "--project", project.root, "--quiet", "--json", *options)


def set_baselines(project: ProjectFolder, **values: float) -> None:
    file = project.root / "cases.snapshots.json"
    document: dict[str, Any] = json.loads(file.read_text())
    for case, value in values.items():
        document["entries"][f"{case.replace('_', '-')}::recorded"]["value"] = value
    file.write_text(json.dumps(document))


def test_a_case_above_its_baseline_has_failed_in_every_table_and_report(
    above: tuple[ProjectFolder, CommandResult],
) -> None:
    project, ended = above

    assert ended.code == 1
    assert project.ask(VERDICTS) == [("find-skill", *ABOVE), ("gap", *ABOVE)]
    (pair,) = ended.json["pairs"]
    assert (pair["reused"], pair["passed"], pair["failed"]) == (2, 0, 2)
    assert project.ask("SELECT passed, failed FROM sweep_pairs ORDER BY finished_at") == [(2, 0), (0, 2)]
    assert project.ask("SELECT failure_class, count, label FROM failure_classes") == [
        ("snapshot", 2, "Snapshot verification")
    ]
    (board,) = [row for row in ended.json["leaderboard"] if row["scope"] == "suite"]
    assert board["pass_rate"] == 0
    failed = ended.json["failed_cases"]["cases"]
    assert [(case["case_id"], case["label"]) for case in failed] == [
        ("find-skill", "Snapshot verification"), ("gap", "Snapshot verification"),
    ]  # fmt: skip
    assert "Snapshot mismatch for totalTokens" in failed[0]["reason"]
    assert project.ask("SELECT from_status, to_status, cause FROM verdict_causes ORDER BY case_id") == [
        ("passed", "failed", "token snapshot"), ("expected-failed", "failed", "token snapshot"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "baselines", "problem"),
    [
        ('{"metrik": "totalTokens"}', None, "other.py: snapshots.metrik: unknown field"),
        ('{"tolerance": {"absolute": 10}}', '{"version": 2}', "other.snapshots.json: expected version 1 with entries"),
        ('{"tolerance": {"absolute": 10}}', "{", "other.snapshots.json: is no file of snapshots"),
    ],
)
def test_baselines_that_cannot_be_used_leave_out_their_own_suite_alone(
    project: ProjectFolder, settings: str, baselines: str | None, problem: str
) -> None:
    (project.root / "eval-pipeline.yaml").write_text("suites: [cases.py, other.py]\n")
    (project.root / "other.py").write_text(f"{SUITE.partition('snapshots =')[0]}snapshots = {settings}\n")
    if baselines is not None:
        (project.root / "other.snapshots.json").write_text(baselines)
    set_baselines(project, find_skill=1240, gap=1240)

    ended, alone = run(project), run(project, str(project.root / "other.py"))

    assert (ended.code, alone.code) == (2, 2)
    assert [(pair["suite"], pair["passed"], pair["failed"]) for pair in ended.json["pairs"]] == [("cases", 2, 0)]
    (invalid,) = ended.json["invalid_cases"]
    assert problem in invalid and problem in alone.err


def test_wrong_settings_of_the_project_leave_out_the_suites_that_have_none_and_are_reported_once(
    project: ProjectFolder,
) -> None:
    (project.root / "eval-pipeline.yaml").write_text(
        "suites: [cases.py, one.py, two.py]\nsnapshots:\n  metric: totalTokens\n  tolerence: 3\n"
    )
    for name in ("one.py", "two.py"):
        (project.root / name).write_text(SUITE.partition("snapshots =")[0])
    set_baselines(project, find_skill=1240, gap=1240)

    ended = run(project)

    assert ended.code == 2
    assert [(pair["suite"], pair["passed"]) for pair in ended.json["pairs"]] == [("cases", 2)]
    (invalid,) = ended.json["invalid_cases"]
    assert "eval-pipeline.yaml:4: snapshots.tolerence: unknown field" in invalid


def test_an_unchanged_run_stores_no_verdict_again_and_fails_again(project: ProjectFolder) -> None:
    (before,) = project.ask("SELECT count(*) FROM verdicts")

    again = run(project)

    assert (again.code, project.ask("SELECT count(*) FROM verdicts")) == (1, [before])
    (pair,) = again.json["pairs"]
    assert (pair["reused"], pair["passed"], pair["failed"], pair["moved"]) == (2, 0, 2, 0)


@pytest.mark.parametrize("cure", ["update", "edit", "no snapshots"])
def test_what_was_decided_before_counts_again_when_the_tokens_are_within_the_baseline(
    project: ProjectFolder, cure: str
) -> None:
    if cure == "edit":
        set_baselines(project, find_skill=1240, gap=1240)
    if cure == "no snapshots":
        (project.root / "cases.py").write_text(SUITE.partition("snapshots =")[0])

    ended = run(project, *(["--update-snapshots"] if cure == "update" else []))

    (pair,) = ended.json["pairs"]
    assert (ended.code, pair["executed"], pair["passed"], pair["failed"]) == (0, 0, 2, 0)
    assert project.ask(VERDICTS) == [("find-skill", "passed", None, None, None), ("gap", *EXPECTED)]


def test_a_case_that_is_not_selected_keeps_its_verdict(project: ProjectFolder) -> None:
    set_baselines(project, find_skill=1240, gap=1240)

    ended = run(project, "--case", "gap")

    assert ended.code == 0
    assert project.ask(VERDICTS) == [("find-skill", *ABOVE), ("gap", *EXPECTED)]


def test_what_failed_for_its_tokens_is_executed_again_on_request(project: ProjectFolder) -> None:
    ended = run(project, "--refresh", "failed")

    (pair,) = ended.json["pairs"]
    assert (ended.code, pair["executed"], pair["failed"]) == (1, 2, 2)
