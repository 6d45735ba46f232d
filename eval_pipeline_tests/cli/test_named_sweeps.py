"""Sweeps of the project file from the command line: started, compared and followed by their names."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eval_pipeline.pages.sweeps import comparison_document
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.sweep_ends import gate_of_run
from eval_pipeline.warehouse import queries
from eval_pipeline.warehouse.duckdb_file import DuckDBWarehouse
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

PROJECT = """\
suites: [suites]
sweeps:
  nightly: {suites: [greetings], runners: [greeter], refresh: all, tags: [short, rude]}
  smoke: {suites: [greetings], tags: [b]}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """Two nights, and a plain run of everything between them."""
    project = make_cli_project(tmp_path_factory.mktemp("named"))
    project.write("eval-pipeline.yaml", PROJECT)
    project("run", "--sweep", "nightly", "--quiet")
    project("run", "--quiet")
    project("run", "--sweep", "nightly", "--quiet")
    return project


def test_a_night_is_compared_with_the_night_before_and_not_with_what_was_run_between(project: CliProject) -> None:
    answer = project("compare", "nightly@previous", "nightly@latest", "--json")

    assert answer.document["summary"]["paired"] == 3
    assert [suite["suite"] for suite in answer.document["suites"]] == ["greetings"]
    with DuckDBWarehouse(project.root / "data").published() as connection:
        on_page = comparison_document(connection, "nightly@previous", "nightly@latest")
    assert json.loads(json.dumps(on_page["summary"])) == answer.document["summary"]


def test_the_trend_of_a_sweep_is_over_its_nights_only(project: CliProject) -> None:
    of_nights = project("trend", "--sweep", "nightly", "--json").document
    by_name = project("trend", "nightly@previous", "nightly@latest", "--json").document

    assert [run["matched_test_count"] for run in of_nights["runs"]] == [3, 3]
    assert of_nights["summary"]["slope"] == by_name["summary"]["slope"] == 0


def test_a_plan_of_a_sweep_has_its_pairs_and_its_options(project: CliProject) -> None:
    nightly, smoke = (json.loads(project("plan", "--sweep", name, "--json").out) for name in ("nightly", "smoke"))

    assert [(each["runner"], each["to_execute"]) for each in nightly] == [("greeter", 3)]
    assert sorted((each["runner"], each["planned"]) for each in smoke) == [("greeter", 1), ("parrot", 1)]


def with_an_interrupted_night(folder: Path) -> CliProject:
    """A project whose newest sweep of the name `nightly` was interrupted."""
    project = make_cli_project(folder)
    project.write("eval-pipeline.yaml", PROJECT)
    project("run", "--sweep", "nightly", "--quiet")
    (night,) = project.ask("SELECT sweep_id FROM sweeps")[0]
    queries.end_sweep(DuckDBWarehouse(folder / "data"), night, "interrupted", datetime.now(UTC))
    return project


def test_an_interrupted_night_goes_on_after_a_sweep_of_another_name(tmp_path: Path) -> None:
    project = with_an_interrupted_night(tmp_path)
    project("run", "--sweep", "smoke", "--quiet")

    part = project("run", "--sweep", "nightly", "--case", "bob", "--resume", "--json")
    again = project("run", "--sweep", "nightly", "--resume", "--json")
    finished = project("run", "--sweep", "nightly", "--resume", "--json")

    assert [answer.counts["executed"] for answer in (part, again, finished)] == [0, 0, 3]
    assert "nothing to resume" not in part.err + again.err
    assert "nothing to resume: no sweep of nightly was interrupted last" in finished.err


