"""The process `eval-pipeline` ends quickly, and as any process does for whoever started it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import atexit
import sys
import threading
import time

from eval_pipeline.cli.leaving import quick_exit


class Cleared:
    def __del__(self):
        print("memory was cleared")


kept = Cleared()
with quick_exit():
    atexit.register(print, "a handler ran")
    threading.Thread(target=lambda: time.sleep(0.1) or print("a thread ended")).start()
    print("some output")
    ENDS_HERE
"""


def ended(end: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("ENDS_HERE", end)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("sys.exit()", 0)])
def test_output_threads_and_handlers_end_before_the_process_does(end: str, code: int) -> None:
    process = ended(end)

    assert process.returncode == code
    assert process.stdout.splitlines() == ["some output", "a thread ended", "a handler ran"]


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [("sys.exit('no')", 1, "no"), ("raise ValueError('no')", 1, "ValueError: no"), ("pass", 0, "")],
    ids=["a message", "an error", "nothing"],
)
def test_another_end_is_left_to_the_interpreter(end: str, code: int, error: str) -> None:
    process = ended(end)

    assert process.returncode == code
    assert process.stderr.rstrip().endswith(error)
    assert process.stdout.splitlines()[-1] == "memory was cleared"
