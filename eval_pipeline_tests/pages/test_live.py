"""A sweep that is under way, as its process reports it and as the page shows it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.processes import parse_mark, this_process
from eval_pipeline.sweeps import live_progress
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.forks import run_python
from eval_pipeline_tests.orchestration.browser import Browser, See
from eval_pipeline_tests.pages.sample_page import Served, served_page

WATCHING = """
import json, pathlib
DATA = pathlib.Path({data!r})
def say(prompt):
    with open(DATA.parent / "seen.jsonl", "a") as file:
        file.write((DATA / "progress.json").read_text() + "\\n")
    return "no"
"""

PRINT_MARK = "from eval_pipeline.processes import this_process; print(this_process())"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project whose runner wrote down what was reported while it ran."""
    project = make_cli_project(tmp_path_factory.mktemp("watched"))
    (project.root / "parrot.py").write_text(WATCHING.format(data=str(project.root / "data")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_progress, "EVERY_S", 0.0)
        assert project("run", "--quiet", "--runner", "parrot", "--concurrency", "1").code == 1
    return project


def seen(project: CliProject) -> list[Any]:
    return [json.loads(line) for line in (project.root / "seen.jsonl").read_text().splitlines()]


def test_a_sweep_reports_pairs_rate_and_failures_while_it_runs(watched: CliProject) -> None:
    first, *_, last = seen(watched)

    assert first["process"] == str(this_process())
    assert first["pairs_in_all"] == 2
    assert last["overall"]["total"] >= 3
    assert last["overall"]["done"] > 0
    assert last["overall"]["per_second"] > 0
    assert last["failures"][0]["runner"] == "parrot"
    assert last["failures"][0]["reason"] == "no"


def test_nothing_is_left_of_it_at_the_end(watched: CliProject) -> None:
    assert not (watched.root / "data" / "progress.json").exists()


@pytest.fixture
def under_way(watched: CliProject, tmp_path: Path) -> Iterator[tuple[Served, Path]]:
    """A page whose sweep is under way, and the file that reports it."""
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(watched.root / "data" / "results.duckdb", data)
    file = data / "progress.json"
    file.write_text(json.dumps(seen(watched)[-1]))
    with served_page(data) as page:
        yield page, file


@pytest.mark.parametrize("reused", [False, True], ids=["gone", "another process got its id"])
def test_the_server_knows_whether_the_process_is_gone(under_way: tuple[Served, Path], reused: bool) -> None:
    page, file = under_way
    ended = parse_mark(run_python(PRINT_MARK, cwd=file.parent).stdout.strip())
    assert ended is not None
    mark = replace(ended, pid=os.getpid()) if reused else ended

    assert page.document("live")["sweep"]["ended"] is False
    file.write_text(json.dumps({**json.loads(file.read_text()), "process": str(mark)}))
    assert page.document("live")["sweep"]["ended"] is True
    file.unlink()
    assert page.document("live")["sweep"] is None


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_shows_the_sweep_and_then_its_results(under_way: tuple[Served, Path], browser: Browser) -> None:
    page, _ = under_way

    opened = browser.look(
        f"{page.url}/",
        See("A sweep is under way"),
        "document.querySelector('.live details').open = true",
        See("Latest failures"),
    )  # fmt: skip

    assert opened.problems == []
    assert "parrot failed: no" in opened.text