def test_a_part_of_a_sweep_and_a_sweep_without_a_name_leave_those_of_other_names_alone(tmp_path: Path) -> None:
    project = with_an_interrupted_night(tmp_path)
    anew = ("--case", "bob", "--refresh", "all", "--resume", "--json")

    part, unnamed = project("run", "--sweep", "smoke", *anew), project("run", "--runner", "greeter", *anew)

    assert (part.counts["executed"], unnamed.counts["executed"]) == (2, 1)
    assert "nothing to resume: no sweep of smoke was interrupted last" in part.err
    assert "nothing to resume: no sweep without a name was interrupted last" in unnamed.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--sweep", "nightli"), "no sweep 'nightli'; there are: nightly, smoke"),
        (("compare", "smoke@latest", "nightly@latest"), "none of this name has finished"),
        (("trend", "--sweep", "smoke"), "no sweep 'smoke' has finished"),
    ],
)
def test_a_sweep_that_there_is_not_is_said(project: CliProject, arguments: tuple[str, ...], message: str) -> None:
    answer = project(*arguments)

    assert answer.code == 2
    assert message in answer.err


# Gates


GATED = """\
suites: [suites]
sweeps:
  nightly:
    suites: [greetings]
    runners: [greeter]
    refresh: all
    gate: {max_drop: 0.9, min_coverage: 1}
    notify: {on: [always], command: [sh, -c, "cat > told.json"]}
  strict: {suites: [greetings], runners: [greeter], gate: {min_coverage: 1, min_pass_rate: 1}}
  plain: {suites: [greetings]}
"""


@pytest.fixture
def gated(tmp_path: Path) -> CliProject:
    project = make_cli_project(tmp_path)
    project.write("eval-pipeline.yaml", GATED)
    return project


def test_a_gate_decides_in_place_of_single_failed_cases(gated: CliProject) -> None:
    first = gated("run", "--sweep", "nightly", "--quiet")
    required = gated("run", "--sweep", "nightly", "--quiet", "--require-go", "--json")
    alone = gated("gate", "nightly", "--json", "--report", "github", "--junit", "gate.xml")

    assert first.code == 0
    assert "INCONCLUSIVE" in first.err
    assert (required.code, alone.code) == (4, 4)  # three cases exclude no drop
    assert [rule["decision"] for rule in alone.document["rules"]] == ["GO", "INCONCLUSIVE"]
    assert "::warning title=INCONCLUSIVE%3A" in alone.err
    (suite,) = ElementTree.parse(gated.root / "gate.xml").getroot()
    assert [case[0].tag for case in suite] == ["system-out", "skipped"]
    told = json.loads((gated.root / "told.json").read_text())
    assert (told["sweep"], told["decision"]) == ("nightly", "INCONCLUSIVE")


def test_a_gate_that_is_missed_ends_with_1_and_says_which_rule(gated: CliProject) -> None:
    gated.write("greet.sh", "exit 7")

    run = gated("run", "--sweep", "strict", "--quiet", "--report", "github")
    gate = gated("gate", "strict", "--report", "github", "--junit", "gate.xml")

    text = "greetings × greeter: 0.0 % graded, at least 100.0 %"
    assert (run.code, gate.code) == (3, 1)
    assert text in gate.out
    for out in (run.out, gate.out):
        assert "::error title=NO-GO%3A" in out
        assert text.replace("%", "%25") in out
    (suite,) = ElementTree.parse(gated.root / "gate.xml").getroot()
    assert (suite.get("failures"), [case[0].tag for case in suite]) == ("1", ["failure", "skipped"])


@pytest.mark.parametrize(
    ("name", "message"),
    [("plain", "has no gate"), ("nightly", "run a sweep first"), ("nightl", "did you mean 'nightly'")],
)
def test_a_gate_that_there_is_not_is_said(gated: CliProject, name: str, message: str) -> None:
    answer = gated("gate", name)

    assert answer.code == 2
    assert message in answer.err


def test_a_run_that_did_not_finish_has_no_gate(gated: CliProject) -> None:
    session = ProjectSession(load_project(gated.root))
    nothing_yet = gate_of_run(session, "strict", "a run")

    run = gated("run", "--sweep", "strict", "--quiet", "--json")

    assert nothing_yet is None
    assert gate_of_run(session, "strict", "a later run") is None
    assert gate_of_run(session, "strict", run.document["dagster_run_id"]) is not None
