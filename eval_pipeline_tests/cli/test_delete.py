"""`eval-pipeline delete`: a dry run by default; what is deleted is gone, and what is left is consistent."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path

import pytest
from filelock import FileLock

from eval_pipeline.orchestration.instance import open_instance
from eval_pipeline.sweeps import deletion
from eval_pipeline.warehouse.store import open_warehouse
from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project

SECRET = "xylophone-4711"
"""A text of one case, to be found nowhere after its suite is deleted."""
TABLES = (
    "suites", "cases", "sweep_pairs", "target_executions", "session_reports", "session_events", "evaluator_scores",
    "verdicts", "leaderboards", "failure_classes",
)  # fmt: skip


@pytest.fixture(scope="module")
def twice_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose second sweep executed what failed again and reused the rest; copied, never changed."""
    project = make_cli_project(tmp_path_factory.mktemp("twice"))
    project.edit("suites/greetings.yaml", "input: Ann", f"input: {SECRET}")
    project("run", "--quiet")
    project("run", "--quiet", "--refresh", "failed")
    return project.root


@pytest.fixture
def project(twice_run: Path, tmp_path: Path) -> CliProject:
    shutil.copytree(twice_run, tmp_path / "project")
    return CliProject(tmp_path / "project")


def sweeps_of(project: CliProject) -> list[str]:
    return [str(sweep) for (sweep,) in project.ask("SELECT sweep_id FROM sweeps ORDER BY sweep_id")]


def files_of(project: CliProject) -> dict[str, int]:
    """The data files, without Dagster's, and their sizes."""
    data = project.root / "data"
    files = (path for path in data.rglob("*") if path.is_file() and "dagster" not in path.relative_to(data).parts)
    return {str(path.relative_to(data)): path.stat().st_size for path in files if path.suffix != ".lock"}


def files_with(project: CliProject, text: str) -> list[str]:
    data = project.root / "data"
    return [name for name in files_of(project) if text.encode() in (data / name).read_bytes()]


def planned(project: CliProject) -> tuple[int, int, int]:
    """Plans to execute, reused and scored again."""
    rows = project("plan", "--json").document
    names = ("to_execute", "reused", "to_rescore")
    to_execute, reused, rescored = (sum(row[name] for row in rows) for name in names)
    return to_execute, reused, rescored


def test_without_yes_nothing_is_deleted_and_everything_is_counted(project: CliProject) -> None:
    before = files_of(project)

    answer = project("delete", "suites", "greetings")
    counted = project("delete", "suites", "greetings", "--json").document

    assert answer.code == 0
    assert "would delete suite greetings" in answer.out
    assert "nothing is deleted yet: add --yes" in answer.out
    assert counted["dry_run"] is True
    assert counted["rows"]["target_executions"] == 7
    assert counted["files"] > 0
    assert set(files_of(project)) == set(before)
    assert planned(project) == (0, 8, 0)


def test_a_deleted_suite_is_gone_from_tables_files_and_published_results(project: CliProject) -> None:
    before = files_with(project, SECRET)

    dry = project("delete", "suites", "greetings", "--json").document
    done = project("delete", "suites", "greetings", "--yes", "--json").document

    assert {"warehouse.duckdb", "results.duckdb"} <= set(before)
    assert (done["rows"], done["files"]) == (dry["rows"], dry["files"])
    for table in TABLES:
        assert project.ask(f"SELECT count(*) FROM {table} WHERE suite = 'greetings'") == [(0,)], table
    assert files_with(project, SECRET) == []
    assert not list((project.root / "data/artifacts").rglob("greetings"))
    assert project.ask("SELECT count(*) FROM sweeps WHERE selection::VARCHAR LIKE '%greetings%'") == [(0,)]


def test_boards_and_views_are_consistent_after_a_suite_is_deleted(project: CliProject) -> None:
    project("delete", "suites", "greetings", "--yes")

    board = project("leaderboard", "--json").document
    shown = project("show", "--json").document

    assert {(row["suite"], row["runner"]) for row in board if row["scope"] == "suite"} == {("sums", "parrot")}
    assert {row["runner"] for row in board if row["scope"] == "overall"} == {"parrot"}
    assert {row["suite"] for row in shown} == {"sums"}
    assert project("show", "greetings/ann").code == 2
    assert planned(project) == (6, 2, 0)
    assert project("run", "--quiet").code == 1
    assert planned(project)[0] == 0


def test_a_deleted_runner_is_gone(project: CliProject) -> None:
    answer = project("delete", "runners", "greeter", "--yes")

    assert answer.code == 0
    for table in TABLES[2:]:
        assert project.ask(f"SELECT count(*) FROM {table} WHERE runner = 'greeter'") == [(0,)], table
    assert {row["runner"] for row in project("leaderboard", "--json").document} == {"parrot"}
    assert not (project.root / "data/artifacts/greeter").exists()


