"""Local programs, really run: how they get the prompt, what is kept of them, and that nothing is left of them."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.adapters.command import Command
from eval_pipeline.executions.engine import Engine, Lane
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.process import CompletedProcess, run_program
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.suites.model import Case, Message
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner
from eval_pipeline_tests.executions.simulated_provider import Sink

on_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are found by /proc")

PATIENCE_S = 60.0
NASTY = [
    "What is 2 + 2?",
    'it\'s "quoted" and `quoted`',
    "$(touch hacked) `touch hacked` ; touch hacked; $HOME && touch hacked",
    "'; touch hacked; '",
    '"; touch hacked; "',
    "two\nlines\n\n",
    "back\\slash \\n \\",
    "-n",
    "{PROMPT} {CASE_ID} ${HOME}",
    "* ? [a] ~ # !",
    "日本語 😀",
    "",
]


def a_command(folder: Path, command: Any, **settings: Any) -> Command:
    return Command(a_runner(adapter="command", settings={"command": command, **settings}, folder=folder))


def run(folder: Path, command: Any, case: Case | None = None, **settings: Any) -> RawExecution:
    """Runs a program once, its files below `folder / "files"`."""
    adapter = a_command(folder, command, **settings)
    return asyncio.run(adapter.execute(a_call(folder / "files", a_plan(case))))


def failure_of(folder: Path, command: Any, case: Case | None = None, **settings: Any) -> TargetFailure:
    with pytest.raises(TargetFailure) as raised:
        run(folder, command, case, **settings)
    return raised.value


def printed(folder: Path, command: Any, question: str = "What is 2 + 2?", **settings: Any) -> str:
    return run(folder, command, a_case(text=question), **settings).files["stdout"].read_text(encoding="utf-8")


@pytest.mark.parametrize("prompt", NASTY, ids=repr)
@pytest.mark.parametrize(
    ("command", "settings"),
    [
        pytest.param(["printf", "%s", "{PROMPT}"], {}, id="argument"),
        pytest.param(["printf", "%s"], {"prompt": "argument"}, id="last argument"),
        pytest.param(["cat"], {}, id="stdin"),
        pytest.param(["cat", "{PROMPT_FILE}"], {}, id="file"),
        pytest.param("printf %s {PROMPT}", {}, id="shell"),
        pytest.param('printf %s "{PROMPT}"', {}, id="shell, in quotes"),
        pytest.param("printf %s '{PROMPT}'", {}, id="shell, in single quotes"),
        pytest.param("printf %s", {"prompt": "argument"}, id="shell, last argument"),
        pytest.param("cat {PROMPT_FILE}", {}, id="shell, file"),
        pytest.param("cat", {}, id="shell, stdin"),
    ],
)
def test_a_program_gets_the_prompt_unharmed(tmp_path: Path, command: Any, settings: Any, prompt: str) -> None:
    assert printed(tmp_path, command, prompt, **settings) == prompt
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    ("line", "output"),
    [
        pytest.param('printf %s "<{PROMPT}>" ', "<{}>", id="inside quotes"),
        pytest.param("printf %s '<{PROMPT}>' ", "<{}>", id="inside single quotes"),
        pytest.param("printf %s --x={PROMPT}", "--x={}", id="inside a word"),
        pytest.param('printf %s "$(printf %s "{PROMPT}")" ', "{}", id="in a command inside quotes"),
        pytest.param('printf %s "$(printf %s {PROMPT})" ', "{}", id="in a command"),
        pytest.param('printf %s "$(cat {PROMPT_FILE} && printf %s "{PROMPT}")" ', "{0}{0}", id="a file in quotes"),
        pytest.param("(printf %s {PROMPT})", "{}", id="in a group"),
        pytest.param("printf %s \\\"{PROMPT}\\'", "\"{}'", id="beside escaped quotes"),
        pytest.param('printf %s "\\"{PROMPT}"', '"{}', id="beside an escaped quote in quotes"),
        pytest.param(": # don't\nprintf %s {PROMPT}", "{}", id="after an apostrophe in a comment"),
        pytest.param('printf %s a#"b\'"{PROMPT}', "a#b'{}", id="after what is no comment"),
        pytest.param("printf %s $((1 + 1)){PROMPT}", "2{}", id="after arithmetic"),
        pytest.param("V={PROMPT}; printf %s \"$V\" '' ", "{}", id="as a variable"),
    ],
)
def test_nothing_in_a_prompt_is_read_as_shell_wherever_it_stands(tmp_path: Path, line: str, output: str) -> None:
    prompt = 'it\'s $(touch hacked) "and" `touch hacked`; {CASE_ID}'

    assert printed(tmp_path, line, prompt) == output.format(prompt)
    assert not (tmp_path / "hacked").exists()


def test_what_stands_behind_a_dollar_is_the_shells(tmp_path: Path) -> None:
    assert printed(tmp_path, 'printf %s "${WHO} {PROMPT}"', "hi", env={"WHO": "Ann"}) == "Ann hi"


def test_other_placeholders_say_which_cell_it_is(tmp_path: Path) -> None:
    words = "{CASE_ID} {EVAL_ID} {SUITE} {REPETITION} {ATTEMPT}"
    adapter = a_command(tmp_path, ["printf", "%s", words])
    plan = a_plan(a_case("c 7"), suite="math", repetition=3)

    raw = asyncio.run(adapter.execute(a_call(tmp_path, plan, attempt=2)))

    assert raw.files["stdout"].read_text() == "c 7 c 7 math 3 2"


@pytest.mark.parametrize("variable", ["EVAL_PIPELINE_WORKSPACE", "AGENTV_WORKSPACE_PATH"])
def test_a_program_in_a_workspace_is_told_where_that_is_and_another_nothing(tmp_path: Path, variable: str) -> None:
    adapter = a_command(tmp_path, ["sh", "-c", f'printf %s "${variable}"'])
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    result = asyncio.run(adapter.execute(replace(a_call(tmp_path / "one"), workspace=workspace)))
    untold = asyncio.run(adapter.execute(a_call(tmp_path / "two")))

    assert result.files["stdout"].read_text() == str(workspace)
    assert untold.files["stdout"].read_text() == ""


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        pytest.param([("user", "Hi")], "Hi", id="one message"),
        pytest.param(
            [("system", "Be brief"), ("user", "Hi")], "@[System]:\nBe brief\n\n@[User]:\nHi", id="a conversation"
        ),
    ],
)
def test_a_conversation_becomes_one_text(messages: list[tuple[str, str]], text: str) -> None:
    case = a_case(input=tuple(Message(role=role, content=content) for role, content in messages))

    assert prompt_text(case) == text


def test_a_program_that_never_reads_a_long_prompt_is_not_held_up(tmp_path: Path) -> None:
    assert printed(tmp_path, ["echo", "done"], "x" * 1_000_000) == "done\n"


def test_output_of_any_length_is_kept(tmp_path: Path) -> None:
    raw = run(tmp_path, "head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")

    assert [raw.files[role].stat().st_size for role in ("stdout", "stderr")] == [3_000_000] * 2


def test_what_comes_back_says_how_it_ended_and_who_reads_it(tmp_path: Path) -> None:
    raw = run(tmp_path, ["cat"], format="codex")

    assert (raw.format, raw.exit_code, set(raw.files)) == ("codex", 0, {"stdout", "stderr"})
    assert raw.files["stdout"].is_relative_to(tmp_path / "files" / "attempt-1")


def test_the_answer_may_be_written_to_a_file(tmp_path: Path) -> None:
    raw = run(tmp_path, "echo log; printf %s {PROMPT} > {OUTPUT_FILE}")

    assert raw.files["output"].read_text() == "What is 2 + 2?"
    assert raw.files["stdout"].read_text() == "log\n"


def test_an_answer_that_was_to_be_written_and_was_not_is_missing(tmp_path: Path) -> None:
    failure = failure_of(tmp_path, ["true", "{OUTPUT_FILE}"])

    assert failure.failure.id == "output-missing"
    assert failure.raw is not None


def test_an_answer_left_by_an_interrupted_run_is_no_answer(tmp_path: Path) -> None:
    left = tmp_path / "files" / "attempt-1" / "output"
    left.parent.mkdir(parents=True)
    left.write_text("of yesterday")

    assert failure_of(tmp_path, ["true", "{OUTPUT_FILE}"]).failure.id == "output-missing"


@pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param("exit 3", "exit code 3", id="exit code"),
        pytest.param("echo out; echo no model >&2; exit 1", "exit code 1: no model", id="what it said"),
        pytest.param("kill -KILL $$", "signal 9", id="signal"),
        pytest.param("head -c 5000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1", "x" * 100 + "end", id="long"),
        pytest.param("printf '\\377' >&2; exit 1", "exit code 1: \ufffd", id="no text"),
    ],
)
def test_a_program_that_fails_is_a_crash_of_the_target(tmp_path: Path, command: str, message: str) -> None:
    failure = failure_of(tmp_path, command)

    assert (failure.failure.id, failure.retryable) == ("target-crash", False)
    assert message in str(failure)
    assert len(str(failure)) < 2_100
    assert failure.raw is not None
    assert "stdout" in failure.raw.files


def test_other_exit_codes_may_be_fine(tmp_path: Path) -> None:
    assert run(tmp_path, "exit 3", ok_exit_codes=[0, 3]).exit_code == 3
    assert "exit code 0" in str(failure_of(tmp_path, "exit 0", ok_exit_codes=[3]))


@pytest.mark.parametrize(
    ("command", "prompt", "settings", "message"),
    [
        pytest.param(["no-such-program"], "", {}, "there is no program 'no-such-program' on PATH", id="no program"),
        pytest.param(["./notes.txt"], "", {}, "Permission denied: './notes.txt'", id="no program, but a file"),
        pytest.param(["cat"], "", {"cwd": "nowhere"}, "No such file or directory", id="no folder"),
        pytest.param(["echo", "{PROMPT}"], "a\0b", {}, "embedded null byte", id="null in an argument"),
        pytest.param("echo {PROMPT}", "a\0b", {}, "embedded null byte", id="null in a shell line"),
        pytest.param(["echo", "{PROMPT}"], "x" * 3_000_000, {}, "; give the prompt by stdin or file", id="too long"),
    ],
)
def test_a_program_that_cannot_be_started_says_why(
    tmp_path: Path, command: Any, prompt: str, settings: Any, message: str
) -> None:
    (tmp_path / "notes.txt").write_text("no program")

    failure = failure_of(tmp_path, command, a_case(text=prompt), **settings)

    assert failure.failure.id == "target-crash"
    assert str(failure).startswith("cannot be started: ")
    assert message in str(failure)


def test_a_program_runs_beside_the_runners_file_or_where_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()

    assert printed(tmp_path, ["pwd"]) == f"{tmp_path.resolve()}\n"
    assert printed(tmp_path, ["pwd"], cwd="inner") == f"{tmp_path.resolve()}/inner\n"


def test_a_program_sees_the_environment_and_what_is_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "a")
    monkeypatch.setenv("BOTH", "a")

    assert printed(tmp_path, 'printf %s "$OURS $BOTH $MORE"', env={"BOTH": "b", "MORE": 3}) == "a b 3"


def test_the_variable_pwd_is_the_folder_in_which_a_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenCode reads and writes where `PWD` is, which was the folder of whoever started the pipeline."""
    monkeypatch.setenv("PWD", "/elsewhere")
    monkeypatch.setenv("OLDPWD", "/elsewhere/before")

    assert printed(tmp_path, ["printenv", "PWD"]).strip() == str(tmp_path)
    assert printed(tmp_path, ["sh", "-c", "printenv OLDPWD || echo none"]).strip() == "none"


