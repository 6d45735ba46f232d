"""Recordings: which row answers for which cell, what a row may hold, and what is said of one that cannot be used."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.replay import Replay
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Case, Message
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(*rows: Any, file: str = "recording.jsonl") -> Replay:
    """A replay of a recording with these rows."""
    Path(file).parent.mkdir(exist_ok=True)
    lines = [row if isinstance(row, bytes) else orjson.dumps(row) for row in rows]
    Path(file).write_bytes(b"\n".join(lines) + b"\n")
    return a_replay(file)


def a_replay(recording: str, **settings: str) -> Replay:
    return Replay(a_runner(settings={"recording": recording, **settings}, folder=Path.cwd()))


def answer(replay: Replay, case: str | Case = "a", suite: str = "math", repetition: int = 1) -> RawExecution:
    plan = a_plan(case if isinstance(case, Case) else a_case(case), suite=suite, repetition=repetition)
    return asyncio.run(replay.execute(a_call(Path("nowhere"), plan)))


def failure_of(replay: Replay, case: str = "a") -> TargetFailure:
    with pytest.raises(TargetFailure) as raised:
        answer(replay, case)
    return raised.value


def test_a_row_of_turns_answers_turn_by_turn() -> None:
    replay = record({"case": "a", "turns": [{"output": "1"}, {"output": "2", "usage": {"input_tokens": 3}}]})
    calls = [replace(a_call(Path("nowhere"), a_plan(a_case("a"))), turn=turn) for turn in (1, 2, 3)]

    answers = [asyncio.run(replay.execute(call)).payload["output"] for call in calls[:2]]

    assert answers == ["1", "2"]
    with pytest.raises(TargetFailure, match="the row of case 'a' has no turn 3"):
        asyncio.run(replay.execute(calls[2]))


def test_a_turn_without_an_answer_is_an_error_before_anything_runs() -> None:
    with pytest.raises(InputError, match="turns: expected an object with an output for each turn"):
        record({"case": "a", "turns": [{"output": "1"}, "2"]}).content()


def test_a_row_answers_for_its_case() -> None:
    replay = record({"case": "a", "output": "1"}, {"case": "b", "output": "2", "usage": {"input_tokens": 3}})

    assert answer(replay, "a") == RawExecution(format="replay", payload={"output": "1", "elapsed_ms": None})
    assert answer(replay, "b").payload == {"output": "2", "usage": {"input_tokens": 3}, "elapsed_ms": None}


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
    assert answer(record({"case": "a", "output": "1"}, {"case": "a", "output": "2"})).payload["output"] == "2"


def test_a_folder_is_all_its_files() -> None:
    record({"case": "a", "output": "1"}, file="runs/one.jsonl")
    record({"case": "b", "output": "2"}, file="runs/two.jsonl")
    replay = a_replay("runs")

    assert [answer(replay, case).payload["output"] for case in "ab"] == ["1", "2"]


def test_a_number_may_be_the_id_of_a_case() -> None:
    assert answer(record({"case": 7, "output": "1"}), "7").payload["output"] == "1"


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
        payload={"format": "codex", "latency_ms": 12.5, "exit_code": 3, "elapsed_ms": None},
        files={"stdout": Path("runs/a.txt").resolve()},
        exit_code=3,
        duration_ms=12.5,
    )


def test_a_case_without_a_row_has_no_recording() -> None:
    failure = failure_of(record({"case": "a", "output": "1"}), "b")

    assert failure.failure.id == "recording-missing"
    assert str(failure) == "recording.jsonl has no row for case 'b' of 'math'"


@pytest.mark.parametrize(
    ("error", "class_", "message"),
    [
        pytest.param("it broke", "target-error", "it broke", id="text"),
        pytest.param({"class": "timeout", "message": "too slow"}, "timeout", "too slow", id="class"),
        pytest.param({"class": "rate-limited"}, "rate-limited", "recorded error", id="no message"),
        pytest.param({"message": "odd"}, "target-error", "odd", id="no class"),
        pytest.param({"class": "made-up", "message": "odd"}, "target-error", "odd", id="unknown class"),
    ],
)
def test_a_recorded_error_fails_again(error: Any, class_: str, message: str) -> None:
    failure = failure_of(record({"case": "a", "output": "half", "error": error}))

    assert (failure.failure.id, failure.retryable, str(failure)) == (class_, False, message)
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
        pytest.param({"case": "a", "output": "", "suite": []}, "recording.jsonl:2: suite: expected a text, got a list",
                     id="suite"),
        pytest.param({"case": "a", "output": "", "repetition": "2"}, "recording.jsonl:2: repetition: expected a whole"
                     " number, got a text ('2')", id="repetition"),
        pytest.param({"case": "a", "output": "", "repetition": True}, "repetition: expected a whole number, got a",
                     id="truth value"),
        pytest.param({"case": "a", "output": "", "latency_ms": "fast"}, "recording.jsonl:2: latency_ms: expected a"
                     " number, got a text ('fast')", id="latency"),
        pytest.param({"case": "a", "output": "", "exit_code": 1.5}, "recording.jsonl:2: exit_code: expected a whole"
                     " number, got a number (1.5)", id="exit code"),
        pytest.param({"case": "a", "stdout_file": 3}, "stdout_file: expected a text, got a number (3)", id="no name"),
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

    assert answer(replay).payload["output"] == "1"


@pytest.mark.parametrize(
    ("row", "duration_ms"),
    [
        pytest.param({"output": "4"}, None, id="not recorded"),
        pytest.param({"output": "4", "latency_ms": 12.5}, 12.5, id="recorded"),
        pytest.param({"output": "4", "duration_ms": 7}, 7, id="recorded by AgentV"),
    ],
)
def test_how_long_a_recorded_answer_took_is_known_only_when_it_was_recorded(
    row: Any, duration_ms: float | None
) -> None:
    raw = answer(record({"case": "a", **row}))

    report = normalize(an_execution(raw=raw), a_case("a"), a_runner())

    assert report.duration_ms == duration_ms


# AgentV's fixtures and transcripts.


def fixture(test_id: str = "a", text: str = "4", **fields: Any) -> dict[str, Any]:
    """A row as AgentV writes it."""
    return {
        "schema_version": "agentv.replay_fixture.v1",
        "suite": "math",
        "test_id": test_id,
        "source_target": "live",
        "output": [{"role": "assistant", "content": text}],
        **fields,
    }


def test_agentvs_fixture_answers_with_its_messages_and_what_they_cost() -> None:
    call = {"tool": "add", "id": "t1", "input": {"a": 2}, "output": "4", "status": "ok", "duration_ms": 7}
    messages = [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "assistant", "content": "4"}]
    metrics: dict[str, Any] = {
        "token_usage": {"input": 9, "output": 4, "cached": 1},
        "cost_usd": 0.5,
        "duration_ms": 980,
    }
    replay = record(fixture(output=messages, source={"provider": "codex", "model": "m-1"}, variant=None, **metrics))

    report = normalize(an_execution(raw=answer(replay)), a_case("a"), a_runner())

    assert (report.final_output, report.model, report.duration_ms) == ("4", "m-1", 980)
    assert (report.usage.input_tokens, report.usage.cost_usd) == (10, 0.5)
    assert [event.kind for event in report.events] == ["tool_call", "tool_result", "message"]


def test_agentvs_attempts_count_from_nought_and_a_row_without_one_answers_for_any() -> None:
    replay = record(fixture(text="any"), fixture(text="second", attempt=1))

    texts = [answer(replay, repetition=number).payload["output"][0]["content"] for number in (1, 2, 3)]

    assert texts == ["any", "second", "any"]


@pytest.mark.parametrize(
    ("row", "suite"),
    [
        pytest.param({"suite": "math"}, "math", id="its suite"),
        pytest.param({"suite": "other", "eval_path": "evals/math.eval.yaml"}, "math", id="its file"),
        pytest.param({"suite": None, "eval_path": "evals/math.yaml"}, "math", id="its file alone"),
        pytest.param({"suite": None}, "whatever", id="any suite"),
    ],
)
def test_agentvs_fixture_is_found_by_its_suite_or_its_file(row: Any, suite: str) -> None:
    assert answer(record(fixture(**row)), suite=suite).payload["output"]


def test_a_row_of_another_suite_is_none() -> None:
    assert failure_of(record(fixture(suite="music"))).failure.id == "recording-missing"


def test_a_runner_says_whose_recordings_and_which_suites_it_wants() -> None:
    rows = [fixture(text="a", source_target="live"), fixture(text="b", source_target="old"), fixture(variant="v2")]
    record(*rows)
    replays = [a_replay("recording.jsonl", source_target=name) for name in ("live", "old")]
    replays.append(a_replay("recording.jsonl", source_target="live", variant="v2", suite="math"))

    texts = [answer(replay, suite=suite).payload["output"][0]["content"]
            for replay, suite in zip(replays, ("math", "math", "renamed"), strict=True)]  # fmt: skip

    assert texts == ["a", "b", "4"]


def test_recordings_of_several_targets_have_to_be_told_apart() -> None:
    replay = record(fixture(source_target="live"), fixture(source_target="old"))

    with pytest.raises(InputError, match=r"recording.jsonl:2: source_target: the recording is of several targets"
                       r" \(live, old\): select one with 'source_target'"):  # fmt: skip
        replay.content()


def test_rows_of_another_version_are_not_guessed_at() -> None:
    replay = record(fixture(schema_version="agentv.replay_fixture.v9"))

    with pytest.raises(InputError, match=r"recording\.jsonl:1: rows of 'agentv\.replay_fixture\.v9' are not read"):
        replay.content()


TRANSCRIPT = {
    "input": "What is  2 + 2?\n",
    "output": [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "4"}],
    "token_usage": {"input": 9, "output": 4},
    "duration_ms": 70,
    "cost_usd": None,
    "source": {"provider": "claude", "session_id": "s-1"},
}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(TRANSCRIPT, id="a text"),
        pytest.param({**TRANSCRIPT, "input": [{"role": "user", "content": "What is 2 + 2?"}]}, id="messages"),
        pytest.param({**TRANSCRIPT, "input": "another question", "id": "a"}, id="an id"),
    ],
)
def test_a_transcript_answers_for_the_case_that_it_names_or_whose_input_it_has(row: Any) -> None:
    case_ = a_case(
        "a", input=(Message(role="system", content="Be brief."), Message(role="user", content="What is 2 + 2?"))
    )
    replay = record({**TRANSCRIPT, "input": "Who are you?"}, row)

    report = normalize(an_execution(raw=answer(replay, case_)), case_, a_runner())

    assert (report.final_output, report.duration_ms, report.usage.input_tokens) == ("4", 70, 9)


def test_a_case_that_nobody_asked_has_no_transcript() -> None:
    assert answer(record(TRANSCRIPT), a_case("z")).payload["output"]
    with pytest.raises(TargetFailure, match="has no row for case 'z' of 'math'"):
        answer(record(TRANSCRIPT), a_case("z", text="Who are you?"))
