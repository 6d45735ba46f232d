"""Tables on narrow terminals: ranks and names stay whole, columns go from the right, wide rows become blocks."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from eval_pipeline.cli.progress import LiveProgress
from eval_pipeline.cli.tables import Layout, print_rows
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.store import open_warehouse
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

LONG = "solver-175b-with-verification"
RUNNERS = f"""\
runners:
  - {{name: {LONG}, adapter: command, command: [sh, greet.sh]}}
  - {{name: parrot, adapter: python, function: "parrot:say"}}
"""
GREETINGS = """\
name: greetings-of-the-day
assertions:
  - {name: polite, type: icontains, value: "hello "}
tests:
  - {id: ann, input: Ann}
  - {id: nobody, input: nobody}
"""


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project with a long runner's name that has been run once; nothing here changes it."""
    files = {"runners.yaml": RUNNERS, "suites/greetings.yaml": GREETINGS, "suites/more/sums.jsonl": ""}
    cli_project = make_cli_project(tmp_path_factory.mktemp("narrow"), files)
    (cli_project.root / "suites/more/sums.jsonl").unlink()
    cli_project("run", "--quiet")
    return cli_project


def of_tables(lines: list[str]) -> list[str]:
    """Return the lines of tables. The others are remarks (`#: …`) and decisions: sentences, which a terminal wraps."""
    return [line for line in lines if ": " not in line and not line.startswith("INCONCLUSIVE ")]


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize(
    ("command", "names", "dropped"),
    [
        (["leaderboard"], ["1–2", LONG], "p95"),
        (["leaderboard", "--repetitions"], ["greetings-of-the-day", LONG], "repetitions"),
        (["compare", LONG, "parrot"], ["greetings-of-the-day"], "pass rates"),
        (["plan"], ["greetings-of-the-day", LONG], "plans"),
    ],
    ids=["leaderboard", "repetitions", "compare", "plan"],
)
def test_a_narrow_terminal_shows_names_whole_and_says_which_columns_are_left_out(
    cli_project: CliProject, columns: int, command: list[str], names: list[str], dropped: str
) -> None:
    lines = cli_project.in_terminal(columns, *command).out.splitlines()

    assert any(line.split()[: len(names)] == names for line in lines)
    left_out = [line for line in lines if line.startswith(f"not shown in {columns} columns: ")]
    assert any(dropped in line for line in left_out)
    assert all(len(line) <= columns for line in of_tables(lines))


@pytest.mark.parametrize(("columns", "age"), [(60, "01-15–"), (80, "01-15–"), (200, "2026-01-15 to ")])
def test_a_narrow_terminal_shows_when_answers_of_different_ages_were_given(
    aged_project: CliProject, columns: int, age: str
) -> None:
    lines = aged_project.in_terminal(columns, "leaderboard").out.splitlines()

    assert "answered" in next(line for line in lines if line.startswith("#")).split()
    assert any(LONG in line and age in line for line in lines)
    assert not any("answered" in line for line in lines if line.startswith("not shown"))
    assert all(len(line) <= columns for line in of_tables(lines))


@pytest.fixture
def aged_project(cli_project: CliProject, tmp_path: Path) -> CliProject:
    """The project with one answer of last January."""
    shutil.copytree(cli_project.root, tmp_path / "aged")
    warehouse = open_warehouse(tmp_path / "aged/data")
    with warehouse.transaction() as connection:
        connection.execute(
            "UPDATE leaderboards SET oldest_answer_at = TIMESTAMP '2026-01-15 12:00:00' WHERE runner = ?", [LONG]
        )
    warehouse.publish()
    return CliProject(tmp_path / "aged")


def test_without_a_terminal_every_column_is_shown(cli_project: CliProject) -> None:
    answer = cli_project("compare", LONG, "parrot")

    head = next(line for line in answer.out.splitlines() if line.startswith("suite"))
    assert head.split()[-5:] == ["pass", "rates", "up", "down", "p"]
    assert "not shown" not in answer.out


def test_wide_rows_of_sql_become_one_field_a_line(cli_project: CliProject) -> None:
    query = "SELECT suite, runner, status, reason FROM current_verdicts WHERE case_id = 'nobody' ORDER BY runner"

    wide = cli_project.in_terminal(60, "sql", query).out.splitlines()
    narrow = cli_project.in_terminal(60, "sql", "SELECT 1 AS x, 'two' AS y").out.splitlines()

    assert wide[:4] == [
        "── row 1",
        "suite   greetings-of-the-day",
        "runner  parrot",
        "status  failed",
    ]
    assert wide.count("── row 2") == 1
    assert [line.split() for line in narrow] == [["x", "y"], ["1", "two"]]


def test_the_form_of_sql_rows_can_be_chosen(cli_project: CliProject) -> None:
    in_lines = cli_project("sql", "--lines", "SELECT 1 AS number, 'a' || chr(10) || 'b' AS text").out
    as_table = cli_project.in_terminal(60, "sql", "--table", f"SELECT '{'x' * 50}' AS x, '{'y' * 50}' AS y").out

    assert in_lines.splitlines() == ["── row 1", "number  1", "text    a", "        b"]
    assert "row 1" not in as_table
    assert as_table.count("x" * 50) == as_table.count("y" * 50) == 1


def test_sql_takes_one_form_at_a_time(cli_project: CliProject) -> None:
    answer = cli_project("sql", "--json", "--lines", "SELECT 1")

    assert answer.code == 2
    assert "one of --json, --csv, --parquet, --lines and --table" in answer.err


def test_rows_in_a_pipe_are_one_line_each(cli_project: CliProject) -> None:
    answer = cli_project("sql", f"SELECT '{'x' * 300}' AS x, 'a' || chr(10) || 'b' AS y")

    assert len(answer.out.splitlines()) == 2
    assert answer.out.split()[-1] == "a↵b"
    assert [line for line in answer.out.splitlines() if line != line.rstrip()] == []


def test_the_list_of_boards_is_json_on_request(cli_project: CliProject) -> None:
    (board,) = json.loads(cli_project("leaderboard", "--list", "--json").out)

    assert board["standings"] == 4


@pytest.mark.parametrize("columns", [10, 20, 30, 45, 60, 80])
def test_a_table_is_never_wider_than_its_terminal(columns: int) -> None:
    file = io.StringIO()
    console = Console(width=columns, file=file)
    rows = [("a-suite-with-a-long-name", "a runner", 17, "said " * 12)]

    print_rows(console, ("suite", "runner", "count", "reason"), rows, Layout(keep=2, prose=True))

    lines = [line for line in file.getvalue().splitlines() if not line.startswith("not shown")]
    assert all(len(line) <= columns for line in lines)
    assert "a-suite-with" in file.getvalue().replace("\n", "") or columns < 30


@pytest.mark.parametrize(("columns", "bar"), [(60, False), (140, True)])
def test_the_live_table_of_a_run_shows_names_whole(columns: int, bar: bool) -> None:
    file = io.StringIO()
    console = Console(width=columns, file=file, force_terminal=True, color_system=None)
    progress = LiveProgress(console)
    progress.start_pair(PairKey("greetings-of-the-day", LONG), plans=2)

    console.print(progress.render())

    head, row = file.getvalue().splitlines()
    assert row.split()[:3] == ["greetings-of-the-day", LONG, "0/2"]
    assert ("cost" in head) == bar
