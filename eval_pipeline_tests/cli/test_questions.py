"""`sql`, `leaderboard` and `plan`: what they answer about one finished run."""

from __future__ import annotations

import csv
import json
import os
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project


@pytest.fixture(scope="module")
def cli_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """A project that has been run once; nothing here changes it."""
    cli_project = make_cli_project(tmp_path_factory.mktemp("asked"))
    cli_project.once("run", "--quiet")
    return cli_project


def test_sql_answers_as_a_table(cli_project: CliProject) -> None:
    answer = cli_project(
        "sql", "SELECT case_id, status FROM current_verdicts WHERE runner = 'greeter' ORDER BY case_id"
    )

    assert [line.split() for line in answer.out.splitlines()] == [
        ["case_id", "status"], ["ann", "passed"], ["bob", "passed"], ["nobody", "failed"]
    ]  # fmt: skip


def test_sql_in_json_has_decimals_as_numbers_and_bytes_as_digits(cli_project: CliProject) -> None:
    query = "SELECT 1.5 AS number, {'part': 0.25} AS parts, [2.5] AS list, 'ab'::BLOB AS bytes, 7::HUGEINT AS whole"

    answer = cli_project("sql", "--json", query)

    assert json.loads(answer.out) == {
        "number": 1.5, "parts": {"part": 0.25}, "list": [2.5], "bytes": "6162", "whole": 7
    }  # fmt: skip


def test_sql_answers_as_json_lines(cli_project: CliProject) -> None:
    answer = cli_project("sql", "--json", "SELECT case_id, tags FROM cases WHERE suite = 'sums' ORDER BY case_id")

    assert [json.loads(line) for line in answer.out.splitlines()] == [
        {"case_id": "one", "tags": ["math"]},
        {"case_id": "two", "tags": ["math", "even"]},
    ]


def test_sql_answers_as_csv(cli_project: CliProject) -> None:
    answer = cli_project("sql", "--csv", "SELECT 'a,b' AS x, 'two\nlines' AS y")

    assert list(csv.reader(answer.out.splitlines(keepends=True))) == [["x", "y"], ["a,b", "two\nlines"]]


def test_rows_are_written_as_parquet_for_other_programs(cli_project: CliProject, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"

    query = "SELECT 1 AS n, 'a' AS text, TIMESTAMPTZ '2026-01-02 03:04:05Z' AS t;"
    written = cli_project("sql", query, "--parquet", str(file))

    assert (written.code, written.out) == (0, "")
    assert "1 row in " in written.err
    (row,) = pl.read_parquet(file).rows(named=True)
    assert (row["n"], row["text"], row["t"].timestamp()) == (1, "a", 1767323045)
    refused = cli_project("sql", "SELECT 1", "--parquet", str(tmp_path / "nowhere" / "rows.parquet"))
    assert refused.code == 2
    assert "cannot be written" in refused.err
    assert cli_project("sql", "--parquet", str(file)).code == 2


def test_parquet_has_the_types_of_the_query_over_several_batches(cli_project: CliProject, tmp_path: Path) -> None:
    file = tmp_path / "rows.parquet"

    written = cli_project(
        "sql",
        """SELECT i, sum(i) OVER () AS total, NULLIF(i, 0)::DECIMAL(9, 2) AS price, [i, NULL] AS list,
           MAP {'a': i} AS map,
           {'u': '00000000-0000-0000-0000-000000000001'::UUID} AS struct, NULL AS nothing, DATE '2026-01-02' AS day
           FROM range(12000) t(i) ORDER BY i""",
        "--parquet",
        str(file),
    )

    assert written.code == 0
    assert pl.read_parquet_schema(file) == {
        "i": pl.Int64, "total": pl.Int64, "price": pl.Decimal(9, 2), "list": pl.List(pl.Int64),
        "map": pl.List(pl.Struct({"key": pl.String, "value": pl.Int64})), "struct": pl.Struct({"u": pl.String}),
        "nothing": pl.Null, "day": pl.Date,
    }  # fmt: skip
    frame = pl.read_parquet(file)
    assert frame["i"].to_list() == list(range(12000))
    assert frame.row(-1)[2:6] == (
        Decimal(11999), [11999, None], [{"key": "a", "value": 11999}], {"u": "00000000-0000-0000-0000-000000000001"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "message"),
    [
        pytest.param("SELECT 9223372036854775808::HUGEINT AS n", "CAST it to DOUBLE", id="too-large"),
        pytest.param("SELECT CASE WHEN i > 11000 THEN error('late') END FROM range(12000) t(i)", "late", id="late"),
        pytest.param("SELECT nothing", "SQL: ", id="unknown-column"),
    ],
)
def test_a_query_that_fails_leaves_no_parquet_file_and_an_earlier_one_as_it_was(
    cli_project: CliProject, tmp_path: Path, query: str, message: str
) -> None:
    folder = tmp_path / "written"
    folder.mkdir()
    (folder / "earlier.parquet").write_text("mine")

    answers = [cli_project("sql", query, "--parquet", str(folder / f"{name}.parquet")) for name in ("new", "earlier")]

    assert [answer.code for answer in answers] == [2, 2]
    assert all(message in answer.err for answer in answers)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("earlier.parquet", "mine")]


