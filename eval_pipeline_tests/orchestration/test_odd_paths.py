"""Projects and data folders whose names have a meaning in addresses, patterns, SQL or the shell."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.sweeps.harmless_names import by_harmless_name
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

ODD = "ab#c%41 d'e\"f;ü日本&g=1[x]*$h"
RUNNERS = 'runners:\n  - {name: parrot, adapter: python, function: "parrot:say"}\n'
SUITE = "name: odd\nassertions: [{type: contains, value: hello}]\ntests:\n  - {id: c1, input: hi}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliProject:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    files = {
        "eval-pipeline.yaml": f"suites: ['{ODD.replace(chr(39), chr(39) * 2)}/*.yaml']\nrunners: 'r?u%n.yaml'\n",
        "r?u%n.yaml": RUNNERS,
        f"{ODD.replace('[x]*', '')}/s#?%.yaml": SUITE,
    }
    files["eval-pipeline.yaml"] = files["eval-pipeline.yaml"].replace("[x]*", "")
    return make_cli_project(tmp_path / ODD, files)


def test_a_project_with_an_odd_name_runs_and_shows_its_results(project: CliProject) -> None:
    data = f"da{ODD}"

    run = project("run", "--quiet", "--data", data)

    assert (run.code, run.err.count("Traceback")) == (0, 0)
    assert "hello? hi" in project("show", "odd/c1", "--data", data).out
    assert project("leaderboard", "--data", data).code == 0
    assert sorted(path.name for path in (project.root / data / "dagster" / "history").glob("*.db"))[-1] == "runs.db"
    with open_instance(project.root / data, project.root) as instance:
        assert len(instance.get_runs()) == 1


@pytest.mark.parametrize("name", ["what?", "back\\slash"])
def test_a_folder_that_duckdb_cannot_use_is_an_error_before_anything_runs(project: CliProject, name: str) -> None:
    run = project("run", "--quiet", "--data", name)

    assert run.code == 2
    assert "name another data folder (`data` in the project file, or --data)" in run.err
    assert "Traceback" not in run.err


def test_a_link_that_was_removed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "a?b" / "dagster"
    folder.mkdir(parents=True)
    link = by_harmless_name(folder)
    shutil.rmtree(link.parent)
    link.parent.mkdir(mode=0o700)
    link.with_suffix(f".{os.getpid()}").symlink_to("nowhere")  # of a killed process that had our id

    assert by_harmless_name(folder) == link
    assert link.resolve() == folder
    assert by_harmless_name(tmp_path) == tmp_path
