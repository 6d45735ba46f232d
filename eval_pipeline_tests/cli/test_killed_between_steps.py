"""A run that is killed at a named point after its answers are stored: the next one summarizes, ranks and publishes,
and no Dagster run stays unfinished."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.forks import run_python
from eval_pipeline_tests.thoroughness import part_or_all

pytestmark = pytest.mark.slow

KILLED = """
import os, signal, sys
from importlib import import_module
from eval_pipeline.cli.main import main
import eval_pipeline.cli.run, eval_pipeline.orchestration.run

def kill_at(point, planted):
    module, _, name = point.partition(":")
    owner = import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original = getattr(owner, last)

    def kill(*args, **kwargs):
        if planted == "after":
            original(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, last, kill)

for folder, planted, point in zip(*[iter(sys.argv[1:])] * 3, strict=True):
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        kill_at(point, planted)
        try:
            main(["run", "--quiet"])
        finally:
            os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs each project in a child that is killed at a point. Its arguments: project, before or after, point; and so on."""
ALL_POINTS = [
    ("before", "eval_pipeline.sweeps.storing:update_failure_classes"),
    ("before", "eval_pipeline.orchestration.reporter:PairReporter.pairs_finished"),
    ("after", "eval_pipeline.sweeps.sweep_store:SweepStore.end"),
    ("before", "eval_pipeline.sweeps.storing:_keep_reused"),
    ("after", "eval_pipeline.sweeps.storing:_store_alone"),
    ("before", "eval_pipeline.sweeps.sweep_store:SweepStore.end"),
    ("before", "eval_pipeline.warehouse.queries:append_standings"),
]
"""Where a run is killed; by default the first four, which are the furthest apart, are tried."""
POINTS = part_or_all(ALL_POINTS[:4], ALL_POINTS)
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


@pytest.fixture(scope="module")
def killed(swept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[CliProject, int]]:
    """A copy of the project for each point, whose run was killed there, and the exit code of that run."""
    projects = {named: CliProject(tmp_path_factory.mktemp("killed") / "project") for named in POINTS}
    for project in projects.values():
        shutil.copytree(swept, project.root)
    named = [text for (planted, point), project in projects.items() for text in (str(project.root), planted, point)]
    runs = run_python(KILLED, *named)
    codes = [int(line) for line in runs.stdout.splitlines()]
    return {named: (project, code) for (named, project), code in zip(projects.items(), codes, strict=True)}


@pytest.mark.parametrize("named", POINTS, ids=[f"{planted} {point}" for planted, point in POINTS])
def test_what_a_killed_run_stored_is_summarized_and_ranked_by_the_next_one(
    killed: dict[tuple[str, str], tuple[CliProject, int]], named: tuple[str, str]
) -> None:
    project, code = killed[named]

    project("run", "--quiet")
    again = project("run", "--json").document

    assert code == -signal.SIGKILL
    assert project.ask("SELECT passed, failed FROM leaderboard") == [(0, 2)]
    assert project.ask("SELECT count FROM failure_classes WHERE suite = 'greetings'") == [(2,)]
    assert project.ask("SELECT count(*) FROM unranked_pairs") == [(0,)]
    assert [pair["recovered"] for pair in again["pairs"]] == [0]
    with open_instance(project.root / "data") as instance:
        assert {run.status.value for run in instance.get_runs()} == {"SUCCESS", "FAILURE"}
