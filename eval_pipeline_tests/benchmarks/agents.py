"""What sessions of coding agents cost us: a scripted agent with a large output, many at once, and with a template."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Protocol

MB = 1_000_000
_BEGIN = '{"type": "thread.started", "thread_id": "t-1"}\n{"type": "turn.started"}\n'
_END = (
    '{"type": "item.completed", "item": {"id": "z", "type": "agent_message", "text": "x"}}\n'
    '{"type": "turn.completed", "usage": {"input_tokens": 9, "output_tokens": 4}}\n'
)


class Cost(Protocol):
    """What a command took."""

    @property
    def cpu_s(self) -> float: ...
    @property
    def peak_mb(self) -> float: ...


def measure_sessions(run: Callable[[Path], Cost], quick: bool) -> None:
    """Print CPU and peak memory beside those of one session without output; `run` runs a project.

    Outputs are written piece by piece: the peak of a process counts what the one that started it had in memory.
    """
    mb, lines = (20, 100_000) if quick else (200, 1_000_000)
    usual = _cost(run, (), 1)
    kinds: dict[str, tuple[Iterable[str], int]] = {
        f"{mb} MB of tool outputs": ((_tool(number, 100_000) for number in range(mb * 10)), 1),
        f"{lines:,} lines": (map(_message, range(lines)), 1),
        f"a line of {mb // 2} MB": (_long_tool(mb // 2), 1),
        f"20 sessions of {mb} MB": ((_tool(number, 100_000) for number in range(mb * 10)), 20),
        "50 sessions at once": ((), 50),
    }
    for name, (output, sessions) in kinds.items():
        cost = _cost(run, output, sessions)
        cpu = (cost.cpu_s - usual.cpu_s) / sessions
        print(
            f"{name}: CPU {cpu:+.3f} s a session, peak {cost.peak_mb:.0f} MB ({cost.peak_mb - usual.peak_mb:+.0f})",
            flush=True,
        )
    template = _cost(run, (), 1, files=5_000)
    print(f"a template of 5,000 files, 50 MB: CPU {template.cpu_s - usual.cpu_s:+.3f} s a session", flush=True)


def _tool(number: int, size: int) -> str:
    item = {"id": f"i{number}", "type": "command_execution", "command": "cat f", "exit_code": 0, "status": "completed"}
    return json.dumps({"type": "item.completed", "item": {**item, "aggregated_output": "x" * size}}) + "\n"


def _long_tool(megabytes: int) -> Iterator[str]:
    """Yield one line in pieces."""
    begin, end = _tool(0, 1).split('x"')
    yield begin
    yield from repeat("x" * MB, megabytes)
    yield f'"{end}'


def _message(number: int) -> str:
    item = {"id": f"m{number}", "type": "agent_message", "text": f"message {number}"}
    return json.dumps({"type": "item.completed", "item": item}) + "\n"


def _cost(run: Callable[[Path], Cost], output: Iterable[str], sessions: int, files: int = 0) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        return run(_project(Path(folder), output, sessions, files))


def _project(root: Path, output: Iterable[str], sessions: int, files: int) -> Path:
    (root / "suites").mkdir()
    with (root / "printed").open("w", encoding="utf-8") as printed:
        printed.writelines(chain([_BEGIN], output, [_END]))
    (root / "agent").write_text(f"#!/bin/sh\nexec cat {root}/printed\n")
    (root / "agent").chmod(0o755)
    for number in range(files):
        path = root / "template" / f"{number % 50}" / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10_000)
    check = {"type": "contains", "value": "x"}
    workspace: dict[str, Any] = {"workspace": {"template": "../template"}} if files else {}
    cases: Sequence[dict[str, Any]] = [
        {"id": f"c{number}", "input": f"case {number}", "assertions": [check], **workspace}
        for number in range(sessions)
    ]
    (root / "suites/sessions.jsonl").write_text("".join(json.dumps(case) + "\n" for case in cases))
    runner = {"name": "agent", "adapter": "agent", "agent": "codex", "executable": "./agent", "max_output_mb": 2_000}
    runner |= {"concurrency": 50 if sessions == 50 else 2}
    (root / "runners.yaml").write_text(json.dumps({"runners": [runner]}))
    return root
