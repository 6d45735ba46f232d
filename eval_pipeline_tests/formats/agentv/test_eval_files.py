"""AgentV's eval files, YAML and JSONL: what each field becomes, and what is said of a field that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message, SuiteSettings
from eval_pipeline.suites.names import category_of
from eval_pipeline_tests.formats.agentv.sample_suites import document, error_of, load, load_test, user_messages

pytestmark = pytest.mark.usefixtures("in_the_folder")
DEFAULT_GRADER = EvaluatorSpec(type="llm-grader", name="llm-grader")


def test_the_simplest_suite() -> None:
    suite = load("""\
        tests:
          - id: addition
            criteria: Correctly calculates 15 + 27 = 42
            input: What is 15 + 27?
            expected_output: "42"
        """)

    assert (suite.name, suite.format, suite.path) == ("math", "agentv-yaml", Path("math.yaml"))
    assert (suite.errors, suite.warnings, suite.settings) == ((), (), SuiteSettings())
    assert suite.cases == (
        Case(
            id="addition",
            input=(Message(role="user", content="What is 15 + 27?"),),
            criteria="Correctly calculates 15 + 27 = 42",
            expected_output=(Message(role="assistant", content="42"),),
            evaluators=(DEFAULT_GRADER,),
            line=2,
        ),
    )


def test_the_same_suite_in_jsonl() -> None:
    row = {"id": "addition", "criteria": "Is 42", "input": "What is 15 + 27?", "expected_output": "42"}
    suite = load("\n" + json.dumps(row) + "\n\n", "math.jsonl")

    assert (suite.name, suite.format) == ("math", "agentv-jsonl")
    assert suite.cases == (
        Case(
            id="addition",
            input=user_messages("What is 15 + 27?"),
            criteria="Is 42",
            expected_output=(Message(role="assistant", content="42"),),
            evaluators=(DEFAULT_GRADER,),
            line=2,
        ),
    )


def test_the_same_suite_in_json() -> None:
    row = {"id": "addition", "criteria": "Is 42", "input": "What is 15 + 27? 😀 \\ud83d/", "note": "a\\b"}
    suite = load(json.dumps({"name": "sums", "tests": [row]}, indent="\t"), "math.json")

    assert suite.name == "sums"
    assert suite.cases[0].input == user_messages("What is 15 + 27? 😀 \\ud83d/")


@pytest.mark.parametrize("key", ["tests", "eval_cases", "evalcases"])
def test_tests_have_three_names(key: str) -> None:
    suite = load(f"{key}:\n  - {{id: t1, criteria: c, input: i}}\n")

    assert [case.id for case in suite.cases] == ["t1"]


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        pytest.param("input: Hello", user_messages("Hello"), id="text"),
        pytest.param("input: |\n  Hello\n  you\n", user_messages("Hello\nyou\n"), id="block"),
        pytest.param("input: {question: 2 + 2}", (Message(role="user", content={"question": "2 + 2"}),), id="object"),
        pytest.param("input: {role: user, content: Hi}", user_messages("Hi"), id="one message"),
        pytest.param(
            "input:\n  - {role: system, content: Be brief}\n  - {role: user, content: Hi, name: Ann}\n",
            (Message(role="system", content="Be brief"), Message(role="user", content="Hi", name="Ann")),
            id="messages",
        ),
        pytest.param(
            "input: [{role: user, content: [{type: text, value: Hi}, {type: text, text: you}]}]",
            (Message(role="user", content=[{"type": "text", "value": "Hi"}, {"type": "text", "text": "you"}]),),
            id="parts",
        ),
        pytest.param(
            "input: [{role: assistant, tool_calls: [{id: c1}]}, {role: tool, content: 4}]",
            (Message(role="assistant", content=None, tool_calls=({"id": "c1"},)), Message(role="tool", content="4")),
            id="tool calls",
        ),
    ],
)
def test_input_has_many_forms(written: str, messages: tuple[Message, ...]) -> None:
    assert load_test(written).input == messages


@pytest.mark.parametrize(
    ("content", "text"),
    [
        pytest.param("Hi", "Hi", id="text"),
        pytest.param([{"type": "text", "value": "a"}, "b", {"type": "image"}, {"text": "c"}], "a\nb\nc", id="parts"),
        pytest.param({"b": 1, "a": "é"}, '{"b":1,"a":"é"}', id="object"),
        pytest.param(None, "", id="nothing"),
        pytest.param([], "", id="no parts"),
    ],
)
def test_a_message_has_a_text_whatever_its_content(content: object, text: str) -> None:
    assert Message(role="user", content=content).text == text


@pytest.mark.parametrize(
    ("written", "messages"),
    [
        pytest.param("expected_output: '42'", (Message(role="assistant", content="42"),), id="text"),
        pytest.param("expected_output: 42", (Message(role="assistant", content="42"),), id="number"),
        pytest.param("expected_output: {a: 1}", (Message(role="assistant", content={"a": 1}),), id="object"),
        pytest.param("expected_output: [1, 2]", (Message(role="assistant", content=[1, 2]),), id="list"),
        pytest.param(
            "expected_output: {role: tool, content: 4}", (Message(role="tool", content="4"),), id="one message"
        ),
        pytest.param(
            "expected_output: [{role: user, content: a}, {role: assistant, content: b}]",
            (Message(role="user", content="a"), Message(role="assistant", content="b")),
            id="messages",
        ),
        pytest.param("expected_output: null", (), id="nothing"),
    ],
)
def test_expected_output_has_many_forms(written: str, messages: tuple[Message, ...]) -> None:
    assert load_test(written).expected_output == messages


def test_the_suites_input_comes_before_each_tests_own() -> None:
    suite = """
        input:
          - {role: system, content: Be brief}
        """

    assert [message.text for message in load_test("input: Hello", suite).input] == ["Be brief", "Hello"]


def test_the_tests_own_evaluators_come_first_and_the_suites_after() -> None:
    case = load_test("assertions: [{type: equals, value: a}]", "assertions: [{type: latency, threshold: 5}]")

    assert [spec.type for spec in case.evaluators] == ["equals", "latency"]


def test_a_test_that_skips_defaults_inherits_neither_evaluators_nor_input() -> None:
    suite = "input: Be brief\nassertions: [{type: latency, threshold: 5}]"

    case = load_test("execution: {skip_defaults: true}\nassertions: [{type: is-json}]", suite)

    assert case.input == user_messages("Hello")
    assert [spec.type for spec in case.evaluators] == ["is-json"]


def test_tags_and_metadata_of_the_suite_reach_its_tests() -> None:
    suite = "tags: [easy, sums]\nmetadata: {team: a, level: 1}"

    case = load_test("tags: [sums, new]\nmetadata: {level: 2}", suite)

    assert case.tags == ("easy", "sums", "new")
    assert case.metadata == {"team": "a", "level": 2}


def test_one_tag_needs_no_list() -> None:
    assert load_test("tags: new").tags == ("new",)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param("{type: contains, value: x}", EvaluatorSpec(type="contains", name="contains-x",
                     config={"value": "x"}), id="plain"),
        pytest.param("{type: contains_any, value: [x, y]}", EvaluatorSpec(type="contains-any", name="contains-any-2",
                     config={"value": ["x", "y"]}), id="underscores"),
        pytest.param("{type: is_json}", EvaluatorSpec(type="is-json", name="is-json"), id="no argument"),
        pytest.param("{type: regex, value: 'a+', flags: i}", EvaluatorSpec(type="regex", name="regex-a+",
                     config={"value": "a+", "flags": "i"}), id="flags"),
        pytest.param("{type: equals, value: x, name: exact}", EvaluatorSpec(type="equals", name="exact",
                     config={"value": "x"}), id="name"),
        pytest.param("{type: is-json, weight: 0}", EvaluatorSpec(type="is-json", name="is-json", weight=0.0),
                     id="weight"),
        pytest.param("{type: is-json, negate: true}", EvaluatorSpec(type="is-json", name="is-json", negate=True),
                     id="negate"),
        pytest.param("{type: is-json, required: true}", EvaluatorSpec(type="is-json", name="is-json", minimum=0.8),
                     id="gate"),
        pytest.param("{type: is-json, required: 0.6}", EvaluatorSpec(type="is-json", name="is-json", minimum=0.6),
                     id="gate of its own"),
        pytest.param("{type: is-json, required: true, min_score: 0.5}",
                     EvaluatorSpec(type="is-json", name="is-json", minimum=0.5), id="gate by min_score"),
        pytest.param("{type: is-json, required: 0.6, min_score: 0.5}",
                     EvaluatorSpec(type="is-json", name="is-json", minimum=0.5), id="min_score wins"),
        pytest.param("{type: is-json, required: false, min_score: 0.5}",
                     EvaluatorSpec(type="is-json", name="is-json"), id="no gate"),
        pytest.param("{type: is-json, failure_class: no-json}",
                     EvaluatorSpec(type="is-json", name="is-json", failure_class="no-json"), id="failure class"),
    ],
)  # fmt: skip
def test_an_evaluator_is_read(written: str, expected: EvaluatorSpec) -> None:
    assert load_test(f"assertions: [{written}]").evaluators == (expected,)


def test_plain_texts_among_the_assertions_are_the_criteria_of_one_evaluator() -> None:
    case = load_test("assertions: [Is polite, {type: is-json}, ' ', Is brief]")

    assert [(spec.type, spec.config) for spec in case.evaluators] == [
        ("rubrics", {"criteria": ["Is polite", "Is brief"]}),
        ("is-json", {}),
    ]


@pytest.mark.parametrize(
    ("written", "types"),
    [
        pytest.param("assert: [{type: is-json}]", ["is-json"], id="assert"),
        pytest.param("evaluators: [{type: is-json}]", ["is-json"], id="evaluators"),
        pytest.param("execution: {evaluators: [{type: is-json}]}", ["is-json"], id="execution.evaluators"),
        pytest.param("assert: [{type: is-json}]\nassertions: [{type: regex, value: a}]", ["regex"], id="assertions"),
        pytest.param(
            "evaluators: [{type: is-json}]\nexecution: {evaluators: [{type: regex, value: a}]}", ["regex"], id="last"
        ),
        pytest.param("assertions: []\nassert: [{type: is-json}]", ["llm-grader"], id="an empty list is present, too"),
    ],
)
def test_of_the_spellings_of_assertions_the_first_present_wins(written: str, types: list[str]) -> None:
    assert [spec.type for spec in load_test(written).evaluators] == types


def test_what_a_test_says_of_its_execution() -> None:
    case = load_test("""
        execution: {threshold: 0.7, targets: [gpt, claude]}
        timeout_s: 2.5
        max_steps: 7
        expected_fail: true
        """)

    assert (case.threshold, case.runners, case.timeout_s, case.expected_fail) == (0.7, ("gpt", "claude"), 2.5, True)
    assert case.max_steps == 7


def test_labels_and_reuse_of_a_test() -> None:
    case = load_test("conversation_id: talk-1\nsuite: german\nexecution: {cache: false}")

    assert (case.conversation_id, case.group, case.cache) == ("talk-1", "german", False)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("repeat: 3", (3, "pass_at_k", None, None)),
        ("execution: {trials: {count: 3, strategy: pass_any}}", (3, "pass_at_k", None, None)),
        ("execution: {trials: {count: 2, strategy: mean, costLimitUsd: 1.5}}", (2, "mean", None, 1.5)),
        ("repeat: {count: 2, strategy: pass_all, early_exit: false}", (2, "pass_all", False, None)),
        ("execution: {repeat: {count: 4, strategy: confidence_interval}}", (4, "confidence_interval", None, None)),
    ],
)
def test_repetitions_are_asked_for_by_a_suite_or_by_a_test(written: str, expected: tuple[object, ...]) -> None:
    case, settings = load_test(written), load(document("", written)).settings

    assert (case.repetitions, case.strategy, case.early_exit, case.repeat_budget_usd) == expected
    assert (
        settings.repetitions, settings.strategy, settings.early_exit, settings.repeat_budget_usd
    ) == expected  # fmt: skip


def test_a_suites_execution_may_be_written_in_camel_case() -> None:
    written = "execution: {totalBudgetUsd: 2, failOnError: true, skipDefaults: false}"

    assert load(document("", written)).settings == SuiteSettings(budget_usd=2.0, stop_on_error=True)


@pytest.mark.parametrize(
    ("path", "category"),
    [
        ("math.yaml", "Uncategorized"),
        ("evals/math.yaml", "Uncategorized"),
        ("evals/sums/easy/math.yaml", "sums/easy"),
        ("shop/evals/math.yaml", "shop"),
        ("", "Uncategorized"),
    ],
)
def test_a_category_is_named_after_the_folders(path: str, category: str) -> None:
    assert category_of(path) == category


def test_a_suite_knows_its_category() -> None:
    assert load(document(""), "evals/sums/math.yaml").category == "sums"


def test_a_test_may_name_one_target() -> None:
    assert load_test("execution: {target: gpt}").runners == ("gpt",)


@pytest.mark.parametrize(
    ("written", "settings"),
    [
        pytest.param("target: gpt", SuiteSettings(runners=("gpt",)), id="target"),
        pytest.param("execution: {target: gpt}", SuiteSettings(runners=("gpt",)), id="execution.target"),
        pytest.param("execution: {targets: [a, b]}", SuiteSettings(runners=("a", "b")), id="targets"),
        pytest.param("execution: {targets: [{name: a}, ' b ']}", SuiteSettings(runners=("a", "b")), id="mappings"),
        pytest.param("execution: {workers: 4}", SuiteSettings(concurrency=4), id="workers"),
        pytest.param("execution: {threshold: 1}", SuiteSettings(threshold=1.0), id="threshold"),
        pytest.param(
            "execution: {trials: {count: 3}}", SuiteSettings(repetitions=3, strategy="pass_at_k"), id="trials"
        ),
        pytest.param("execution: {total_budget_usd: 2.5}", SuiteSettings(budget_usd=2.5), id="budget"),
        pytest.param("execution: {budget_usd: 2}", SuiteSettings(budget_usd=2.0), id="budget, newer name"),
    ],
)
def test_what_a_suite_asks_of_its_execution(written: str, settings: SuiteSettings) -> None:
    assert load(document("", written)).settings == settings


def test_a_number_is_an_id_too() -> None:
    assert load_test("id: 7").id == "7"


def test_placeholders_are_filled_in_from_the_environment() -> None:
    suite = load(document("input: Hello ${{ NAME }}${{NONE}}!"), NAME="Ann")

    assert suite.cases[0].input == user_messages("Hello Ann!")


def test_placeholders_in_jsonl_are_filled_in_from_the_environment() -> None:
    suite = load('{"id": "a", "criteria": "c", "input": "Hello ${{ NAME }}"}\n', "a.jsonl", NAME="Ann")

    assert suite.cases[0].input == user_messages("Hello Ann")


@pytest.mark.parametrize(
    ("file", "suite_fields", "name"),
    [
        ("math.yaml", "", "math"),
        ("math.eval.yaml", "", "math"),
        (".eval.yaml", "", "eval"),
        ("math.yaml", "name: sums", "sums"),
        ("math.yaml", "name: ' '", "math"),
        ("math.yaml", "name: 'Sums & more!'", "Sums-more"),
        ("math.yaml", "name: '数学'", "suite"),
        ("my suite.yaml", "", "my-suite"),
    ],
)
def test_a_suite_has_a_name_that_can_be_typed(file: str, suite_fields: str, name: str) -> None:
    suite = load(document("", suite_fields), file)

    assert suite.name == name


def test_a_changed_name_is_said() -> None:
    suite = load(document("", "name: Sums & more"))

    assert suite.warnings == ("math.yaml:1: name: 'Sums & more' is kept as 'Sums-more' (letters, digits, . _ -)",)


def test_an_unknown_field_is_ignored_with_a_warning_that_names_the_nearest() -> None:
    suite = load(document("critera: x\ncriteria: c", "descripton: y"))

    assert suite.warnings == (
        "math.yaml:1: descripton: unknown suite field, ignored; did you mean 'description'?",
        "math.yaml:6: tests[0].critera: unknown test field, ignored; did you mean 'criteria'?",
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        pytest.param("id: ''", "math.yaml:5: tests[0].id: every test needs an id (a text), got a text ('')", id="id"),
        pytest.param("id: true", "tests[0].id: every test needs an id (a text), got a truth value (True)", id="id?"),
        pytest.param("input: []", "math.yaml:5: tests[0].input: expected a text, an object or a list of messages,"
                     " got a list", id="no messages"),
        pytest.param("input: 42", "expected a text, an object or a list of messages, got a number (42)", id="number"),
        pytest.param("input: null", "expected a text, an object or a list of messages, got nothing", id="null"),
        pytest.param("input: [hello]", "tests[0].input[0]: expected a message with role and content, got a text",
                     id="a text among the messages"),
        pytest.param("input: [{role: sytem, content: x}]", "tests[0].input[0].role: no role 'sytem'; there are: system,"
                     " user, assistant, tool; did you mean 'system'?", id="role"),
        pytest.param("input: [{role: [user], content: x}]", "input[0].role: no role a list", id="role of a kind"),
        pytest.param("input: [{role: user}]", "tests[0].input[0].content: a message needs content",
                     id="no content"),
        pytest.param("input: [{role: user, contnt: x}]", "tests[0].input[0].content: a message needs content; write"
                     " 'content' instead of 'contnt'", id="misspelled content"),
        pytest.param("input: [{role: user, content: [{type: audio, value: a}]}]", "tests[0].input[0].content[0]"
                     ".type: no content part 'audio'; there are: text, file, image", id="kind of part"),
        pytest.param("input: [{role: user, content: [3]}]", "content[0]: expected a content part with a type,"
                     " got a number (3)", id="part"),
        pytest.param("input: [{role: user, content: x, name: 3}]", "input[0].name: expected a text, got a number (3)",
                     id="name of a speaker"),
        pytest.param("input: [{role: assistant, tool_calls: 5}]", "input[0].tool_calls: expected a list of tool calls,"
                     " got a number (5)", id="tool calls"),
        pytest.param("input: [{role: assistant, tool_calls: [5]}]", "expected a list of tool calls, got a list",
                     id="a tool call"),
        pytest.param("criteria: 3", "tests[0].criteria: expected a text, got a number (3)", id="criteria"),
        pytest.param("criteria: ''", "math.yaml:3: tests[0]: test 't1' needs criteria, expected_output or assertions",
                     id="nothing to judge by"),
        pytest.param("tags: {a: 1}", "tests[0].tags: expected a list of texts, got a mapping", id="tags"),
        pytest.param("tags: [1]", "tests[0].tags: expected a list of texts, got a list", id="a tag"),
        pytest.param("metadata: x", "tests[0].metadata: expected a mapping, got a text ('x')", id="metadata"),
        pytest.param("execution: fast", "tests[0].execution: expected a mapping, got a text ('fast')", id="execution"),
        pytest.param("execution: {threshold: 80}", "tests[0].execution.threshold: expected a number from 0 to 1,"
                     " got a number (80)", id="threshold"),
        pytest.param("execution: {threshold: .nan}", "expected a number from 0 to 1, got a number (nan)", id="nan"),
        pytest.param("timeout_s: 0", "tests[0].timeout_s: expected a number above 0, got a number (0)", id="timeout"),
        pytest.param("timeout_s: " + "9" * 900, "tests[0].timeout_s: expected a number above 0, got a number",
                     id="huge"),
        pytest.param("max_steps: 0", "tests[0].max_steps: expected a whole number of at least 1", id="steps"),
        pytest.param("execution: {trials: {count: 2, strategy: best}}", "execution.trials.strategy: expected one of"
                     " pass_at_k, pass_any, pass_all, mean, confidence_interval; got a text ('best')", id="strategy"),
        pytest.param("execution: {trials: {strategy: mean}}", "execution.trials.count: expected how many repetitions,"
                     " got nothing", id="no count"),
        pytest.param("execution: {targets: [{name: a, provider: cli}]}", "execution.targets[0]: 'provider': write"
                     " this of the target in the runners file", id="target"),
        pytest.param("expected_fail: maybe", "tests[0].expected_fail: expected true or false, got a text ('maybe')",
                     id="flag"),
        pytest.param("assertions: {type: equals}", "tests[0].assertions: expected a list of evaluators, got a mapping",
                     id="assertions"),
        pytest.param("assertions: [3]", "tests[0].assertions[0]: expected an evaluator with a type, got a number (3)",
                     id="assertion"),
        pytest.param("assertions: [{value: x}]", "tests[0].assertions[0].type: expected an evaluator with a type,"
                     " got nothing", id="type"),
        pytest.param("assertions: [{type: is-json, weight: -1}]", "assertions[0].weight: expected a number of at"
                     " least 0, got a number (-1)", id="weight"),
        pytest.param("assertions: [{type: is-json, weight: .inf}]", "assertions[0].weight: expected a number of at"
                     " least 0, got a number (inf)", id="infinite weight"),
        pytest.param("assertions: [{type: is-json, required: often}]", "assertions[0].required: expected a number from"
                     " 0 to 1, got a text ('often')", id="required"),
        pytest.param("assertions: [{type: is-json, min_score: 2}]", "assertions[0].min_score: expected a number from"
                     " 0 to 1, got a number (2)", id="min_score"),
        pytest.param("assertions: [{type: is-json, negate: 1}]", "assertions[0].negate: expected true or false,"
                     " got a number (1)", id="negate"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_test_is_said(fields: str, problem: str) -> None:
    assert problem in error_of(document(fields))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("tests:\n  - hello\n", "math.yaml:2: tests[0]: expected a test (a mapping), got a text ('hello')",
                     id="no mapping"),
        pytest.param("tests:\n  - criteria: c\n    input: i\n", "math.yaml:2: tests[0].id: every test needs an id"
                     " (a text), got nothing", id="no id"),
        pytest.param("tests:\n  - id: a\n    criteria: c\n    imput: i\n", "math.yaml:4: tests[0].imput: test 'a' has"
                     " no input; write 'input' instead of 'imput'", id="no input"),
        pytest.param("tests: 3", "math.yaml:1: tests: expected a list of tests", id="tests"),
        pytest.param("name: x", "math.yaml:1: tests: no tests: expected a list under 'tests'", id="no tests"),
        pytest.param("- a", "math.yaml:1: expected a mapping with a list of tests", id="a list"),
        pytest.param("", "math.yaml: expected a mapping with a list of tests", id="empty"),
        pytest.param("a: [", "not valid YAML", id="no YAML"),
        pytest.param("tests: []\nexecution: {workers: many}", "math.yaml:2: execution.workers: expected a whole number"
                     " of at least 1, got a text ('many')", id="workers"),
        pytest.param("tests: []\nexecution:\n  trials:\n    count: 0", "math.yaml:4: execution.trials.count: expected a"
                     " whole number of at least 1, got a number (0)", id="trials"),
        pytest.param("tests: []\nexecution: {budget_usd: free}", "execution.budget_usd: expected a number above 0,"
                     " got a text ('free')", id="budget"),
        pytest.param("tests: []\nassertions: [{type: 3}]", "math.yaml:2: assertions[0].type: expected an evaluator with"
                     " a type, got a number (3)", id="assertions of the suite"),
        pytest.param("tests: []\npreprocessors: {}", "math.yaml:2: preprocessors: expected a list of preprocessors,"
                     " got a mapping", id="preprocessors"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_suite_is_said(text: str, problem: str) -> None:
    assert problem in error_of(text)


def test_everything_that_is_wrong_in_a_suite_is_said_at_once() -> None:
    problem = error_of("name: [x]\ntags: 3\nexecution: {threshold: 7}\nworkspace: 4\ntests: []")

    assert problem == (
        "math.yaml:2: tags: expected a list of texts, got a number (3)"
        "; also workspace: expected a mapping, got a number (4)"
        "; also execution.threshold: expected a number from 0 to 1, got a number (7)"
    )


def test_a_bad_case_never_takes_the_others_along() -> None:
    suite = load("""\
        tests:
          - {id: a, criteria: c, input: i}
          - {id: b, criteria: c}
          - oops
          - {id: c, criteria: c, input: i, depends_on: 3}
          - {id: d, criteria: c, input: i}
          - {id: a, criteria: another, input: i}
        """)

    assert [case.id for case in suite.cases] == ["a", "d"]
    assert [str(error) for error in suite.errors] == [
        "math.yaml:3: tests[1].input: test 'b' has no input",
        "math.yaml:4: tests[2]: expected a test (a mapping), got a text ('oops')",
        "math.yaml:5: tests[3].depends_on: expected a list of texts, got a number (3)",
        "math.yaml:7: tests[5].id: case id 'a' is taken (first at line 2)",
    ]


def test_a_bad_line_of_jsonl_never_takes_the_others_along() -> None:
    suite = load(
        '{"id": "a", "criteria": "c", "input": "i"}\n'
        '{"id": "b", "criteria": "c", "input": "i"\n'
        '{"id": "c", "criteria": "c"}\n'
        + '{"id": "d", "criteria": "c", "input": {"deep": ' + "[" * 200 + "]" * 200 + "}}\n"
        + '{"id": "e", "criteria": "c", "input": "' + "[{" * 200 + '"}\n'
        '[1]\n'
        '{"id": "a", "criteria": "c", "input": "i"}\n',
        "math.jsonl",
    )  # fmt: skip

    assert [case.id for case in suite.cases] == ["a", "e"]
    assert [str(error).partition(" (")[0] for error in suite.errors] == [
        "math.jsonl:2: not valid JSON: unexpected end of data",
        "math.jsonl:3: input: test 'c' has no input",
        "math.jsonl:4: nested deeper than 100 levels",
        "math.jsonl:6: expected a test",
        "math.jsonl:7: id: case id 'a' is taken",
    ]


REVISED = document("criteria: c", "name: x\ndescription: d")


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        pytest.param("criteria: c", "criteria: d", False, id="a field of a test"),
        pytest.param("description: d", "description: e", False, id="a field of the suite"),
        pytest.param("description: d\n", "", False, id="a field that went"),
        pytest.param("criteria: c", "criteria: c # a comment", True, id="a comment"),
        pytest.param("criteria: c", "criteria: 'c'", True, id="quotes"),
        pytest.param("criteria: c", "critera: c\n    criteria: c", False, id="an unknown field"),
    ],
)
def test_the_revision_is_that_of_the_content(old: str, new: str, same: bool) -> None:
    assert (load(REVISED.replace(old, new)).revision == load(REVISED).revision) == same


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_case_that_cannot_be_used_is_part_of_the_revision(first: str) -> None:
    other = {"a": "b", "b": "a"}[first]

    assert load(f"tests: [{{id: {first}}}]").revision != load(f"tests: [{{id: {other}}}]").revision


WRONG: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "text", [], ["text"], [[]], {}, {"type": "text"}, {"role": []})
FIELDS = (
    "id", "criteria", "expected_outcome", "input", "expected_output", "execution", "metadata", "tags", "note",
    "expected_fail", "timeout_s", "max_steps", "assertions", "assert", "evaluators",
)  # fmt: skip
SUITE_FIELDS = (
    "name", "description", "tags", "metadata", "input", "execution", "target", "assertions", "tests", "version",
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
def test_no_value_of_a_test_field_makes_loading_fail(field: str) -> None:
    wrong = [{"id": f"t{n}", "criteria": "c", "input": "i", field: value} for n, value in enumerate(WRONG)]
    deeper = [{"id": "d", "criteria": "c", "input": "i", field: {"evaluators": value}} for value in WRONG]
    listed = [
        {"id": "l", "criteria": "c", "input": "i", field: [{"role": "user", "content": value}]} for value in WRONG
    ]

    suite = load(json.dumps({"tests": [*wrong, *deeper, *listed, {"id": "ok", "criteria": "c", "input": "i"}]}))

    assert suite.cases[-1].id == "ok"


@pytest.mark.parametrize("field", SUITE_FIELDS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_no_value_of_a_suite_field_gives_anything_but_a_suite_or_an_input_error(field: str, value: object) -> None:
    text = json.dumps({"tests": [{"id": "ok", "criteria": "c", "input": "i"}], field: value})

    try:
        assert field == "tests" or load(text).cases[0].id == "ok"
    except InputError as error:
        assert error.place.field is not None
        assert error.place.field.startswith(field)


NO_TARGET = "names no target: the text is empty, perhaps because a variable in it is not set"


@pytest.mark.parametrize(
    ("fields", "suite_fields", "error"),
    [
        ("", "target: ${{ NOWHERE }}", f"math.yaml:1: target: {NO_TARGET}"),
        ("", "execution: {target: '${{ NOWHERE }}'}", f"math.yaml:1: execution.target: {NO_TARGET}"),
        ("", "execution: {targets: [a, '${{ NOWHERE }}']}", f"execution.targets[1]: {NO_TARGET}"),
        ("", "execution: {targets: '${{ NOWHERE }}'}", f"execution.targets: {NO_TARGET}"),
        ("", "execution: {targets: []}", "execution.targets: names no target; leave the field out, or name one"),
        ("execution: {target: ' '}", "", f"tests[0].execution.target: {NO_TARGET}"),
        ("execution: {targets: ['${{ NOWHERE }}']}", "target: a", f"tests[0].execution.targets[0]: {NO_TARGET}"),
    ],
)
def test_a_target_that_resolves_to_nothing_is_an_error_and_never_all_targets(
    fields: str, suite_fields: str, error: str
) -> None:
    assert error in error_of(document(fields, suite_fields))


NOT_FOLLOWED = (
    "; references are not followed: name the file as the value (`workspace: FILE`), or as an entry of the list"
    " (`- file://FILE` among tests, `- include: FILE` among assertions)"
)


@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ("input_messages: i", "tests[0].input_messages: unknown test field, ignored; its name is 'input'"),
        (
            "expected_messages: e",
            "tests[0].expected_messages: unknown test field, ignored; its name is 'expected_output'",
        ),
        ("description: d", "tests[0].description: unknown test field, ignored"),
        (
            "execution: {trials: {count: 2, stategy: mean}}",
            "tests[0].execution.trials.stategy: unknown field of trials, ignored; did you mean 'strategy'?",
        ),
        ("$ref: part.yaml", f"tests[0].$ref: unknown test field, ignored{NOT_FOLLOWED}"),
        (
            "workspace: {$ref: w.yaml}",
            f"tests[0].workspace.$ref: unknown workspace field '$ref', ignored{NOT_FOLLOWED}",
        ),
    ],
)
def test_an_older_name_is_told_the_newer_one_and_a_far_one_nothing(fields: str, warning: str) -> None:
    suite = load(f"tests: [{{id: a, criteria: c, input: i, {fields}}}]")

    assert [text.split(": ", 1)[1] for text in suite.warnings] == [warning]


def test_an_older_name_that_is_needed_is_told_the_newer_one() -> None:
    assert "write 'expected_output' instead of 'expected_messages'" in error_of(
        "tests: [{id: a, input: i, expected_messages: [{role: assistant, content: x}]}]"
    )


@pytest.mark.parametrize("name", ["inputs", "input_messages", "prompt"])
def test_a_test_without_input_says_which_field_is_meant(name: str) -> None:
    assert f"test 'a' has no input; write 'input' instead of '{name}'" in error_of(
        f"tests: [{{id: a, criteria: c, {name}: i}}]"
    )


def test_a_value_in_quotes_that_must_not_be_is_told_so() -> None:
    text = """tests: [{id: a, input: i, assertions: [{type: contains, value: x, negate: "false"}]}]"""

    assert "got a text ('false'); write false without quotes" in error_of(text)
