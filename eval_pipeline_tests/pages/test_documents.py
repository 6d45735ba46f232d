"""What the page gets is what the commands print."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.pages.sample_page import EVIL, Served


def standing(board: Any, suite: str, runner: str) -> Any:
    (suite_board,) = (each for each in board["suites"] if each["suite"] == suite)
    (row,) = (row for row in suite_board["rows"] if row["runner"] == runner)
    return row


def test_the_board_has_the_numbers_and_texts_of_the_command(served: Served, page_project: CliProject) -> None:
    board, printed = served.document("board"), page_project("leaderboard", "--json").document
    text = page_project("leaderboard").out

    rows = [row for row in printed if row["scope"] == "suite"]
    assert len(rows) == sum(len(each["rows"]) for each in board["suites"]) > 3
    for row in rows:
        shown = standing(board, row["suite"], row["runner"])
        assert {name: shown[name] for name in ("pass_rate", "pass_rate_low", "graded", "coverage", "mean_score")} == {
            name: row[name] for name in ("pass_rate", "pass_rate_low", "graded", "coverage", "mean_score")
        }
        assert shown["texts"][2] in text
    remarks = board["overall"]["remarks"]
    assert remarks and all(remark in text for remark in remarks)


def test_the_board_says_what_changed_since_the_sweep_before(served: Served, page_project: CliProject) -> None:
    changes = served.document("board")["changes"]

    assert changes["counts"]["regression"] == 1
    (case,) = (row for row in changes["cases"] if row["change"] == "regression")
    assert (case["suite"], case["case_id"], case["runner"]) == ("greetings", "ann", "greeter")


def test_failures_are_those_of_the_summary(served: Served, page_project: CliProject) -> None:
    failures = served.document("board")["failures"]
    printed = page_project("sql", "--json", "SELECT failure_class, count FROM failure_summary").out.splitlines()

    assert printed
    for row in map(json.loads, printed):
        counts = [each["count"] for each in failures if each["failure_class"] == row["failure_class"]]
        assert sum(counts) == row["count"]


def test_a_comparison_is_that_of_the_command(served: Served, page_project: CliProject) -> None:
    ids = [sweep["sweep_id"] for sweep in served.document("sweeps")["sweeps"]]
    sides = (f"sweep:{ids[1]}", f"sweep:{ids[0]}")

    shown = served.document("compare", a=sides[0], b=sides[1])
    printed = page_project("compare", *sides, "--json").document

    assert shown["summary"] == printed["summary"]
    assert shown["summary"]["losses"] == 1


def test_a_grid_has_the_marks_of_every_case(served: Served) -> None:
    grid = served.document("suite", suite="greetings")

    assert grid["cases"] == ["ann", "bob", "nobody"]
    assert {each["name"]: each["marks"] for each in grid["runners"]} == {
        "greeter": ["f", "p", "f"], "parrot": ["p", "p", "p"],
    }  # fmt: skip
    assert [[grid["tags"][number] for number in each] for each in grid["tags_of"]] == [
        ["short"],
        ["short", "b"],
        ["rude"],
    ]


def test_a_past_sweep_has_a_grid_of_its_own(served: Served) -> None:
    first = served.document("sweeps")["sweeps"][-1]["sweep_id"]

    grid = served.document("suite", suite="greetings", of=f"sweep:{first}")

    assert {each["name"]: each["marks"] for each in grid["runners"]}["greeter"] == ["p", "p", "f"]


def test_answers_are_read_for_the_cases_in_sight_only(served: Served) -> None:
    rows = served.document("rows", suite="hostile", case=["script", "hidden"])["rows"]

    assert set(rows) == {"script", "hidden"}
    assert rows["script"]["question"] == EVIL
    assert rows["script"]["answers"]["parrot"]["output"] == f"hello? {EVIL}"


@pytest.mark.parametrize(
    ("text", "cases"),
    [("GO AWAY", ["nobody"]), ("hello? bob", ["bob"]), ("ann", ["ann"]), ("no such text", []), ("%", [])],
)
def test_a_text_is_found_in_questions_answers_and_reasons(served: Served, text: str, cases: list[str]) -> None:
    assert served.document("search", suite="greetings", text=text)["cases"] == cases


def test_a_case_has_plans_scores_and_history(served: Served) -> None:
    case = served.document("case", suite="greetings", case="ann")

    (plan,) = (each for each in case["plans"] if each["runner"] == "greeter")
    assert (plan["status"], plan["output"]) == ("failed", "no")
    assert plan["scores"][0]["evaluator"] == "polite"
    assert plan["scores"][0]["reason"]
    assert [row["status"] for row in case["history"] if row["runner"] == "greeter"] == ["passed", "failed"]


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/api/suite?suite=greeting", 404, "did you mean 'greetings'"),
        ("/api/suite", 400, "the parameter 'suite' is missing"),
        ("/api/compare?a=current&b=sweep:9", 404, "no sweep '9'"),
        ("/api/changes?a=latest&b=9", 404, "no sweep '9'"),
        ("/api/compare?a=current&b=night@latest", 400, "no latest sweep 'night'"),
        ("/api/suite?suite=greetings&of=anything", 400, "names no results"),
    ],
)
def test_a_bad_request_says_what_is_wrong(served: Served, path: str, status: int, message: str) -> None:
    answer = served.get(path)

    assert answer.status_code == status
    assert message in answer.json()["error"]