def test_sql_without_a_query_says_what_there_is_to_ask(cli_project: CliProject) -> None:
    answer = cli_project("sql")

    assert "case_matrix" in answer.out
    assert "One row per execution: a plan carried out once." in answer.out


@pytest.mark.parametrize("text", ["[/b] [red]", "[bold]x[/bold]"])
def test_sql_shows_text_as_it_is(cli_project: CliProject, text: str) -> None:
    answer = cli_project("sql", f"SELECT '{text}' AS said")

    assert text in answer.out


@pytest.mark.parametrize("query", ["SELEC 1", "SELECT nothing", "DROP TABLE verdicts", "DELETE FROM verdicts", ""])
def test_sql_that_cannot_be_answered_is_one_message(cli_project: CliProject, query: str) -> None:
    answer = cli_project("sql", query)

    assert answer.code == 2
    assert answer.err.startswith("error: SQL: ")


def test_the_leaderboard_is_shown_again_as_it_was(cli_project: CliProject) -> None:
    answer = cli_project("leaderboard", "--suite", "sums")

    assert answer.code == 0
    assert answer.out.split()[0] == "sums"
    assert "2/2" in answer.out


def test_a_past_board_is_found_by_its_id(cli_project: CliProject) -> None:
    ((board,),) = cli_project.ask("SELECT DISTINCT board_id FROM leaderboards")

    listed = cli_project("leaderboard", "--list")
    answer = cli_project("leaderboard", "--board", board, "--json")

    assert board in listed.out
    assert {row["board_id"] for row in answer.document} == {board}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["--board", "yesterday"], "no board 'yesterday'; there are: "), (["--suite", "sum"], "no suite 'sum'")],
    ids=["board", "suite"],
)
def test_a_leaderboard_that_there_is_not_is_said(cli_project: CliProject, arguments: list[str], message: str) -> None:
    answer = cli_project("leaderboard", *arguments)

    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(("name", "beginning"), [("board.png", b"\x89PNG"), ("board.svg", b"<svg ")])
def test_the_picture_of_a_leaderboard_is_of_the_kind_that_its_name_says(
    cli_project: CliProject, tmp_path: Path, name: str, beginning: bytes
) -> None:
    picture = tmp_path / name

    answer = cli_project("leaderboard", "--plot", str(picture))

    assert answer.code == 0
    assert picture.read_bytes().startswith(beginning)


def test_plan_says_what_would_be_reused(cli_project: CliProject) -> None:
    answer = cli_project("plan", "--json")

    assert {row["suite"]: row["reused"] for row in answer.document if row["runner"] == "parrot"} == {
        "greetings": 3,
        "sums": 2,
    }
    assert sum(row["to_execute"] + row["to_rescore"] for row in answer.document) == 0


def test_plan_foresees_what_a_policy_would_repeat(cli_project: CliProject) -> None:
    def to_execute(policy: str) -> int:
        return sum(row["to_execute"] for row in cli_project("plan", "--json", "--refresh", policy).document)

    assert (to_execute("missing"), to_execute("failed"), to_execute("all")) == (0, 1, 8)


def test_plan_calls_nobody_and_writes_nothing(cli_project: CliProject) -> None:
    calls, results = cli_project.calls, (cli_project.root / "data" / "results.duckdb").stat()

    cli_project("plan", "--refresh", "all")

    assert cli_project.calls == calls
    assert (cli_project.root / "data" / "results.duckdb").stat() == results


def test_plan_shows_a_line_per_suite_and_runner_and_their_sum(cli_project: CliProject) -> None:
    lines = [line.split() for line in cli_project("plan", "--refresh", "failed").out.splitlines()]

    assert ["greetings", "greeter", "1", "–", "2", "0", "0", "3"] in lines
    assert lines[-1] == ["all", "1", "–", "7", "0", "0", "8"]


