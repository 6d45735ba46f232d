"""Every error of an eval file is reported at once: one does not hide another of its test, its assertion or the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.parsing.diagnostics import problems_of
from eval_pipeline.scores.evaluate import EVALUATORS, EvaluatorSet
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.formats.agentv.sample_suites import load, write

pytestmark = pytest.mark.usefixtures("in_the_folder")

OPTIONS = LoadOptions(evaluators=frozenset(EVALUATORS.names()))


def problems_in(text: str) -> list[str]:
    suite = load_suite(write("math.yaml", text), OPTIONS)
    return [str(problem) for error in suite.errors for problem in problems_of(error)]


def test_a_test_without_input_has_the_errors_of_its_evaluators_too() -> None:
    no_input, unknown, missing, name = problems_in("""
        tests:
          - id: a
            imput: hi
            assertions:
              - {type: contain, value: x}
              - {type: contains}
              - {type: equals, value: x, name: 3}
        """)

    assert no_input == "math.yaml:4: tests[0].imput: test 'a' has no input; write 'input' instead of 'imput'"
    assert unknown.startswith(
        "math.yaml:6: tests[0].assertions[0].type: no evaluator 'contain'; did you mean 'contains'?"
    )
    assert unknown.endswith("; all: eval-pipeline schema suite")
    assert len(unknown) < 300
    assert missing == "math.yaml:7: tests[0].assertions[1].value: required"
    assert name == "math.yaml:8: tests[0].assertions[2].name: expected a text, got a number (3)"


def test_one_evaluator_has_all_of_its_errors() -> None:
    assert problems_in("""
        tests:
          - id: a
            input: hi
            assertions:
              - {type: contains, weight: "2", negate: "yes", required: "true"}
        """) == [
        "math.yaml:6: tests[0].assertions[0].weight: expected a number of at least 0, got a text ('2'); "
        "write 2 without quotes",
        "math.yaml:6: tests[0].assertions[0].negate: expected true or false, got a text ('yes')",
        "math.yaml:6: tests[0].assertions[0].required: expected a number from 0 to 1, got a text ('true'); "
        "write true without quotes",
        "math.yaml:6: tests[0].assertions[0].value: required",
    ]  # fmt: skip


def test_a_test_that_can_be_read_has_the_errors_of_all_its_evaluators() -> None:
    suite = load("""
        tests:
          - {id: a, input: hi, assertions: [{type: contain, value: x}, {type: contains}]}
        """)
    (error,) = EvaluatorSet(suite).check().values()

    assert "no evaluator 'contain'; did you mean 'contains'?" in str(error)
    assert "; also contains value: required" in str(error)


def test_the_authors_own_evaluators_are_no_errors_of_a_broken_test() -> None:
    Path(".agentv/assertions").mkdir(parents=True)
    Path(".agentv/assertions/polite.py").write_text("print('{}')")

    assert problems_in("""
        tests:
          - {id: a, assertions: [{type: polite}, {type: contains, value: x}]}
        """) == ["math.yaml:3: tests[0].input: test 'a' has no input"]
