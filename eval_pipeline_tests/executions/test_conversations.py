"""Who speaks next in a live conversation: any speaker, and the one that says the turns of a suite."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.conversations import (
    Answer,
    Conversations,
    End,
    ScriptedSpeaker,
    Speaker,
    Speech,
    converse,
)
from eval_pipeline.executions.exchanges import Exchange
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.executions.raw_turns import turns_of
from eval_pipeline.failures import TARGET_ERROR
from eval_pipeline.suites.model import Conversation, Message
from eval_pipeline_tests.builders import a_call, a_case, a_plan


def user(text: str) -> tuple[Message, ...]:
    return (Message(role="user", content=text),)


@dataclass
class Says:
    """A speaker that says some texts, whatever the answers are; an exception is raised in its turn."""

    texts: Sequence[str | TargetFailure]

    async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
        message = self.texts[len(so_far)] if len(so_far) < len(self.texts) else None
        if isinstance(message, TargetFailure):
            raise message
        return Speech(user(message)) if message is not None else End("speaker")


class Target:
    """Answers with the number of messages it was sent; `crash` makes it fail. A call takes 10 ms."""

    def __init__(self) -> None:
        self.heard: list[list[str]] = []
        self.now_s = 0.0

    async def execute(self, call: Call) -> RawExecution | TargetFailure:
        self.heard.append([message.text for message in call.plan.case.input])
        self.now_s += 0.01
        if "crash" in self.heard[-1]:
            return TargetFailure(TARGET_ERROR, "crashed", raw=RawExecution(format="replay", payload={"output": "hal"}))
        return RawExecution(format="replay", payload={"output": f"answer {len(self.heard[-1])}"})


def hold(speaker: Speaker, target: Target, **conversation: Any) -> RawExecution | TargetFailure:
    """The raw execution of a conversation whose input is `be brief`."""
    case = a_case(text="be brief", conversation=Conversation(turns=(), **conversation))
    conversations = Conversations(
        speaker=lambda call: speaker, answer=lambda plan, raw, runner: Answer(str(raw.payload["output"]))
    )
    call = a_call(Path("files"), a_plan(case))
    return asyncio.run(converse(call, target.execute, conversations, lambda: target.now_s))


def test_a_speaker_says_what_is_next_until_it_ends_the_conversation() -> None:
    target = Target()

    raw = hold(Says(["one", "two"]), target)

    assert target.heard == [["be brief", "one"], ["be brief", "one", "answer 2", "two"]]
    assert isinstance(raw, RawExecution)
    assert [turn.raw.payload["output"] for turn in turns_of(raw)] == ["answer 2", "answer 4"]


def test_a_speaker_decides_by_what_was_answered() -> None:
    class Curious:
        async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
            return End("speaker") if so_far and so_far[-1].answer == "answer 6" else Speech(user("and?"))

    target = Target()

    hold(Curious(), target)

    assert len(target.heard) == 3


def test_a_speaker_that_says_nothing_ends_the_conversation_before_it_began() -> None:
    raw = hold(Says([]), target := Target())

    assert target.heard == []
    assert isinstance(raw, RawExecution)
    assert turns_of(raw) == []


def test_only_the_latest_exchanges_are_sent_where_a_window_is_set() -> None:
    target = Target()

    hold(Says(["one", "two", "three"]), target, window=1)

    assert target.heard[-1] == ["be brief", "two", "answer 4", "three"]


@pytest.mark.parametrize(
    ("texts", "outputs"),
    [
        (["one", "crash", "three"], ["answer 2", "hal"]),
        (["one", TargetFailure(TARGET_ERROR, "the simulator failed")], ["answer 2"]),
    ],
    ids=["the target fails", "the speaker fails"],
)
def test_a_failure_ends_the_conversation_and_keeps_what_was_said(texts: list[Any], outputs: list[str]) -> None:
    failure = hold(Says(texts), Target())

    assert isinstance(failure, TargetFailure)
    assert failure.raw is not None
    assert [turn.raw.payload["output"] for turn in turns_of(failure.raw)] == outputs


def test_each_turn_is_timed() -> None:
    raw = hold(Says(["one", "two"]), Target())

    assert isinstance(raw, RawExecution)
    assert [turn.elapsed_ms for turn in turns_of(raw)] == pytest.approx([10.0, 10.0])


def test_files_of_turns_are_kept_apart() -> None:
    numbers = count(1)

    async def execute(call: Call) -> RawExecution:
        return RawExecution(
            format="replay", payload={"output": ""}, files={"stdout": call.files() / f"{next(numbers)}.txt"}
        )

    target = Target()
    target.execute = execute  # type: ignore[method-assign]
    raw = hold(Says(["one", "two"]), target)

    assert isinstance(raw, RawExecution)
    assert dict(raw.files) == {
        "turn-1/stdout": Path("files/turn-1/1.txt"), "turn-2/stdout": Path("files/turn-2/2.txt"),
    }  # fmt: skip
    assert [dict(turn.raw.files) for turn in turns_of(raw)] == [
        {"stdout": Path("files/turn-1/1.txt")}, {"stdout": Path("files/turn-2/2.txt")},
    ]  # fmt: skip


# The turns of a suite.


@pytest.mark.parametrize(
    ("on_failure", "passes", "message", "judged"),
    [
        ("continue", False, ["one", "two", "three"], []),
        ("stop", True, ["one", "two", "three"], [1, 2]),
        ("stop", False, ["one"], [1]),
    ],
)
def test_the_turns_of_a_suite_are_said_in_order_and_a_failed_one_may_end_them(
    on_failure: Any, passes: bool, message: list[str], judged: list[int]
) -> None:
    requests: list[int] = []

    async def passed(so_far: RawExecution) -> bool:
        requests.append(len(turns_of(so_far)))
        return passes

    target = Target()
    script = Conversation(turns=(user("one"), user("two"), user("three")), on_failure=on_failure)

    hold(ScriptedSpeaker(script, passed), target)

    assert [heard[-1] for heard in target.heard] == message
    assert requests == judged
