"""Answers and outputs above the limit: where reading stops, how the execution fails, and what is kept of it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline_tests.local_server import Answer, Received, Reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

MB = 1_000_000
FAILURES = "SELECT case_id, failure_class, error, attempt_count FROM target_executions ORDER BY case_id"
ENDLESS = "import itertools, os\nfor _ in itertools.count(): os.write({stream}, b'x' * 65536)"


def endless(chunk: bytes, content_type: str = "application/json", status: int = 200) -> Reply:
    """A response of 100 MB of a far larger one."""
    headers = {"content-type": content_type, "content-length": str(10**12)}
    piece = chunk * max(1, 1_000 // len(chunk))
    return Reply(status=status, chunks=[piece] * (100 * MB // len(piece)), headers=headers)


def bomb() -> Reply:
    """A response of 100 KB that is 100 MB when it is decoded."""
    packed = gzip.compress(b"[" + b" " * 100 * MB)
    return Reply(body=packed, headers={"content-type": "application/json", "content-encoding": "gzip"})


def artifacts(folder: ProjectFolder) -> dict[str, int]:
    """The files that are kept of the only execution: their sizes by role. Each is there as its row says."""
    ((rows,),) = folder.ask("SELECT artifacts FROM target_executions")
    sizes: dict[str, int] = {}
    for row in json.loads(rows):
        path = folder.data / "artifacts" / row["path"]
        assert (path.stat().st_size, file_fingerprint(path)) == (row["bytes"], row["sha256"])
        sizes[row["role"]] = row["bytes"]
    return sizes


def sweep_one(folder: ProjectFolder, runner: dict[str, Any]) -> tuple[Any, ...]:
    """The failure of a sweep of one case with one runner."""
    folder.write_suite(a_test("a"))
    folder.write_runners({"name": "large", "timeout_s": 30, "max_output_mb": 1, **runner})
    folder.sweep_once(runner="large")
    (row,) = folder.ask(FAILURES)
    return row


def sweep_http(folder: ProjectFolder, answer: Answer | Reply, **settings: Any) -> tuple[tuple[Any, ...], int]:
    """The failure of a sweep of a model behind HTTP, and how often it was called."""
    with serve(answer) as server:
        entry = {"adapter": "chat", "base_url": server.url, "model": "m", "retries": {"initial_delay_s": 0.01}}
        return sweep_one(folder, {**entry, **settings}), len(server.requests)


def sweep_program(folder: ProjectFolder, program: str, *arguments: str, **settings: Any) -> tuple[Any, ...]:
    entry = {"adapter": "command", "command": [sys.executable, "-c", program, *arguments], "retry_failures": True}
    return sweep_one(folder, {**entry, **settings})


@pytest.mark.parametrize(
    ("reply", "settings"),
    [
        pytest.param(bomb, {}, id="gzip bomb"),
        pytest.param(partial(endless, b" " * 10_000), {}, id="endless body"),
        pytest.param(
            partial(endless, b": still here\n\n", "text/event-stream"), {"stream": True}, id="endless comments"
        ),
        pytest.param(partial(endless, b"data: x", "text/event-stream"), {"stream": True}, id="endless line"),
        pytest.param(
            partial(
                endless, b'data: {"choices": [{"index": 0, "delta": {"content": "xxxxxxxx"}}]}\n\n', "text/event-stream"
            ),
            {"stream": True},
            id="endless stream",
        ),
    ],
)
def test_a_response_is_read_up_to_the_limit_and_what_was_read_is_kept(
    folder: ProjectFolder, reply: Callable[[], Reply], settings: dict[str, Any]
) -> None:
    (case, failure_class, error, attempts), calls = sweep_http(folder, reply(), **settings)

    assert (case, failure_class, attempts, calls) == ("a", "output-limit", 1, 1)
    assert "exceeds the limit of 1 MB (max_output_mb); the rest was not read" in error
    assert artifacts(folder) == {"response": MB}


def test_a_large_error_response_is_an_error_of_its_status(folder: ProjectFolder) -> None:
    (_, failure_class, error, _), _ = sweep_http(folder, endless(b"x" * 10_000, status=400))

    assert (failure_class, error[:13]) == ("bad-request", "HTTP 400: xxx")


def test_an_encoding_that_was_not_requested_is_not_decoded(folder: ProjectFolder) -> None:
    twice = gzip.compress(gzip.compress(b" " * 10 * MB))
    reply = Reply(body=twice, headers={"content-type": "application/json", "content-encoding": "gzip, gzip"})

    (_, failure_class, error, _), _ = sweep_http(folder, reply, retries=0)

    assert failure_class == "malformed-reply"
    assert "content encoding 'gzip, gzip'; accepted are: gzip, deflate" in error


@pytest.mark.parametrize("window", [zlib.MAX_WBITS, -zlib.MAX_WBITS, 16 + zlib.MAX_WBITS], ids=["zlib", "raw", "gzip"])
def test_a_compressed_response_below_the_limit_is_an_answer(folder: ProjectFolder, window: int) -> None:
    plain = json_reply({"choices": [{"message": {"content": "2" * 900_000}, "finish_reason": "stop"}]})
    packer = zlib.compressobj(wbits=window)
    packed = packer.compress(plain.body) + packer.flush()
    encoding = "gzip" if window > zlib.MAX_WBITS else "deflate"

    (_, failure_class, error, _), _ = sweep_http(
        folder, Reply(body=packed, headers={**plain.headers, "content-encoding": encoding})
    )

    assert (failure_class, error) == (None, None)


@pytest.mark.parametrize(("stream", "role"), [(1, "stdout"), (2, "stderr")])
def test_a_program_that_never_stops_printing_is_ended_at_the_limit(
    folder: ProjectFolder, stream: int, role: str
) -> None:
    begun = time.monotonic()

    case, failure_class, error, attempts = sweep_program(folder, ENDLESS.format(stream=stream))

    assert (case, failure_class, attempts) == ("a", "output-limit", 1)
    assert error == f"{role} exceeds the limit of 1 MB; the program was ended and the rest cut (max_output_mb)"
    assert {"stdout": 0, "stderr": 0, role: MB} == artifacts(folder)
    assert time.monotonic() - begun < 20


def test_the_answer_file_of_a_program_has_the_limit_too(folder: ProjectFolder) -> None:
    program = "import sys; open(sys.argv[1], 'w').write('x' * 3_000_000)"

    _, failure_class, error, _ = sweep_program(folder, program, "{OUTPUT_FILE}")

    assert (failure_class, error[:30]) == ("output-limit", "output exceeds the limit of 1 ")
    assert artifacts(folder) == {"stdout": 0, "stderr": 0, "output": MB}


def test_a_link_to_a_large_file_is_removed_and_the_file_stays_as_it_is(folder: ProjectFolder, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"x" * 3 * MB)
    program = f"import os, sys; os.symlink({str(large)!r}, sys.argv[1])"

    _, failure_class, _, _ = sweep_program(folder, program, "{OUTPUT_FILE}")

    assert (failure_class, large.stat().st_size) == ("output-limit", 3 * MB)
    assert artifacts(folder) == {"stdout": 0, "stderr": 0}


def test_a_program_below_the_limit_keeps_all_that_it_printed(folder: ProjectFolder) -> None:
    _, failure_class, _, _ = sweep_program(folder, "print('2' * 999_999)")

    assert failure_class is None
    assert artifacts(folder)["stdout"] == MB


def test_a_text_that_a_function_returns_has_the_limit_too(folder: ProjectFolder) -> None:
    folder.write_answers(a="2" * 3 * MB)

    _, failure_class, error, _ = sweep_one(folder, a_runner_entry("large"))

    assert (failure_class, error) == (
        "output-limit",
        "the answer exceeds the limit of 1 MB (max_output_mb); the rest was cut",
    )
    assert artifacts(folder) == {"output": MB}


def test_other_answers_of_a_function_have_the_limit_too(folder: ProjectFolder) -> None:
    code = "def answer(prompt):\n    return {'output': ['x' * 1000] * 2_000, 'model': 'm'}\n"
    (folder.root / "large_values.py").write_text(code)

    row = sweep_one(folder, {"adapter": "python", "function": "large_values:answer"})

    assert row[1] == "output-limit"
    assert artifacts(folder) == {"output": MB}


def test_the_project_sets_the_limit_of_runners_that_set_none(folder: ProjectFolder) -> None:
    (folder.root / "eval-pipeline.yaml").write_text(
        json.dumps({"suites": ["suites"], "defaults": {"max_output_mb": 0.5}})
    )

    _, failure_class, error, _ = sweep_program(folder, "print('2' * 600_000)", max_output_mb=None)

    assert (failure_class, error[:34]) == ("output-limit", "stdout exceeds the limit of 0.5 MB")


def test_a_limit_does_not_change_what_an_answer_depends_on(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    folder.sweep_once()
    folder.write_runners(a_runner_entry(max_output_mb=5))

    counts = folder.sweep()

    assert (counts.reused, counts.executed) == (1, 0)


def test_an_execution_above_the_limit_is_executed_again_with_a_larger_limit(folder: ProjectFolder) -> None:
    sweep_program(folder, "print('2' * 1_100_000)")
    command = [sys.executable, "-c", "print('2' * 1_100_000)"]
    folder.write_runners({"name": "large", "adapter": "command", "command": command, "max_output_mb": 2})

    counts = folder.sweep(runner="large")

    assert (counts.executed, counts.passed) == (1, 1)


def test_a_grading_program_has_the_default_limit(folder: ProjectFolder) -> None:
    grader = [sys.executable, "-c", ENDLESS.format(stream=1)]
    folder.write_suite(a_test("a", {"type": "code-grader", "command": grader}))

    counts = folder.sweep()

    ((value, reason),) = folder.ask("SELECT value, reason FROM evaluator_scores")
    assert (counts.errored, value) == (1, None)
    assert "stdout exceeds the limit of 64 MB; the program was ended" in reason


def test_a_webhook_has_the_default_limit(folder: ProjectFolder) -> None:
    def answer(request: Received) -> Reply:
        packed = gzip.compress(b" " * 100 * MB)
        return Reply(body=packed, headers={"content-type": "application/json", "content-encoding": "gzip"})

    with serve(answer) as server:
        folder.write_suite(a_test("a", {"type": "webhook", "value": server.url}))
        folder.sweep()

    ((value, reason),) = folder.ask("SELECT value, reason FROM evaluator_scores")
    assert value is None
    assert "the webhook cannot be read: the response exceeds the limit of 64 MB" in reason


def test_a_very_long_text_is_stored_once_and_scored_again_as_it_was(folder: ProjectFolder) -> None:
    folder.write_suite(a_test("a"))
    sweep_program(folder, "print('2' * 1_100_000)", max_output_mb=2)
    folder.write_suite(a_test("a", {"type": "regex", "value": "^2+$"}))

    counts = folder.sweep(runner="large")

    assert counts.executed == 0
    assert folder.ask("SELECT value, reason FROM evaluator_scores WHERE type = 'regex'")[0][0] == 1
    events = folder.ask("SELECT length(text), event ->> 'kind', event ->> 'text' FROM session_events")
    assert events == [(1_100_000, "message", None)]


@pytest.mark.slow
def test_an_accepted_answer_takes_at_most_four_times_its_size(tmp_path: Path) -> None:
    small, large = (peak_mb(tmp_path / str(mb), mb) for mb in (0, 40))

    assert large - small < 4 * 40


def peak_mb(folder: Path, mb: int) -> float:
    """Peak memory of a run in a new folder whose only answer has so many MB."""
    (folder / "suites").mkdir(parents=True)
    (folder / "suites/large.json").write_text(json.dumps({"tests": [a_test("a")]}))
    (folder / "users.py").write_text(f"def answer(prompt): return '2' + 'x' * {mb * MB}\n")
    runner = {"name": "large", "adapter": "python", "function": "users:answer"}
    (folder / "runners.yaml").write_text(json.dumps({"runners": [runner]}))
    command = [sys.executable, "-m", "eval_pipeline_tests.benchmarks.command", "run", "suites"]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, (folder / "output").read_text()
    return usage.ru_maxrss * 1024 / MB
