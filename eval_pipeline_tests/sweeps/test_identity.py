"""What an execution and a score depend on: an edit of it is seen by the next run, and of nothing else."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.outcomes import SweepObserver
from eval_pipeline.sweeps.pairs import pair_plans
from eval_pipeline.sweeps.plan import plan_sweep
from eval_pipeline.sweeps.sweep import run_recorded
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.local_server import chat_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, contains, make_project

PAIR = PairKey("sums", "echo")
CURRENT = "SELECT case_id, status FROM current_verdicts ORDER BY case_id"


def wrote(folder: ProjectFolder, **files: str) -> None:
    """Write files of the project; `__` in a name is a slash, a trailing `_ext` its extension."""
    for name, text in files.items():
        stem, _, suffix = name.replace("__", "/").rpartition("_")
        path = folder.root / f"{stem}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def recorded(folder: ProjectFolder) -> None:
    """A sweep that is recorded from begin to end, with its runners."""
    session = folder.session()
    run_recorded(session, session.pairs([PAIR]), SweepOptions(), None, SweepObserver())


# Scores


GRADERS: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "python-evaluator": (
        {"type": "python", "function": "checks:good"},
        {"suites__checks_py": "from words import WORD\n\ndef good(output):\n    return WORD in output\n"},
    ),
    "python-file": (
        {"type": "python", "value": "file://checks.py"},
        {"suites__checks_py": "from words import WORD\n\ndef get_assert(output):\n    return WORD in output\n"},
    ),
    "grading-script": (
        {"type": "code-grader", "command": [sys.executable, "checks.py"]},
        {"suites__checks_py": "import json, sys\nfrom words import WORD\n"
         "print(json.dumps({'score': float(WORD in sys.stdin.read()), 'assertions': []}))\n"},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("evaluator", "files"), GRADERS.values(), ids=GRADERS)
def test_editing_a_module_that_a_grader_imports_scores_again_with_the_new_code(
    folder: ProjectFolder, evaluator: dict[str, Any], files: dict[str, str]
) -> None:
    wrote(folder, suites__words_py='WORD = "apples"\n', **files)
    folder.write_suite(a_test("a", evaluator), a_test("b"))
    folder.sweep_once()
    before = folder.ask(CURRENT)
    folder.take_calls()
    wrote(folder, suites__words_py='WORD = "no such word"\n')

    counts = folder.sweep()

    assert before == [("a", "passed"), ("b", "passed")]
    assert (counts.rescored, counts.reused, counts.executed, folder.take_calls()) == (1, 1, 0, [])
    assert folder.ask(CURRENT) == [("a", "failed"), ("b", "passed")]


# Headers whose names say nothing

MODE = {"X-Mode": "thorough"}
HEADERS: dict[str, tuple[dict[str, str], dict[str, str], bool]] = {
    "another value of an unknown name": (MODE, {"X-Mode": "superficial"}, True),
    "a rotated key": ({"X-Api-Key": "a1b2c3d4e5f6"}, {"X-Api-Key": "f6e5d4c3b2a1"}, False),
    "an unknown name that the environment fills in": ({"X-Mode": "${{ ONE }}"}, {"X-Mode": "${{ OTHER }}"}, False),
}


@pytest.mark.parametrize(("first", "second", "again"), HEADERS.values(), ids=HEADERS)
def test_a_hidden_header_of_unknown_name_tells_runners_apart(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, first: dict[str, str], second: dict[str, str], again: bool
) -> None:
    monkeypatch.setenv("ONE", "superficial")
    monkeypatch.setenv("OTHER", "thoroughly")
    revisions = [revision_with(folder, headers) for headers in (first, second, first)]

    assert (revisions[0] != revisions[1]) is again
    assert revisions[0] == revisions[2]


def test_a_header_that_the_project_lists_as_a_secret_does_not(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "listed", secrets=["X-Mode"])

    assert revision_with(folder, MODE) == revision_with(folder, {"X-Mode": "superficial"})


def revision_with(folder: ProjectFolder, headers: dict[str, str]) -> str:
    """The revision of a chat runner with these headers, as a new process finds it."""
    folder.write_runners(
        {"name": "echo", "adapter": "chat", "base_url": "http://127.0.0.1:9/v1", "model": "m", "headers": headers}
    )
    (pair,) = folder.session().pairs([PAIR])
    return pair.runner_identity.revision


def test_the_value_of_a_hidden_header_executes_anew_and_is_neither_stored_nor_hashed_without_a_key(
    folder: ProjectFolder,
) -> None:
    folder.write_suite(a_test("a"))
    with serve(lambda request: chat_reply("2")) as server:
        counts = []
        for mode in ("superficial", "thorough"):
            entry = {"name": "echo", "adapter": "chat", "base_url": server.url, "model": "m"}
            folder.write_runners({**entry, "headers": {"X-Mode": mode}})
            counts.append(folder.sweep().executed)
    other = make_project(folder.root / "other")

    assert counts == [1, 1]
    assert b"superficial" not in folder.all_bytes()
    assert stat.S_IMODE((folder.data / "identity.key").stat().st_mode) == 0o600
    assert revision_with(folder, MODE) != revision_with(other, MODE)
    assert not (make_project(folder.root / "third").data / "identity.key").exists()


# What a target receives

READS = """
import pathlib

