"""`eval-pipeline init`: each kind of project runs at once, and nothing that exists is overwritten."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.sweeps.new_projects import PROJECT_KINDS
from eval_pipeline_tests.cli.sample_project import Answer, CliProject

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
ENVIRONMENT_OF_OTHERS = ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def environment_of_a_new_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENVIRONMENT_OF_OTHERS:
        monkeypatch.delenv(name, raising=False)


def standings(run: Answer) -> dict[str, tuple[int, int]]:
    """Passed and planned cases by runner."""
    rows: list[dict[str, Any]] = run.document["leaderboard"]
    return {row["runner"]: (row["passed"], row["planned"]) for row in rows if row["scope"] == "suite"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("chat", {"canned": (3, 3)}),
        ("program", {"rules-v1": (2, 3), "rules-v2": (3, 3)}),
        ("agent", {"rehearsal": (2, 2)}),
    ],
)
def test_a_new_project_runs_at_once(tmp_path: Path, kind: str, expected: dict[str, tuple[int, int]]) -> None:
    written = CliProject(tmp_path)("init", "new", "--kind", kind)
    checked = CliProject(tmp_path / "new")("validate", "--max-warnings", "0")
    run = CliProject(tmp_path / "new")("run", "--json", "--quiet")

    assert written.code == 0, written.err
    assert "next:\n  cd new\n  eval-pipeline run" in written.err
    assert checked.code == 0, checked.text
    assert run.code == 0, run.err
    assert standings(run) == expected


def test_a_folder_of_evals_becomes_a_project_where_it_is(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "agentv", tmp_path / "evals-of-mine")
    (tmp_path / "evals-of-mine" / "eval-pipeline.yaml").unlink()

    written = CliProject(tmp_path)("init", "--kind", "agentv", "--from", "evals-of-mine")
    run = CliProject(tmp_path)("run", "--json", "--quiet", "evals-of-mine/evals/support-desk.eval.yaml")

    assert written.code == 0, written.err
    assert "runners: evals-of-mine/.agentv/targets.yaml" in (tmp_path / "eval-pipeline.yaml").read_text()
    assert standings(run)["support-bot"] == (3, 3)


def test_folders_that_the_evals_project_leaves_out_are_left_out(tmp_path: Path) -> None:
    project = CliProject(tmp_path)
    for folder in ("evals", "drafts"):
        project.write(
            f"{folder}/{folder}.eval.yaml", "tests: [{id: a, input: x, assertions: [{type: contains, value: x}]}]"
        )
    project.write(".agentv/targets.yaml", "targets: [{name: canned, provider: mock, response: x}]")
    project.write(".agentv/config.yaml", "eval_patterns: ['evals/**/*.eval.yaml', 'nowhere/*.yaml']")

    written = project("init", "--kind", "agentv")

    assert written.code == 0, written.err
    assert 'suites: ["evals/**/*.eval.yaml"]' in (tmp_path / "eval-pipeline.yaml").read_text()
    assert {row["suite"] for row in project("plan", "--json").document} == {"evals"}


def test_a_folder_without_targets_cannot_be_imported(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("init", "--kind", "agentv")

    assert answer.code == 2
    assert "no targets in" in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_eval_files_cannot_be_imported(tmp_path: Path) -> None:
    cli_project = CliProject(tmp_path)
    cli_project.write(".agentv/targets.yaml", "targets: []\n")

    answer = cli_project("init", "--kind", "agentv")

    assert answer.code == 2
    assert "no eval files" in answer.err


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    cli_project = CliProject(tmp_path)
    cli_project.write("runners.yaml", "mine\n")

    answer = cli_project("init", "--kind", "program")

    assert answer.code == 2
    assert "nothing was written" in answer.err
    assert "runners.yaml exist already" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["runners.yaml"]


def test_without_a_terminal_the_kinds_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)

    answer = CliProject(tmp_path)("init")

    assert answer.code == 2
    assert all(name in answer.err for name in PROJECT_KINDS.names())
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_the_kind_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.prompt", lambda *arguments, **options: "program")

    answer = CliProject(tmp_path)("init")

    assert answer.code == 0
    assert (tmp_path / "assistant.py").is_file()


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("init", "--kind", "chatt")

    assert answer.code == 2
    assert "did you mean 'chat'?" in answer.err


def test_only_a_kind_that_imports_takes_a_folder(tmp_path: Path) -> None:
    answer = CliProject(tmp_path)("init", "--kind", "chat", "--from", ".")

    assert answer.code == 2
    assert "imports none" in answer.err
