"""`${{ NAME }}`, `{{ env.NAME }}` and the variables of tests, wherever eval files may have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv import variables
from eval_pipeline.parsing.interpolation import interpolate, with_texts_changed
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline_tests.formats.agentv.sample_suites import document, error_of, load, load_test, user_messages, write

pytestmark = pytest.mark.usefixtures("in_the_folder")


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{{ env.NAME }}", "Ann"),
        ("a-{{env.NAME}}-${{ NAME }}", "a-Ann-Ann"),
        ("{{ env.NONE }}", ""),
        ("${{ env.NAME }}", "${{ env.NAME }}"),
        ("{{ NAME }}", "{{ NAME }}"),
    ],
)
def test_the_environment_can_be_named_in_two_ways(text: str, filled: str) -> None:
    assert interpolate([text], {"NAME": "Ann"}) == [filled]


def test_what_does_not_change_is_not_copied() -> None:
    value = {"a": ["x", {"b": "y"}], "c": ["z"]}

    changed = with_texts_changed(value, lambda text: "Z" if text == "z" else text)

    assert changed == {"a": ["x", {"b": "y"}], "c": ["Z"]}
    assert changed["a"] is value["a"]


def test_a_name_without_a_value_is_said_once_with_its_line() -> None:
    suite = load(document("input: Hello ${{ NOBODY }}${{NOBODY}}"))

    assert suite.warnings == ("math.yaml:5: NOBODY is not set in the environment; ${{ NOBODY }} became an empty text",)


def test_a_placeholder_may_stand_for_a_number_or_a_truth_value_of_a_suite() -> None:
    execution = "execution: {workers: '${{ N }}', cache: '${{ YES }}', trials: {count: '{{ env.N }}'}}"

    settings = load(document("", execution), N="3", YES="true").settings

    assert (settings.concurrency, settings.cache, settings.repetitions) == (3, True, 3)


def test_a_placeholder_may_stand_for_a_number_of_a_test() -> None:
    fields = """
        vars: {gate: 0.25}
        execution: {threshold: '${{ T }}'}
        assertions: [{type: is-json, weight: '{{ env.T }}', required: true, min_score: '{{ gate }}'}]
        """

    (case,) = load(document(fields), T="0.5").cases

    assert (case.threshold, case.evaluators[0].weight, case.evaluators[0].minimum) == (0.5, 0.5, 0.25)


def test_an_argument_of_an_evaluator_is_a_number_where_one_belongs() -> None:
    fields = """
        assertions:
          - {type: latency, threshold: "${{ MS }}"}
          - {type: contains, value: "${{ MS }}"}
          - {type: composite, name: c, weights: {a: "${{ MS }}"}, assertions: [{type: equals, value: "${{ MS }}"}]}
        """

    specs = load(document(fields), MS="5").cases[0].evaluators

    assert [spec.config for spec in specs] == [
        {"threshold": 5},
        {"value": "5"},
        {"weights": {"a": 5}, "assertions": [{"type": "equals", "value": "5"}]},
    ]
    assert all(type(value) in (int, str) for spec in specs[:2] for value in spec.config.values())


def test_a_text_that_is_only_quoted_is_no_number() -> None:
    assert "expected a number from 0 to 1, got a text ('0.5')" in error_of(document("execution: {threshold: '0.5'}"))


def test_a_placeholder_that_is_a_text_stays_one() -> None:
    suite = load(document("input: ${{ ID }}\nid: ${{ ID }}"), ID="007")

    assert (suite.cases[0].id, suite.cases[0].input) == ("007", user_messages("007"))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("Where is {{ city }}?", "Where is Rome?"),
        ("{{city}}{{ city }}", "RomeRome"),
        ("{{ n }} times", "2 times"),
        ("{{ n }}", "2"),
        ("{{ yes }}", "true"),
        ("{{ nothing }}.", "."),
        ("{{ who.name }}", "Ann"),
        ("{{ who }}!", '{"name":"Ann"}!'),
        ("{{ nobody }} {{ who.age }}", "{{ nobody }} {{ who.age }}"),
        ("${{ city }}", ""),
        ("{{ city | upper }}", "{{ city | upper }}"),
    ],
)
def test_a_tests_variables_are_filled_in(text: str, filled: str) -> None:
    given = "vars: {city: Rome, n: 2, yes: true, nothing: null, who: {name: Ann}}"

    assert load_test(f"{given}\ninput: '{text}'").input == user_messages(filled)


def test_variables_reach_everything_that_is_asked_and_expected() -> None:
    case = load_test("""
        vars: {city: Rome, facts: {country: Italy}}
        input: [{role: user, content: [{type: text, value: 'Where is {{ city }}?'}]}]
        criteria: Finds {{ city }}
        expected_output: '{{ facts }}'
        assertions: ['Names {{ city }}', {type: contains, value: '{{ city }}'}]
        """)

    assert case.input[0].text == "Where is Rome?"
    assert case.criteria == "Finds Rome"
    assert case.expected_output[0].content == {"country": "Italy"}
    assert [spec.config for spec in case.evaluators] == [{"criteria": ["Names Rome"]}, {"value": "Rome"}]
    assert [spec.name for spec in case.evaluators] == ["rubrics", "contains-Rome"]


def test_what_graders_fill_in_stays_for_them() -> None:
    case = load_test("""
        vars: {input: mine, output: mine, word: hi}
        input: '{{ input }}'
        assertions: [{type: llm-grader, name: g, prompt: '{{ input }} {{output}} {{ word }} {{criteria}}'}]
        """)

    assert case.input == user_messages("mine")
    assert case.evaluators[0].config["prompt"] == "{{ input }} {{output}} hi {{criteria}}"


def test_the_suites_own_fields_are_filled_in_for_each_test() -> None:
    suite = load("""
        vars: {city: Rome, tone: kind}
        input: 'Be {{ tone }}. Where is {{ city }}?'
        assertions: [{type: contains, value: '{{ city }}'}]
        tests:
          - {id: a, vars: {city: Paris}}
          - {id: b, input: 'Now!'}
        """)

    assert suite.errors == ()
    assert [case.input for case in suite.cases] == [
        user_messages("Be kind. Where is Paris?"),
        user_messages("Be kind. Where is Rome?", "Now!"),
    ]
    assert [case.evaluators[0].config["value"] for case in suite.cases] == ["Paris", "Rome"]


def test_evaluators_without_variables_are_shared_by_the_tests() -> None:
    suite = load("""
        assertions: [{type: is-json}]
        tests: [{id: a, vars: {x: 1}, input: i}, {id: b, input: i}]
        """)

    assert suite.cases[0].evaluators[0] is suite.cases[1].evaluators[0]


def test_variables_that_would_fill_the_memory_are_an_error() -> None:
    fields = f"vars: {{x: '{'x' * 5_000}'}}\ninput: '{'{{x}}' * 5_000}'"

    assert "vars: its variables make it longer than 10,000,000 characters" in error_of(document(fields))


def test_variables_that_would_fill_the_memory_together_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "MAX_CHARACTERS_OF_A_SUITE", 25)
    tests = ", ".join(f"{{id: t{number}, criteria: c, input: 'x{{{{ v }}}}'}}" for number in range(3))

    suite = load(f"vars: {{v: 0123456789}}\ntests: [{tests}]")

    assert [case.id for case in suite.cases] == ["t0", "t1"]
    assert "vars: the variables make the suite longer than 25 characters" in str(suite.errors[0])


def test_variables_that_are_no_mapping_are_an_error() -> None:
    assert "tests[0].vars: expected a mapping, got a list" in error_of(document("vars: [a]"))


def test_a_file_beside_a_dataset_has_placeholders_too() -> None:
    write("sums.yaml", "description: by ${{ NAME }}\ntarget: '{{ env.NAME }}'\n")
    write("sums.jsonl", '{"id": "a", "criteria": "c", "input": "i"}\n')

    suite = load_suite(Path("sums.jsonl"), LoadOptions({"NAME": "Ann"}))

    assert (suite.description, suite.settings.runners) == ("by Ann", ("Ann",))


def test_a_placeholder_does_not_make_aliases_grow() -> None:
    levels = "\n".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 6))
    text = "metadata:\n  a0: &a0 ['${{ X }}']\n" + levels + "\ntests: []\n"

    suite = load(text, X="x")

    first, second, *_ = suite.metadata["a5"]
    assert first is second


def test_too_many_values_by_aliases_are_an_error() -> None:
    levels = "\n".join(f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30))

    with pytest.raises(InputError, match=r"aliases expand to more than"):
        load("metadata:\n  a0: &a0 [x]\n" + levels + "\ntests: []\n")
