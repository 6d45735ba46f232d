"""Never fewer suites than were asked for without a word: files that hide each other, other encodings, late tests, and
names that lead to no file."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from eval_pipeline.cli.main import main
from eval_pipeline_tests.cli.sample_project import CliProject

PATIENCE_S = 60.0
BOARD = "SELECT DISTINCT suite FROM leaderboard ORDER BY suite"
SUITE = "tests:\n  - {id: a, input: x, assertions: [{type: contains, value: hi}]}\n"


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of suites of a project in the current folder, with one good suite."""
    (tmp_path / "eval-pipeline.yaml").write_text("suites: [suites]\n")
    (tmp_path / "runners.yaml").write_text("runners: [{name: echo, adapter: mock, response: hi}]\n")
    monkeypatch.chdir(tmp_path)
    suites = tmp_path / "suites"
    suites.mkdir()
    (suites / "good.yaml").write_text(SUITE)
    return suites


def validate(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = 0
    try:
        main(["validate", *arguments])
    except SystemExit as left:
        code = int(left.code or 0)
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_suites_that_name_each_other_hide_nothing(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one.yaml", "two.yaml"):
        (suites / name).write_text("tests: file://*.yaml\n")

    code, text = validate(capsys)

    assert code == 2
    assert "good: 1 case" in text or "good: 1 cases" in text
    assert text.count("expected a list of tests, got a mapping") >= 1


def test_lists_that_only_name_each_other_are_reported(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suites / "one.yaml").write_text("# tests:\n- file://two.yaml\n- {tests: x}\n")
    (suites / "two.yaml").write_text("- file://one.yaml\n- {tests: x}\n")

    code, text = validate(capsys)

    assert code == 2
    assert "suites/one.yaml" in text
    assert "suites/two.yaml" in text


def test_a_suite_that_another_one_quotes_is_still_a_suite(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suites / "review.yaml").write_text(SUITE.replace("input: x", "input: 'file://good.yaml'"))

    _, text = validate(capsys)

    assert "good: 1 case" in text


def test_a_list_of_tests_stays_a_part(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suites / "part.yaml").write_text("- {id: b, input: x, metadata: {tests: 3}, expected_output: hi}\n")
    (suites / "whole.yaml").write_text("tests: file://part.yaml\n")

    code, text = validate(capsys)

    assert code == 0, text
    assert "part:" not in text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le"])
@pytest.mark.parametrize("suffix", [".yaml", ".json", ".jsonl"])
def test_a_suite_in_another_encoding_is_an_error(
    suites: Path, capsys: pytest.CaptureFixture[str], encoding: str, suffix: str
) -> None:
    texts = {".yaml": SUITE, ".json": '{"tests": [{"id": "a", "input": "x"}]}', ".jsonl": '{"id": "a", "input": "x"}\n'}
    (suites / f"other{suffix}").write_bytes(texts[suffix].encode(encoding))

    code, text = validate(capsys)

    assert code == 2
    assert f"suites/other{suffix}: is UTF-{'16' if '16' in encoding else '32'}" in text
    assert "save it as UTF-8" in text


LONG = "x" * 70_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("late.yaml", f"description: |\n  {LONG}\n{SUITE}"),
        ("late.json", f'{{"description": "{LONG}", "tests": [{{"id": "a", "input": "x", "expected_output": "y"}}]}}'),
        ("late.jsonl", f'{{"id": "a", "criteria": "{LONG}", "input": "x"}}\n'),
    ],
)
def test_a_suite_whose_tests_come_late_is_loaded(
    suites: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (suites / name).write_text(text)

    code, printed = validate(capsys)

    assert code == 0, printed
    assert "late: 1 case" in printed


def test_a_key_deep_in_a_long_data_set_makes_no_suite(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suites / "data.json").write_text(f'{{"text": "{LONG}", "rows": [{{"tests": [1]}}]}}')

    code, printed = validate(capsys)

    assert code == 0, printed


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A command that waits for ever, as one that reads a pipe without a writer does, ends with an error."""

    def give_up(*_: object) -> None:
        raise TimeoutError(f"the command has not ended after {PATIENCE_S:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [make_pipe, make_loop])
@pytest.mark.parametrize(
    "suite",
    [
        "tests: file://odd.yaml\n",
        "tests: [file://odd.yaml]\n",
        "tests: file://od*.yaml\n",
        "workspace: {files: [odd.yaml]}\n" + SUITE,
        "workspace: {template: odd.yaml}\n" + SUITE,
        "tests: [{id: b, criteria: c, input: [{role: user, content: [{type: file, value: odd.yaml}]}]}]\n",
    ],
)
@pytest.mark.usefixtures("no_hang")
def test_what_is_no_file_is_an_error_and_never_a_hang(
    suites: Path, capsys: pytest.CaptureFixture[str], make: Callable[[Path], None], suite: str
) -> None:
    make(suites / "odd.yaml")
    (suites / "naming.yaml").write_text(suite)

    code, text = validate(capsys)

    assert code in (0, 2)
    assert "Traceback" not in text
    assert "odd.yaml" in text
    assert "good: 1 case" in text


@pytest.mark.parametrize(
    ("project", "arguments"),
    [
        ("suites: [suites]\n", ["suites/pipe.yaml"]),
        ("suites: [suites]\nrunners: suites/pipe.yaml\n", []),
        ("suites: [suites]\nrunners: suites/loop.yaml\n", []),
        ("suites: [suites/loop.yaml]\n", []),
        ("suites: [suites]\n", ["suites/loop.yaml"]),
        ("suites: [suites]\n", ["n" * 300]),
        ("suites: [suites]\n", ["n/" * 3000]),
        ("suites: [suites]\nrunners: " + "n" * 300 + "\n", []),
    ],
)
@pytest.mark.usefixtures("no_hang")
def test_files_that_a_user_names_and_that_are_none(
    suites: Path, capsys: pytest.CaptureFixture[str], project: str, arguments: list[str]
) -> None:
    make_pipe(suites / "pipe.yaml")
    make_loop(suites / "loop.yaml")
    (suites.parent / "eval-pipeline.yaml").write_text(project)

    code, text = validate(capsys, *arguments)

    assert code == 2
    assert "Traceback" not in text


@pytest.mark.usefixtures("no_hang")
def test_a_pipe_among_the_suites_is_reported(suites: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_pipe(suites / "pipe.yaml")

    code, text = validate(capsys)

    assert code == 2
    assert "suites/pipe.yaml: cannot be read: it is a pipe, socket or device, not a file" in text


HAS = "SELECT count(*) > 0 FROM verdicts WHERE suite = 'gone'"
OF_NOW = """SELECT (SELECT list(DISTINCT suite) FROM current_verdicts) AS verdicts,
                   (SELECT list(DISTINCT suite) FROM current_executions) AS executions,
                   (SELECT count(*) FROM failure_summary) AS failures"""


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a project after a run of `good`, and of `gone`, which fails, with runners `echo` and `other`."""
    cli_project = CliProject(tmp_path_factory.mktemp("two") / "project")
    cli_project.write("eval-pipeline.yaml", "suites: [suites]\n")
    entries = (f"  - {{name: {name}, adapter: mock, response: hi}}\n" for name in ("echo", "other"))
    cli_project.write("runners.yaml", "runners:\n" + "".join(entries))
    cli_project.write("suites/good.yaml", SUITE)
    cli_project.write("suites/gone.yaml", SUITE.replace("value: hi", "value: nothing"))
    cli_project("run", "--quiet")
    shutil.copytree(cli_project.root, cli_project.root.with_name("after"))
    return cli_project.root


@pytest.fixture
def with_two(carried_out: Path) -> CliProject:
    """That project, as the run left it."""
    shutil.rmtree(carried_out)
    shutil.copytree(carried_out.with_name("after"), carried_out)
    return CliProject(carried_out)


def boards(cli_project: CliProject, column: str = "suite") -> list[str]:
    answer = cli_project("sql", f"SELECT DISTINCT {column} AS it FROM leaderboard ORDER BY 1", "--json")
    return [json.loads(line)["it"] for line in answer.out.splitlines()]


def test_a_deleted_suite_is_on_no_board_that_is_shown_and_stays_in_history(with_two: CliProject) -> None:
    (with_two.root / "suites" / "gone.yaml").unlink()

    shown = with_two("leaderboard", "--json")

    assert {row["suite"] for row in shown.document} == {"good", "(all)"}
    assert "the project has no more gone · echo, gone · other: off the board, kept in history" in shown.err
    assert with_two.ask(OF_NOW) == [(["good"], ["good"], 0)]
    assert with_two.ask(HAS) == [(True,)]
    assert with_two("leaderboard", "--json").err == ""


def test_a_removed_case_is_on_no_board_that_is_shown(with_two: CliProject) -> None:
    with_two.edit("suites/good.yaml", "id: a", "id: b")

    shown = with_two("leaderboard", "--json")

    assert {row["suite"] for row in shown.document} == {"gone", "(all)"}
    assert "the project has no more good/a: off the board, kept in history" in shown.err
    assert with_two.ask(OF_NOW) == [(["gone"], ["gone"], 1)]
    assert with_two("leaderboard", "--json").err == ""


def test_a_removed_case_is_not_counted_of_a_pair_that_is_unfinished(with_two: CliProject) -> None:
    other = "  - {id: b, input: x, assertions: [{type: contains, value: hi}]}\n"
    with_two.write("suites/new.yaml", f"{SUITE}{other}")
    with_two("run", "--quiet", "--case", "b", "--runner", "echo", "suites/new.yaml")
    with_two.edit("suites/new.yaml", other, "")

    shown = with_two("leaderboard", "--json")

    assert "no more new/b" in shown.err
    left = [(row["runner"], row["planned"], row["graded"]) for row in shown.document if row["suite"] == "new"]
    assert left == [("echo", 1, 0)]


def test_a_removed_runner_and_a_renamed_suite_are_on_no_board_that_is_asked_for(with_two: CliProject) -> None:
    with_two.edit("runners.yaml", "name: other", "name: another")
    with_two.edit("suites/gone.yaml", "tests:", "name: renamed\ntests:")

    assert boards(with_two, "suite || ' ' || runner") == ["good echo"]


@pytest.mark.parametrize("gone", ["suites/gone.yaml suites/good.yaml", "runners"])
def test_a_board_of_nothing_is_empty(with_two: CliProject, gone: str) -> None:
    if gone == "runners":
        with_two.write("runners.yaml", "runners: [{name: another, adapter: mock, response: hi}]\n")
    for name in gone.split() if gone != "runners" else ():
        (with_two.root / name).unlink()

    shown = with_two("leaderboard")

    assert shown.code == 3
    assert "no standings" in shown.err
    assert with_two.ask("FROM leaderboard") == with_two.ask("FROM leaderboard_overall") == []
    assert with_two.ask("FROM board_as_of(now())") == []
    assert [each["standings"] for each in with_two("leaderboard", "--list", "--json").document] == [0, 6]
    assert with_two.ask("SELECT count(*) FROM leaderboard_history") == [(6,)]


def test_nothing_leaves_for_an_edit_for_other_runners_or_while_a_file_is_broken(with_two: CliProject) -> None:
    with_two.write("more.yaml", "runners: [{name: guest, adapter: mock, response: hi}]\n")
    with_two("run", "--quiet", "--runners", "more.yaml")
    with_two.edit("suites/good.yaml", "input: x", "input: y")
    after_an_edit = boards(with_two, "suite || ' ' || runner")
    (with_two.root / "suites" / "gone.yaml").unlink()
    with_two.write("suites/good.yaml", "tests: [")

    assert len(after_an_edit) == 6
    assert boards(with_two) == ["gone", "good"]


def test_runners_of_another_file_stay_whatever_becomes_of_the_projects(with_two: CliProject) -> None:
    with_two.write("more.yaml", "runners: [{name: guest, adapter: mock, response: hi}]\n")
    with_two("run", "suites", "--quiet", "--runners", "more.yaml", "--runner", "guest")
    (with_two.root / "runners.yaml").touch()
    after_a_touch = boards(with_two, "runner")
    with_two.edit("runners.yaml", "name: other", "name: another")
    after_an_edit = boards(with_two, "runner")
    with_two("run", "--quiet")
    after_a_run = boards(with_two, "runner")
    (with_two.root / "suites" / "gone.yaml").unlink()

    assert after_a_touch == ["echo", "guest", "other"]
    assert after_an_edit == ["echo", "guest"]
    assert after_a_run == ["another", "echo", "guest"]
    assert boards(with_two, "suite || ' ' || runner") == ["good another", "good echo", "good guest"]


def test_the_projects_own_runners_file_named_by_an_option_is_still_its_own(with_two: CliProject) -> None:
    with_two("run", "--quiet", "--runners", "runners.yaml", "--refresh", "all")
    with_two.edit("runners.yaml", "name: other", "name: another")

    assert boards(with_two, "runner") == ["echo"]


def test_other_data_and_results_without_a_warehouse_are_only_shown(with_two: CliProject) -> None:
    (with_two.root / "suites" / "gone.yaml").unlink()
    of_others = with_two("leaderboard", "--data", "data", "--json").document
    (with_two.root / "data" / "warehouse.duckdb").unlink()

    assert {row["suite"] for row in of_others} == {"gone", "good", "(all)"}
    assert boards(with_two) == ["gone", "good"]


@pytest.mark.parametrize("named", ["suites", "suites/good.yaml"])
def test_any_run_retires_what_is_gone(with_two: CliProject, named: str) -> None:
    (with_two.root / "suites" / "gone.yaml").unlink()

    with_two("run", named, "--quiet")

    assert with_two.ask(BOARD) == [("good",)]


def test_results_that_cannot_be_read_stop_no_run_of_a_part(with_two: CliProject) -> None:
    results = with_two.root / "data" / "results.duckdb"
    results.write_bytes(results.read_bytes()[:9000])
    with_two.edit("suites/good.yaml", "input: x", "input: y")

    ran = with_two("run", "suites/good.yaml", "--quiet")

    assert ran.code == 0, ran.err
    assert "good" in boards(with_two)
