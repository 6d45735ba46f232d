"""Files of one test case each: a folder of them is one suite, named after it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.cli.checks import check_files
from eval_pipeline.errors import InputErrors
from eval_pipeline.suites.load import load_suites
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.project import load_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.retirement import retire_vanished
from eval_pipeline.sweeps.sweep import run_recorded
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import make_project

OLD = {"name": "Parcel", "persona": {"type": "t", "description": "d", "instructions": "i"}, "initial_message": "Hi"}
NEW = {"name": "Refund", "persona_context": "Late.", "first_message": "Hello"}
LATEST = {"name": "Both", "persona_context": "p", "expected_tool_calls": [{"tool": "t", "mock_response": {"a": 1}}]}


def write(folder: Path, **cases: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in cases.items():
        (folder / f"{name}.json").write_text(json.dumps(case))
    return folder


@pytest.mark.parametrize("pattern", ["talks", "talks/*.json", "."], ids=["folder", "glob", "folder above"])
def test_a_folder_of_cases_of_any_generation_is_one_suite(tmp_path: Path, pattern: str) -> None:
    folder = write(tmp_path / "talks", parcel=OLD, refund=NEW, both=LATEST)

    (suite,) = load_suites([pattern], tmp_path)

    assert suite.name == "talks"
    assert {case.id: case.origin for case in suite.cases} == {
        "both": folder / "both.json", "parcel": folder / "parcel.json", "refund": folder / "refund.json",
    }  # fmt: skip


def test_a_file_that_is_named_and_a_list_of_cases_are_suites_of_their_own(tmp_path: Path) -> None:
    folder = write(tmp_path / "talks", parcel=OLD, refund=NEW)
    (folder / "many.json").write_text(json.dumps([LATEST]))

    assert [suite.name for suite in load_suites(["talks/parcel.json"], tmp_path)] == ["parcel"]
    assert sorted(suite.name for suite in load_suites(["talks"], tmp_path)) == ["many", "talks"]


def test_an_id_that_is_taken_is_an_error_with_both_places_and_the_rest_remains(tmp_path: Path) -> None:
    write(tmp_path / "talks", a=OLD, b=OLD, c=NEW)

    (suite,) = load_suites(["talks"], tmp_path)

    assert [case.id for case in suite.cases] == ["parcel", "refund"]
    (error,) = suite.errors
    assert str(error).endswith("give each case a name of its own")
    assert "b.json:1" in str(error)
    assert "a.json)" in str(error)


def test_a_broken_file_does_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "talks", a=OLD, b={**NEW, "difficulty": "easy"})

    with pytest.raises(InputErrors, match="expected one of normal, hard"):
        load_suites(["talks"], tmp_path)

    checked = check_files(ProjectSession(load_project(tmp_path)), ["talks"], tmp_path)
    assert checked.suites == {"talks": 1}
    assert [str(finding) for finding in checked.findings if "b.json" in str(finding)]


def test_folders_of_one_name_are_called_by_their_paths_also_where_one_is_chosen(tmp_path: Path) -> None:
    for above in ("north", "south"):
        write(tmp_path / above / "talks", parcel=OLD, refund=NEW)
    (tmp_path / "eval-pipeline.yaml").write_text("suites: [north, south]")
    session = ProjectSession(load_project(tmp_path))

    assert [ready.suite.name for ready in session.load_suites()] == ["north.talks", "south.talks"]
    chosen = ProjectSession(load_project(tmp_path)).load_suites([str(tmp_path / "north")])
    assert [ready.suite.name for ready in chosen] == ["north.talks"]
    assert ProjectSession(load_project(tmp_path)).suite("south.talks").suite.parts


def test_a_single_file_that_was_run_for_itself_leaves_the_board_when_its_folder_runs(tmp_path: Path) -> None:
    project = make_project(tmp_path / "project", suites=["talks"], defaults={"simulator": "echo", "grader": "echo"})
    write(project.root / "talks", parcel=OLD, refund=NEW)
    session = project.session()
    session.store.store_suites(session.load_suites([str(project.root / "talks" / "refund.json")]))
    options = SweepOptions(simulator="echo", grader="echo")
    run_recorded(session, session.pairs([PairKey("refund", "echo")]), options, None, SweepObserver())

    counts = project.sweep("talks", simulator="echo", grader="echo")

    assert counts.planned == 2
    session = project.session()
    session.load_suites()
    assert retire_vanished(session).pairs == [PairKey("refund", "echo")]
