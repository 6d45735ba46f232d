"""`export --format agentv-4-42` and `agentv-replay`: what AgentV 4.42 writes itself, and reads."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project
from eval_pipeline_tests.formats.agentv.differential.agentv_command import agentv_command, agentv_rows

TARGETS = """\
targets:
  - name: default
    provider: cli
    command: cp answer.json {OUTPUT_FILE}
"""
ANSWER = {
    "output": [
        {"role": "assistant", "tool_calls": [{"tool": "search", "input": {"q": "x"}, "output": {"hits": 2}}]},
        {"role": "assistant", "content": "The answer: 4"},
    ],
    "token_usage": {"input": 9, "output": 4},
    "cost_usd": 0.5,
    "duration_ms": 120,
}
SUITE = """\
name: sums
tests:
  - {id: a, input: 2 + 2, metadata: {level: easy}, assertions: [{type: contains, value: "4"}]}
  - {id: b, input: 2 + 3, assertions: [{type: contains, value: "5"}, {type: icontains, value: answer}]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project whose suite was run."""
    files = {".agentv/targets.yaml": TARGETS, "answer.json": json.dumps(ANSWER), "sums.eval.yaml": SUITE}
    made = an_agentv_project(tmp_path_factory.mktemp("run"), files)
    assert made("run", "sums.eval.yaml", "--quiet").code == 1
    return made


def rows_of(folder: Path) -> list[dict[str, Any]]:
    rows = (json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines())
    return sorted(rows, key=lambda row: str(row["test_id"]))


def exported(project: CliProject, *options: str) -> Path:
    folder = project.root / f"out-{uuid.uuid4().hex[:8]}"
    ran = project("export", "--format", "agentv-4-42", "--output", folder.name, *options)
    assert ran.code == 0, ran.text
    return folder


def test_a_row_has_measures_answers_and_the_experiment(project: CliProject) -> None:
    folder = exported(project, "--experiment", "with_skills")

    row = rows_of(folder)[0]
    measured = ("token_usage", "cost_usd", "duration_ms", "experiment", "metadata", "artifact_dir")
    assert {name: row[name] for name in measured} == {
        "token_usage": {"input": 9, "output": 4}, "cost_usd": 0.5, "duration_ms": 120, "experiment": "with_skills",
        "metadata": {"level": "easy"}, "artifact_dir": "sums/a",
    }  # fmt: skip
    assert (folder / row["answer_path"]).read_text() == "The answer: 4"
    lines = [json.loads(line) for line in (folder / row["transcript_path"]).read_text().splitlines()]
    assert [(line["message_index"], line["role"]) for line in lines] == [
        (0, "user"),
        (1, "assistant"),
        (2, "assistant"),
    ]
    assert lines[1]["tool_calls"][0]["output"] == {"hits": 2}
    assert json.loads((folder / row["grading_path"]).read_text())["graders"][0]["name"] == "contains-4"
    assert json.loads((folder / "benchmark.json").read_text())["metadata"]["experiment"] == "with_skills"


def test_a_new_folder_lies_below_that_of_its_experiment(project: CliProject) -> None:
    assert project("export", "--format", "agentv-4-42").code == 0

    assert len(list((project.root / ".agentv/results/runs/default").glob("*/index.jsonl"))) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("agentv-4-42", "--experiment", "../x"), "--experiment: expected letters, digits, '.', '_' and '-', got"),
        (("junit", "--experiment", "x"), "--experiment: only these formats have experiments: agentv-4-42"),
    ],
    ids=["name", "format"],
)
def test_an_experiment_that_cannot_be_is_an_error(project: CliProject, options: tuple[str, ...], problem: str) -> None:
    ran = project("export", "--format", *options)

    assert (ran.code, problem in ran.text) == (2, True), ran.text


def test_recorded_answers_are_replayed(project: CliProject, tmp_path: Path) -> None:
    assert project("export", "--format", "agentv-replay", "--output", "fixtures.jsonl").code == 0

    replay = "targets:\n  - {name: default, provider: replay, fixtures: fixtures.jsonl, source_target: default}\n"
    fixtures = (project.root / "fixtures.jsonl").read_text()
    again = an_agentv_project(tmp_path, {"targets.yaml": replay, "fixtures.jsonl": fixtures, "sums.eval.yaml": SUITE})
    ran = again("run", "sums.eval.yaml", "--quiet")
    assert ran.code == 1, ran.text
    assert str(project.root) not in fixtures
    scores = [(row["test_id"], row["score"], row["cost_usd"]) for row in rows_of(exported(again))]
    assert scores == [(row["test_id"], row["score"], row["cost_usd"]) for row in rows_of(exported(project))]


@pytest.mark.slow
@pytest.mark.real_agentv
def test_agentv_reads_the_folder_and_the_fixtures(project: CliProject, tmp_path: Path) -> None:
    command = agentv_command()
    folder = exported(project)
    project("export", "--format", "agentv-replay", "--output", "fixtures.jsonl")

    validated = subprocess.run([command, "results", "validate", str(folder)], capture_output=True, text=True)
    assert "0 error(s)" in validated.stdout, validated.stdout + validated.stderr
    replay = "targets:\n  - {name: default, provider: replay, fixtures: fixtures.jsonl, source_target: default}\n"
    fixtures = (project.root / "fixtures.jsonl").read_text()
    an_agentv_project(
        tmp_path, {".agentv/targets.yaml": replay, ".agentv/fixtures.jsonl": fixtures, "fixtures.jsonl": fixtures,
                   "sums.eval.yaml": SUITE}
    )  # fmt: skip
    theirs = {row["test_id"]: row["score"] for row in agentv_rows(command, tmp_path, "sums.eval.yaml")}
    assert theirs == {row["test_id"]: row["score"] for row in rows_of(folder)}


TRIALS = """\
name: trials
execution: {{trials: {{count: 3, strategy: {strategy}}}}}
tests:
  - {{id: a, input: say it, assertions: [{{type: contains, value: red}}]}}
"""
COUNTING = """\
targets:
  - name: default
    provider: cli
    command: 'echo >> n; [ "$(wc -l < n)" -eq 2 ] && echo red > {OUTPUT_FILE} || echo blue > {OUTPUT_FILE}'
"""


@pytest.mark.parametrize(
    ("strategy", "status", "score"),
    [
        ("pass_at_k", "ok", 1.0),
        ("mean", "quality_failure", 1 / 3),
        ("confidence_interval", "quality_failure", 0.0),
        ("pass_all", "quality_failure", 0.0),
    ],
)
def test_a_test_has_one_row_with_the_common_score_of_its_repetitions(
    tmp_path: Path, strategy: str, status: str, score: float
) -> None:
    files = {".agentv/targets.yaml": COUNTING, "t.eval.yaml": TRIALS.format(strategy=strategy)}
    project = an_agentv_project(tmp_path, files)
    project("run", "t.eval.yaml", "--quiet", "--concurrency", "1")

    folder = exported(project)

    (row,) = rows_of(folder)
    assert (row["execution_status"], row["score"]) == (status, pytest.approx(score))
    assert row["scores"][0]["score"] == 1  # those of the best repetition
    assert [each["score"] for each in row["trials"]] == [0.0, 1.0, 0.0]
    assert (folder / row["answer_path"]).read_text().strip() == "red"
    assert all((folder / each["artifact_dir"] / "grading.json").is_file() for each in row["trials"])
    assert row["aggregation"]["strategy"] == strategy
