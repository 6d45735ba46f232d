"""Who evaluates a test: default graders, rubrics, templates, the author's own scripts; criteria that nobody reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.scores.evaluate import build
from eval_pipeline.scores.evaluators.composite import Composite
from eval_pipeline.suites.load import LoadOptions, load_suite
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.formats.agentv.sample_suites import document, error_of, load, load_test, write

pytestmark = pytest.mark.usefixtures("in_the_folder")


def named(fields: str, suite_fields: str = "") -> list[tuple[str, str]]:
    """Type and name of each evaluator of a test."""
    return [(spec.type, spec.name) for spec in load_test(fields, suite_fields).evaluators]


@pytest.mark.parametrize(
    "fields", ["", "assertions: []", "criteria: ''\nexpected_output: x", "expected_outcome: polite"]
)
def test_a_test_without_assertions_is_graded_by_a_model(fields: str) -> None:
    assert named(fields) == [("llm-grader", "llm-grader")]


@pytest.mark.parametrize(
    ("kind", "type_"), [("code-grader", "code-grader"), ("llm_judge", "llm-grader"), ("code-judge", "code-grader")]
)
def test_a_suite_chooses_its_default_grader(kind: str, type_: str) -> None:
    assert named("", f"evaluator: {kind}") == [(type_, type_)]


def test_a_test_with_only_the_suites_assertions_needs_no_other() -> None:
    suite = load("assertions: [{type: is-json}]\ntests: [{id: a, input: i}]")

    assert suite.errors == ()
    assert [spec.type for spec in suite.cases[0].evaluators] == ["is-json"]


def test_a_test_that_skips_the_suites_assertions_and_has_none_is_graded_by_a_model() -> None:
    assert named("execution: {skip_defaults: true}", "assertions: [{type: is-json}]") == [("llm-grader", "llm-grader")]


def test_rubrics_are_one_grader_before_the_others() -> None:
    case = load_test("rubrics: [Polite, {id: brief, outcome: Brief}]\nassertions: [{type: is-json}]")

    assert case.evaluators[0] == EvaluatorSpec(
        type="llm-grader", name="rubric", config={"rubrics": ["Polite", {"id": "brief", "outcome": "Brief"}]}
    )
    assert [spec.type for spec in case.evaluators] == ["llm-grader", "is-json"]


def test_plain_texts_stand_where_the_first_of_them_stood() -> None:
    fields = "assertions: [{type: is-json}, ' ', Polite, {type: equals, value: a}, Brief]"

    assert named(fields) == [("is-json", "is-json"), ("rubrics", "rubrics"), ("equals", "equals-a")]


@pytest.mark.parametrize(("versions", "weight"), [(">=4.2", 1.0), (">=4.40", 2.0)])
def test_texts_weigh_as_much_as_that_many_evaluators_where_a_later_version_is_required(
    versions: str, weight: float
) -> None:
    suite = load(document("assertions: [Polite, Brief]", f"requires: {{agentv: '{versions}'}}"))

    assert [spec.weight for spec in suite.cases[0].evaluators] == [weight]


def test_an_evaluators_own_arguments_go_on_as_they_are() -> None:
    fields = "assertions: [{type: composite, name: all, aggregator: {type: weighted_average}, assertions: [{type: x}]}]"

    (spec,) = load_test(fields).evaluators

    assert spec.config == {"aggregator": {"type": "weighted_average"}, "assertions": [{"type": "x"}]}


def test_metrics_may_be_written_in_camel_case() -> None:
    (spec,) = load_test("assertions: [{type: execution-metrics, maxToolCalls: 3, maxTokens: 5}]").evaluators

    assert spec.config == {"max_tool_calls": 3, "max_tokens": 5}


@pytest.mark.parametrize("field", ["required", "min_score"])
def test_a_gate_of_zero_is_an_error(field: str) -> None:
    assert "expected a number above 0 and at most 1" in error_of(document(f"assertions: [{{type: x, {field}: 0}}]"))


@pytest.mark.parametrize(
    ("fields", "suite_fields", "warning"),
    [
        ("assert: [{type: x}]", "", "math.yaml:6: tests[0].assert: an older spelling of 'assertions': 'assert'"),
        ("expected_outcome: x", "", "math.yaml:6: tests[0].expected_outcome: an older spelling of 'criteria'"),
        (
            "assertions: [{type: llm-judge, name: j}]", "",
            "math.yaml:6: tests[0].assertions[0].type: 'llm-judge' is called 'llm-grader' now",
        ),
        ("criteria: ' '\nexpected_output: x", "", "math.yaml:5: tests[0].criteria: criteria are empty"),
        ("assertions: ['', a]", "", "math.yaml:6: tests[0].assertions[0]: an empty text is no criterion, ignored"),
        ("execution: {workers: 3}", "",
         "math.yaml:6: tests[0].execution.workers: 'workers' is for the whole suite; ignored on a test"),
        ("execution: {treshold: 3}", "", "math.yaml:6: tests[0].execution.treshold: unknown field of execution,"
         " ignored; did you mean 'threshold'?"),
        ("", "execution: {cache_path: x}", "math.yaml:1: execution.cache_path: what was executed is kept in the"
         " project's data folder; ignored"),
        ("", "requires: {agentv: '>=5'}", "math.yaml:1: requires.agentv: requires AgentV '>=5'; this version reads"
         " files as 4.9.1 and 4.42.4 do"),
        ("", "name: Math", "math.yaml:1: name: AgentV itself takes only 1 to 64 lower-case letters, digits and hyphens,"
         " not 'Math'"),
    ],
)  # fmt: skip
def test_what_is_odd_and_stops_nothing_is_a_warning(fields: str, suite_fields: str, warning: str) -> None:
    suite = load(document(fields, suite_fields))

    assert (suite.errors, suite.warnings) == ((), (warning,))


def test_an_older_spelling_of_tests_is_a_warning() -> None:
    assert "math.yaml:1: eval_cases: an older spelling of 'tests'" in load("eval_cases: []").warnings


UNREAD = "nothing that evaluates this test reads its criteria"


@pytest.mark.parametrize(
    ("assertions", "unread"),
    [
        ("[{type: contains, value: x}, {type: latency, threshold: 5}]", True),
        ("[{type: composite, name: c, assertions: [{type: is-json}, {type: regex, value: a}]}]", True),
        ("[{type: contains, value: x}, {type: llm-grader, name: g}]", False),
        ("[{type: contains, value: x}, Is polite]", False),
        ("[{type: code-grader, name: g, command: [x]}]", False),
        ("[{type: composite, name: c, assertions: [{type: is-json}, {type: llm_grader}]}]", False),
        ("[{type: composite, name: c, aggregator: {type: llm-grader}, assertions: [{type: is-json}]}]", False),
        ("[{type: nobody-knows}]", False),
        ("[]", False),
    ],
)
def test_criteria_that_no_evaluator_reads_are_a_warning(assertions: str, unread: bool) -> None:
    suite = load(document(f"criteria: polite\nassertions: {assertions}"))

    assert [UNREAD in warning for warning in suite.warnings] == ([True] if unread else [])


def test_many_warnings_of_one_kind_are_counted() -> None:
    row = {"criteria": "c", "input": "i", "assertions": [{"type": "is-json"}], "colour": "red"}
    suite = load("\n".join(json.dumps({"id": str(number), **row}) for number in range(1_000)), "a.jsonl")

    assert len(suite.cases) == 1_000
    assert len(suite.warnings) == 12
    assert suite.warnings[5].startswith("a.jsonl: 995 more like this: unknown test field")


def test_everything_that_is_wrong_with_a_test_is_said_at_once() -> None:
    problem = error_of(document("criteria: 3\ntags: {a: 1}\ninput: []\nassertions: [{type: x, weight: -1}]"))

    assert problem == (
        "math.yaml:6: tests[0].input: expected a text, an object or a list of messages, got a list"
        "; also tests[0].criteria: expected a text, got a number (3)"
        "; also tests[0].assertions[0].weight: expected a number of at least 0, got a number (-1)"
        "; also tests[0].tags: expected a list of texts, got a mapping"
    )


def test_assertions_may_stand_in_a_template() -> None:
    write(".agentv/templates/safe.yaml", "- {type: is-json}\n- include: deeper\n- Is safe\n")
    write("evals/.agentv/templates/deeper.yml", "assertions: [{type: regex, value: '{{ word }}'}]\n")

    suite = load(
        document("vars: {word: hi}\nassertions: [Is polite, include: safe, {type: equals, value: a}]"), "evals/a.yaml"
    )

    assert suite.errors == ()
    assert [spec.type for spec in suite.cases[0].evaluators] == ["rubrics", "is-json", "regex", "equals"]
    assert suite.cases[0].evaluators[0].config == {"criteria": ["Is polite", "Is safe"]}
    assert [path.name for path in suite.parts] == ["safe.yaml", "deeper.yml"]


def test_a_template_is_included_among_the_members_of_an_evaluator() -> None:
    write("evals/.agentv/templates/safe.yaml", "- {type: is-json}\n- {type: regex, value: a}\n")

    suite = load(document("assertions: [{type: composite, assertions: [include: safe]}]"), "evals/a.yaml")

    (spec,) = suite.cases[0].evaluators
    assert [member["type"] for member in spec.config["assertions"]] == ["is-json", "regex"]


def test_a_template_is_part_of_the_revision() -> None:
    write("t.yaml", "- {type: is-json}\n")
    before = load(document("assertions: [include: ./t.yaml]")).revision
    write("t.yaml", "- {type: is-json, weight: 2}\n")

    assert load(document("assertions: [include: ./t.yaml]")).revision != before


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("include: nobody", "math.yaml:6: tests[0].assertions[0].include: no template 'nobody' in .agentv/templates"),
        ("include: 3", "tests[0].assertions[0].include: expected the name or path of a template, got a number (3)"),
        ("include: circle", ".agentv/templates/circle.yaml:1: include: templates include one another more than 3 deep"),
        ("include: words", ".agentv/templates/words.yaml:1: assertions: expected a list of assertions, got nothing"),
        ("include: wrong", ".agentv/templates/wrong.yaml:2: weight: expected a number of at least 0"),
        ("include: ../t.yaml", "no file '../t.yaml'"),
    ],
)
def test_what_is_wrong_with_a_template_is_said(entry: str, problem: str) -> None:
    write(".agentv/templates/circle.yaml", "- include: circle\n")
    write(".agentv/templates/words.yaml", "a: b\n")
    write(".agentv/templates/wrong.yaml", "\n- {type: x, weight: -1}\n")

    assert problem in error_of(document(f"assertions: [{entry}]"))


def evaluators_with(known: set[str], fields: str) -> tuple[EvaluatorSpec, ...]:
    write("evals/math.yaml", document(fields))
    suite = load_suite(Path("evals/math.yaml"), LoadOptions({}, frozenset(known)))
    assert suite.errors == ()
    return suite.cases[0].evaluators


@pytest.mark.parametrize(
    ("script", "command"),
    [
        ("evals/.agentv/assertions/word_count.py", ["python3", ".agentv/assertions/word_count.py"]),
        (".agentv/graders/word-count.sh", ["sh", "../.agentv/graders/word-count.sh"]),
        (".agentv/judges/word-count.ts", ["bun", "run", "../.agentv/judges/word-count.ts"]),
    ],
)
def test_a_script_of_the_authors_is_a_type_of_its_own_wherever_the_suite_lies(script: str, command: list[str]) -> None:
    write(script, "print()")
    write(".git/HEAD", "")

    (spec,) = evaluators_with({"contains"}, "assertions: [{type: word-count, min: 3, weight: 2}]")

    assert spec == EvaluatorSpec(
        type="code-grader",
        name="word-count",
        weight=2.0,
        config={"command": command, "config": {"min": 3}, "on_error": "fail"},
    )


def test_a_script_is_named_in_full_where_the_suites_folder_is_a_link_to_another_place(tmp_path: Path) -> None:
    (tmp_path / "else" / "where").mkdir(parents=True)
    write(".git/HEAD", "")
    write(".agentv/assertions/word_count.py", "print()")
    Path("evals").symlink_to(tmp_path / "else" / "where")

    (spec,) = evaluators_with({"contains"}, "assertions: [{type: word-count}]")

    assert spec.config["command"] == ["python3", str(Path(".agentv/assertions/word_count.py").absolute())]


@pytest.mark.parametrize("known", [{"word-count"}, set()])
def test_a_registered_evaluator_comes_before_a_script(known: set[str]) -> None:
    write("evals/.agentv/assertions/word-count.sh", "echo")

    (spec,) = evaluators_with(known, "assertions: [{type: word-count}]")

    assert (spec.type, spec.config) == ("word-count", {})


@pytest.mark.parametrize("type_", ["composite", "assert-set"])
def test_of_two_lists_of_members_the_newer_name_is_read_and_the_other_is_a_warning(type_: str) -> None:
    aggregator = "aggregator: {type: weighted_average}" if type_ == "composite" else "threshold: 0.5"
    suite = load(
        document(f"""\
            assertions:
              - name: both
                type: {type_}
                {aggregator}
                evaluators: [{{type: equals, value: old}}]
                assertions: [{{type: equals, value: new}}]
            """)
    )

    (spec,) = suite.cases[0].evaluators
    build(spec)
    assert spec.config["assertions"] == [{"type": "equals", "value": "new"}]
    assert any(
        f"tests[0].assertions[0].evaluators: 'assertions' of the same {type_} is read instead; ignored" in warning
        for warning in suite.warnings
    )


@pytest.mark.parametrize("key", ["assert", "evaluators"])
def test_an_older_name_of_the_members_works_with_templates_and_inside_other_composites(key: str) -> None:
    write("greeting.yaml", "assertions: [{type: equals, value: Hello}]")
    spec = load_test(f"""\
        assertions:
          - name: outer
            type: composite
            aggregator: {{type: threshold, threshold: 1}}
            {key}:
              - name: inner
                type: composite
                aggregator: {{type: weighted_average}}
                {key}: [{{include: greeting.yaml}}]
        """).evaluators[0]

    outer = build(spec)
    assert isinstance(outer, Composite)
    (inner,) = outer.members
    assert inner.config[key] == [{"type": "equals", "value": "Hello"}]


UNKNOWN = {
    "a note": ("{type: contains, value: a, description: why}", "description: a note on 'contains', without effect"),
    "a misspelled option": (
        "{type: regex, value: a, flag: i}",
        "flag: unknown argument of 'regex', ignored; there are: value, flags; did you mean 'flags'?",
    ),
    "a misspelled weight": (
        "{type: contains, value: a, weigth: 2}",
        "weigth: unknown argument of 'contains', ignored; there are: value; did you mean 'weight'?",
    ),
    "a field of a criterion": (
        "{type: rubrics, name: r, criteria: [{id: a, outcome: b, wieght: 2}]}",
        "wieght: unknown field of a criterion, ignored; did you mean 'weight'?",
    ),
    "a field of an expected call": (
        "{type: tool-trajectory, name: t, mode: exact, expected: [{tool: a, input: 1}]}",
        "input: of an expected call only tool, kind, args, args_match, max_duration_ms are compared; ignored",
    ),
    "a duration in a mode without durations": (
        "{type: tool-trajectory, name: t, mode: superset, expected: [{tool: a, max_duration_ms: 9}]}",
        "max_duration_ms: of an expected call only tool, kind, args, args_match are compared; ignored; only the modes "
        "in_order and exact compare durations",
    ),
    "a note on a member": (
        "{type: composite, aggregator: {type: threshold, threshold: 1}, "
        "assertions: [{name: m, type: contains, value: a, description: why}]}",
        "description: a note on 'contains', without effect",
    ),
}


@pytest.mark.parametrize(("entry", "problem"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_an_evaluator_has_no_argument_for_is_a_warning(entry: str, problem: str) -> None:
    suite = load(f"tests: [{{id: a, criteria: c, input: i, assertions: [{entry}]}}]")

    (spec,) = suite.cases[0].evaluators
    build(spec)
    assert any(warning.endswith(problem) for warning in suite.warnings)


def test_an_unknown_argument_in_place_of_a_needed_one_is_an_error() -> None:
    suite = load("tests: [{id: a, criteria: c, input: i, assertions: [{type: contains, valeu: a}]}]")

    with pytest.raises(InputError, match="valeu: unknown argument; there are: value; did you mean 'value'"):
        build(suite.cases[0].evaluators[0])
