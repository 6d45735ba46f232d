"""What a command becomes: attached files, programs that are elsewhere, and where it runs."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.suites.model import Case, Message
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner

FILES = ["plain.txt", "with space.txt", "it's $(touch hacked).txt"]


def a_case_with_files(folder: Path, *names: str) -> Case:
    parts = [{"type": "file", "value": name, "text": "x", "resolved_path": str(folder / name)} for name in names]
    return a_case(input=(Message(role="user", content=[{"type": "text", "value": "Look."}, *parts]),))


def run(
    folder: Path, command: Any, case: Case | None = None, workspace: Path | None = None, **settings: Any
) -> RawExecution:
    adapter = Command(a_runner(adapter="command", settings={"command": command, **settings}, folder=folder))
    call = dataclasses.replace(a_call(folder / "files", a_plan(case)), workspace=workspace)
    return asyncio.run(adapter.execute(call))


def printed(folder: Path, command: Any, case: Case | None = None, **more: Any) -> str:
    return run(folder, command, case, **more).files["stdout"].read_text(encoding="utf-8")


LINES = ["sh", "-c", 'for word in "$@"; do echo "<$word>"; done', "sh"]
SHELL = 'show() { for word in "$@"; do echo "<$word>"; done; }; show '


@pytest.mark.parametrize(
    ("command", "settings", "words"),
    [
        pytest.param([*LINES, "{FILES}"], {}, ["{0}", "{1}", "{2}"], id="list"),
        pytest.param([*LINES, "{FILES}"], {"files_format": "--file {path}"},
                     ["--file", "{0}", "--file", "{1}", "--file", "{2}"], id="list, format"),
        pytest.param([*LINES, "{FILES}"], {"files_format": "{basename}={path}"},
                     ["plain.txt={0}", "with space.txt={1}", "it's $(touch hacked).txt={2}"], id="list, one word each"),
        pytest.param([*LINES, "all: {FILES}"], {}, ["all: {0} {1} {2}"], id="list, inside a word"),
        pytest.param(SHELL + "{FILES}", {}, ["{0}", "{1}", "{2}"], id="shell"),
        pytest.param(SHELL + "{FILES} end", {"files_format": "--file {path} --as '{basename}'"},
                     ["--file", "{0}", "--as", "plain.txt", "--file", "{1}", "--as", "with space.txt", "--file", "{2}",
                      "--as", "it's $(touch hacked).txt", "end"], id="shell, format"),
        pytest.param(SHELL + '"{FILES}"', {}, ["{0} {1} {2}"], id="shell, in quotes"),
    ],
)  # fmt: skip
def test_attached_files_are_given_as_the_format_says(
    tmp_path: Path, command: Any, settings: Any, words: list[str]
) -> None:
    case = a_case_with_files(tmp_path, *FILES)

    message = printed(tmp_path, command, case, **settings)

    paths = [str(tmp_path / name) for name in FILES]
    assert message.splitlines() == [f"<{word.format(*paths)}>" for word in words]
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize("command", [[*LINES, "{FILES}"], SHELL + "{FILES}"], ids=["list", "shell"])
def test_a_case_without_files_gives_none(tmp_path: Path, command: Any) -> None:
    assert printed(tmp_path, command, a_case()) == ""


def test_a_program_is_pointed_at_files_which_it_opens_itself(tmp_path: Path) -> None:
    assert printed(tmp_path, ["cat"], a_case_with_files(tmp_path, "a.txt")) == 'Look.\n\n<file: path="a.txt">'


def test_what_a_program_is_to_heed_stands_before_the_prompt(tmp_path: Path) -> None:
    assert printed(tmp_path, ["cat"], a_case(text="Hi"), system="Be brief.") == "Be brief.\n\nHi"


def test_the_first_attempt_is_no_retry(tmp_path: Path) -> None:
    adapter = Command(a_runner(settings={"command": ["echo", "{ATTEMPT} {RETRY}"]}, folder=tmp_path))
    calls = [a_call(tmp_path / "files", attempt=attempt) for attempt in (1, 2)]

    message = [asyncio.run(adapter.execute(call)).files["stdout"].read_text() for call in calls]

    assert message == ["1 0\n", "2 1\n"]


# The workspace.


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace of a case"
    folder.mkdir()
    return folder


def test_a_program_runs_in_the_workspace_when_there_is_one(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "inner").mkdir()

    assert printed(tmp_path, ["pwd"], workspace=workspace, cwd="inner") == f"{workspace}\n"


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "programs/my agent.py"], id="list"),
        pytest.param(f"{sys.executable} 'programs/my agent.py'", id="shell, in quotes"),
        pytest.param(f"{sys.executable} programs/agent.py", id="shell"),
        pytest.param(f"cd . && {sys.executable} programs/agent.py; true", id="shell, among others"),
        pytest.param(["./agent.sh"], id="a program of its own"),
        pytest.param("./agent.sh", id="a program of its own, shell"),
    ],
)
def test_programs_beside_the_runners_file_are_found_from_a_workspace(
    tmp_path: Path, workspace: Path, command: Any
) -> None:
    (tmp_path / "programs").mkdir()
    for name in ("my agent.py", "agent.py"):
        (tmp_path / "programs" / name).write_text("import os; print(os.getcwd())", encoding="utf-8")
    (tmp_path / "agent.sh").write_text("#!/bin/sh\npwd\n", encoding="utf-8")
    (tmp_path / "agent.sh").chmod(0o755)

    assert printed(tmp_path, command, workspace=workspace) == f"{workspace}\n"


def test_a_file_of_the_workspace_is_not_taken_for_a_program(tmp_path: Path, workspace: Path) -> None:
    (workspace / "notes.txt").write_text("of the case", encoding="utf-8")

    assert printed(tmp_path, "cat notes.txt", workspace=workspace) == "of the case"


# Time.


def test_a_programs_time_is_its_own_however_busy_the_loop_is(tmp_path: Path) -> None:
    adapter = Command(a_runner(settings={"command": "touch done"}, folder=tmp_path))
    busy_s = 0.5

    async def busy() -> tuple[RawExecution, float]:
        started = time.monotonic()
        work = asyncio.ensure_future(adapter.execute(a_call(tmp_path / "files")))
        await asyncio.sleep(0)
        while not (tmp_path / "done").exists():
            time.sleep(0.001)
        time.sleep(busy_s)
        return await work, (time.monotonic() - started) * 1000

    raw, took_ms = asyncio.run(busy())

    assert 0 < raw.payload["elapsed_ms"] < took_ms - busy_s * 1000 / 2


def test_output_up_to_the_time_limit_is_kept(tmp_path: Path) -> None:
    adapter = Command(a_runner(settings={"command": "echo so far; sleep 60 & wait"}, folder=tmp_path))
    call = a_call(tmp_path / "files", timeout_s=0.3)

    async def limited() -> None:
        async with asyncio.timeout(call.timeout_s):
            await adapter.execute(call)

    with pytest.raises(TargetFailure, match=r"^no answer within 0\.3 s$") as raised:
        asyncio.run(limited())

    assert (raised.value.failure.id, raised.value.retryable) == ("timeout", False)
    assert raised.value.raw is not None
    assert raised.value.raw.files["stdout"].read_text() == "so far\n"


def test_being_cancelled_before_the_time_limit_is_no_timeout(tmp_path: Path) -> None:
    adapter = Command(a_runner(settings={"command": "touch begun; sleep 60"}, folder=tmp_path))

    async def cancelled() -> asyncio.Task[RawExecution]:
        work = asyncio.ensure_future(adapter.execute(a_call(tmp_path / "files")))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait([work])
        return work

    assert asyncio.run(cancelled()).cancelled()


@pytest.mark.parametrize("command", ["exit 3", "true {OUTPUT_FILE}"], ids=["crash", "no output"])
@pytest.mark.parametrize("retry", [True, False])
def test_a_failed_run_may_be_worth_another(tmp_path: Path, command: str, retry: bool) -> None:
    with pytest.raises(TargetFailure) as raised:
        run(tmp_path, command, retry_failures=retry)

    assert raised.value.retryable is retry
