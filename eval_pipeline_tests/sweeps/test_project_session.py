"""A project at work: what it loads, and that one sweep at a time writes to a data folder."""

from __future__ import annotations

import json
import os
import sys
import threading

import pytest

from eval_pipeline.errors import InputError, InputErrors, UnknownName
from eval_pipeline.stopping import Stopped, StopRequest
from eval_pipeline.sweeps.deletion import remove_what_was_under_way
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

# Loading


def test_a_suite_is_found_by_its_name_although_another_file_is_broken(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [\n")

    assert [case.id for case in folder.session().suite("sums").suite.cases] == ["a", "b"]


def test_a_suite_that_may_be_in_a_broken_file_is_missed_with_what_is_wrong_there(folder: ProjectFolder) -> None:
    (folder.root / "suites" / "broken.yaml").write_text("tests: [\n")

    with pytest.raises(InputErrors, match=r"broken\.yaml"):
        folder.session().suite("other")


def test_suites_of_one_name_keep_their_own_names_whatever_is_chosen(folder: ProjectFolder) -> None:
    for part in ("one", "two"):
        (folder.root / "suites" / part).mkdir()
        (folder.root / "suites" / part / "math.json").write_text(json.dumps({"tests": [a_test(part)]}))

    alone = folder.session().load_suites([str(folder.root / "suites" / "one")])
    by_name = folder.session().suite("two.math")

    assert [ready.suite.name for ready in alone] == ["one.math"]
    assert [case.id for case in by_name.suite.cases] == ["two"]


def test_an_unknown_runner_is_named_with_the_nearest(folder: ProjectFolder) -> None:
    with pytest.raises(UnknownName, match="no runner 'ecko'; there are: echo; did you mean 'echo'"):
        folder.session().runner("ecko")


NOTHING_THERE = {
    "no-suites": ("eval-pipeline.yaml", '{"suites": []}', "no suites"),
    "no-such-suites": ("eval-pipeline.yaml", '{"suites": ["absent"]}', "no suite at 'absent'"),
}


@pytest.mark.parametrize(("file", "text", "problem"), NOTHING_THERE.values(), ids=NOTHING_THERE)
def test_a_project_whose_suites_cannot_be_found_says_so(
    folder: ProjectFolder, file: str, text: str, problem: str
) -> None:
    (folder.root / file).write_text(text)

    with pytest.raises(InputError, match=problem):
        folder.session().load_suites()


def test_cells_that_cannot_be_used_take_none_of_the_others_along(folder: ProjectFolder) -> None:
    folder.write_runners(a_runner_entry("echo"), a_runner_entry("keyless", arguments={"runner": "${{ NOT_SET }}"}))
    names = [PairKey("sums", "echo"), PairKey("sums", "keyless"), PairKey("absent", "echo")]

    pairs, unusable = folder.session().usable_pairs(names)

    assert [pair.name for pair in pairs] == names[:1]
    assert "NOT_SET" in unusable[names[1]]
    assert unusable[names[2]] == "no suite 'absent'; there are: sums"


# One sweep at a time


def test_a_second_sweep_of_a_data_folder_says_that_it_waits_and_then_goes_on(folder: ProjectFolder) -> None:
    reported, went_on = threading.Event(), threading.Event()

    def second() -> None:
        with folder.session().store.exclusive(lambda text: reported.set()):
            went_on.set()

    thread = threading.Thread(target=second, daemon=True)
    with folder.session().store.exclusive():
        thread.start()
        assert reported.wait(60)
        assert not went_on.is_set()
    thread.join(60)

    assert went_on.is_set()


def test_a_sweep_that_waits_names_the_one_under_way(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/eval-pipeline", "run", "my suite.yaml"])
    reported: list[str] = []
    stop = StopRequest()

    def report(text: str) -> None:
        reported.append(text)
        stop.request()

    with folder.session().store.exclusive(), pytest.raises(Stopped), folder.session().store.exclusive(report, stop):
        pass

    (text,) = reported
    assert f"waiting for `eval-pipeline run 'my suite.yaml'`, process {os.getpid()}, under way since 2" in text


def test_a_sweep_that_was_killed_is_written_down_as_interrupted_and_its_run_is_named(folder: ProjectFolder) -> None:
    session = folder.session()
    session.store.begin([], SweepOptions(), "run-that-was-killed")
    finished = session.store.begin([], SweepOptions(), "run-that-finished")
    session.store.end(finished, "finished")

    with folder.session().store.exclusive() as killed:
        assert killed == ["run-that-was-killed"]

    assert folder.ask("SELECT dagster_run_id, status FROM sweeps ORDER BY 1") == [
        ("run-that-finished", "finished"),
        ("run-that-was-killed", "interrupted"),
    ]
    with folder.session().store.exclusive() as killed:
        assert killed == []


def test_the_newest_sweep_that_did_not_finish_can_be_resumed(folder: ProjectFolder) -> None:
    session = folder.session()
    assert session.store.interrupted_sweep() is None
    sweep_id = session.store.begin([], SweepOptions(), None)
    assert session.store.interrupted_sweep() == sweep_id

    session.store.end(sweep_id, "finished")

    assert session.store.interrupted_sweep() is None


def test_an_unchanged_suite_stored_again_is_one_row(folder: ProjectFolder) -> None:
    session = folder.session()
    ready = session.suite("sums")
    session.store.store_suites([ready])
    session.store.store_suites([ready])
    folder.write_suite(a_test("a"))
    newer = folder.session()

    newer.store.store_suites([newer.suite("sums")])

    assert folder.ask("SELECT case_count FROM suites ORDER BY loaded_at") == [(2,), (1,)]
    assert newer.store.store_new_suites([newer.suite("sums")], known={"sums"}) == []
    assert newer.store.store_new_suites([newer.suite("sums")], known=()) == [newer.suite("sums")]


def test_files_of_executions_that_a_killed_sweep_did_not_finish_are_removed(folder: ProjectFolder) -> None:
    folder.sweep_once()
    store = folder.session().store
    killed = store.begin([], SweepOptions(), "run-that-was-killed")
    storage = store.warehouse.storage
    left = [storage.workspaces / killed / "echo" / "sums" / "key", storage.artifacts / "echo" / "sums" / "key" / killed]
    others = [storage.workspaces / "another sweep" / "echo" / "sums" / "key"]
    for path in (*left, *others):
        path.mkdir(parents=True)
        (path / "file").write_text("half of it")

    with store.exclusive() as runs:
        remove_what_was_under_way(store, runs)

    assert [path.exists() for path in (*left, *others)] == [False, False, True]
    assert not (storage.workspaces / killed).exists()
