"""Sweeps that the project file names: what they cover, the options that they set, and who goes before them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli.options import select_in
from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.sweeps.named_sweeps import with_named
from eval_pipeline.sweeps.options import launch_options
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.selection import pairs_of_sweep
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

SMOKE = {"tags": ["smoke"], "runners": ["x"], "repeat": 2, "budget_usd": 1}


def named(root: Path, **sweeps: Any) -> ProjectFolder:
    """A project of two suites and two runners with these sweeps."""
    folder = make_project(root / "project", sweeps=sweeps)
    folder.write_runners(a_runner_entry("x"), a_runner_entry("y"))
    folder.write_suite(a_test("a", metadata={}, tags=["smoke"]), a_test("b"))
    (folder.root / "suites" / "agents").mkdir()
    folder.write_suite(a_test("c", tags=["smoke"]), name="more")
    (folder.root / "suites" / "more.yaml").rename(folder.root / "suites" / "agents" / "more.yaml")
    return folder


def covered(folder: ProjectFolder, **options: Any) -> list[tuple[str, str]]:
    return sorted((pair.suite, pair.runner) for pair in select_in(folder.session(), **options).pairs)


def test_a_sweep_has_its_suites_its_runners_its_cases_and_its_options(tmp_path: Path) -> None:
    folder = named(tmp_path, smoke=SMOKE)

    selection = select_in(folder.session(), sweep="smoke")

    assert {pair.runner for pair in selection.pairs} == {"x"}
    assert selection.options.cases.tags == {"smoke"}
    assert (selection.options.repetitions, selection.options.budget_usd, selection.options.sweep) == (2, 1, "smoke")


@pytest.mark.parametrize("pattern", ["sums", "su*", "suites/sums.yaml", "sums.yaml"])
def test_suites_are_named_by_name_or_by_path(tmp_path: Path, pattern: str) -> None:
    assert covered(named(tmp_path, one={"suites": [pattern]}), sweep="one") == [("sums", "x"), ("sums", "y")]


def test_a_pattern_of_a_folder_covers_the_suites_in_it(tmp_path: Path) -> None:
    assert covered(named(tmp_path, one={"suites": ["agents/*"]}), sweep="one") == [("more", "x"), ("more", "y")]


def test_what_the_command_line_sets_goes_before_the_sweep(tmp_path: Path) -> None:
    folder = named(tmp_path, smoke={**SMOKE, "refresh": "all"})

    selection = select_in(
        folder.session(), sweep="smoke", runners=("y",), repeat=3, tags=("other", "smoke"), refresh="missing"
    )

    assert {pair.runner for pair in selection.pairs} == {"y"}
    assert (selection.options.repetitions, selection.options.refresh) == (3, "missing")
    assert selection.options.cases.tags == {"other", "smoke"}
    assert selection.options.sweep is None, "a narrowed run is no night to compare with"


def test_the_launchpad_takes_the_options_of_a_sweep_and_its_pairs_only(tmp_path: Path) -> None:
    folder = named(tmp_path, smoke=SMOKE | {"suites": ["sums"]})
    session = folder.session()
    pairs = [PairKey("sums", "x"), PairKey("sums", "y"), PairKey("more", "x")]

    launch = with_named(session.project, launch_options({"sweep": "smoke", "repetitions": 5}))

    assert (launch.repetitions, launch.tags, launch.budget_usd) == (5, ("smoke",), 1)
    assert pairs_of_sweep(session, pairs, "smoke") == [PairKey("sums", "x")]


def test_an_option_of_0_takes_the_place_of_that_of_a_sweep(tmp_path: Path) -> None:
    session = named(tmp_path, smoke=SMOKE | {"on_failure": 2, "threshold": 0.9}).session()

    command = select_in(session, sweep="smoke", on_failure=0, threshold=0.0).options
    launch = with_named(session.project, launch_options({"sweep": "smoke", "on_failure": 0, "threshold": 0.0}))

    assert (command.on_failure, command.threshold) == (0, 0.0)
    assert (launch.on_failure, launch.threshold) == (0, 0.0)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"cron": "0 25 * * *"}, "sweeps.one.cron: expected an hour of 0–23"),
        ({"timezone": "Europe/Berln"}, "sweeps.one.timezone: expected a time zone"),
        ({"runner": ["x"]}, "sweeps.one.runner: unknown field"),
        ({"overlap": "wait"}, "sweeps.one.overlap"),
        ({"missed": "all"}, "sweeps.one.missed"),
        ({"repeat": 0}, "sweeps.one.repeat"),
    ],
)
def test_an_entry_that_cannot_be_used_is_named_with_its_place(tmp_path: Path, entry: Any, problem: str) -> None:
    folder = make_project(tmp_path / "project", sweeps={"one": entry})

    with pytest.raises(InputError) as raised:
        load_project(folder.root)

    assert problem in str(raised.value)


def test_a_name_that_dagster_cannot_have_is_refused(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project", sweeps={"every night": {}})

    with pytest.raises(InputError, match="names of letters"):
        load_project(folder.root)


def test_names_of_one_schedule_are_refused(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project", sweeps={"every-night": {}, "every_night": {}})

    with pytest.raises(InputError, match="names that differ in more than"):
        load_project(folder.root)


@pytest.mark.parametrize("against", ["nightli", "one"])
def test_a_gate_against_no_other_sweep_is_refused(tmp_path: Path, against: str) -> None:
    sweeps = {"nightly": {}, "one": {"gate": {"against": against, "max_drop": 0}}}
    folder = make_project(tmp_path / "project", sweeps=sweeps)

    with pytest.raises(InputError, match=f"one of previous, nightly; that of one is against '{against}'"):
        load_project(folder.root)


def test_a_time_that_cannot_be_used_leaves_the_code_location_its_other_sweeps(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project", sweeps={"one": {"cron": "never", "tags": ["a"]}})

    project = load_project(folder.root, any_schedule=True)

    assert (project.sweeps["one"].cron, project.sweeps["one"].tags) == (None, ["a"])
    assert "sweeps.one.cron" in str(project.schedule_problem)


def test_unknown_sweeps_and_suites_of_a_sweep_are_named_with_the_nearest(tmp_path: Path) -> None:
    folder = named(tmp_path, smoke={"suites": ["sum"]})

    with pytest.raises(UnknownName, match="did you mean 'smoke'"):
        select_in(folder.session(), sweep="smok")
    with pytest.raises(UnknownName, match="did you mean 'sums'"):
        select_in(folder.session(), sweep="smoke")


def test_the_warehouse_knows_the_name_of_a_sweep(tmp_path: Path) -> None:
    folder = named(tmp_path, smoke=SMOKE)
    selection = select_in(folder.session(), sweep="smoke")
    session = selection.session

    session.store.begin(session.pairs(selection.pairs), selection.options, None)

    assert folder.ask("SELECT name, selection ->> '$.tags[0]' FROM sweeps") == [("smoke", "smoke")]
    assert json.loads(folder.ask("SELECT selection::VARCHAR FROM sweeps")[0][0])["repetitions"] == 2
