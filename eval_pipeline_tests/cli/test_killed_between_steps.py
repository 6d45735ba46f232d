"""A run that is killed at a named point after its answers are stored: the next one summarizes, ranks and publishes,
and no Dagster run stays unfinished."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
from importlib import import_module

module, _, name = sys.argv[1].partition(":")
owner = import_module(module)
*path, last = name.split(".")
for part in path:
    owner = getattr(owner, part)
original, planted = getattr(owner, last), sys.argv[2]

def kill(*args, **kwargs):
    if planted == "after":
        original(*args, **kwargs)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, last, kill)
from eval_pipeline.cli.main import main
main(["run", "--quiet"])
"""
POINTS = [
    ("before", "eval_pipeline.sweeps.storing:_keep_reused"),
    ("before", "eval_pipeline.sweeps.storing:update_failure_classes"),
    ("after", "eval_pipeline.sweeps.storing:_store_alone"),
    ("before", "eval_pipeline.orchestration.reporter:PairReporter.pairs_finished"),
    ("before", "eval_pipeline.sweeps.sweep_store:SweepStore.end"),
    ("after", "eval_pipeline.sweeps.sweep_store:SweepStore.end"),
    ("before", "eval_pipeline.warehouse.queries:append_standings"),
]
SUITE = """\
name: greetings
execution: {targets: [parrot]}
assertions: [{name: polite, type: icontains, value: hello}]
tests:
  - {id: ann, input: Ann, criteria: a greeting}
  - {id: bob, input: Bob, criteria: a greeting}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose board says that everything passed; its runner is about to be rude."""
    project = make_cli_project(tmp_path_factory.mktemp("swept"), {"suites/greetings.yaml": SUITE})
    (project.root / "suites" / "more" / "sums.jsonl").unlink()
    assert project("run", "--quiet").code == 0
    project.write("parrot.py", "def say(prompt):\n    return f'go away {prompt}'\n")
    project.edit("runners.yaml", 'function: "parrot:say"', 'function: "parrot:say", arguments: {}, concurrency: 1')
    return project.root


@pytest.fixture
def project(swept: Path, tmp_path: Path) -> CliProject:
    shutil.copytree(swept, tmp_path / "project")
    return CliProject(tmp_path / "project")


@pytest.mark.parametrize(("planted", "point"), POINTS, ids=[f"{planted} {point}" for planted, point in POINTS])
def test_what_a_killed_run_stored_is_summarized_and_ranked_by_the_next_one(
    project: CliProject, planted: str, point: str
) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, point, planted], cwd=project.root, check=False)

    project("run", "--quiet")
    again = project("run", "--json").document

    assert killed.returncode == -signal.SIGKILL
    assert project.ask("SELECT passed, failed FROM leaderboard") == [(0, 2)]
    assert project.ask("SELECT count FROM failure_classes WHERE suite = 'greetings'") == [(2,)]
    assert project.ask("SELECT count(*) FROM unranked_pairs") == [(0,)]
    assert [pair["recovered"] for pair in again["pairs"]] == [0]
    with open_instance(project.root / "data") as instance:
        assert {run.status.value for run in instance.get_runs()} == {"SUCCESS", "FAILURE"}
