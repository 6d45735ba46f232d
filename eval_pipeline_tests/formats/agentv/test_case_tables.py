"""Suites whose cases are the rows of a table: files of columns, and queries over them."""

from __future__ import annotations

from datetime import date
from itertools import islice
from pathlib import Path

import duckdb
import polars as pl
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.conversion import read_eval_file, with_tests_in_line
from eval_pipeline.parsing.writing import yaml_text
from eval_pipeline.suites.load import find_suite_files, load_suite
from eval_pipeline.suites.model import Suite
from eval_pipeline.warehouse.case_tables import open_rows, query_of_text
from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.formats.agentv.sample_suites import error_of, load, user_messages, write

pytestmark = pytest.mark.usefixtures("in_the_folder")

CSV = "key,question,answer,lang\n007,Capital of France?,Paris,fr\n008,Capital of Peru?,Lima,es\n"
MAPPED = """
cases:
  from: {}
  map: {{id: key, input: "Q: {{{{ question }}}}", expected_output: answer, metadata.lang: lang}}
assertions: [{{type: contains, value: "{{{{ row.answer }}}}"}}]
"""


def table(file: str = "cases/q.csv", text: str = CSV) -> None:
    write(file, text)


def parquet(file: str, **columns: object) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(columns).write_parquet(file)


def ids(suite: Suite) -> list[str]:
    assert [str(error) for error in suite.errors] == []
    return [case.id for case in suite.cases]


@pytest.mark.parametrize(
    "source",
    [
        "cases/q.csv",
        "cases/*.csv",
        "SELECT * FROM 'cases/q.csv'",
        "SELECT * FROM read_csv('cases/q.csv', all_varchar = true)",
        "WITH q AS (FROM 'cases/q.csv') SELECT * FROM q ORDER BY key",
    ],
)
def test_each_row_of_a_table_is_a_case(source: str) -> None:
    table()

    suite = load(MAPPED.format(f'"{source}"'))

    assert [each.lstrip("0") for each in ids(suite)] == ["7", "8"]
    first = suite.cases[0]
    assert first.input == user_messages("Q: Capital of France?")
    assert first.expected_output[0].content == "Paris"
    assert first.metadata == {"lang": "fr"}
    assert first.evaluators[0].config == {"value": "Paris"}
    assert suite.parts == (Path("cases/q.csv").absolute(),)


def test_entries_of_csv_files_are_texts() -> None:
    table()

    assert ids(load(MAPPED.format("cases/q.csv"))) == ["007", "008"]


def test_a_table_without_rows_is_warned_of() -> None:
    table(text=CSV.partition("\n")[0])

    suite = load(MAPPED.format("cases/q.csv"))

    assert suite.cases == ()
    assert any("cases.from: the table has no rows" in str(warning) for warning in suite.warnings)


def test_columns_without_a_map_have_the_names_of_fields() -> None:
    text = "id,input,tags,metadata.level,assert,city\na,Where is {{ city }}?,x; y,3,contains: Peru,Lima\n"
    table("t.tsv", text.replace(",", "\t"))

    (case,) = load("cases: {from: t.tsv}").cases

    assert (case.id, case.input, case.tags) == ("a", user_messages("Where is Lima?"), ("x", "y"))
    assert case.metadata == {"level": "3"}
    assert (case.evaluators[0].type, case.evaluators[0].config) == ("contains", {"value": "Peru"})


def test_values_of_parquet_files_keep_their_types() -> None:
    parquet("t.parquet", id=[1, 2], n=[3.5, None], day=[date(2026, 1, 2)] * 2, tags=[["x", "y"], []],
            chat=[[{"role": "user", "content": "Hi"}]] * 2)  # fmt: skip
    fields = "{id: id, input: chat, tags: tags, metadata.n: n, metadata.day: day, criteria: n}"

    suite = load(f"cases: {{from: t.parquet, map: {fields}}}\nassertions: [is polite]")

    first, second = suite.cases
    assert (first.id, first.input, first.tags, first.criteria) == ("1", user_messages("Hi"), ("x", "y"), "3.5")
    assert (first.metadata, second.metadata) == ({"n": 3.5, "day": "2026-01-02"}, {"day": "2026-01-02"})


def test_a_query_reads_the_tables_of_a_database() -> None:
    with duckdb.connect("past.duckdb") as connection:
        connection.execute("CREATE TABLE asked AS SELECT 'a' AS id, 'Hi' AS input, 'polite' AS criteria")

    suite = load("cases: {from: SELECT * FROM asked, database: past.duckdb}")

    assert ids(suite) == ["a"]
    assert suite.parts == (Path("past.duckdb").absolute(),)


def test_placeholders_of_the_environment_are_not_replaced_in_data() -> None:
    table("t.csv", 'id,input,criteria\na,"${{ SECRET }} {{ env.SECRET }}",c\n')

    (case,) = load("cases: {from: t.csv}", SECRET="s3cret-value").cases

    assert case.input == user_messages("${{ SECRET }} {{ env.SECRET }}")


