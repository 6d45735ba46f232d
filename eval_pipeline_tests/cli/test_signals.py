"""Signals end a command at every moment: at once, or in order where it asks for that."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from filelock import FileLock

from eval_pipeline.cli.main import main
from eval_pipeline.cli.schema import schema_command
from eval_pipeline.cli.signals import HANDLED, ORDERLY_S

PROGRAM = """
import signal, sys, time
from eval_pipeline.cli.entry import waiting_since
from eval_pipeline.cli.main import main
from eval_pipeline.cli.schema import schema_command
from eval_pipeline.cli.signals import Signals

def command():
    {command}

{dispositions}
signals = Signals(end_programs=lambda: print("programs end", flush=True), waiting_since=waiting_since)
signals.install()
signals.run(command)
print("the command ended", signals.exit_code, flush=True)
"""
BUSY = "print('begins', flush=True); time.sleep(60)"
IN_ORDER = (
    "stop = signals.end_in_order(lambda: ': 3 are kept'); print('begins', flush=True); "
    "stop._requested.wait(60); print('ends', flush=True)"
)
STUCK = "signals.end_in_order(lambda: ': 3 are kept'); print('begins', flush=True); time.sleep(60)"
PATIENCE_S = 30.0
ASKED = "interrupted: ending what is under way (once more: at once)"


def ended(command: str, *numbers: signal.Signals, ignored: signal.Signals | None = None) -> tuple[int, list[str]]:
    """Return the exit code and all lines of a program that gets signals, each after a line of its own."""
    dispositions = {name: "SIG_IGN" if name == ignored else "SIG_DFL" for name in HANDLED}
    setting = "; ".join(f"signal.signal({int(name)}, signal.{how})" for name, how in dispositions.items())
    program = PROGRAM.format(command=command, dispositions=setting)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    with process, killed_after(PATIENCE_S, process.pid):
        assert process.stdout is not None
        for number in numbers:
            lines.append(process.stdout.readline().strip())
            process.send_signal(number)
        rest, _ = process.communicate()
    return process.returncode, [*lines, *rest.splitlines()]


@contextmanager
def killed_after(seconds: float, group: int) -> Iterator[None]:
    """Kill a group of processes when the block takes too long: what reads their output goes on, and the test fails."""

    def kill() -> None:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_command_ends_at_once(number: signal.Signals, code: int) -> None:
    assert ended(BUSY, number) == (code, ["begins", "programs end", "interrupted"])


@pytest.mark.parametrize("begin", ["pass", "signals.end_in_order(lambda: '')"], ids=["at once", "in order"])
def test_a_command_ends_although_nobody_reads_what_it_prints(begin: str) -> None:
    fills = (
        f"{begin}; import os; reading, writing = os.pipe(); os.set_blocking(writing, False)\n"
        "    try:\n"
        "        while True:\n"
        "            os.write(writing, b'x' * 4096)\n"
        "    except BlockingIOError:\n"
        "        os.set_blocking(writing, True)\n"
        "    os.dup2(writing, 2)\n"
        "    for _ in range(3):\n"
        "        print('begins', flush=True)\n"
        "        time.sleep(0.05)\n"
        "    time.sleep(60)"
    )

    assert ended(fills, *[signal.SIGTERM] * (1 if begin == "pass" else 3))[0] == 143


def test_a_command_that_keeps_something_ends_by_itself() -> None:
    assert ended(IN_ORDER, signal.SIGTERM) == (0, ["begins", ASKED, "ends", "the command ended 143"])


def test_a_second_signal_ends_the_programs_and_a_third_one_the_process() -> None:
    code, lines = ended(STUCK, signal.SIGINT, signal.SIGINT, signal.SIGINT)

    assert (code, lines) == (130, ["begins", ASKED, "programs end", "programs end", "interrupted: 3 are kept"])


def test_a_command_that_waits_for_the_lock_of_another_process_ends_soon(tmp_path: Path) -> None:
    waits = (
        "from filelock import FileLock; from eval_pipeline.warehouse.waiting import held\n"
        "    signals.end_in_order(lambda: ': 3 are kept')\n"
        f"    with held(FileLock({str(tmp_path / 'warehouse.lock')!r}), lambda text: print(text[:7], flush=True)):\n"
        "        print('has the lock')"
    )
    with FileLock(tmp_path / "warehouse.lock"):
        begin = time.monotonic()
        code, lines = ended(waits, signal.SIGINT)
        took_s = time.monotonic() - begin

    assert (code, lines) == (130, ["waiting", ASKED, "programs end", "interrupted: 3 are kept"])
    assert took_s < ORDERLY_S / 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["INT", "HUP"])
def test_a_signal_that_the_process_was_started_to_ignore_stays_ignored(number: signal.Signals) -> None:
    is_signaled = f"import os; print('begins'); os.kill(os.getpid(), {number}); time.sleep(0.1)"

    assert ended(is_signaled, ignored=number) == (0, ["begins", "the command ended None"])


def test_a_signal_of_a_forked_process_is_not_one_of_ours() -> None:
    forks = (
        "import os\n"
        "    for _ in range(200):\n"
        "        child = os.fork() or os.execvp('sleep', ['sleep', '60'])\n"
        "        os.kill(child, signal.SIGTERM)\n"
        "        assert os.waitpid(child, 0)[1] == signal.SIGTERM"
    )

    assert ended(forks) == (0, ["the command ended None"])


@pytest.mark.parametrize(
    ("text", "ending"), [("Query interrupted", SystemExit), ("the upload was interrupted by the peer", RuntimeError)]
)
def test_only_the_error_that_duckdb_makes_of_ctrl_c_counts_as_one(
    monkeypatch: pytest.MonkeyPatch, text: str, ending: type[BaseException]
) -> None:
    def fails(**_: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(schema_command, "callback", fails)

    with pytest.raises(ending) as raised:
        main(["schema", "suite"])

    assert getattr(raised.value, "code", 130) == 130
