"""Worker processes: what is printed, raised and returned comes back; what hangs, exits or crashes costs one call."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions import workers
from eval_pipeline.executions.adapters.python import Python
from eval_pipeline.executions.attempts import AttemptEnvironment
from eval_pipeline.executions.function_calls import FunctionCall
from eval_pipeline.executions.model import Execution, TargetFailure
from eval_pipeline.executions.on_demand import OnDemand
from eval_pipeline.executions.workers import WorkerPool, end_workers
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.parsing.user_modules import function_reference
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner
from eval_pipeline_tests.forks import run_python

MODULE = """
    import asyncio, ctypes, os, signal, sys, threading, time
    STATE = []

    def target(prompt):
        time.sleep(0.02)
        if prompt == "exit": os._exit(3)
        if prompt == "crash": ctypes.string_at(0)
        if prompt == "abort": os.abort()
        if prompt == "stop": os.kill(os.getpid(), signal.SIGSTOP); time.sleep(60)
        if prompt == "hang": time.sleep(60)
        return f"{os.getpid()} {prompt}"

    def late(prompt):
        if prompt == "exit":
            threading.Timer(1, os._exit, [3]).start()
            time.sleep(60)
        time.sleep(1.5 if prompt == "long" else 0)
        return prompt

    async def coroutine(prompt):
        if prompt == "exit": os._exit(3)
        await asyncio.sleep(0.2)
        return prompt

    def remembers(prompt):
        STATE.append(prompt)
        return len(STATE)

    def place(prompt): return [os.environ["PLACE"], os.getcwd(), os.getpid()]
    def prints(prompt):
        print("a line"); print("half", end=""); print("an error", file=sys.stderr)
        return prompt
    def writes(prompt):
        import subprocess
        os.write(1, b"written " + prompt.encode() + b"\\n")
        os.write(2, b"x" * 66_000 + prompt.encode() + b"y" * 7 + b" half")
        subprocess.run(["sh", "-c", 'echo "a program: $0"', prompt])
    def odd(prompt): return {"output": [{1, 2}, (1, 2), os.environ.__class__, float]}
    def slow(prompt):
        if prompt == "exit":
            print(os.getpid(), file=open(__file__ + ".exits", "a"), flush=True)
            os._exit(3)
        begun = time.time()
        time.sleep(0.1)
        return [os.getpid(), begun, time.time()]
    def eats(prompt):
        kept = STATE if prompt.startswith("keeps") else []
        while "eats" in prompt: kept.append("x" * 1_000_000)
        time.sleep(0.1)
        return prompt
    def starts(prompt):
        import subprocess
        return subprocess.run([sys.executable, "-c", "'x' * 400_000_000"], stderr=subprocess.DEVNULL).returncode
    def large(prompt): return "x" * 3_000_000
    def own_child(prompt):
        import subprocess
        child = subprocess.Popen(["sleep", "60"])
        return child.pid
