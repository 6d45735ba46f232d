"""Broken surroundings: signals at random moments, killed processes, full disks, odd paths, limits of memory.

Commands run as processes of their own. After each attack the same command has to go on where it was: nothing that was
kept is executed again.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from eval_pipeline.executions.program_watcher import all_processes, environment_of
from eval_pipeline_tests.attacks.command_line import write_files
from eval_pipeline_tests.attacks.findings import Attack, Findings, carry_out

CASES = 30
COMMAND = [sys.executable, "-c", "from eval_pipeline.cli.entry import main; main()"]
FILES = {
    "greet.sh": 'read -r who; echo "$who" >> calls.log; sleep 0.05; echo "hello $who"\n',
    "runners.yaml": "runners:\n  - {name: slow, adapter: command, command: [sh, greet.sh], concurrency: 2}\n",
    "suites/waits.yaml": "name: waits\nassertions: [{type: contains, value: hello}]\ntests:\n"
    + "".join(f"  - {{id: c{number}, input: c{number}}}\n" for number in range(CASES)),
}
READERS = (
    ("plan",), ("validate",), ("leaderboard",), ("show", "--failed"), ("export", "-f", "json"), ("sql", "SELECT 1"),
    ("schema", "suite"), ("delete", "sweeps", "--keep-last", "1"),
)  # fmt: skip
"""Commands that keep nothing."""
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
UGLY = ("Traceback", "Aborted!", "did not succeed", "Segmentation", "Fatal Python", "KeyboardInterrupt")
ODD = "?#%&= '\"[]{}*$;ü日~!@+,^`|<>()\\"
PATIENCE_S = 60.0
LIMIT_MB = (100, 3_000)


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Attack with everything that surrounds a process."""
    return carry_out(ATTACKS, seconds, seed, folder)


def signal_a_run(folder: Path, rng: random.Random) -> str | None:
    """Send one to three signals to a run at random moments; it says how many executions are kept, and they are."""
    write_files(folder, FILES)
    number = rng.choice(list(CODES))
    process = started(folder, "run")
    for pause in (rng.uniform(0.2, 6.0), *(rng.uniform(0.0, 0.5) for _ in range(rng.choice([0, 0, 1, 2])))):
        time.sleep(pause)
        if process.poll() is None:
            process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    problem = ugliness(out + err) or wrong_code(process.returncode, CODES[number], err)
    kept = re.search(r"(\d+) executions? (?:is|are) kept", err)
    return problem or next_run(folder, kept=int(kept[1]) if kept else None)


def signal_a_reader(folder: Path, rng: random.Random) -> str | None:
    """Send a signal to a command that keeps nothing."""
    write_files(folder, FILES)
    number, arguments = rng.choice(list(CODES)), rng.choice(READERS)
    process = started(folder, *arguments)
    time.sleep(rng.uniform(0.05, 2.0))
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE_S)
    problem = ugliness(out + err)
    if problem is None and process.returncode not in (CODES[number], 0, 2, 3):  # 0, 2, 3: it had ended before
        problem = f"exit code {process.returncode}: {err[-300:]}"
    return f"{' '.join(arguments)}: {problem}" if problem else None