def test_a_deleted_sweep_leaves_what_a_later_one_reused(project: CliProject) -> None:
    first, _ = sweeps_of(project)
    executed = project.ask(f"SELECT count(*) FROM target_executions WHERE sweep_id = '{first}'")

    answer = project("delete", "sweeps", first, "--yes", "--json").document

    assert executed == [(8,)]
    assert "target_executions" not in answer["rows"]  # the failed one, executed again, counts beside the second
    assert answer["changed_pairs"] == []
    assert planned(project) == (0, 8, 0)
    assert len(project("leaderboard", "--list", "--json").document) >= 1
    assert project("show", "--sweep", "latest", "--json").code == 0


def test_after_deleting_the_newest_sweep_the_one_before_is_current(project: CliProject) -> None:
    first, second = sweeps_of(project)

    answer = project("delete", "sweeps", second, "--yes", "--json").document

    assert {pair["runner"] for pair in answer["changed_pairs"]} == {"greeter", "parrot"}
    assert sweeps_of(project) == [first]
    assert project.ask("SELECT DISTINCT sweep_id FROM current_pairs") == [(first,)]
    assert project.ask("SELECT count(*) FROM current_verdicts") == [(8,)]
    assert project.ask("SELECT count FROM failure_classes") == [(1,)]


def test_old_sweeps_are_deleted_but_none_with_current_results(project: CliProject) -> None:
    first, second = sweeps_of(project)

    last = project("delete", "sweeps", "--keep-last", "1", "--json").document
    none = project("delete", "sweeps", "--older-than", "1d", "--json").document
    every = project("delete", "sweeps", "--older-than", "0m", "--yes", "--json").document

    assert last["sweeps"] == every["sweeps"] == [first]
    assert none["sweeps"] == []
    assert sweeps_of(project) == [second]


def test_deleted_artifacts_leave_rows_and_scores(project: CliProject) -> None:
    calls = project.calls
    kept = project("delete", "artifacts", "--keep-last", "2", "--json").document
    young = project("delete", "artifacts", "--older-than", "1d", "--json").document
    done = project("delete", "artifacts", "--yes", "--json").document
    project.edit("suites/greetings.yaml", "value: hello", "value: hell")
    rescored = project("run", "--quiet", "--json").counts

    assert (kept["files"], young["files"]) == (0, 0)
    assert done["files"] > 0
    assert not list((project.root / "data/artifacts").rglob("stdout"))
    assert (rescored["rescored"], rescored["executed"]) == (6, 0)
    assert project.calls == calls
    assert "deleted since" in project("show", "greetings/ann", "--runner", "greeter").out


def test_a_report_outlives_its_files_when_the_normalizer_is_new(project: CliProject) -> None:
    project("delete", "artifacts", "--yes")
    with open_warehouse(project.root / "data").transaction() as connection:
        connection.execute("UPDATE session_reports SET normalizer = 'older'")
        connection.execute("UPDATE verdicts SET normalizer = 'older'")

    project("run", "--quiet")

    assert f"hello {SECRET}" in project("show", "greetings/ann", "--runner", "greeter").out