def test_a_program_beside_the_runners_file_is_content_and_an_installed_one_is_not(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("print(1)")

    assert set(a_command(tmp_path, [sys.executable, "agent.py", "--fast"]).content()) >= {"agent.py"}
    assert a_command(tmp_path, ["/bin/cat", "{PROMPT}"]).content() == {}


@pytest.mark.parametrize("word", ["x" * 5_000, "a\0b", "a/" * 3_000], ids=["long", "null", "deep"])
def test_a_word_that_can_be_no_file_is_no_content(tmp_path: Path, word: str) -> None:
    assert a_command(tmp_path, ["sh", "-c", word]).content() == {}
    assert a_command(tmp_path, f"sh -c '{word}'").content() == {}


class Traces:
    """Recognizes every process that came of a program by a variable in its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {"TRACE_OF_A_TEST": uuid.uuid4().hex}

    def alive(self) -> list[int]:
        needle = f"TRACE_OF_A_TEST={self.env['TRACE_OF_A_TEST']}".encode()
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and _holds(entry, needle)]

    async def until(self, there: Callable[[], bool]) -> None:
        """Waits for something a program does; a test that waits in vain fails."""
        async with asyncio.timeout(PATIENCE_S):
            while not there():
                await asyncio.sleep(0.01)
        for _ in range(20):  # a program may be quicker than the loop that started it
            await asyncio.sleep(0)

    async def until_said(self, *names: str) -> None:
        await self.until(lambda: all((self.folder / name).exists() for name in names))

    def all_gone(self) -> bool:
        """Whether nothing is alive; what was killed is given a moment to die."""
        deadline = time.monotonic() + PATIENCE_S
        while self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.alive()


def _holds(entry: Path, needle: bytes) -> bool:
    try:
        return needle in (entry / "environ").read_bytes()
    except OSError:
        return False


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    return Traces(tmp_path)


FAMILY = """
(trap '' TERM; sh -c 'touch stubborn; exec sleep 60') &
"$PYTHON" -c 'import os, time; os.setsid(); open("left", "w").close(); time.sleep(60)' &
wait
"""
STUBBORN = "trap '' TERM; touch stubborn; while :; do sleep 0.05; done"


def a_traced_runner(traces: Traces, line: str, **fields: Any) -> Runner:
    env = {**traces.env, "PYTHON": sys.executable}
    return a_runner(adapter="command", settings={"command": line, "env": env}, folder=traces.folder, **fields)


async def carry_out(runner: Runner, sink: Sink, folder: Path) -> None:
    lane = Lane(runner=runner, adapter=Command(runner), plans=iter([a_plan(runner=runner)]))
    await Engine(sink=sink, folder_of=lambda plan: folder / "files").carry_out([lane])


@on_linux
def test_time_that_runs_out_ends_the_whole_family_even_who_ignores_it(tmp_path: Path, traces: Traces) -> None:
    for timeout_s in (1.5, 6.0, 24.0):  # on a busy machine the family is there late
        sink = Sink()
        asyncio.run(carry_out(a_traced_runner(traces, FAMILY, timeout_s=timeout_s), sink, tmp_path))
        (execution,) = sink.kept
        if execution.raw is not None and (tmp_path / "stubborn").exists():
            break

    assert (execution.failure_class, execution.error) == ("timeout", f"no answer within {timeout_s:g} s")
    assert execution.raw is not None
    assert set(execution.raw.files) == {"stdout", "stderr"}
    assert (tmp_path / "stubborn").exists()
    assert traces.all_gone()


@on_linux
def test_cancelling_ends_the_whole_family_even_who_left_the_group(tmp_path: Path, traces: Traces) -> None:
    async def main() -> None:
        work = asyncio.create_task(carry_out(a_traced_runner(traces, FAMILY), Sink(), tmp_path))
        await traces.until_said("stubborn", "left")
        assert len(traces.alive()) >= 3
        work.cancel()
        await asyncio.wait([work])

    asyncio.run(main())

    assert traces.all_gone()


async def program(traces: Traces, line: str, grace_s: float = 5.0) -> CompletedProcess:
    env = {**traces.env, "PATH": "/usr/local/bin:/usr/bin:/bin"}
    return await run_program(
        ["sh", "-c", line], folder=traces.folder / "files", cwd=traces.folder, env=env, grace_s=grace_s
    )


async def cancelled(work: Awaitable[CompletedProcess], *moments: Awaitable[None]) -> None:
    """Cancels the work after each of the moments, and waits for it to end."""
    task = asyncio.ensure_future(work)
    for moment in moments:
        await moment
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@on_linux
def test_who_ignores_a_polite_end_is_killed_after_the_time_of_grace(traces: Traces) -> None:
    asyncio.run(cancelled(program(traces, STUBBORN, grace_s=0.1), traces.until_said("stubborn")))

    assert traces.all_gone()


@on_linux
def test_being_cancelled_twice_ends_the_time_of_grace(traces: Traces) -> None:
    work = program(traces, STUBBORN, grace_s=600)
    asyncio.run(cancelled(work, traces.until_said("stubborn"), asyncio.sleep(0.05)))

    assert traces.all_gone()


@on_linux
def test_a_program_gets_the_time_of_grace_to_clean_up(tmp_path: Path, traces: Traces) -> None:
    line = "trap 'touch cleaned; exit' TERM; touch ready; while :; do sleep 0.05; done"

    asyncio.run(cancelled(program(traces, line, grace_s=60), traces.until_said("ready")))

    assert (tmp_path / "cleaned").exists()
    assert traces.all_gone()


@on_linux
@pytest.mark.parametrize("steps", range(4))
def test_being_cancelled_while_it_is_started_leaves_nothing(traces: Traces, steps: int) -> None:
    async def after_steps() -> None:
        for _ in range(steps):
            await asyncio.sleep(0)

    asyncio.run(cancelled(program(traces, "sleep 60 & sleep 60"), after_steps()))

    assert traces.all_gone()


@on_linux
def test_what_a_program_left_running_ends_with_it(traces: Traces) -> None:
    finished = asyncio.run(program(traces, "sleep 60 & sleep 60 & exit 0"))

    assert finished.exit_code == 0
    assert traces.all_gone()


@on_linux
@pytest.mark.parametrize("others", [0, 100], ids=["at once", "after many others"])
def test_what_a_program_left_running_in_a_session_of_its_own_ends_with_it(traces: Traces, others: int) -> None:
    line = (
        f"for n in $(seq {others}); do (:); done; setsid sh -c 'touch left; sleep 60' & until [ -e left ]; do :; done"
    )

    finished = asyncio.run(program(traces, line))

    assert finished.exit_code == 0
    assert traces.all_gone()
