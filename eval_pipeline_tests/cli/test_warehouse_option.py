"""--warehouse: what a command suggests afterwards reads the same warehouse."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from eval_pipeline_tests.cli.sample_project import CliProject

SUITE = "tests:\n  - {id: a, input: x, assertions: [{type: contains, value: hi}]}\n"


def test_what_run_suggests_reads_the_warehouse_that_it_was_given(tmp_path: Path) -> None:
    project = CliProject(tmp_path / "project")
    project.write("eval-pipeline.yaml", "suites: [suites]\n")
    project.write(
        "runners.yaml",
        "runners: [{name: echo, adapter: mock, response: hi}, {name: other, adapter: mock, response: x}]\n",
    )
    project.write("suites/s.yaml", SUITE)

    ran = project("run", "--warehouse", f"duckdb:{tmp_path / 'our results'}")

    suggested = re.findall(r"(?:ask|look|more): eval-pipeline (.*?)(?=   |\n)", ran.err)
    assert [command.split()[0] for command in suggested] == ["show", "sql", "view"]
    assert "other" in project(*shlex.split(suggested[0])).out
    assert project(*shlex.split(suggested[1]), "SELECT count(*) AS n FROM verdicts", "--json").out == '{"n":2}\n'
    assert not (project.root / "data" / "results.duckdb").exists()
