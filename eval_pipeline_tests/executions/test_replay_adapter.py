"""Recordings: which row answers for which cell, what a row may hold, and what is said of one that cannot be used."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.replay import Replay
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline_tests.building import a_call, a_case, a_plan, a_runner


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(*rows: Any, file: str = "recording.jsonl") -> Replay:
    """A replay of a recording with these rows."""
    Path(file).parent.mkdir(exist_ok=True)
    lines = [row if isinstance(row, bytes) else orjson.dumps(row) for row in rows]
    Path(file).write_bytes(b"\n".join(lines) + b"\n")
    return a_replay(file)


def a_replay(recording: str) -> Replay:
    return Replay(a_runner(settings={"recording": recording}, folder=Path.cwd()))


def answer(replay: Replay, case: str = "a", suite: str = "math", repetition: int = 1) -> RawExecution:
    plan = a_plan(a_case(case), suite=suite, repetition=repetition)
    return asyncio.run(replay.execute(a_call(Path("nowhere"), plan)))


def failure_of(replay: Replay, case: str = "a") -> TargetFailure:
    with pytest.raises(TargetFailure) as raised:
        answer(replay, case)
    return raised.value


def test_a_row_answers_for_its_case() -> None:
    replay = record({"case": "a", "output": "1"}, {"case": "b", "output": "2", "usage": {"input_tokens": 3}})

    assert answer(replay, "a") == RawExecution(format="replay", payload={"output": "1"})
    assert answer(replay, "b").payload == {"output": "2", "usage": {"input_tokens": 3}}


ROWS = [
    {"case": "a", "output": "any"},
    {"case": "a", "output": "math", "suite": "math"},
    {"case": "a", "output": "second", "repetition": 2},
    {"case": "a", "output": "math, third", "suite": "math", "repetition": 3},
    {"case": "a", "output": "music, second", "suite": "music", "repetition": 2},
]


@pytest.mark.parametrize("rows", [ROWS, ROWS[::-1]], ids=["in order", "in reverse"])
@pytest.mark.parametrize(
    ("suite", "repetition", "output"),
    [
        ("math", 1, "math"),
        ("math", 2, "math"),
        ("math", 3, "math, third"),
        ("music", 1, "any"),
        ("music", 2, "music, second"),
        ("other", 1, "any"),
        ("other", 2, "second"),
    ],
)
def test_the_most_specific_row_answers(rows: list[Any], suite: str, repetition: int, output: str) -> None:
    assert answer(record(*rows), suite=suite, repetition=repetition).payload["output"] == output


def test_of_two_rows_alike_the_later_answers() -> None:
    assert answer(record({"case": "a", "output": "1"}, {"case": "a", "output": "2"})).payload == {"output": "2"}


def test_a_folder_is_all_its_files() -> None:
    record({"case": "a", "output": "1"}, file="runs/one.jsonl")
    record({"case": "b", "output": "2"}, file="runs/two.jsonl")
    replay = a_replay("runs")

    assert [answer(replay, case).payload["output"] for case in "ab"] == ["1", "2"]


def test_a_number_may_be_the_id_of_a_case() -> None:
    assert answer(record({"case": 7, "output": "1"}), "7").payload == {"output": "1"}


def test_empty_lines_and_long_rows_are_fine() -> None:
    long = "é" * 100_000

    assert (
        answer(record(b"", b"  ", {"case": "b", "output": long}, {"case": "a", "output": "1"})).payload["output"] == "1"
    )


def test_a_row_says_how_long_it_took_and_who_reads_it() -> None:
    row = {"case": "a", "format": "codex", "stdout_file": "runs/a.txt", "latency_ms": 12.5, "exit_code": 3}
    Path("runs").mkdir()
    Path("runs/a.txt").write_text("raw")

    raw = answer(record(row))

    assert raw == RawExecution(
        format="codex",
        payload={"format": "codex", "latency_ms": 12.5, "exit_code": 3},
        files={"stdout": Path("runs/a.txt").resolve()},
        exit_code=3,
        duration_ms=12.5,
    )


def test_a_case_without_a_row_has_no_recording() -> None:
    failure = failure_of(record({"case": "a", "output": "1"}), "b")

    assert failure.failure.id == "recording-missing"
    assert str(failure) == "recording.jsonl has no row for case 'b' of 'math'"


@pytest.mark.parametrize(
    ("error", "class_", "said"),
    [
        pytest.param("it broke", "target-error", "it broke", id="text"),
        pytest.param({"class": "timeout", "message": "too slow"}, "timeout", "too slow", id="class"),
        pytest.param({"class": "rate-limited"}, "rate-limited", "recorded error", id="no message"),
        pytest.param({"message": "odd"}, "target-error", "odd", id="no class"),
        pytest.param({"class": "made-up", "message": "odd"}, "target-error", "odd", id="unknown class"),
    ],
)
def test_a_recorded_error_fails_again(error: Any, class_: str, said: str) -> None:
    failure = failure_of(record({"case": "a", "output": "half", "error": error}))

    assert (failure.failure.id, failure.retryable, str(failure)) == (class_, False, said)
    assert failure.raw is not None
    assert failure.raw.payload["output"] == "half"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        pytest.param(b"{", "recording.jsonl:2: not valid JSON", id="no JSON"),
        pytest.param(b"[1]", "recording.jsonl:2: a recording row needs 'case', the id of a case", id="no object"),
        pytest.param({"output": "1"}, "recording.jsonl:2: a recording row needs 'case'", id="no case"),
        pytest.param({"case": ["a"], "output": "1"}, "recording.jsonl:2: a recording row needs 'case'", id="case"),
        pytest.param({"case": "a"}, "recording.jsonl:2: a recording row needs one of: error, messages, output, report,",
                     id="no answer"),
        pytest.param({"case": "a", "output": "", "suite": []}, "recording.jsonl:2: suite: expected a text, got []",
                     id="suite"),
        pytest.param({"case": "a", "output": "", "repetition": "2"}, "recording.jsonl:2: repetition: expected a whole"
                     " number, got '2'", id="repetition"),
        pytest.param({"case": "a", "output": "", "repetition": True}, "expected a whole number, got True",
                     id="truth value"),
        pytest.param({"case": "a", "output": "", "latency_ms": "fast"}, "recording.jsonl:2: latency_ms: expected a"
                     " number, got 'fast'", id="latency"),
        pytest.param({"case": "a", "output": "", "exit_code": 1.5}, "recording.jsonl:2: exit_code: expected a whole"
                     " number, got 1.5", id="exit code"),
        pytest.param({"case": "a", "stdout_file": 3}, "stdout_file: expected the name of a file, got 3", id="no name"),
        pytest.param({"case": "a", "stdout_file": "gone.txt"}, "recording.jsonl:2: no file gone.txt", id="no file"),
        pytest.param({"case": "a", "stdout_file": "../gone.txt"}, "'../gone.txt' is outside the recording's folder",
                     id="outside"),
        pytest.param({"case": "a", "stdout_file": "/etc/hostname"}, "is outside the recording's folder", id="absolute"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_named_before_anything_runs(row: Any, problem: str) -> None:
    replay = record({"case": "b", "output": "1"}, row)

    with pytest.raises(InputError) as raised:
        replay.content()

    assert problem in str(raised.value)


def test_a_file_may_not_lead_outside_by_a_link() -> None:
    Path("outside.txt").write_text("secret")
    Path("runs").mkdir()
    Path("runs/link.txt").symlink_to(Path("outside.txt").resolve())
    record({"case": "a", "stdout_file": "link.txt"}, file="runs/r.jsonl")

    with pytest.raises(InputError, match="outside the recording's folder"):
        a_replay("runs").content()


def test_a_recording_that_is_not_there_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"^recording: no recording at nowhere\.jsonl$"):
        a_replay("nowhere.jsonl")


def test_every_file_of_a_recorded_folder_is_content() -> None:
    Path("runs/deep").mkdir(parents=True)
    Path("runs/deep/a.txt").write_text("raw")
    record({"case": "a", "stdout_file": "deep/a.txt"}, file="runs/r.jsonl")
    before = a_replay("runs").content()
    Path("runs/deep/a.txt").write_text("other")
    after = a_replay("runs").content()

    assert set(before) == set(after) == {"runs/r.jsonl", "runs/deep/a.txt"}
    assert [name for name in before if before[name] != after[name]] == ["runs/deep/a.txt"]


def test_a_recording_can_be_read_again_after_it_was_closed() -> None:
    replay = record({"case": "a", "output": "1"})

    asyncio.run(replay.close())

    assert answer(replay).payload == {"output": "1"}
