"""Agent-Skills' `evals.json` as a suite."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.suites.load import find_suite_files
from eval_pipeline.suites.model import Message, Suite
from eval_pipeline_tests.formats.agentv.sample_suites import load, user_messages, write

pytestmark = pytest.mark.usefixtures("in_the_folder")


def loaded(*evals: Any, **fields: Any) -> Suite:
    return load(json.dumps({"skill_name": "csv-analyzer", **fields, "evals": list(evals)}), "evals.json")


def test_an_eval_is_a_case() -> None:
    suite = loaded({"id": 1, "prompt": "Sum it up", "expected_output": "It is 4"})

    (case,) = suite.cases
    assert (suite.name, suite.format, suite.warnings) == ("csv-analyzer", "agent-skills", ())
    assert (case.id, case.input, case.criteria) == ("1", user_messages("Sum it up"), "It is 4")
    assert case.expected_output == (Message(role="assistant", content="It is 4"),)
    assert [spec.type for spec in case.evaluators] == ["llm-grader"]


def test_each_assertion_in_words_is_a_grader_with_that_prompt() -> None:
    (case,) = loaded({"id": 1, "prompt": "i", "assertions": ["Is a table", "Has 4"]}).cases

    assert [(spec.type, spec.name, spec.config) for spec in case.evaluators] == [
        ("llm-grader", "assertion-1", {"prompt": "Is a table"}),
        ("llm-grader", "assertion-2", {"prompt": "Has 4"}),
    ]


def test_an_evals_files_are_attached_to_its_prompt() -> None:
    write("files/a.csv", "1,2\n")

    (case,) = loaded({"id": 1, "prompt": "Sum it up", "expected_output": "3", "files": ["files/a.csv"]}).cases

    assert case.files == (str(Path("files/a.csv").absolute()),)
    assert case.question == "Sum it up"


def test_a_file_is_found_by_its_evals() -> None:
    write("skills/evals.json", '{"evals": [{"id": 1, "prompt": "i", "expected_output": "o"}]}')
    write("skills/other.json", '{"evals": 3}')

    assert [path.name for path in find_suite_files(["skills"], Path.cwd())] == ["evals.json"]


@pytest.mark.parametrize(
    ("eval_", "problem"),
    [
        ({"id": 1}, "evals[0].prompt: every eval needs a prompt (a text), got nothing"),
        ("hi", "evals[0]: expected an eval (an object), got a text ('hi')"),
        ({"prompt": "i", "expected_output": "o"}, "evals[0].id: every test needs an id (a text), got nothing"),
        ({"id": 1, "prompt": "i", "expected_output": "o", "files": ["no.csv"]}, "no file 'no.csv'"),
        ({"id": 1, "prompt": "i"}, "needs criteria, expected_output or assertions"),
        ({"id": 1, "prompt": "i", "assertions": "x"}, "evals[0].assertions: expected a list of evaluators"),
    ],
)
def test_a_broken_eval_takes_only_itself_along(eval_: Any, problem: str) -> None:
    suite = loaded(eval_, {"id": "ok", "prompt": "i", "expected_output": "o"})

    assert [case.id for case in suite.cases] == ["ok"]
    assert problem in str(suite.errors[0])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"evals": []}', "evals.json:1: evals: expected a list of evals, got a list"),
        ('{"skill_name": 3, "evals": [{}]}', "evals.json:1: skill_name: expected a text, got a number (3)"),
        ('{"evals": [', "evals.json:1: not valid JSON: "),
    ],
)
def test_what_is_wrong_in_the_file_is_said(text: str, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        load(text, "evals.json")

    assert str(raised.value).startswith(problem)