def answer(prompt, case):
    with (pathlib.Path(__file__).parent / "calls.txt").open("a") as calls:
        calls.write(f"echo/{case.id}\\n")
    return f"2 {BODY}"
"""
TARGETS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "metadata-that-it-reads": ("case.metadata", {"metadata": {"level": 2}}, True),
    "metadata-that-it-does-not-read": ("case.id", {"metadata": {"level": 2}}, False),
    "tags-that-it-reads": ("len(case.tags)", {"tags": ["t"]}, True),
    "criteria-that-it-reads": ("case.criteria", {"criteria": "be brief"}, True),
    "expected-output-by-its-property": ("case.reference_answer", {"expected_output": "2"}, True),
    "anything-when-it-passes-the-case-on": ("str(case)[:0]", {"metadata": {"level": 2}}, True),
    "evaluators-when-it-passes-the-case-on": ("str(case)[:0]", {"assertions": [contains(" ")]}, False),
}  # fmt: skip


@pytest.mark.parametrize(("body", "edit", "again"), TARGETS.values(), ids=TARGETS)
def test_what_a_python_target_reads_of_a_case_is_part_of_its_plans(
    folder: ProjectFolder, body: str, edit: dict[str, Any], again: bool
) -> None:
    (folder.root / "reader.py").write_text(READS.replace("BODY", body))
    folder.write_runners({"name": "echo", "adapter": "python", "function": "reader:answer"})
    folder.sweep_once()
    folder.take_calls()
    folder.write_suite({**a_test("a"), **edit}, a_test("b"))

    folder.sweep()

    assert folder.take_calls() == (["echo/a"] if again else [])


def test_a_target_never_sees_how_it_is_scored(folder: ProjectFolder) -> None:
    (folder.root / "reader.py").write_text("def answer(case):\n    return f'2 {case.evaluators} {case.threshold}'\n")
    folder.write_runners({"name": "echo", "adapter": "python", "function": "reader:answer"})
    folder.write_suite(a_test("a"))

    folder.sweep_once()

    assert folder.ask("SELECT final_output FROM session_reports") == [("2 () None",)]


def test_editing_a_module_that_a_python_target_imports_executes_with_the_new_code(folder: ProjectFolder) -> None:
    wrote(folder, reader_py="import words\n\ndef answer(prompt):\n    return words.WORD\n", words_py='WORD = "2 old"\n')
    folder.write_runners({"name": "echo", "adapter": "python", "function": "reader:answer"})
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    wrote(folder, words_py='WORD = "nothing"\n')

    counts = folder.sweep()

    assert counts.executed == 1
    assert folder.ask(CURRENT) == [("a", "failed")]


# Programs


def installed(root: Path, version: str) -> Path:
    """An agent as npm installs it: a link to a file of a package, which the update leaves as it is."""
    package = root / "lib" / "node_modules" / "my-agent"
    package.mkdir(parents=True, exist_ok=True)
    (package / "package.json").write_text(json.dumps({"name": "my-agent", "version": version}))
    (package / "cli.js").write_text("#!/bin/sh\necho 2 apples\n")
    (package / "cli.js").chmod(0o755)
    link = root / "bin" / "my-agent"
    link.parent.mkdir(exist_ok=True)
    if not link.exists():
        link.symlink_to(package / "cli.js")
    return link.parent


def test_an_update_of_an_installed_agent_executes_anew_and_the_plan_names_it(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{installed(tmp_path / 'npm', '1.0.0')}:{os.environ['PATH']}")
    folder.write_runners({"name": "echo", "adapter": "command", "command": ["my-agent", "{PROMPT}"]})
    recorded(folder)
    unchanged = folder.sweep()
    installed(tmp_path / "npm", "1.0.1")

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    counts = folder.sweep()

    assert (unchanged.reused, planned.counts.executed, counts.executed) == (2, 2, 2)
    assert planned.reasons == {"changed runner (program my-agent)": 2}
    stored = folder.ask("SELECT content ->> 'program my-agent' FROM runners ORDER BY used_at")
    assert stored == [("my-agent@1.0.0",)]


def test_a_module_that_a_local_program_imports_is_part_of_its_runner(folder: ProjectFolder) -> None:
    wrote(folder, agent_py="from words import WORD\nprint(WORD)\n", words_py='WORD = "2 old"\n')
    folder.write_runners({"name": "echo", "adapter": "command", "command": [sys.executable, "agent.py"]})
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    wrote(folder, words_py='WORD = "nothing"\n')

    assert folder.sweep().executed == 1

    assert folder.ask(CURRENT) == [("a", "failed")]


# Workspaces

APPENDS = [sys.executable, "-c", "open('log.txt', 'a').write('x'); print(2)"]


def test_a_local_repository_that_got_a_commit_executes_anew(folder: ProjectFolder, tmp_path: Path) -> None:
    repository = folder.root / "suites" / "code"
    repository.mkdir()
    commit(repository, "one")
    folder.write_runners({"name": "echo", "adapter": "command", "command": [sys.executable, "-c", "print(2)"]})
    folder.write_suite(
        a_test("a"), workspace={"repos": [{"path": "code", "source": {"type": "local", "path": "code"}}]}
    )
    folder.sweep_once()
    unchanged = folder.sweep()
    commit(repository, "two")

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())

    assert (unchanged.reused, planned.counts.executed) == (1, 1)
    assert planned.reasons == {"changed workspace": 1}


def commit(repository: Path, text: str) -> None:
    (repository / "file.txt").write_text(text)
    named = ["-c", "user.name=n", "-c", "user.email=e@example.com"]
    for words in (["init", "-q"], ["add", "."], [*named, "commit", "-qm", text]):
        subprocess.run(["git", *words], cwd=repository, check=True, capture_output=True)


def test_a_static_folder_is_unchanged_after_its_own_target_and_changed_by_its_user(folder: ProjectFolder) -> None:
    static = folder.root / "suites" / "box"
    static.mkdir()
    (static / "readme.txt").write_text("one")
    folder.write_runners({"name": "echo", "adapter": "command", "command": APPENDS})
    folder.write_suite(a_test("a"), workspace={"mode": "static", "path": "box"})
    folder.sweep_once()

    after_the_target = folder.sweep()
    (static / "readme.txt").write_text("edited")
    after_the_user = folder.sweep()
    once_more = folder.sweep()

    assert (static / "log.txt").read_text() == "xx"
    assert [(counts.executed, counts.reused) for counts in (after_the_target, after_the_user, once_more)] == [
        (0, 1), (1, 0), (0, 1),
    ]  # fmt: skip


# Fallbacks


FALLIBLE = """
import pathlib

