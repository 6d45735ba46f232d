"""What users are shown when they make a mistake, and the failure classes that say why an execution did not pass."""

from __future__ import annotations

import re

import pytest

from eval_pipeline.errors import EvalPipelineError, InputError, InputErrors, SourceLocation, UnknownName, did_you_mean
from eval_pipeline.failures import (
    ASSERTION,
    AUTHENTICATION,
    BAD_REQUEST,
    CONNECTION,
    FAILURE_CLASSES,
    MODEL_REJECTED,
    RATE_LIMITED,
    SERVER_ERROR,
    TIMEOUT,
    FailureClass,
    Origin,
    failure_class,
    failure_of_status,
)
from eval_pipeline.scores.evaluate import EVALUATORS


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        pytest.param(SourceLocation(), "", id="nowhere"),
        pytest.param(SourceLocation("a.yaml"), "a.yaml", id="a file"),
        pytest.param(SourceLocation("a.yaml", 12), "a.yaml:12", id="a line"),
        pytest.param(SourceLocation("a.yaml", 12, "tests[3].id"), "a.yaml:12: tests[3].id", id="a field"),
        pytest.param(SourceLocation(line=12), "line 12", id="a line of unnamed text"),
        pytest.param(SourceLocation(field="base_url"), "base_url", id="a field alone"),
    ],
)
def test_a_place_is_shown_as_editors_and_compilers_show_it(place: SourceLocation, shown: str) -> None:
    assert str(place) == shown


def test_an_input_error_begins_with_its_place() -> None:
    assert str(InputError("expected a text", SourceLocation("a.yaml", 3, "name"))) == "a.yaml:3: name: expected a text"


def test_an_input_error_without_a_place_is_just_the_problem() -> None:
    assert str(InputError("expected a text")) == "expected a text"


def test_the_same_problem_can_be_said_of_another_place() -> None:
    error = InputError("expected a text", SourceLocation(field="command")).at(
        SourceLocation("runners.yaml", 7, "runners[1].command")
    )

    assert str(error) == "runners.yaml:7: runners[1].command: expected a text"


def test_several_input_errors_are_shown_one_a_line() -> None:
    errors = InputErrors(
        [InputError("first", SourceLocation("a.yaml", 1)), InputError("second", SourceLocation("b.yaml", 2))]
    )

    assert str(errors) == "a.yaml:1: first\nb.yaml:2: second"
    assert isinstance(errors, EvalPipelineError)


@pytest.mark.parametrize(
    ("name", "known", "shown"),
    [
        pytest.param(
            "contians", ["equals", "contains"],
            "no evaluator 'contians'; there are: contains, equals; did you mean 'contains'?", id="near",
        ),
        pytest.param("xyz", ["equals", "contains"], "no evaluator 'xyz'; there are: contains, equals", id="far"),
        pytest.param("xyz", [], "no evaluator 'xyz'; there are none", id="nothing known"),
    ],
)  # fmt: skip
def test_an_unknown_name_lists_what_there_is_and_the_nearest(name: str, known: list[str], shown: str) -> None:
    assert str(UnknownName("evaluator", name, iter(known))) == shown


def test_nothing_is_suggested_when_nothing_is_near() -> None:
    assert did_you_mean("temperature", ["id", "input"]) == ""


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, BAD_REQUEST),
        (401, AUTHENTICATION),
        (403, AUTHENTICATION),
        (404, MODEL_REJECTED),
        (408, TIMEOUT),
        (418, BAD_REQUEST),
        (422, BAD_REQUEST),
        (429, RATE_LIMITED),
        (500, SERVER_ERROR),
        (529, SERVER_ERROR),
    ],
)
def test_an_http_status_has_a_failure_class(status: int, expected: FailureClass) -> None:
    assert failure_of_status(status) is expected


def test_only_a_wrong_answer_counts_as_graded() -> None:
    graded = {found.id for found in FAILURE_CLASSES.values() if found.graded}

    assert graded == {"assertion", "gate", "snapshot", "unexpected-passed", "dependency"}
    assert not CONNECTION.graded


def test_every_failure_class_is_found_by_its_id() -> None:
    assert failure_class("assertion") is ASSERTION
    assert all(failure_class(id_) is found and found.id == id_ for id_, found in FAILURE_CLASSES.items())


def test_a_failure_class_that_a_suite_made_up_is_a_wrong_answer_of_that_name() -> None:
    assert failure_class("wrong-alias") == FailureClass("wrong-alias", "Wrong alias", Origin.QUALITY)


def test_an_unknown_name_among_many_shows_the_nearest_first_and_the_command_that_lists_all() -> None:
    with pytest.raises(UnknownName) as caught:
        EVALUATORS.get("contain")

    assert re.match(
        r"no evaluator 'contain'; did you mean 'contains'\? there are \d+, such as contains, (\S+, ){4}\S+; "
        "all: eval-pipeline schema suite$",
        caught.value.problem,
    )


def test_a_far_name_is_no_guess() -> None:
    assert did_you_mean("description", ["execution", "tests"]) == ""


def test_an_unknown_name_among_thousands_lists_a_few() -> None:
    error = UnknownName("case", "c", [f"c{number:05d}" for number in range(6_000)])

    assert error.problem.startswith("no case 'c'; there are 6,000, such as c0000")
