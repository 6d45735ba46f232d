"""What conversations cost: CPU per call of the agent, wall time against the latency, one long conversation, memory."""

from __future__ import annotations

import json
import statistics
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

AT_ONCE = 50
TURNS = 10


class Cost(Protocol):
    """CPU seconds, wall seconds and peak memory of a process."""

    @property
    def cpu_s(self) -> float: ...

    @property
    def wall_s(self) -> float: ...

    @property
    def peak_mb(self) -> float: ...


Timed = Callable[[list[str], Path], Cost]
Stub = Callable[..., AbstractContextManager[int]]


def measure_conversations(timed: Timed, stub: Stub, run: Sequence[str], quick: bool) -> None:
    """Print every figure; `run` is the command without its policy."""
    command = [*run, "missing", "--concurrency", str(AT_ONCE), "--runner", "agent"]
    small, large, repeats = (20, 220, 1) if quick else (100, 1_100, 3)

    def held(count: int, latency_ms: int = 0, **user: Any) -> Cost:
        with stub("--latency-ms", str(latency_ms)) as port, tempfile.TemporaryDirectory() as folder:
            root = project(Path(folder), count, port, **(user or {"script": ["hello"] * TURNS}))
            return timed([*command, "--simulator", "user"], root)

    users: dict[str, dict[str, Any]] = {"a script": {}, "a simulator": {"persona": "p", "max_turns": TURNS}}
    for name, user in users.items():
        slopes = [(held(large, **user).cpu_s - held(small, **user).cpu_s) / (large - small) for _ in range(repeats)]
        per_call = [slope / TURNS * 1000 for slope in slopes]
        print(f"{TURNS} turns of {name}: CPU {statistics.median(per_call):.2f} ms per call of the agent "
              f"({min(per_call):.2f} to {max(per_call):.2f}, n={repeats})", flush=True)  # fmt: skip
    for latency_ms, count in ((50, small), (50, large), (500, 2 * AT_ONCE)):
        _measure_wall(timed, stub, command, latency_ms, count)
    _measure_length(timed, stub, command, (50, 200) if quick else (50, 200, 400))
    for count in (1, 1_000) if quick else (1, 10_000):
        print(f"{count:>6} conversations of {TURNS} turns: peak {held(count).peak_mb:.0f} MB", flush=True)
    _measure_unchanged(timed, stub, command, large)


def _measure_wall(timed: Timed, stub: Stub, command: list[str], latency_ms: int, count: int) -> None:
    """The time of all calls as the server saw them, against calls · latency / at once: from the first call to the last
    answer, and of the middle half of the calls, which has neither the first calls nor the last conversations in it.

    A latency that is long beside the CPU of a call shows what the engine itself waits for, on a busy machine, too.
    """
    with stub("--latency-ms", str(latency_ms)) as port, tempfile.TemporaryDirectory() as folder:
        cost = timed(command, project(Path(folder), count, port, script=["hello"] * TURNS))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as answer:
            seen = json.load(answer)
    ideal_s = seen["calls"] * latency_ms / 1000 / AT_ONCE
    whole, middle = seen["seconds"] / ideal_s, 2 * seen["middle_s"] / ideal_s
    print(
        f"{latency_ms} ms latency, {AT_ONCE} at once, {seen['calls']} calls: {seen['seconds']:.2f} s, "
        f"{whole:.2f} × calls·latency/{AT_ONCE}; middle half {middle:.2f} ×; "
        f"the whole process: CPU {cost.cpu_s:.1f} s, wall {cost.wall_s:.1f} s",
        flush=True,
    )


def _measure_length(timed: Timed, stub: Stub, command: list[str], lengths: Sequence[int]) -> None:
    """CPU and disk of one conversation by its turns; the start of the process is taken off."""
    empty = None
    for turns in (1, *lengths):
        with stub() as port, tempfile.TemporaryDirectory() as folder:
            root = project(Path(folder), 1, port, script=["hello"] * turns)
            cost = timed(command, root)
            size = sum(path.stat().st_size for path in (root / "data").rglob("*") if path.is_file())
        if empty is None:
            empty = cost.cpu_s, size
            continue
        per_turn, bytes_per_turn = (cost.cpu_s - empty[0]) / turns * 1000, (size - empty[1]) / turns
        print(
            f"one conversation of {turns} turns: CPU {per_turn:.2f} ms and {bytes_per_turn:.0f} bytes a turn",
            flush=True,
        )


def _measure_unchanged(timed: Timed, stub: Stub, command: list[str], count: int) -> None:
    with stub() as port, tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder), count, port, script=["hello"] * TURNS)
        first, again = timed(command, root), timed(command, root)
    print(
        f"unchanged second run of {count} conversations: CPU {again.cpu_s:.1f} s (first: {first.cpu_s:.1f} s)",
        flush=True,
    )


def project(folder: Path, count: int, port: int, **user: Any) -> Path:
    """A project with one suite of conversations, and an agent and a simulator on the stub."""
    (folder / "suites").mkdir(parents=True)
    says_it = {"type": "contains", "value": "It is"}
    tests = [{"id": f"c{number:06d}", "user": user, "assertions": [says_it]} for number in range(count)]
    (folder / "suites/talks.yaml").write_text(json.dumps({"name": "talks", "tests": tests}))
    chat = {"adapter": "chat", "base_url": f"http://127.0.0.1:{port}/v1", "model": "stub"}
    runners = [{"name": name, **chat} for name in ("agent", "user")]
    (folder / "runners.yaml").write_text(json.dumps({"runners": runners}))
    return folder
