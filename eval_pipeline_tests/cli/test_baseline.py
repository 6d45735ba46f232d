"""`baseline`: which sweep later ones are compared with, for each suite and runner; and `baseline` as a side."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from eval_pipeline_tests.cli.sample_project import GREET, CliProject, make_cli_project


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that was run twice."""
    project = make_cli_project(tmp_path_factory.mktemp("baselines"))
    project.once("run", "--quiet")
    project("run", "--quiet", "--refresh", "all")
    return project


def sweeps(project: CliProject) -> dict[tuple[str, str], str]:
    found = project("baseline", "show", "--json").document["baselines"]
    return {(each["suite"], each["runner"]): each["sweep_id"] for each in found}


def test_a_baseline_is_set_shown_replaced_and_cleared(project: CliProject) -> None:
    none = project("baseline", "show")
    missing = project("compare", "baseline", "sweep:latest")
    project("baseline", "set", "previous", "--note", "before")
    unmarked = project("compare", "baseline", "latest")
    first = sweeps(project)
    project("baseline", "set", "latest")
    second = sweeps(project)
    project("baseline", "clear", "--runner", "greeter")
    rest = sweeps(project)
    project("baseline", "clear")

    assert (none.code, missing.code) == (3, 2)
    assert "eval-pipeline baseline set SWEEP" in missing.err
    assert "no runner 'latest'; the sweep is sweep:latest" in unmarked.err
    assert set(first) == {("greetings", "greeter"), ("greetings", "parrot"), ("sums", "parrot")}
    assert second[("greetings", "greeter")] > first[("greetings", "greeter")]
    assert second[("sums", "parrot")] > first[("sums", "parrot")]
    assert set(rest) == {("greetings", "parrot"), ("sums", "parrot")}
    assert sweeps(project) == {}


def test_the_baseline_is_a_side_of_a_comparison(project: CliProject) -> None:
    project("baseline", "set", "previous")

    answer = project("compare", "baseline", "sweep:latest", "--max-pass-rate-drop", "0", "--json")

    assert answer.document["baseline"] == "baseline"
    assert answer.document["summary"]["paired"] > 0
    assert answer.document["candidates"][0]["regression"]["counts"]["regression"] == 0


def test_a_runner_with_other_settings_keeps_the_baseline_of_its_older_ones(project: CliProject) -> None:
    project("baseline", "set", "previous")
    project.write("greet.sh", GREET + "# changed\n")
    project("run", "--quiet", "--runner", "greeter")
    before = sweeps(project)[("greetings", "greeter")]

    project("baseline", "set", "latest", "--runner", "greeter", "--suite", "greetings")

    stored = project("sql", "SELECT count(*) AS n FROM baselines WHERE runner = 'greeter'", "--json").out
    assert '"n":2' in stored.replace(" ", "")
    assert sweeps(project)[("greetings", "greeter")] > before


def test_the_latest_sweep_is_the_one_that_compare_calls_so(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)
    project.once("run", "--quiet", "--runner", "parrot")
    project("run", "--quiet", "--runner", "parrot", "--case", "ann")

    project("baseline", "set", "latest")

    (named,) = {*sweeps(project).values()}
    compared = project("compare", f"sweep:{named}", "sweep:latest", "--json").document["summary"]
    assert named == project.ask("SELECT min(sweep_id) FROM sweeps")[0][0]
    assert (compared["paired"], compared["only_baseline"], compared["only_candidate"]) == (5, 0, 0)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("set", "nope"), "no sweep 'nope'"),
        (("set", "latest", "--runner", "nope"), "no runner 'nope'"),
        (("clear", "--suite", "nope"), "no suite 'nope'"),
    ],
)
def test_names_that_do_not_exist_are_errors(project: CliProject, arguments: tuple[str, ...], problem: str) -> None:
    answer = project("baseline", *arguments)

    assert answer.code == 2
    assert problem in answer.err


def test_results_of_an_older_version_have_no_baseline(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)
    project.once("run", "--quiet", "--runner", "parrot")
    with duckdb.connect(str(tmp_path / "data" / "results.duckdb")) as results:
        results.execute("DROP TABLE baselines")

    compared, shown = project("compare", "baseline", "sweep:latest"), project("baseline", "show")

    assert (compared.code, shown.code) == (2, 3)
    assert "no baseline is set" in compared.err
    assert "no baseline is set" in shown.err
