"""Conversations with turns, and cases that depend on others."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from eval_pipeline.suites.model import Conversation, EvaluatorSpec
from eval_pipeline_tests.formats.agentv.sample_suites import document, error_of, load, load_test, user_messages

pytestmark = pytest.mark.usefixtures("in_the_folder")

TURNS = """
mode: conversation
turns:
  - input: Book a table
    assertions: [Asks for the time, {type: contains, value: when, weight: 2, required: true}]
  - input: [{role: user, content: At eight}]
    expected_output: Done
  - input: Thanks
"""


def entry(type_: str, **fields: Any) -> dict[str, Any]:
    """An evaluator inside another's arguments."""
    given = {"name": type_, "weight": 1.0, "minimum": None, "negate": False, "failure_class": None, "config": {}}
    return {"type": type_, **given, **fields}


TURN_CONFIGS = [
    {
        "turn": 1,
        "assertions": [
            entry("rubrics", config={"criteria": ["Asks for the time"]}),
            entry("contains", name="contains-when", weight=2.0, minimum=0.8, config={"value": "when"}),
        ],
    },
    {
        "turn": 2,
        "expected_output": [{"role": "assistant", "content": "Done"}],
        "assertions": [entry("llm-grader")],
    },
    {"turn": 3, "assertions": []},
]


def test_the_user_speaks_turn_by_turn() -> None:
    case = load_test(TURNS + "input: [{role: system, content: Be brief}]\nwindow_size: 2\non_turn_failure: stop\n")

    assert case.input[0].role == "system"
    assert case.conversation == Conversation(
        turns=(user_messages("Book a table"), user_messages("At eight"), user_messages("Thanks")),
        window=2,
        on_failure="stop",
    )


def test_a_conversation_needs_no_input_before_its_turns() -> None:
    suite = load("tests: [{id: a, turns: [{input: Hi, criteria: Greets}]}]")

    assert (suite.errors, suite.cases[0].input) == ((), ())


def test_every_turn_has_an_evaluator_of_its_own() -> None:
    assert load_test(TURNS).evaluators == tuple(
        EvaluatorSpec(type="turn", name=f"turn-{config['turn']}", config=config) for config in TURN_CONFIGS
    )


def test_assertions_of_the_test_and_the_suite_are_about_the_whole_conversation() -> None:
    specs = load_test(
        TURNS + "assertions: [{type: is-json}]\n", "assertions: [{type: latency, threshold: 5}]"
    ).evaluators

    assert [spec.name for spec in specs] == ["turn-1", "turn-2", "turn-3", "conversation"]
    assert specs[-1].config == {"assertions": [entry("is-json"), entry("latency", config={"threshold": 5})]}


@pytest.mark.parametrize("aggregation", ["min", "max"])
def test_one_evaluator_takes_all_turns_for_another_aggregation_than_the_mean(aggregation: str) -> None:
    (spec,) = load_test(TURNS + f"aggregation: {aggregation}\nassertions: [{{type: is-json}}]\n").evaluators

    assert (spec.type, spec.name) == ("conversation", "conversation")
    assert spec.config == {"aggregation": aggregation, "turns": TURN_CONFIGS, "assertions": [entry("is-json")]}


def test_a_conversation_with_criteria_and_no_assertions_is_graded_by_a_model() -> None:
    specs = load_test("turns: [{input: Hi}]\ncriteria: polite").evaluators

    assert [spec.name for spec in specs] == ["turn-1", "conversation"]
    assert specs[1].config == {"assertions": [entry("llm-grader")]}