HERE = pathlib.Path(__file__).parent

def main(prompt, case):
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(f"main/{case.id}\\n")
    if (HERE / "down").exists():
        raise RuntimeError("down")
    return "2 from main"

def spare(prompt, case):
    with (HERE / "calls.txt").open("a") as calls:
        calls.write(f"spare/{case.id}\\n")
    return "2 from spare"
"""


@pytest.fixture
def answered_by_the_spare(folder: ProjectFolder) -> ProjectFolder:
    """A swept project whose runner was down, so that its fallback answered."""
    (folder.root / "fallible.py").write_text(FALLIBLE)
    (folder.root / "down").touch()
    folder.write_runners(
        {"name": "echo", "adapter": "python", "function": "fallible:main", "fallbacks": ["spare"]},
        {"name": "spare", "adapter": "python", "function": "fallible:spare"},
    )
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    assert folder.take_calls() == ["main/a", "spare/a"]
    return folder


def test_a_fallbacks_answer_is_replaced_once_the_runner_answers_again(answered_by_the_spare: ProjectFolder) -> None:
    folder = answered_by_the_spare
    (folder.root / "down").unlink()

    (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions())
    counts = folder.sweep()

    assert planned.reasons == {"a fallback answered: the runner is tried again": 1}
    assert (counts.executed, counts.reused, folder.take_calls()) == (1, 0, ["main/a"])
    assert folder.ask("SELECT answered_by FROM current_executions") == [(None,)]
    assert folder.sweep().reused == 1


def test_a_fallbacks_answer_counts_while_the_runner_is_still_down(answered_by_the_spare: ProjectFolder) -> None:
    folder = answered_by_the_spare

    counts = folder.sweep()

    assert (counts.executed, counts.reused, counts.passed, folder.take_calls()) == (0, 1, 1, ["main/a"])
    assert folder.ask("SELECT answered_by FROM current_executions") == [("spare",)]


def test_a_fallbacks_answer_is_kept_by_choice_without_any_call(answered_by_the_spare: ProjectFolder) -> None:
    folder = answered_by_the_spare
    (folder.root / "down").unlink()

    counts = folder.sweep(keep_fallbacks=True)

    assert (counts.reused, folder.take_calls()) == (1, [])


def test_the_answer_of_a_fallback_that_changed_or_was_removed_counts_no_more(
    answered_by_the_spare: ProjectFolder,
) -> None:
    folder = answered_by_the_spare
    folder.write_runners(
        {"name": "echo", "adapter": "python", "function": "fallible:main", "fallbacks": ["spare"]},
        {"name": "spare", "adapter": "python", "function": "fallible:spare", "model": "newer"},
    )

    folder.sweep(keep_fallbacks=True)

    assert folder.take_calls() == ["main/a", "spare/a"]


def test_an_evaluator_added_while_the_runner_is_down_scores_the_fallbacks_answer(
    answered_by_the_spare: ProjectFolder,
) -> None:
    folder = answered_by_the_spare
    folder.write_suite(a_test("a", contains("no such")))

    counts = folder.sweep()

    assert (counts.rescored, counts.executed, folder.take_calls()) == (1, 0, ["main/a"])
    assert folder.ask(CURRENT) == [("a", "failed")]


# Data folders of older versions


def test_executions_of_an_older_version_are_reused_and_get_todays_key(folder: ProjectFolder) -> None:
    (folder.root / "reader.py").write_text(READS.replace("BODY", "case.metadata"))
    folder.write_runners({"name": "echo", "adapter": "python", "function": "reader:answer"})
    folder.write_suite(a_test("a", metadata={"level": 1}), a_test("b"))
    folder.sweep_once()
    session = folder.session()
    plans = list(pair_plans(session.pairs([PAIR])[0], SweepOptions()))
    with session.warehouse.transaction() as connection:
        for plan in plans:
            old = [plan.earlier_key, plan.key]
            connection.execute("UPDATE target_executions SET key = ?, identity = NULL WHERE key = ?", old)
            connection.execute("UPDATE verdicts SET key = ? WHERE key = ?", old)
    folder.take_calls()

    counts = folder.sweep()
    folder.write_suite(a_test("a", metadata={"level": 2}), a_test("b"))
    edited = folder.sweep()

    assert (counts.reused, counts.executed) == (2, 0)
    assert (edited.reused, edited.executed, folder.take_calls()) == (1, 1, ["echo/a"])
    assert len(folder.ask("SELECT * FROM current_verdicts")) == 2


# Why


def test_a_plan_tells_why_it_executes(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("same"), a_test("edited"), a_test("crashes"))
    folder.write_answers(crashes="crash")
    recorded(folder)
    folder.write_suite(a_test("same"), a_test("edited", text="2 pears"), a_test("crashes"), a_test("new"))

    def reasons(**options: Any) -> dict[str, int]:
        (planned,) = plan_sweep(folder.session(), [PAIR], SweepOptions(**options))
        return dict(planned.reasons)

    incomplete = "the last execution did not complete"
    assert reasons() == {incomplete: 1, "changed input": 1, "new case": 1}
    assert reasons(refresh="all")["--refresh all"] == 1
    assert reasons(repetitions=2)["new repetition"] == 3
    folder.write_runners(a_runner_entry(model="m"))
    assert reasons()["changed runner (model)"] == 2
    assert reasons()["changed runner (model), changed input"] == 1