"""


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    end_workers()


def adapter_of(folder: Path, function: str, **fields: Any) -> Python:
    (folder / "users.py").write_text(dedent(MODULE))
    given: Any = {"isolation": "process", **fields}
    return Python(a_runner(adapter="python", settings={"function": f"users:{function}"}, folder=folder, **given))


def outcomes(adapter: Python, folder: Path, prompts: list[str], limit_s: float = 30, **limits_s: float) -> list[object]:
    """What calls at the same time return, or the failures that they raise. A prompt may have a limit of its own."""

    async def one(prompt: str) -> object:
        try:
            async with asyncio.timeout(limits_s.get(prompt, limit_s)):
                return (await adapter.execute(a_call(folder, a_plan(a_case(text=prompt))))).payload["output"]
        except TargetFailure as failure:
            return f"{failure.failure.id}: {failure}"
        except TimeoutError:
            return "timeout"

    async def all_of_them() -> list[object]:
        return await asyncio.gather(*map(one, prompts))

    return asyncio.run(all_of_them())


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def gone(pid: int) -> bool:
    """Whether a process ends within some seconds."""
    until = time.monotonic() + 5
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("exit", "exit code 3"),
        ("crash", "SIGSEGV"),
        ("abort", "SIGABRT"),
        pytest.param("stop", "was stopped by a signal", marks=pytest.mark.slow),
    ],
)
def test_of_calls_at_the_same_time_only_the_one_that_ends_its_process_fails(
    tmp_path: Path, prompt: str, reason: str
) -> None:
    adapter = adapter_of(tmp_path, "target")

    first, failed, last = outcomes(adapter, tmp_path, ["a", prompt, "b"])

    assert str(first).endswith(" a") and str(last).endswith(" b")
    assert "target-crash: the process of the function" in str(failed)
    assert reason in str(failed)


def test_a_coroutine_that_ends_its_process_leaves_the_others_their_answers(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "coroutine")

    answers = outcomes(adapter, tmp_path, ["a", "exit", "b"])

    assert answers == ["a", "target-crash: the process of the function ended with exit code 3", "b"]


def test_a_call_that_hangs_costs_itself_and_the_next_has_a_fresh_process(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "target")

    (before, _) = outcomes(adapter, tmp_path, ["a", "hang"], limit_s=0.5)
    hung = int(str(before).split()[0])

    assert gone(hung)
    (after,) = outcomes(adapter, tmp_path, ["b"])
    assert int(str(after).split()[0]) != hung


@pytest.mark.slow
def test_the_limit_of_a_call_counts_from_when_its_module_is_loaded(tmp_path: Path) -> None:
    module = "import time; time.sleep(1)\n\ndef quick(): return time.monotonic()\ndef hangs(): time.sleep(20)"
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(module)
    pool, limit_s = WorkerPool(shared=False), 0.7
    quick, hangs = (function_reference(name, tmp_path, "function") for name in ("first:quick", "second:hangs"))

    answered = asyncio.run(pool.call(FunctionCall(quick), limit_s))
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(pool.call(FunctionCall(hangs), limit_s))
    with pytest.raises(TimeoutError):
        pool.call_and_wait(FunctionCall(hangs), limit_s)

    assert answered
    assert time.monotonic() - begun < 10
    pool.end()


@pytest.mark.slow
def test_a_call_is_made_again_when_one_that_was_given_up_ends_their_process(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "late")
    outcomes(adapter, tmp_path, ["first"])

    answers = outcomes(adapter, tmp_path, ["exit", "long"], exit=0.5)

    assert answers == ["timeout", "long"]


def test_after_a_crash_calls_wait_for_a_few_workers_and_each_has_its_whole_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MOST_SHARED", 2)
    adapter = adapter_of(tmp_path, "slow")
    runner = a_runner(adapter="python", timeout_s=2.5, concurrency=61)  # all together take longer, none nearly so long
    prompts = ["exit", *(str(number) for number in range(60))]

    async def executed() -> list[Execution]:
        on_demand = OnDemand(runner, adapter, AttemptEnvironment(folder_of=lambda plan: tmp_path))
        return await asyncio.gather(*(on_demand.execute(a_plan(a_case(text=prompt), runner)) for prompt in prompts))

    crash, *others = asyncio.run(executed())

    assert crash.failure_class == "target-crash"
    assert [other.failure_class for other in others] == [None] * 60
    exited = (tmp_path / "users.py.exits").read_text().split()  # calls may have ended there before it, all at once
    afterwards = [other.raw.payload["output"] for other in others if other.raw is not None]
    assert most_at_once([call for call in afterwards if str(call[0]) not in exited]) == 2


@pytest.mark.parametrize("prompt", ["eats", "keeps and eats"])
def test_of_calls_at_the_same_time_only_the_one_that_needs_too_much_memory_fails(tmp_path: Path, prompt: str) -> None:
    adapter = adapter_of(tmp_path, "eats")

    with workers.workers_in_use(max_memory_mb=300):
        answers = outcomes(adapter, tmp_path, ["a", prompt, "b"])

    assert (answers[0], answers[2]) == ("a", "b")
    assert str(answers[1]).startswith("target-crash: the ")
    assert str(answers[1]).endswith("needed more memory than a worker may have: 300 MB (max_memory_mb)")


def test_programs_of_a_function_have_the_limit_of_memory_too(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "starts")

    with workers.workers_in_use(max_memory_mb=300):
        assert outcomes(adapter, tmp_path, ["a"]) == [1]


def most_at_once(calls: list[tuple[int, float, float]]) -> int:
    """How many calls ran at the same time."""
    return max(sum(begun <= moment < ended for _, begun, ended in calls) for _, moment, _ in calls)


def test_calls_share_a_process_and_what_their_module_keeps(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "remembers")

    assert sorted(map(int, map(str, outcomes(adapter, tmp_path, ["a"] * 5)))) == [1, 2, 3, 4, 5]


def test_coroutines_wait_at_the_same_time(tmp_path: Path) -> None:
    adapter = adapter_of(tmp_path, "coroutine")
    begun = time.monotonic()

    outcomes(adapter, tmp_path, [str(number) for number in range(20)])

    assert time.monotonic() - begun < 20 * 0.2 / 2


def test_environment_and_current_folder_are_those_of_the_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("here", "there"):
        (tmp_path / place).mkdir()
        monkeypatch.setenv("PLACE", place)
        monkeypatch.chdir(tmp_path / place)
        (found,) = outcomes(adapter_of(tmp_path, "place"), tmp_path, ["?"])

        assert isinstance(found, list)
        assert found[:2] == [place, str(tmp_path / place)]
        assert found[2] != os.getpid()


def test_a_call_that_is_cancelled_as_its_process_ends_prints_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = adapter_of(tmp_path, "target")

    async def cancelled_too_late() -> None:
        call = asyncio.create_task(adapter.execute(a_call(tmp_path, a_plan(a_case(text="exit")))))
        await asyncio.sleep(0)  # the call is sent
        await asyncio.sleep(0)
        time.sleep(0.5)  # meanwhile the process ends
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await asyncio.sleep(0)
        gc.collect()  # asyncio reports a lost exception when its future goes

    asyncio.run(cancelled_too_late())

    assert "never retrieved" not in caplog.text


def test_what_a_function_prints_goes_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes(adapter_of(tmp_path, "prints"), tmp_path, ["a"])

    out, err = capsys.readouterr()
    assert (out, sorted(err)) == ("", sorted("a line\nhalfan error\n"))


@pytest.mark.parametrize("secret", ["sk-1234567890", "first line\nsecond line"])
def test_what_a_function_and_its_programs_write_past_print_is_redacted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], secret: str
) -> None:
    adapter = adapter_of(tmp_path, "writes")
    KNOWN.add([secret])

    outcomes(adapter, tmp_path, [secret])
    end_workers()

    out, err = capfd.readouterr()
    assert out == ""
    assert "written ***\n" in err and "a program: ***\n" in err
    assert err.count("x") == 66_000 and secret not in err and "***" + "y" * 7 + " half" in err


def test_values_that_only_the_worker_has_come_back_as_they_are_stored(tmp_path: Path) -> None:
    (answer,) = outcomes(adapter_of(tmp_path, "odd"), tmp_path, ["a"])

    assert answer == [[1, 2], [1, 2], "<class 'os._Environ'>", "<class 'float'>"]


def test_large_prompts_and_answers_pass(tmp_path: Path) -> None:
    answers = outcomes(adapter_of(tmp_path, "large"), tmp_path, ["p" * 2_000_000] * 2)

    assert [len(str(answer)) for answer in answers] == [3_000_000] * 2


def test_an_edited_module_has_a_new_process(tmp_path: Path) -> None:
    outcomes(adapter_of(tmp_path, "remembers"), tmp_path, ["a"])
    time.sleep(0.01)  # the time of the file is its version

    assert outcomes(adapter_of(tmp_path, "remembers"), tmp_path, ["a"]) == [1]


def test_children_of_a_function_end_with_the_workers(tmp_path: Path) -> None:
    (child,) = outcomes(adapter_of(tmp_path, "own_child"), tmp_path, ["a"])
    assert alive(int(str(child)))

    end_workers()

    assert gone(int(str(child)))


@pytest.mark.parametrize(
    ("code", "reason"),
    [("import os; os._exit(4)", "ended with exit code 4"), ("import sys; sys.exit(4)", "SystemExit: 4")],
)
def test_a_module_that_ends_its_process_when_imported_is_an_input_error(tmp_path: Path, code: str, reason: str) -> None:
    (tmp_path / "users.py").write_text(code)

    with pytest.raises(InputError, match=f"cannot import 'users:f'.*{reason}"):
        Python(a_runner(adapter="python", settings={"function": "users:f"}, folder=tmp_path, isolation="process"))


def test_a_function_may_run_in_the_process_of_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "here")

    (found,) = outcomes(adapter_of(tmp_path, "place", isolation="in-process"), tmp_path, ["?"])

    assert isinstance(found, list)
    assert found[2] == os.getpid()


def test_a_module_that_only_this_process_has_is_called_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = type(sys)("made_in_a_notebook")
    made.__dict__["answer"] = lambda prompt: [prompt, os.getpid()]
    monkeypatch.setitem(sys.modules, "made_in_a_notebook", made)
    adapter = Python(a_runner(adapter="python", settings={"function": "made_in_a_notebook:answer"}, folder=tmp_path))

    assert outcomes(adapter, tmp_path, ["a"]) == [["a", os.getpid()]]


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from eval_pipeline_tests.executions.test_workers import adapter_of, outcomes
folder = Path(sys.argv[1])
os.environ["PLACE"] = "here"
print(outcomes(adapter_of(folder, "place"), folder, ["?"])[0][2], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_ends_with_a_pipeline_that_is_killed(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    ended = run_python(KILLED, str(tmp_path), root)

    assert gone(int(ended.stdout))