def test_plan_names_programs_that_are_not_here_and_the_run_says_the_same(tmp_path: Path) -> None:
    project = make_cli_project(tmp_path)
    (project.root / "runners.yaml").write_text(
        "runners:\n- {name: gone, adapter: command, command: [no-such-program-here]}\n"
        "- {name: codex, adapter: agent, agent: codex, executable: codx-not-here}\n"
        "- {name: line, adapter: command, command: 'echo hi'}\n"
    )
    suite = str(project.root / "suites" / "any.yaml")
    Path(suite).write_text("tests: [{id: a, input: hi, assertions: [{type: contains, value: hi}]}]")

    planned = project("plan", suite, "--runner", "gone,codex,line")

    for name, program in (("gone", "no-such-program-here"), ("codex", "codx-not-here")):
        assert f"runner '{name}' cannot be started here: there is no program '{program}' on PATH" in planned.err
    assert "runner 'line'" not in planned.err
    ran = project("run", suite, "--runner", "gone", "--quiet")
    assert "there is no program 'no-such-program-here' on PATH" in ran.out + ran.err


def test_plan_names_the_program_on_path_that_is_nearly_the_missing_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_cli_project(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex-of-us").touch(mode=0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (project.root / "runners.yaml").write_text(
        "runners: [{name: a, adapter: agent, agent: codex, executable: codex-ofus}]"
    )

    planned = project("plan", "--runner", "a")

    assert "there is no program 'codex-ofus' on PATH; did you mean 'codex-of-us'?" in planned.err


@pytest.mark.parametrize("key", ["", "sk-something"])
def test_plan_warns_of_agents_that_have_no_key_and_no_login(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    project = make_cli_project(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "codex").touch(mode=0o755)
    environment = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "CODEX_", "AZURE_OPENAI_"))]:
        monkeypatch.delenv(name)
    for name, value in (environment | ({"OPENAI_API_KEY": key} if key else {})).items():
        monkeypatch.setenv(name, value)
    (project.root / "runners.yaml").write_text("runners: [{name: a, adapter: agent, agent: codex}]")

    planned = " ".join(project("plan", "--runner", "a").err.split())

    assert ("runner 'a' cannot be started here: no key and no login: none of OPENAI_*" in planned) is (not key)
    assert ("set a key, or log in" in planned) is (not key)


@pytest.mark.parametrize(("access", "warned"), [("workspace", True), ("full", False)])
def test_plan_warns_of_sessions_that_the_sandbox_of_codex_hides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, access: str, warned: bool
) -> None:
    project = make_cli_project(tmp_path)
    monkeypatch.setenv("EVAL_PIPELINE_SESSIONS", "/dev/shm/not-made")
    entry = f"{{name: a, adapter: agent, agent: codex, executable: sh, access: {access}}}"
    (project.root / "runners.yaml").write_text(f"runners: [{entry}]")

    planned = project("plan", "--runner", "a")

    assert ("the sandbox of codex has a /dev of its own; set EVAL_PIPELINE_SESSIONS" in planned.err) is warned


def test_help_names_every_command_and_the_exit_codes(cli_project: CliProject) -> None:
    answer = cli_project("--help")

    assert answer.code == 0
    assert {"run", "plan", "validate", "leaderboard", "sql", "dev"} <= set(answer.out.split())
    assert "Exit codes: 0 done" in answer.out


def test_the_leaderboard_shows_how_reliable_repetitions_are(cli_project: CliProject) -> None:
    rows = json.loads(cli_project("leaderboard", "--repetitions", "--suite", "greetings", "--json").out)
    shown = cli_project("leaderboard", "--repetitions", "--reducer", "median").out

    (greeter,) = (row for row in rows if row["runner"] == "greeter")
    assert (greeter["cases"], greeter["repetitions"], greeter["k"]) == (3, 1, 1)
    assert greeter["pass_at_k"] == greeter["pass_all_k"] == pytest.approx(2 / 3)
    assert (greeter["low"], greeter["high"]) == (None, None)
    assert {"pass@k", "pass^k", "(median)"} <= set(shown.split())
    assert "95 % of repeating: how far asking these cases again moves the rate" in shown


def test_the_leaderboard_shows_which_evaluator_is_flaky(cli_project: CliProject) -> None:
    rows = json.loads(cli_project("leaderboard", "--by-evaluator", "--suite", "greetings", "--json").out)
    shown = cli_project("leaderboard", "--by-evaluator", "--suite", "greetings").out

    (greeter,) = (row for row in rows if row["runner"] == "greeter")
    assert (greeter["evaluator"], greeter["cases"]) == ("polite", 3)
    assert greeter["pass_rate"] == pytest.approx(2 / 3)
    assert "polite" in shown


def test_plan_tells_why_it_executes_beside_its_table(cli_project: CliProject) -> None:
    answer = cli_project("plan", "--refresh", "failed")

    assert "execute greetings · greeter: 1 --refresh failed: it did not pass" in answer.err
    assert "execute sums" not in answer.err
