"""Where an eval file's tests can stand: in the file, in files and folders that it names, and in globs of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.suites.load import LoadOptions, find_suite_files, load_suite
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.formats.agentv.sample_suites import error_of, load, user_messages, write

pytestmark = pytest.mark.usefixtures("in_the_folder")

LIST = "- {id: a, criteria: c, input: A}\n- {id: b, criteria: c, input: B}\n"
ROWS = '{"id": "a", "criteria": "c", "input": "A"}\n\n{"id": "b", "criteria": "c", "input": "B"}\n'
TABLE = "id,criteria,input\na,c,A\nb,c,B\n"


def ids(suite: Suite) -> list[str]:
    assert [str(error) for error in suite.errors] == []
    return [case.id for case in suite.cases]


@pytest.mark.parametrize("named", ["tests: {}\n", "tests: file://{}\n", "tests: ['file://{}']\n"])
@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("cases/all.yaml", LIST),
        ("cases/all.yml", LIST),
        ("cases/all.json", json.dumps([{"id": name, "criteria": "c", "input": name.upper()} for name in "ab"])),
        ("cases/all.jsonl", ROWS),
        ("cases/all.csv", TABLE),
    ],
)
def test_tests_may_stand_in_a_file_of_their_own(named: str, file: str, text: str) -> None:
    write(file, text)

    suite = load(named.format(file))

    assert ids(suite) == ["a", "b"]
    assert [case.input for case in suite.cases] == [user_messages("A"), user_messages("B")]
    assert suite.parts == (Path(file).absolute(),)


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("tests: cases/*.yaml", ["a", "b", "c"]),
        ("tests: file://cases/**/*.jsonl", ["d"]),
        ("tests: ['file://cases/*.yaml', {id: z, criteria: c, input: i}]", ["a", "b", "c", "z"]),
        ("tests: [{id: z, criteria: c, input: i}, file://cases/2.yaml]", ["z", "c"]),
    ],
)
def test_a_glob_gives_the_tests_of_its_files_sorted_by_name(named: str, expected: list[str]) -> None:
    write("cases/2.yaml", "- {id: c, criteria: c, input: i}\n")
    write("cases/1.yaml", LIST)
    write("cases/deep/3.jsonl", '{"id": "d", "criteria": "c", "input": "i"}\n')

    assert ids(load(named)) == expected


def test_tests_in_other_files_inherit_what_the_suite_says() -> None:
    write("cases.yaml", "- {id: a, criteria: c, input: A}\n")

    (case,) = load("tests: cases.yaml\ninput: Be brief\nassertions: [{type: is-json}]\ntags: [x]\n").cases

    assert case.input == user_messages("Be brief", "A")
    assert ([spec.type for spec in case.evaluators], case.tags) == (["is-json"], ("x",))


def test_a_case_of_another_file_knows_its_place() -> None:
    write("cases.yaml", "# about\n" + LIST)

    cases = load("tests: cases.yaml").cases

    assert [(case.origin, case.line) for case in cases] == [
        (Path("cases.yaml").absolute(), 2),
        (Path("cases.yaml").absolute(), 3),
    ]


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("c.yaml", LIST + "- {id: c}\n", "c.yaml:3: input: test 'c' has no input"),
        ("c.jsonl", ROWS + '{"id": "c", "criteria": 3, "input": "i"}\n', "c.jsonl:4: criteria: expected a text"),
        ("c.jsonl", ROWS + '{"id": "c"\n', "c.jsonl:4: not valid JSON: unexpected end of data"),
        ("c.csv", TABLE + "c,c,\n", "c.csv:4: input: test 'c' has no input"),
        ("c.yaml", LIST + "- {id: a, criteria: c, input: i}\n", "c.yaml:3: id: case id 'a' is taken (first in "),
    ],
)
def test_an_error_names_the_file_and_line_that_it_is_in(file: str, text: str, problem: str) -> None:
    write(file, text)

    (error,) = load(f"tests: {file}").errors

    assert str(error).startswith(problem)


@pytest.mark.parametrize(
    ("tests", "problem"),
    [
        ("none.yaml", "math.yaml:1: tests: no file or folder 'none.yaml'; looked at: none.yaml"),
        ("notes.txt", "math.yaml:1: tests: no tests in 'notes.txt': a file of tests ends in .yaml, .yml"),
        ("../elsewhere.yaml", "math.yaml:1: tests: '../elsewhere.yaml' lies outside of the suite's folder"),
        ("../**", "math.yaml:1: tests: '../**' lies outside of the suite's folder"),
        ("'*/../../*'", "math.yaml:1: tests: '*/../../*' lies outside of the suite's folder"),
        ("/", "math.yaml:1: tests: '/' lies outside of"),
        ("link.yaml", "math.yaml:1: tests: 'link.yaml' lies outside of"),
        ("math.yaml", "math.yaml:1: tests: a suite's tests cannot be the suite itself"),
        ("'file://'", "got an empty text"),
        ("mapping.yaml", "mapping.yaml:1: expected a list of tests, got a mapping"),
        ("broken.yaml", "broken.yaml:3: not valid YAML: the text ends within a list in [ ] or a mapping in { }"),
        ("broken.json", "broken.json:2: not valid JSON: "),
        ("latin.yaml", "latin.yaml: not UTF-8 text"),
        ("folder", "math.yaml:1: tests: no sub-folder of 'folder' has a case.yaml"),
        ("[oops]", "math.yaml:1: tests[0]: expected a test (a mapping), got a text ('oops')"),
        ("[file://none.yaml]", "math.yaml:1: tests[0]: no file or folder 'none.yaml'"),
        ("twice.csv", "twice.csv:1: column 2 is a second 'id'"),
        ("wide.csv", "wide.csv:2: 2 cells under 1 columns; quote cells that hold commas"),
        ("open.csv", "open.csv:2: not valid CSV: unexpected end of data"),
    ],
)
def test_what_cannot_be_loaded_is_said(tests: str, problem: str, in_the_folder: Path) -> None:
    (in_the_folder.parent / "elsewhere.yaml").write_text(LIST)
    Path("link.yaml").symlink_to(in_the_folder.parent / "elsewhere.yaml")
    write("notes.txt", "hello")
    write("mapping.yaml", "tests: []\n")
    write("broken.yaml", "- a\n- [\n")
    write("broken.json", '[\n{"a": }]')
    write("latin.yaml", b"- \xff")
    write("folder/a/notes.md", "no case")
    write("twice.csv", "id,id\n")
    write("wide.csv", "id\na,b\n")
    write("open.csv", 'id\n"a\n')

    assert problem in error_of(f"tests: {tests}")


def test_a_file_that_is_missing_takes_only_itself_along() -> None:
    suite = load("tests:\n  - file://none.yaml\n  - {id: a, criteria: c, input: i}\n")

    assert [case.id for case in suite.cases] == ["a"]
    assert [error.place.line for error in suite.errors] == [2]


@pytest.mark.parametrize(
    ("tests", "warning"),
    [
        ("[file://empty.yaml]", "math.yaml:1: tests[0]: 'empty.yaml' is empty: it contributes no tests"),
        ("none-*.yaml", "math.yaml:1: tests: 'none-*.yaml' matches no file: it contributes no tests"),
    ],
)
def test_what_contributes_nothing_is_a_warning(tests: str, warning: str) -> None:
    write("empty.yaml", "\n")

    suite = load(f"tests: {tests}")

    assert (suite.cases, suite.warnings) == ((), (warning,))


def test_files_may_lie_above_the_suite_in_its_git_repository(in_the_folder: Path) -> None:
    make_repository(in_the_folder)
    write("common/cases.yaml", LIST)
    write("evals/deep/math.yaml", "tests: ../../common/cases.yaml\n")
    write("evals/deep/other.yaml", "tests: common/cases.yaml\n")

    assert ids(load_suite(Path("evals/deep/math.yaml"))) == ids(load_suite(Path("evals/deep/other.yaml"))) == ["a", "b"]


def folder_case(folder: str, text: str = "criteria: c\n", prompt: str | None = None) -> None:
    write(f"{folder}/case.yaml", text)
    if prompt is not None:
        write(f"{folder}/PROMPT.md", prompt)


def test_a_folder_of_cases_gives_each_its_name_prompt_and_workspace() -> None:
    folder_case("cases/b", "criteria: c\ninput: Hello\n", prompt="not read")
    folder_case("cases/a", prompt="Fix **it**\n")
    write("cases/a/workspace/main.py", "print(1)\n")
    write("cases/.hidden/case.yaml", "id: no\n")

    first, second = load("tests: ./cases").cases

    assert (first.id, first.input) == ("a", user_messages("Fix **it**\n"))
    assert first.workspace is not None
    assert first.workspace.template == Path("cases/a/workspace").absolute()
    assert (second.id, second.input, second.workspace) == ("b", user_messages("Hello"), None)


def test_a_case_file_may_name_itself_and_its_template() -> None:
    folder_case("cases/a", "id: mine\ncriteria: c\ninput: i\nworkspace: {template: ../../base}\n")
    write("cases/a/workspace/x", "")
    write("base/y", "")

    (case,) = load("tests: cases").cases

    assert case.id == "mine"
    assert case.workspace is not None
    assert case.workspace.template == Path("base").absolute()


def test_a_broken_case_file_takes_only_itself_along() -> None:
    folder_case("cases/a", "- oops\n")
    folder_case("cases/b", "criteria: [\n")
    folder_case("cases/c", prompt="Hi")

    suite = load("tests: cases")

    assert [case.id for case in suite.cases] == ["c"]
    assert [error.place.file for error in suite.errors] == ["cases/a/case.yaml", "cases/b/case.yaml"]


def table_case(header: str, row: str, suite_fields: str = "") -> Case:
    write("cases.csv", f"{header}\n{row}\n")
    suite = load(f"tests: cases.csv\n{suite_fields}")
    assert [str(error) for error in suite.errors] == []
    return suite.cases[0]


def test_a_table_has_the_fields_of_tests_as_columns() -> None:
    case = table_case(
        "id,input,expected_output,criteria,tags,metadata.lang,metadata.deep.level,execution.threshold,note",
        'a,"Say ""hi"",\nplease",hi,polite,x; y,de,2,0.5,',
    )

    assert (case.id, case.input, case.tags, case.threshold) == (
        "a",
        user_messages('Say "hi",\nplease'),
        ("x", "y"),
        0.5,
    )
    assert [message.content for message in case.expected_output] == ["hi"]
    assert (case.criteria, case.metadata) == ("polite", {"lang": "de", "deep": {"level": "2"}})


@pytest.mark.parametrize(
    ("cell", "type_", "config"),
    [
        ("contains: Paris", "contains", {"value": "Paris"}),
        ("contains_any: a; b", "contains-any", {"value": ["a", "b"]}),
        ("is-json", "is-json", {}),
        ("regex:^a:b$", "regex", {"value": "^a:b$"}),
        ("Mentions the Seine: twice", "rubrics", {"criteria": ["Mentions the Seine: twice"]}),
    ],
)
def test_a_cell_of_an_assert_column_is_one_assertion(cell: str, type_: str, config: object) -> None:
    case = table_case("id,input,assert1,assert2", f'a,i,"{cell}",')

    assert [(spec.type, spec.config) for spec in case.evaluators] == [(type_, config)]


def test_other_columns_of_a_table_are_variables() -> None:
    case = table_case("id,criteria,city", "a,c,Rome", "input: 'Where is {{ city }}?'")

    assert case.input == user_messages("Where is Rome?")


def test_a_dataset_has_the_suites_fields_in_the_file_beside_it() -> None:
    write(
        "sums.yaml",
        """\
        name: my-sums
        description: Adding
        execution: {threshold: 0.5}
        input: Be brief
        assertions: [{type: is-json}]
        """,
    )

    suite = load('{"id": "a", "input": "A"}\n', "sums.jsonl")

    assert (suite.name, suite.description, suite.settings.threshold) == ("my-sums", "Adding", 0.5)
    assert suite.cases[0].input == user_messages("Be brief", "A")
    assert [spec.type for spec in suite.cases[0].evaluators] == ["is-json"]
    assert suite.parts == (Path("sums.yaml").absolute(),)


@pytest.mark.parametrize(
    ("beside", "dataset"),
    [("sums.eval.yaml", "sums.jsonl"), ("sums.yml", "sums.jsonl"), ("sums.yaml", "sums.eval.jsonl")],
)
def test_the_file_beside_a_dataset_has_several_spellings(beside: str, dataset: str) -> None:
    write(beside, "description: Adding\n")

    assert load('{"id": "a", "criteria": "c", "input": "A"}\n', dataset).description == "Adding"


def test_a_suite_of_the_same_name_is_no_file_beside_a_dataset() -> None:
    write("sums.yaml", "description: another\ntests: []\n")

    suite = load('{"id": "a", "criteria": "c", "input": "A"}\n', "sums.jsonl")

    assert (suite.description, suite.parts) == (None, ())


def test_what_is_wrong_beside_a_dataset_names_that_file() -> None:
    write("sums.yaml", "name: x\nexecution: {threshold: 7}\n")

    with pytest.raises(InputError, match=r"^sums.yaml:2: execution.threshold: expected a number from 0 to 1"):
        load('{"id": "a", "criteria": "c", "input": "A"}\n', "sums.jsonl")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("sums.json", '{"tests": [\n{"id": "a",\n"id": "b"}]}'),
        ("sums.jsonl", '\n\n{"id": "a", "input": "i", "criteria": "c", "id": "b"}'),
        ("sums.jsonl", '\n\n{"id": "a", "input": "i", "criteria": "c", "metadata": {"x": 1, "x": 2}}'),
    ],
)
def test_a_key_that_appears_twice_is_an_error_in_json_too(file: str, text: str) -> None:
    try:
        (error,) = load(text, file).errors
    except InputError as raised:
        error = raised

    assert "appears twice in one" in error.problem
    assert error.place.line == 3


def test_colons_in_a_row_are_no_keys() -> None:
    suite = load(
        '{"id": "a", "input": "x: y: z", "criteria": "\\"k\\": 1", "metadata": {"n": 1' + "0" * 300 + "}}\n", "a.jsonl"
    )

    assert ids(suite) == ["a"]


def test_broken_json_is_not_called_yaml() -> None:
    problem = error_of_file('{"tests": [\n}', "sums.json")

    assert problem.startswith("sums.json:2: not valid JSON: ")


def error_of_file(text: str, file: str) -> str:
    with pytest.raises(InputError) as raised:
        load(text, file)
    return str(raised.value)


@pytest.mark.parametrize(
    ("text", "passed_over"),
    [
        ("tests: cases.jsonl\n", True),
        ("tests: 'cases.jsonl'  # all\n", True),
        ("tests:\n  - file://cases.jsonl\n", True),
        ("tests: ['file://c*.jsonl']\n", True),
        ("tests: file://*.jsonl\n", True),
        ("tests: []\n", False),
        ("tests: none.jsonl\n", False),
    ],
)
def test_a_file_that_a_suite_takes_its_tests_from_is_no_suite_of_its_own(text: str, passed_over: bool) -> None:
    write("evals/math.yaml", text)
    write("evals/cases.jsonl", ROWS)
    names = ["math.yaml"] if passed_over else ["cases.jsonl", "math.yaml"]

    assert [path.name for path in find_suite_files(["evals"], Path.cwd())] == names


def test_a_file_named_outright_is_a_suite_of_its_own() -> None:
    write("evals/math.yaml", "tests: cases.jsonl\n")
    write("evals/cases.jsonl", ROWS)

    assert len(find_suite_files(["evals", "evals/cases.jsonl"], Path.cwd())) == 2


def test_the_tests_of_other_files_are_part_of_the_revision() -> None:
    write("cases.yaml", LIST)
    before = load("tests: cases.yaml").revision
    write("cases.yaml", LIST.replace("input: B", "input: C"))

    assert load("tests: cases.yaml").revision != before


def test_placeholders_are_filled_in_wherever_tests_stand() -> None:
    write("a.yaml", "- {id: a, criteria: c, input: '${{ NAME }}'}\n")
    write("b.jsonl", '{"id": "b", "criteria": "c", "input": "{{ env.NAME }}"}\n')
    write("c.csv", "id,criteria,input\nc,c,${{NAME}}\n")
    folder_case("d/d", prompt="${{ NAME }}")
    write("all.yaml", "tests: [file://a.yaml, file://b.jsonl, file://c.csv, file://d]\n")

    suite = load_suite(Path("all.yaml"), LoadOptions({"NAME": "Ann"}))

    assert [case.input for case in suite.cases] == [user_messages("Ann")] * 4


@pytest.mark.parametrize(("column", "warned"), [("answer", True), ("reply", False)])
def test_a_column_that_graders_have_a_name_like_is_reported(column: str, warned: bool) -> None:
    write("cases.csv", f"id,input,{column}\na,hi,4\n")

    suite = load(f"assertions: [{{type: equals, value: '{{{{ {column} }}}}'}}]\ntests: cases.csv\n")

    (spec,) = suite.cases[0].evaluators
    assert spec.config["value"] == ("{{ answer }}" if warned else "4")
    said = (
        "cases.csv:2: {{ answer }} in an evaluator is what graders call theirs; name the column otherwise than 'answer'"
    )
    assert list(suite.warnings) == ([said] if warned else [])
