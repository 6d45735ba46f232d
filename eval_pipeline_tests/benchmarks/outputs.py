"""Peak memory of a run whose target answers far more than the limit, beside that of a small answer."""

from __future__ import annotations

import gzip
import json
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from eval_pipeline_tests.local_server import Reply, serve

MB = 1_000_000
_PRINTING = "import os\nfor _ in range({mb}): os.write({stream}, b'x' * 1_000_000)"
_EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"x" * 10_000)
_JSON = {"content-type": "application/json"}
_STREAM = {"content-type": "text/event-stream"}


def measure_outputs(peak_mb: Callable[[list[str], Path], float], run: Sequence[str], quick: bool) -> None:
    """Print the peak of each kind of output; `peak_mb` is the peak memory of a command in a folder."""
    mb = 300 if quick else 1_000
    command = ["sh", "-c", f"{shlex.join([*run, 'missing'])} || true"]  # a run with an error ends with another code

    def peak(**runner: Any) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return peak_mb(command, _project(Path(folder), runner))

    def peak_http(reply: Reply, **settings: Any) -> float:
        with serve(reply) as server:
            return peak(adapter="chat", base_url=server.url, model="m", retries=0, **settings)

    def peak_program(stream: int, megabytes: int) -> float:
        program = _PRINTING.format(stream=stream, mb=megabytes)
        return peak(adapter="command", command=[sys.executable, "-c", program])

    usual = peak_program(1, 0)
    bomb = gzip.compress(b" " * mb * MB, 6)
    peaks = {
        "gzip bomb": peak_http(Reply(body=bomb, headers={**_JSON, "content-encoding": "gzip"})),
        "endless body": peak_http(Reply(chunks=[b" " * MB] * mb, headers=_JSON)),
        "endless stream": peak_http(Reply(chunks=[_EVENT] * (mb * 100), headers=_STREAM), stream=True),
        "stdout": peak_program(1, mb),
        "stderr": peak_program(2, mb),
        "stdout of 60 MB, an answer": peak_program(1, 60),
    }
    for name, value in peaks.items():
        print(f"{name} ({mb} MB): {value - usual:+.0f} MB beside a small answer's {usual:.0f} MB", flush=True)


def _project(folder: Path, runner: dict[str, Any]) -> Path:
    (folder / "suites").mkdir()
    case = {"id": "c", "input": "?", "assertions": [{"type": "contains", "value": "x"}]}
    (folder / "suites/large.jsonl").write_text(json.dumps(case) + "\n")
    (folder / "runners.yaml").write_text(json.dumps({"runners": [{"name": "large", "timeout_s": 60, **runner}]}))
    return folder
