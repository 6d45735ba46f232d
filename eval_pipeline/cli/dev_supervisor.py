"""`dagster dev` as a child process: a signal ends its runs in order, then its services; nothing of it goes on.

Dagster itself leaves runs that are under way to themselves: they would go on calling targets after Ctrl-C. Runs that
are queued stay queued: the next `dev` carries them out.

    python -m eval_pipeline.cli.dev_supervisor COMMAND…
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from eval_pipeline.cli.run_queue import QUEUE_VARIABLE, close_queue
from eval_pipeline.cli.signals import EXIT_SIGNAL, HANDLED
from eval_pipeline.executions.program_watcher import all_processes, marked_processes
from eval_pipeline.executions.started_programs import end_own, own_mark, owner_variables

MODULE = "eval_pipeline.cli.dev_supervisor"
RUNS_END_S = 15.0
"""How long runs may take to end in order: the grace period of their programs, and publishing."""
SERVICES_END_S = 20.0
_LOOK_EVERY_S = 0.2
_RUN = b"multiprocessing.spawn"
"""In the command line of a process that carries out a run."""


def supervise(command: Sequence[str]) -> int:
    """Run a command until it ends or a signal arrives; return the exit code."""
    received: list[int] = []
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: received.append(number))
        elif number == signal.SIGINT:  # ignored here, as in the background of a script, but it is what ends the runs
            signal.signal(number, lambda number, frame: None)
    with tempfile.NamedTemporaryFile(prefix="eval-pipeline-queue-") as queue:
        environment = {**os.environ, **owner_variables(), QUEUE_VARIABLE: queue.name}
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        while process.poll() is None and not received:
            os.utime(queue.fileno())  # else the system may remove an old file of its temporary folder
            time.sleep(_LOOK_EVERY_S)
        if received:
            _say("ending the runs under way, then the UI; queued runs stay queued (once more: at once)")
            close_queue(queue.name, lambda: len(received) > 1)
            _end_runs(lambda: len(received) > 1)
            _end_services(process, lambda: len(received) > 2)
        end_own()
    return EXIT_SIGNAL + received[0] if received else process.wait()


def _end_runs(hurry: Callable[[], bool]) -> None:
    """Interrupt each process of a run, also one that begins meanwhile, and wait for them."""
    interrupted: set[int] = set()
    deadline = time.monotonic() + RUNS_END_S
    while (runs := _runs()) and time.monotonic() < deadline and not hurry():
        for pid in runs - interrupted:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        interrupted |= runs
        time.sleep(_LOOK_EVERY_S)


def _end_services(process: subprocess.Popen[bytes], hurry: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SERVICES_END_S
    process.send_signal(signal.SIGINT)
    while process.poll() is None and time.monotonic() < deadline and not hurry():
        time.sleep(_LOOK_EVERY_S)


def _runs() -> set[int]:
    """Return the processes that carry out runs of this UI."""
    return {pid for pid in marked_processes(own_mark(), all_processes()) if _RUN in _command_of(pid)}


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _say(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(supervise(sys.argv[1:]))
