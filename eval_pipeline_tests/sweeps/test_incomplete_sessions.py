"""A session that a limit ended is an error, graded by what it left, or failed, as its suite or its case sets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.leaderboards.show import board_remarks
from eval_pipeline.suites.load import load_suite
from eval_pipeline.warehouse.published import open_results
from eval_pipeline_tests.forks import run_command
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains

AGENT = """#!/bin/sh
cat > /dev/null
echo session >> "{folder}/sessions"
echo 42 > answer.txt
[ ! -e "{folder}/slow" ] || sleep 30
cat "{folder}/end"
exit 1
"""
STEPS = {"type": "result", "subtype": "error_max_turns", "is_error": True, "terminal_reason": "max_turns",
         "errors": ["Reached the limit"]}  # fmt: skip
TESTS = {"type": "tests", "command": ["grep", "-q", "42", "answer.txt"]}
VERDICTS = "SELECT status, failure_class, score, incomplete FROM current_verdicts ORDER BY case_id"


def write_agent(folder: ProjectFolder, **fields: Any) -> None:
    script = folder.root / "agent.sh"
    script.write_text(AGENT.format(folder=folder.root), encoding="utf-8")
    script.chmod(0o755)
    (folder.root / "end").write_text(json.dumps(STEPS), encoding="utf-8")
    (folder.root / "template").mkdir()
    folder.write_runners({"name": "coder", "adapter": "agent", "agent": "claude-code", "executable": str(script),
                          "retries": {"max_retries": 0}, **fields})  # fmt: skip


def write_suite(folder: ProjectFolder, *evaluators: dict[str, Any], suite: str | None = None, **case: Any) -> None:
    settings = {"incomplete": suite} if suite is not None else {}
    fields = {"workspace": {"template": "../template"}, **case}
    folder.write_suite(a_test("a", *(evaluators or (TESTS,)), **fields), **settings)


def sessions(folder: ProjectFolder) -> int:
    return len((folder.root / "sessions").read_text(encoding="utf-8").splitlines())


ENDS = {
    "error by default": ({}, ("error", "max-steps", None, None)),
    "error": ({"suite": "error"}, ("error", "max-steps", None, None)),
    "graded": ({"suite": "grade"}, ("passed", None, 1.0, "max-steps")),
    "failed": ({"suite": "fail"}, ("failed", "max-steps", 0.0, "max-steps")),
    "graded, by the case": ({"suite": "fail", "incomplete": "grade"}, ("passed", None, 1.0, "max-steps")),
    "error, by the case": ({"suite": "grade", "incomplete": "error"}, ("error", "max-steps", None, None)),
}


@pytest.mark.parametrize(("fields", "verdict"), ENDS.values(), ids=ENDS)
def test_a_session_that_reached_its_limit_is(
    folder: ProjectFolder, fields: dict[str, str], verdict: tuple[Any, ...]
) -> None:
    write_agent(folder)
    write_suite(folder, **fields)

    folder.sweep_once(runner="coder")

    assert folder.ask(VERDICTS) == [verdict]


def test_a_session_that_ran_out_of_time_is_graded_by_the_files_that_it_left(folder: ProjectFolder) -> None:
    write_agent(folder, timeout_s=0.5)
    (folder.root / "slow").touch()
    write_suite(folder, TESTS, suite="grade")

    folder.sweep_once(runner="coder")

    assert folder.ask(VERDICTS) == [("passed", None, 1.0, "timeout")]
    ((reason,),) = folder.ask("SELECT reason FROM current_verdicts")
    assert "the session did not end by itself: " in reason


def test_what_the_session_left_can_fail(folder: ProjectFolder) -> None:
    write_agent(folder)
    write_suite(folder, contains("43"), suite="grade")

    folder.sweep_once(runner="coder")

    assert folder.ask(VERDICTS) == [("failed", "assertion", 0.0, "max-steps")]


def test_an_incomplete_session_that_counts_is_not_executed_again(folder: ProjectFolder) -> None:
    write_agent(folder)
    write_suite(folder, suite="grade")
    folder.sweep_once(runner="coder")

    counts = folder.sweep(runner="coder")

    assert (counts.reused, counts.executed, sessions(folder)) == (1, 0, 1)


def test_a_stored_session_is_graded_without_the_agent_when_the_suite_sets_it_later(folder: ProjectFolder) -> None:
    write_agent(folder)
    write_suite(folder)
    folder.sweep_once(runner="coder")

    for policy, verdict in (("fail", ENDS["failed"][1]), ("grade", ENDS["graded"][1])):
        write_suite(folder, suite=policy)
        counts = folder.sweep(runner="coder")

        assert (counts.executed, sessions(folder)) == (0, 1)
        assert folder.ask(VERDICTS) == [verdict]


def test_an_incomplete_session_that_counts_no_more_is_executed_again(folder: ProjectFolder) -> None:
    write_agent(folder)
    write_suite(folder, suite="grade")
    folder.sweep_once(runner="coder")
    write_suite(folder)

    counts = folder.sweep(runner="coder")

    assert (counts.executed, sessions(folder)) == (1, 2)
    assert folder.ask(VERDICTS) == [("error", "max-steps", None, None)]


def test_what_depends_on_a_graded_session_is_carried_out(folder: ProjectFolder) -> None:
    write_agent(folder)
    folder.write_suite(
        a_test("a", TESTS, workspace={"template": "../template"}),
        a_test("b", TESTS, workspace={"template": "../template"}, depends_on=["a"]),
        incomplete="grade",
    )

    counts = folder.sweep(runner="coder")

    assert (counts.passed, sessions(folder)) == (2, 2)


def test_boards_and_exports_tell_which_answers_a_limit_ended(folder: ProjectFolder) -> None:
    write_agent(folder)
    write_suite(folder, suite="grade")
    folder.sweep_once(runner="coder")
    board = folder.session().store.update_leaderboards()

    assert board.filter(scope="suite")["incomplete"].to_list() == [1]
    assert board_remarks(board.filter(scope="suite")) == [
        "coder: of 1 graded, 1 had not ended by itself: a time or step limit"
    ]
    folder.session().warehouse.publish()
    with open_results(folder.data) as connection:
        assert connection.execute("SELECT incomplete FROM leaderboard").fetchall() == [(1,)]
    for format_, shown in (("jsonl", '"incomplete":"max-steps"'), ("junit", 'name="incomplete" value="max-steps"')):
        export = run_command("export", "--format", format_, "--output", str(folder.root / format_), cwd=folder.root)
        assert export.returncode == 0, export.stderr
        text = "".join(path.read_text() for path in folder.root.glob(f"{format_}*") if path.is_file())
        assert shown in text


def test_an_unknown_value_is_named_with_its_place(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text("tests:\n- id: a\n  input: hi\n  incomplete: graded\n  assertions: [{type: contains, value: h}]\n")

    (error,) = load_suite(suite).errors

    assert str(error).startswith(f"{suite}:4: ")
    assert "expected one of error, grade, fail" in str(error)
    assert "did you mean 'grade'" in str(error)


def test_an_unknown_value_of_the_suite_is_named_with_its_place(tmp_path: Path) -> None:
    suite = tmp_path / "s.yaml"
    suite.write_text("incomplete: 1\ntests:\n- id: a\n  input: hi\n")

    with pytest.raises(InputError, match=r"s\.yaml:1: .*incomplete.*expected one of error, grade, fail; got"):
        load_suite(suite)


def test_a_python_suite_sets_it_as_well(tmp_path: Path) -> None:
    text = (
        "from eval_pipeline import Case\nsuite = [Case(id='a', prompt='hi', incomplete={}, check=lambda r, c: None)]\n"
    )
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(text.format("'fail'"))
    bad.write_text(text.format("'graded'"))

    assert load_suite(good).cases[0].incomplete == "fail"
    with pytest.raises(InputError, match="incomplete: expected one of error, grade, fail, got 'graded'"):
        load_suite(bad)
