"""A runner's secrets do not reach what is stored, and nothing else is changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.model import Execution, RawExecution
from eval_pipeline.executions.redaction import without_secrets
from eval_pipeline_tests.builders import an_attempt, an_execution

KEY = "sk-1234567890"


def redact_execution(execution: Execution, folder: Path = Path("nowhere"), *secrets: str) -> Execution:
    return without_secrets(execution, secrets or (KEY,), lambda: folder)


def with_payload(payload: dict[str, Any]) -> Execution:
    return an_execution(raw=RawExecution(format="chat", payload=payload))


@pytest.mark.parametrize(
    ("payload", "stored"),
    [
        pytest.param({"text": f"your key is {KEY}!"}, {"text": "your key is ***!"}, id="in a text"),
        pytest.param({"a": [{"b": f"{KEY}{KEY}"}]}, {"a": [{"b": "******"}]}, id="deep inside, twice"),
        pytest.param({KEY: 1}, {"***": 1}, id="as a key"),
        pytest.param({"a": 1, "b": None, "c": [True, 1.5]}, {"a": 1, "b": None, "c": [True, 1.5]}, id="not there"),
    ],
)
def test_secrets_are_taken_out_of_a_payload(payload: dict[str, Any], stored: dict[str, Any]) -> None:
    raw = redact_execution(with_payload(payload)).raw

    assert raw is not None
    assert raw.payload == stored


@pytest.mark.parametrize(
    "secret",
    ['quote"inside', "back\\slash", "line\nbreak", "schlüssel", "tab\there"],
    ids=["quote", "backslash", "line break", "letters", "tab"],
)
def test_secrets_that_json_writes_otherwise_are_found(secret: str) -> None:
    raw = redact_execution(with_payload({"text": f"it is {secret}."}), Path("nowhere"), secret).raw

    assert raw is not None
    assert raw.payload == {"text": "it is ***."}


@pytest.mark.parametrize("secret", ["none", "x", "1", '"', "", "output", "ollama"])
def test_a_short_secret_is_a_word_like_any_other(secret: str) -> None:
    execution = an_execution(output="1 none x ollama", error="1 none", attempts=(an_attempt(error="1"),) * 2)

    assert redact_execution(execution, Path("nowhere"), secret) == execution


def test_of_two_secrets_the_longer_is_taken_out_whole() -> None:
    execution = an_execution(error=f"Bearer {KEY} and {KEY}")

    assert redact_execution(execution, Path("nowhere"), KEY, f"Bearer {KEY}").error == "*** and ***"


def test_secrets_are_taken_out_of_errors_and_attempts() -> None:
    attempts = (an_attempt(error=f"wrong key {KEY}", failure_class="authentication"), an_attempt())

    execution = redact_execution(an_execution(output=None, error=f"HTTP 401: {KEY}", attempts=attempts))

    assert execution.error == "HTTP 401: ***"
    assert [attempt.error for attempt in execution.attempts] == ["wrong key ***", None]


def test_without_secrets_the_same_execution_comes_back() -> None:
    execution = an_execution(error=KEY)

    assert without_secrets(execution, (), lambda: Path("nowhere")) is execution


def test_an_execution_in_which_no_secret_stands_comes_back_unchanged() -> None:
    execution = an_execution(output="4")

    assert redact_execution(execution) is execution


def test_secrets_are_taken_out_of_every_file_of_the_execution(tmp_path: Path) -> None:
    out = tmp_path / "attempt-2" / "stdout"
    failed = tmp_path / "attempt-1" / "work" / "debug.log"
    for file in (out, failed):
        file.parent.mkdir(parents=True)
        file.write_bytes(b"\xff" + KEY.encode() + b"\n")

    redact_execution(an_execution(raw=RawExecution(format="command", files={"stdout": out})), tmp_path)

    assert out.read_bytes() == failed.read_bytes() == b"\xff***\n"


def test_an_execution_that_brought_nothing_back_may_have_left_files(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_text(KEY)

    redact_execution(an_execution(output=None, failure_class="timeout", error="no answer within 5 s"), tmp_path)

    assert (tmp_path / "stdout").read_text() == "***"


def test_a_file_that_is_not_the_executions_own_is_left_alone(tmp_path: Path) -> None:
    recording = tmp_path / "recording.txt"
    recording.write_text(KEY)
    own_folder = tmp_path / "own"
    own_folder.mkdir()
    (own_folder / "link").symlink_to(recording)

    redact_execution(an_execution(raw=RawExecution(format="replay", files={"stdout": recording})), own_folder)

    assert recording.read_text() == KEY