def test_files_that_a_killed_deletion_left_go_with_the_next_one(
    project: CliProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(deletion, "remove_orphans", killed)
        interrupted = project("delete", "suites", "greetings", "--yes")
    rows = project.ask("SELECT count(*) FROM target_executions WHERE suite = 'greetings'")
    left = list((project.root / "data/artifacts").rglob("greetings"))
    project("delete", "suites", "sums", "--yes")

    assert interrupted.code == 130
    assert rows == [(0,)]
    assert left
    assert not list((project.root / "data/artifacts").rglob("greetings"))


def test_executions_in_a_journal_keep_their_files(project: CliProject) -> None:
    journal = project.root / "data/journals/20990101T000000.000000-aaaa/greeter/greetings"
    files = project.root / "data/artifacts/greeter/greetings" / ("f" * 24) / "20990101T000000.000000-aaaa/attempt-1"
    for folder, name in ((journal, "target_executions.jsonl"), (files, "stdout")):
        folder.mkdir(parents=True)
        (folder / name).write_text("{}\n")

    project("delete", "runners", "parrot", "--yes")
    kept = (files / "stdout").exists()
    project("delete", "suites", "greetings", "--yes")

    assert kept
    assert not files.exists()
    assert not journal.exists()


def test_a_deletion_waits_for_a_sweep_under_way(project: CliProject) -> None:
    held = threading.Event()

    def sweep() -> None:
        with FileLock(project.root / "data" / "sweep.lock"):
            held.set()
            time.sleep(2.0)

    threading.Thread(target=sweep).start()
    held.wait()

    answer = project("delete", "suites", "sums", "--yes")

    assert answer.code == 0
    assert "another sweep of this data folder is under way" in answer.err


def test_runs_and_partitions_of_what_is_deleted_leave_dagster(project: CliProject) -> None:
    first, _ = sweeps_of(project)
    ((run,),) = project.ask(f"SELECT dagster_run_id FROM sweeps WHERE sweep_id = '{first}'")

    project("delete", "sweeps", first, "--yes")
    project("delete", "suites", "sums", "--yes")

    with open_instance(project.root / "data", project.root) as instance:
        assert not instance.has_run(run)
        assert "sums" not in instance.get_dynamic_partitions("suites")
        assert not [key for key in instance.get_dynamic_partitions("pairs") if key.startswith("sums")]


def test_without_a_kind_what_is_stored_is_listed(project: CliProject) -> None:
    listed = project("delete").out
    stored = project("delete", "--json").document

    assert all(sweep in listed for sweep in sweeps_of(project))
    assert {(row["kind"], row["name"]) for row in stored["stored"] if row["kind"] != "sweeps"} == {
        ("suites", "greetings"), ("suites", "sums"), ("runners", "greeter"), ("runners", "parrot")
    }  # fmt: skip
    assert stored["files"]["artifacts"]["files"] > 0


def test_conversations_that_nobody_went_on_with_are_deleted_by_age(project: CliProject) -> None:
    folder = project.root / "data" / "conversations"
    folder.mkdir()
    for name, age_s in (("old", 3 * 86_400), ("new", 60)):
        (folder / f"{name}.jsonl").write_text(SECRET)
        os.utime(folder / f"{name}.jsonl", (time.time() - age_s,) * 2)

    listed = project("delete", "--json").document["files"]["conversations"]
    shown = project("delete", "conversations", "--older-than", "1d")
    project("delete", "conversations", "--older-than", "1d", "--yes")

    assert listed == {"files": 2, "bytes": 2 * len(SECRET)}
    assert "would delete conversations" in shown.out
    assert [path.name for path in folder.iterdir()] == ["new.jsonl"]


RETENTION = """\
suites: [suites]
retention:
  sweeps: {keep_last: 1}
  artifacts: {older_than: 0m}
  grader_replies: {older_than: 1d}
"""


def test_retention_of_the_project_file_deletes_what_is_old_after_a_dry_run(project: CliProject) -> None:
    project.write("eval-pipeline.yaml", RETENTION)
    first, second = sweeps_of(project)
    before = files_of(project)

    shown = project("delete", "--retention")
    dry = project("delete", "--retention", "--json").document
    untouched = files_of(project)
    done = project("delete", "--retention", "--yes", "--json").document
    again = project("delete", "--retention").out

    assert (shown.code, shown.out.count("nothing is deleted yet: add --yes")) == (0, 1)
    assert f"would delete sweep {first}" in shown.out
    assert [(each["what"], each["dry_run"]) for each in dry] == [
        (f"sweep {first}", True), ("artifacts", True), ("grader-replies", True)
    ]  # fmt: skip
    assert set(untouched) == set(before)
    assert [each["dry_run"] for each in done] == [False] * 3
    assert sweeps_of(project) == [second]
    assert not list((project.root / "data/artifacts").rglob("stdout"))
    assert "add --yes" not in again
    assert planned(project) == (0, 8, 0)


def test_a_run_deletes_nothing_by_retention(project: CliProject) -> None:
    project.write("eval-pipeline.yaml", RETENTION)
    before = sweeps_of(project)

    project("run", "--quiet")

    assert set(before) < set(sweeps_of(project))


def test_retention_is_requested_without_kinds_and_ages(project: CliProject) -> None:
    unset = project("delete", "--retention", "--yes")
    project.write("eval-pipeline.yaml", RETENTION)
    both = project("delete", "sweeps", "--retention", "--yes")
    aged = project("delete", "--retention", "--keep-last", "3", "--yes")

    assert (unset.code, both.code, aged.code) == (2, 2, 2)
    assert "set `retention`, such as `sweeps: {older_than: 90d, keep_last: 20}`" in unset.err
    assert "--retention takes kinds and ages from the project file" in both.err


def test_an_age_before_the_calendar_deletes_nothing(project: CliProject) -> None:
    answer = project("delete", "sweeps", "--older-than", "999999w", "--yes")

    assert answer.code == 0
    assert "nothing to delete" in answer.out
    assert len(sweeps_of(project)) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["grader-replies", "--keep-last", "5"], "grader-replies belong to no sweep: --older-than chooses them"),
        (["conversations", "--keep-last", "5"], "conversations belong to no sweep: --older-than chooses them"),
        (["suites", "greeting"], "did you mean 'greetings'?"),
        (["suites"], "name suites to delete; eval-pipeline delete lists what is stored"),
        (["sweeps"], "name sweeps to delete, --older-than or --keep-last"),
        (["suites", "greetings", "--older-than", "3d"], "choose sweeps or files, without names"),
        (["artifacts", "greeter"], "artifacts have no names"),
        (["sweeps", "--older-than", "soon"], "expected a date, a time or an age"),
        (["everything"], "'everything' is not one of"),
    ],
)
def test_what_cannot_be_deleted_is_answered_with_the_cure(
    project: CliProject, arguments: list[str], message: str
) -> None:
    answer = project("delete", *arguments, "--yes")

    assert answer.code == 2
    assert message in answer.err


def test_a_project_without_data_has_nothing_to_delete(tmp_path: Path) -> None:
    empty = make_cli_project(tmp_path)

    assert empty("delete").code == 0
    assert empty("delete", "artifacts", "--yes").code == 0
    assert empty("delete", "suites", "greetings", "--yes").code == 2