def kill_a_run(folder: Path, rng: random.Random) -> str | None:
    """Kill a run: its programs end within seconds, and the next run completes it."""
    write_files(folder, {**FILES, "greet.sh": FILES["greet.sh"].replace("sleep 0.05", "setsid sleep 0.5 & sleep 0.5")})
    process = started(folder, "run")
    time.sleep(rng.uniform(0.5, 6.0))
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 5
    while (left := programs_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        return f"{len(left)} processes of a killed run go on"
    return next_run(folder, kept=None)


def fill_the_disk(folder: Path, rng: random.Random) -> str | None:
    """Let no file grow beyond a random size: one line with the cure, and the next run completes it."""
    write_files(folder, FILES)
    most = int(2 ** rng.uniform(10, 23))
    process = started(folder, "run", before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    out, err = process.communicate(timeout=PATIENCE_S)
    problem = ugliness((out + err).replace("the run did not succeed", ""))
    if problem is None and process.returncode and "what was stored before is kept" not in err:
        problem = f"exit code {process.returncode} without a cure: {err[-300:]}"
    problem = problem or next_run(folder, kept=None)
    return f"files of at most {most:,} bytes: {problem}" if problem else None


def name_folders_oddly(folder: Path, rng: random.Random) -> str | None:
    """Run a project in a folder whose name has characters with a meaning elsewhere."""
    names = ["".join(rng.sample(ODD, rng.randint(1, 6))) + "x" for _ in range(2)]
    root = folder / names[0]
    write_files(root, FILES)
    usable = not set(f"{root}/{names[1]}") & set("?\\")
    for arguments in (("run", "--quiet"), ("leaderboard",), ("show", "waits/c1")):
        process = started(root, *arguments, f"--data={names[1]}")
        out, err = process.communicate(timeout=PATIENCE_S)
        problem = ugliness(out + err)
        if process.returncode != (0 if usable else 2):
            problem = problem or f"exit code {process.returncode}: {err[-300:]}"
        if problem:
            return f"{arguments[0]} in {root.name!r}, --data={names[1]!r}: {problem}"
    return None


def limit_the_memory(folder: Path, rng: random.Random) -> str | None:
    """Limit the address space: an error with the cure, or a run like any other."""
    write_files(folder, FILES)
    most = rng.randint(*LIMIT_MB) * 2**20
    process = started(folder, "run", "--quiet", before=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)))
    out, err = process.communicate(timeout=PATIENCE_S)
    problem = ugliness((out + err).replace("the run did not succeed", ""))
    if problem is None and process.returncode and "memory" not in err:
        problem = f"exit code {process.returncode} without a cure: {err[-300:]}"
    problem = problem or next_run(folder, kept=None)
    return f"{most // 2**20} MB: {problem}" if problem else None


ATTACKS: dict[str, Attack] = {
    "a signal to a run": signal_a_run,
    "a signal to another command": signal_a_reader,
    "a killed run": kill_a_run,
    "a full disk": fill_the_disk,
    "an odd path": name_folders_oddly,
    "a memory limit": limit_the_memory,
}


def started(folder: Path, *arguments: str, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    """Start the command in a folder, in a session of its own; `before` is called in its process."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the shell of a background job ignores it
        if before is not None:
            before()

    environment = {**os.environ, "ATTACKED": str(folder), "DAGSTER_HOME": ""}
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=prepare,
    )  # fmt: skip


def programs_of(folder: Path) -> list[int]:
    """Return the processes that a command in a folder started."""
    return [pid for pid in all_processes() if f"ATTACKED={folder}\0".encode() in environment_of(pid)]


def ugliness(text: str) -> str | None:
    """Return what nobody should have to read; None where everything is said in words."""
    shown = next((word for word in UGLY if word in text), None)
    return f"{shown}: {text[-600:]}" if shown else None


def wrong_code(code: int, expected: int, err: str) -> str | None:
    """Return what is wrong with the exit code of a run; 0 is that of one that ended before the signal."""
    if code == expected or (code == 0 and "executed" in err):
        return None
    return f"exit code {code} instead of {expected}: {err[-300:]}"


def next_run(folder: Path, kept: int | None) -> str | None:
    """Run again; return what is wrong when something that was kept is executed again, or a case is missing."""
    out, err = started(folder, "run", "--json").communicate(timeout=PATIENCE_S)
    if not out:
        return f"the next run fails: {err[-600:]}"
    counts: Counter[str] = Counter()
    for pair in json.loads(out)["pairs"]:
        counts.update({name: pair[name] for name in ("planned", "executed", "passed")})
    if (counts["planned"], counts["passed"]) != (CASES, CASES):
        return f"the next run: {dict(counts)}: {err[-300:]}"
    if kept is not None and counts["executed"] != CASES - kept:
        return f"{kept} executions were kept, and the next run executed {counts['executed']} of {CASES}"
    return None