def test_a_wrong_row_costs_its_case_only() -> None:
    table("t.csv", "id,input,criteria,timeout_s\na,A,c,1\nb,B,c,soon\na,C,c,1\n")

    suite = load("name: t\ncases: {from: t.csv}")

    assert [case.id for case in suite.cases] == ["a"]
    assert [str(error) for error in suite.errors] == [
        "math.yaml:2: cases.row 2.timeout_s: expected a number above 0, got a text ('soon')",
        "math.yaml:2: cases.row 3.id: case id 'a' is taken (first in an earlier row)",
    ]


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ("t.csv", "cases: expected a mapping with 'from', got a text ('t.csv')"),
        ("{map: {id: key}}", "cases.from: expected a text that is not empty: a query, or a file of columns"),
        ("{from: t.csv, map: {id: kee, input: question}}",
         "cases.map.id: no column 'kee'; there are: key, question, answer, lang; did you mean 'key'?"),
        ('{from: t.csv, map: {id: key, input: "{{ qestion }}"}}',
         "cases.map.input: no column 'qestion'; there are: key, question, answer, lang; did you mean 'question'?"),
        ("{from: t.csv, map: {id: key, inptu: question}}",
         "cases.map.inptu: no field of a test; such as id, input, expected_output, criteria, tags, metadata.…; "
         "did you mean 'input'?"),
        ("{from: t.csv, map: {id: 3}}",
         "cases.map.id: expected a column, or a text with {{ column }}, got a number (3)"),
        ("{from: t.csv}",
         "cases.from: no column 'id'; write map: {id: COLUMN} with one of: key, question, answer, lang"),
        ("{from: u.csv}", "cases.from: no file 'u.csv'; looked at: u.csv"),
        ("{from: 'u*.csv'}", "cases.from: 'u*.csv' matches no file"),
        ("{from: t.xlsx}", "cases.from: no table in '.xlsx' files: expected a query, or files of .parquet, .csv, .tsv"),
        ("{from: SELECT * FROM 'u.csv'}", "cases.from: no file 'u.csv'; looked at: u.csv"),
        ("{from: SELECT nope FROM 't.csv'}",
         "cases.from: SQL: Binder Error: Referenced column \"nope\" not found in FROM clause!; "
         "Candidate bindings: "),
        ("{from: 'SELECT * FORM t'}", 'cases.from: SQL: Parser Error: syntax error at or near "t"'),
        ("{from: \"SELECT 1 AS id; DROP TABLE t\"}", "cases.from: expected one SELECT"),
        ("{from: SELECT key AS id FROM t.csv}", "cases.from: SQL: Permission Error: Cannot access file \"t.csv\": "
         "a query reads files of the project whose names are in quotes after FROM, JOIN or in read_csv(…)"),
        ("{from: \"SELECT 1 AS id, 2 AS id\"}",
         "cases.from: two columns are called 'id'; name one of them otherwise: … AS name"),
        ("{from: \"SELECT error('late') AS id FROM range(3)\"}", "cases.from: SQL: Invalid Input Error: late"),
        ("{from: SELECT 1 AS id, database: u.duckdb}", "cases.database: no file 'u.duckdb'; looked at: u.duckdb"),
        ("{from: SELECT 1 AS id, database: t.csv}", "cases.from: SQL: "),
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_used_is_named_with_its_place(cases: str, message: str) -> None:
    table("t.csv")
    write("t.xlsx")

    assert error_of(f"cases: {cases}").startswith(f"math.yaml:1: {message}")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT content AS id FROM read_text('{outside}')",
        "SELECT * FROM read_csv('/' || '{outside}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM 'link.csv'",
        "SELECT * FROM '{outside}'",
        "FROM '../outside.csv'",
    ],
)
def test_a_query_reads_no_file_outside_of_the_project(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    make_repository(project)
    outside = tmp_path / "outside.csv"
    outside.write_text("id,input\na,b\n")
    (project / "link.csv").symlink_to(outside)
    suite = project / "s.yaml"
    suite.write_text(f'cases: {{from: "{query.format(outside=outside, folder=tmp_path)}"}}\n')

    with pytest.raises(InputError, match=r"lies outside of|Permission Error|No files found"):
        load_suite(suite)


def test_a_suite_has_tests_or_a_table() -> None:
    table("t.csv")

    assert error_of("cases: {from: t.csv}\ntests: []") == (
        "math.yaml:1: cases: a suite has 'tests' or a table of cases, not both"
    )


@pytest.mark.parametrize(
    ("text", "is_suite"),
    [
        ("cases:\n  # where\n  map: {id: key}\n  from: t.csv\n", True),
        ("name: x\ncases: {from: t.csv}\n", True),
        ("cases:\n  - from: nothing\n", False),
        ("cases: 3\nfrom: t.csv\n", False),
    ],
)
def test_suites_of_tables_are_found_in_folders(text: str, is_suite: bool) -> None:
    write("suites/a.yaml", text)

    assert bool(find_suite_files(["suites"], Path())) is is_suite


def test_rows_are_read_in_a_stream() -> None:
    query = query_of_text("SELECT i AS id FROM range(1_000_000_000_000) AS r(i)", find=lambda name: [])

    with open_rows(query) as rows:
        first = list(islice(rows, 3))

    assert first == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_changed_row_is_another_revision_of_the_suite() -> None:
    table("t.csv")
    before = load(MAPPED.format("t.csv")).revision
    table("t.csv", CSV.replace("Lima", "Cusco"))

    assert load(MAPPED.format("t.csv")).revision != before


def test_conversion_puts_the_cases_in_the_suite() -> None:
    table("t.csv")
    path = write("tabled.yaml", MAPPED.format("t.csv"))

    written = with_tests_in_line(read_eval_file(path))

    suite = load(yaml_text({**written.document, "tests": written.tests}), "written.yaml")
    before = [case.fingerprint_fields() for case in load_suite(path).cases]
    assert (ids(suite), [case.fingerprint_fields() for case in suite.cases]) == (["007", "008"], before)