def test_a_conversation_that_nobody_evaluates_is_a_warning() -> None:
    suite = load("tests: [{id: a, turns: [{input: Hi}]}]")

    assert [spec.name for spec in suite.cases[0].evaluators] == ["turn-1"]
    assert suite.warnings == (
        "math.yaml:1: tests[0]: nothing of this conversation is evaluated: it passes whenever the target answers",
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("mode: conversation", "tests[0].turns: a conversation needs a list of turns"),
        ("mode: talk", "tests[0].mode: expected one of conversation; got a text ('talk')"),
        ("turns: []", "tests[0].turns: expected a list of turns, got a list"),
        ("turns: hi", "tests[0].turns: expected a list of turns, got a text ('hi')"),
        ("turns: [hi]", "tests[0].turns[0]: expected a turn with an input, got a text ('hi')"),
        ("turns: [{imput: hi}]", "tests[0].turns[0].input: a turn needs an input; write 'input' instead of 'imput'"),
        ("turns: [{input: []}]", "tests[0].turns[0].input: expected a text, an object or a list of messages"),
        (
            "turns: [{input: hi, assertions: [{type: x, weight: -1}]}]",
            "tests[0].turns[0].assertions[0].weight: expected",
        ),
        ("turns: [{input: hi}]\nwindow_size: 0", "tests[0].window_size: expected a whole number of at least 1"),
        ("turns: [{input: hi}]\naggregation: sum", "tests[0].aggregation: expected one of mean, min, max; got"),
        ("turns: [{input: hi}]\non_turn_failure: halt", "on_turn_failure: expected one of continue, stop; got"),
    ],
)
def test_what_is_wrong_with_a_conversation_is_said(fields: str, problem: str) -> None:
    assert problem in error_of(document(fields))


def dependent(**depends_on: str) -> str:
    tests = [f"  - {{id: {id_}, criteria: c, input: i, {fields}}}\n" for id_, fields in depends_on.items()]
    return "tests:\n" + "".join(tests)


def test_a_case_may_depend_on_others() -> None:
    text = dependent(a="", b="depends_on: a", c="depends_on: [b, a, b], on_dependency_failure: run")

    cases = load(text).cases

    assert [case.depends_on for case in cases] == [(), ("a",), ("b", "a")]
    assert [case.on_dependency_failure for case in cases] == ["skip", "skip", "run"]


@pytest.mark.parametrize(
    ("text", "kept", "problems"),
    [
        pytest.param(dependent(a="", b="depends_on: [aa]"), ["a"],
                     ["tests[1].depends_on: depends on 'aa', which is no case of this suite; did you mean 'a'?"],
                     id="unknown"),
        pytest.param(dependent(a="depends_on: [a]", b=""), ["b"], ["tests[0].depends_on: depends on itself: a → a"],
                     id="itself"),
        pytest.param(dependent(a="depends_on: [b]", b="depends_on: [c]", c="depends_on: [a]", d=""), ["d"],
                     ["tests[0].depends_on: depends on itself: a → b → c → a",
                      "tests[1].depends_on: depends on itself: b → c → a → b",
                      "tests[2].depends_on: depends on itself: c → a → b → c"], id="circle"),
        pytest.param(dependent(a="depends_on: [a]", b="depends_on: [a]", c="depends_on: [b]", d=""), ["d"],
                     ["tests[0].depends_on: depends on itself: a → a",
                      "tests[1].depends_on: depends on 'a', which cannot be used",
                      "tests[2].depends_on: depends on 'b', which cannot be used"], id="dragged along"),
        pytest.param(dependent(a="tags: 3", b="depends_on: [a]"), [],
                     ["tests[0].tags: expected a list of texts, got a number (3)",
                      "tests[1].depends_on: depends on 'a', which cannot be used"], id="on one that is broken"),
        pytest.param(dependent(a="depends_on: 3"), [],
                     ["tests[0].depends_on: expected a list of texts, got a number (3)"], id="no names"),
        pytest.param(dependent(a="on_dependency_failure: stop"), [],
                     ["tests[0].on_dependency_failure: expected one of skip, fail, run; got a text ('stop')"],
                     id="another word"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_dependencies_is_said(text: str, kept: list[str], problems: list[str]) -> None:
    suite = load(text)

    assert [case.id for case in suite.cases] == kept
    assert [str(error).partition(": ")[2] for error in suite.errors] == problems


def test_a_long_chain_of_dependencies_is_no_recursion() -> None:
    names = [f"c{number}" for number in range(3_000)]
    chain = {name: f"depends_on: [{before}]" for before, name in pairwise(names)}

    suite = load(dependent(**{"c0": "", **chain}))

    assert (len(suite.cases), suite.errors) == (3_000, ())
