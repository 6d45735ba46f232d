"""Connexity's test cases in their three generations become cases with a simulated user, mocks and a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from eval_pipeline.errors import InputError
from eval_pipeline.suites.load import find_suite_files, load_suite
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.suites.simulation import SimulatedUser, ToolMock

PERSONA = {"type": "commuter", "description": "Takes the 7:40 bus.", "instructions": "Be brief."}
SHIPPED = {"status": "shipped"}
PAGE: dict[str, Any] = {
    "name": "Where is my parcel?",
    "difficulty": "hard",
    "tags": ["parcels"],
    "persona": PERSONA,
    "initial_message": "Where is my parcel?",
    "user_context": {"parcel": 17},
    "max_turns": 4,
    "expected_outcomes": {"parcel_found": True, "refund_offered": False},
    "expected_tool_calls": [
        {"tool": "track", "expected_params": {"parcel": 17}, "mock_responses": [{"response": SHIPPED}]},
        {"tool": "notify", "expected_params": None},
    ],
}
LATER: dict[str, Any] = {
    "name": "Where is my parcel?",
    "persona_context": "A commuter in a hurry.",
    "first_turn": "agent",
    "first_message": "Hello, how can I help?",
    "expected_outcomes": ["The agent finds the parcel"],
    "expected_tool_calls": [{"tool": "track", "expected_params": {"parcel": 17}, "mock_response": SHIPPED}],
}


def _load(folder: Path, document: Any, name: str = "parcels.json") -> Suite:
    path = folder / name
    path.write_text(yaml.safe_dump(document) if path.suffix == ".yaml" else json.dumps(document, indent=1))
    return load_suite(path)


def _case(folder: Path, document: Any) -> Case:
    return next(iter(_load(folder, document).cases))


def _problem(folder: Path, **changes: Any) -> str:
    with pytest.raises(InputError) as caught:
        _load(folder, PAGE | changes)
    return str(caught.value)


def test_a_case_of_the_page_has_a_user_with_persona_context_opener_and_limit(tmp_path: Path) -> None:
    case = _case(tmp_path, PAGE)

    assert case.user == SimulatedUser(
        persona=PERSONA, context={"parcel": 17}, opener="Where is my parcel?", max_turns=4
    )
    assert (case.id, case.difficulty, case.status, case.tags) == ("where-is-my-parcel", "hard", "active", ("parcels",))


def test_canned_answers_and_expected_calls_are_told_apart(tmp_path: Path) -> None:
    case = _case(tmp_path, PAGE)

    calls = [{"tool": "track", "arguments": {"parcel": 17}}, {"tool": "notify", "arguments": None}]
    assert case.mocks == (ToolMock(tool="track", response=SHIPPED),)
    judge, checked = case.evaluators
    assert judge.config["expected_calls"] == checked.config["calls"] == calls
    assert judge.config["outcomes"] == [
        {"outcome": "parcel_found", "expected": True},
        {"outcome": "refund_offered", "expected": False},
    ]


def test_no_expected_calls_and_no_call_expected_are_different(tmp_path: Path) -> None:
    assert [spec.type for spec in _case(tmp_path, PAGE | {"expected_tool_calls": None}).evaluators] == ["judge"]
    none_allowed = _case(tmp_path, PAGE | {"expected_tool_calls": []}).evaluators
    assert [spec.type for spec in none_allowed] == ["judge", "expected-calls"]
    assert none_allowed[1].config["calls"] == none_allowed[0].config["expected_calls"] == []


def test_a_deleted_case_counts_as_archived(tmp_path: Path) -> None:
    deleted = {"deleted_at": "2026-11-01T00:00:00Z"}
    without_calls = _load(tmp_path, [{"name": "n", "persona_context": "p", **deleted}])

    assert _case(tmp_path, LATER | deleted).status == "archived"
    assert (without_calls.cases[0].status, without_calls.warnings) == ("archived", ())


def test_names_of_every_script_are_ids(tmp_path: Path) -> None:
    names = ["Wo ist mein Päckchen?", "荷物はどこ"]

    suite = _load(tmp_path, [PAGE | {"name": name} for name in names])

    assert [case.id for case in suite.cases] == ["wo-ist-mein-päckchen", "荷物はどこ"]


def test_a_later_case_has_its_persona_as_a_text_and_may_let_the_agent_begin(tmp_path: Path) -> None:
    case = _case(tmp_path, LATER)

    assert case.user == SimulatedUser(
        persona="A commuter in a hurry.", first_turn="agent", opener="Hello, how can I help?"
    )
    assert case.mocks == (ToolMock(tool="track", response=SHIPPED, params={"parcel": 17}),)
    assert case.evaluators[0].config["outcomes"] == [{"outcome": "The agent finds the parcel", "expected": True}]


@pytest.mark.parametrize("name", ["cases.json", "cases.yaml"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_lists_and_exports_are_suites_of_their_cases(tmp_path: Path, name: str, wrapped: bool) -> None:
    cases = [PAGE | {"id": "a", "created_at": "2026-03-01T10:00:00Z"}, LATER | {"id": "b"}]
    suite = _load(tmp_path, {"test_cases": cases, "count": 2, "exported_at": "x"} if wrapped else cases, name)

    assert [case.id for case in suite.cases] == ["a", "b"]
    assert (suite.format, suite.name, suite.errors, suite.warnings) == ("connexity", "cases", (), ())
    assert suite.cases[0].metadata["created_at"] == "2026-03-01T10:00:00Z"


def test_one_wrong_case_is_an_error_with_all_its_fields_and_the_others_load(tmp_path: Path) -> None:
    wrong = PAGE | {"id": "b", "difficulty": "hrad", "persona": "a commuter", "max_turns": 0}
    suite = _load(tmp_path, [PAGE | {"id": "a"}, wrong, LATER | {"id": "a"}])

    assert [case.id for case in suite.cases] == ["a"]
    several, repeated = map(str, suite.errors)
    assert "did you mean 'hard'?" in several
    assert "expected a whole number of at least 1, got a number (0)" in several
    assert "expected a mapping, got a text ('a commuter')" in several
    assert "case id 'a' is taken (first at line 2)" in repeated


def test_a_misspelled_field_is_a_warning_with_the_nearest_name(tmp_path: Path) -> None:
    (warning,) = _load(tmp_path, PAGE | {"user_contxt": {}}).warnings
    assert warning.endswith("unknown test case field, ignored; did you mean 'user_context'?")


def test_a_misspelled_field_of_another_generation_has_its_nearest_name_too(tmp_path: Path) -> None:
    (warning,) = _load(tmp_path, {"name": "n", "max_turns": 2, "frst_message": "hi"}).warnings
    assert warning.endswith("unknown test case field, ignored; did you mean 'first_message'?")


def test_names_of_the_environment_are_not_replaced_and_that_is_said_at_their_field(tmp_path: Path) -> None:
    case = PAGE | {"initial_message": "I am ${{ WHO }}.", "user_context": {"a": ["${{ WHO }} {{ env.AGE }} {{id}}"]}}
    suite = _load(tmp_path, case)

    said = [text.split(": ", 1)[1] for text in suite.warnings]
    assert [text.split(" of the environment")[0] for text in said] == [
        "initial_message: 'WHO'", "user_context: 'WHO'", "user_context: 'AGE'",
    ]  # fmt: skip
    (read,) = suite.cases
    assert read.user is not None
    assert read.user.opener == "I am ${{ WHO }}."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"name": None}, "name: expected a text of at most 255 characters, got nothing"),
        ({"name": "x" * 256}, "name: expected at most 255 characters, got 256"),
        ({"tags": None}, "tags: expected a list of texts, got nothing"),
        ({"tags": ["a", 1]}, "tags[1]: expected a text, got a number (1)"),
        ({"persona": {"type": "t", "description": "d"}}, "persona.instructions: expected a text, got nothing"),
        ({"user_context": ["parcel"]}, "user_context: expected an object, got a list"),
        ({"expected_tool_calls": [{}]}, "expected_tool_calls[0].tool: expected a text, got nothing"),
        (
            {"expected_tool_calls": [{"tool": "t", "mock_responses": [{"response": [1]}]}]},
            "expected_tool_calls[0].mock_responses[0].response: expected an object, got a list",
        ),
        ({"first_message": "hi"}, "belong to different generations of the format"),
        (
            {"expected_outcomes": ["found"]},
            "expected_outcomes: expected an object of labels and values beside 'persona', got a list",
        ),
    ],
)
def test_a_wrong_field_is_an_error_with_its_place(tmp_path: Path, changes: dict[str, Any], expected: str) -> None:
    problem = _problem(tmp_path, **changes)
    assert expected in problem
    assert "parcels.json:" in problem


def test_files_of_cases_are_found_in_a_folder_and_other_json_is_not(tmp_path: Path) -> None:
    (tmp_path / "parcel.json").write_text(json.dumps(PAGE))
    (tmp_path / "settings.json").write_text('{"name": "not a case"}')
    (tmp_path / "package.json").write_text('{"name": "x", "dependencies": {}}')

    assert [path.name for path in find_suite_files(["."], tmp_path)] == ["parcel.json"]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.json", '{"name": "n",\n "max_turns": 0}', "a.json:2: max_turns: expected a whole number of at least 1"),
        ("a.yaml", "name: n\nmax_turns: 0\n", "a.yaml:2: max_turns: expected a whole number of at least 1"),
        ("a.json", '{"name": "n",\n "personna": {}}', "a.json:2: personna: unknown test case field"),
        ("a.yaml", "name: n\ntags: [x]\ninitial_mesage: p\n", "a.yaml:3: initial_mesage: unknown test case field"),
    ],
)
def test_a_case_whose_only_own_field_is_wrong_has_the_messages_of_a_case(
    tmp_path: Path, name: str, text: str, expected: str
) -> None:
    (tmp_path / name).write_text(text)

    assert [path.name for path in find_suite_files(["."], tmp_path)] == [name]
    try:
        (message,) = load_suite(tmp_path / name).warnings
        assert "did you mean" in message
    except InputError as error:
        message = str(error)
    assert expected in message


@pytest.mark.parametrize(
    "fields",
    [{"model": "m", "max_turns": 5}, {"version": "1"}, {"description": "d", "tags": []}, {"persona_count": 3}],
)
def test_a_file_with_a_name_and_fields_of_something_else_is_no_case(tmp_path: Path, fields: dict[str, Any]) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"name": "n", **fields}))
    (tmp_path / "other.yaml").write_text(yaml.safe_dump({"name": "n", **fields}))

    assert find_suite_files(["."], tmp_path) == []
