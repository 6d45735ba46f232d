"""Signals end a command at every moment: at once, or in order where it asks for that."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys, time
from eval_pipeline.cli.signals import Signals

def command():
    {command}

signal.signal(signal.SIGHUP, {hangup})
signals = Signals(end_programs=lambda: print("programs end", flush=True))
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
ASKED = "interrupted: ending what is under way (once more: at once)"


def ended(command: str, *numbers: signal.Signals, hangup: str = "signal.SIG_DFL") -> tuple[int, list[str]]:
    """Return the exit code and all lines of a program that gets signals, each after a line of its own."""
    lines = []
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(command=command, hangup=hangup)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for number in numbers:
            lines.append(process.stdout.readline().strip())
            process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
    return process.returncode, [*lines, *rest.splitlines()]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["INT", "TERM", "HUP"]
)
def test_a_command_ends_at_once(number: signal.Signals, code: int) -> None:
    assert ended(BUSY, number) == (code, ["begins", "programs end", "interrupted"])


def test_a_command_that_keeps_something_ends_by_itself() -> None:
    assert ended(IN_ORDER, signal.SIGTERM) == (0, ["begins", ASKED, "ends", "the command ended 143"])


def test_a_second_signal_ends_the_programs_and_a_third_one_the_process() -> None:
    code, lines = ended(STUCK, signal.SIGINT, signal.SIGINT, signal.SIGINT)

    assert (code, lines) == (130, ["begins", ASKED, "programs end", "programs end", "interrupted: 3 are kept"])


def test_a_signal_that_the_process_was_started_to_ignore_stays_ignored() -> None:
    hangs_up = "import os; print('begins'); os.kill(os.getpid(), signal.SIGHUP); time.sleep(0.1)"

    assert ended(hangs_up, hangup="signal.SIG_IGN") == (0, ["begins", "the command ended None"])


def test_a_signal_of_a_forked_process_is_not_one_of_ours() -> None:
    forks = (
        "import os; child = os.fork() or time.sleep(60); print('begins', flush=True); os.kill(child, signal.SIGTERM); "
        "print(os.waitpid(child, 0)[1])"
    )

    assert ended(forks) == (0, ["begins", "15", "the command ended None"])
