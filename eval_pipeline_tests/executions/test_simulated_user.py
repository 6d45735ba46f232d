"""A simulated user: what its simulator receives, which replies are usable, and what ends the conversation."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.adapters import Call
from eval_pipeline.executions.conversations import Answer, Conversations, Speech, converse
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.executions.raw_turns import turns_of
from eval_pipeline.executions.simulated_user import (
    MOST_TURNS,
    Line,
    SimulatedSpeaker,
    SimulatorReply,
    SimulatorRequest,
    fault_of,
    read_line,
)
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import SimulatedUser
from eval_pipeline_tests.builders import a_call, a_case, a_plan

PERSONA = {"type": "commuter", "description": "Late for work.", "instructions": "Be brief."}


@dataclass
class Simulator:
    """Replies in order, and keeps what it was sent."""

    replies: list[str]
    received: list[list[Message]] = field(default_factory=list)

    async def ask(self, request: SimulatorRequest) -> SimulatorReply:
        self.received.append(list(request.messages))
        return SimulatorReply(text=self.replies.pop(0), facts={"simulator": "sim"})


def hold(
    user: SimulatedUser, *replies: str, greeting: tuple[Message, ...] = ()
) -> tuple[RawExecution | TargetFailure, Simulator]:
    """The raw execution of a conversation with an agent that counts its answers."""
    simulator, answers = Simulator(list(replies)), iter(range(1, 1_000))

    async def execute(call: Call) -> RawExecution:
        return RawExecution(format="replay", payload={"output": f"answer {next(answers)}"})

    speaker = SimulatedSpeaker(user, simulator.ask, greeting)
    conversations = Conversations(
        speaker=lambda call: speaker, answer=lambda plan, raw, runner: Answer(str(raw.payload["output"]))
    )
    call = a_call(Path("files"), a_plan(a_case(user=user)))
    return asyncio.run(converse(call, execute, conversations, lambda: 0.0)), simulator


def said(raw: RawExecution | TargetFailure) -> list[str]:
    whole = raw.raw if isinstance(raw, TargetFailure) else raw
    assert whole is not None
    return [message["text"] for turn in turns_of(whole) for message in turn.messages]


def ended_by(raw: RawExecution | TargetFailure) -> Any:
    assert isinstance(raw, RawExecution)
    return raw.payload["ended_by"]


def test_the_users_last_words_are_answered_before_the_conversation_ends() -> None:
    raw, _ = hold(SimulatedUser(opener="hi"), '{"message": "thanks, bye", "end": true}')

    assert said(raw) == ["hi", "thanks, bye"]
    assert ended_by(raw) == "user"


@pytest.mark.parametrize(("most", "lines"), [(1, ["hi"]), (2, ["hi", "where?"])])
def test_the_limit_counts_rounds_of_the_agent(most: int, lines: list[str]) -> None:
    raw, _ = hold(SimulatedUser(opener="hi", max_turns=most), '{"message": "where?"}', '{"message": "when?"}')

    assert said(raw) == lines
    assert ended_by(raw) == "max-turns"


def test_every_line_of_a_script_is_said_and_answered_and_no_simulator_is_asked() -> None:
    raw, simulator = hold(SimulatedUser(opener="hi", script=("where?", "bye")))

    assert said(raw) == ["hi", "where?", "bye"]
    assert ended_by(raw) == "script"
    assert simulator.received == []


def test_the_simulator_words_the_opener_where_none_is_written() -> None:
    raw, simulator = hold(SimulatedUser(max_turns=1), "Where is my bus?")

    assert said(raw) == ["Where is my bus?"]
    assert [message.role for message in simulator.received[0]] == ["system", "user"]


def test_an_agent_that_begins_is_called_with_nothing_said() -> None:
    raw, simulator = hold(SimulatedUser(first_turn="agent", max_turns=2), '{"message": "hello"}')

    assert said(raw) == ["hello"]
    assert simulator.received[0][1] == Message(role="user", content="answer 1")


def test_a_canned_greeting_of_the_agent_is_its_first_round() -> None:
    greeting = (Message(role="assistant", content="How can I help?"),)
    raw, simulator = hold(SimulatedUser(first_turn="agent", max_turns=2), '{"message": "hello"}', greeting=greeting)

    assert said(raw) == ["hello"]
    assert simulator.received[0][1] == Message(role="user", content="How can I help?")


def test_an_agent_with_instructions_begins_and_words_before_a_user_begins_are_no_round() -> None:
    told, earlier = Message(role="system", content="Be kind."), Message(role="assistant", content="Until tomorrow.")

    begun, _ = hold(SimulatedUser(first_turn="agent", max_turns=1), greeting=(told,))
    resumed, _ = hold(SimulatedUser(opener="hi", max_turns=1), greeting=(earlier,))

    assert (ended_by(begun), said(begun)) == ("max-turns", [])
    assert said(resumed) == ["hi"]


def test_the_simulator_does_not_see_what_the_agent_thinks_between_marks() -> None:
    greeting = (Message(role="assistant", content="<think>They are late.</think>How can I help?"),)
    _, simulator = hold(SimulatedUser(first_turn="agent", max_turns=2), '{"message": "hello"}', greeting=greeting)

    assert simulator.received[0][1] == Message(role="user", content="How can I help?")


def test_the_simulator_sees_persona_context_and_words_with_roles_exchanged() -> None:
    user = SimulatedUser(persona=PERSONA, context={"stop": "Elm Street"}, opener="hi", max_turns=2)
    _, simulator = hold(user, '{"message": "where?"}')

    system, *words = simulator.received[0]
    assert all(text in system.text for text in ("Type: commuter", "Late for work.", '"stop": "Elm Street"'))
    assert [(message.role, message.text) for message in words] == [
        ("user", "The conversation begins. You speak first."),
        ("assistant", '{"message": "hi", "end": false}'),
        ("user", "answer 1"),
    ]


def test_a_prompt_of_the_users_own_takes_the_place_of_the_built_in_one() -> None:
    user = SimulatedUser(
        persona="A pirate.", context={"ship": 1}, prompt="Play {{persona}} with {{ context }}", max_turns=1
    )
    _, simulator = hold(user, "Arr")

    assert simulator.received[0][0].text == 'Play A pirate. with {\n  "ship": 1\n}'


def test_a_prompt_of_the_users_own_has_words_for_a_user_who_knows_nothing() -> None:
    _, simulator = hold(SimulatedUser(prompt="You know: {{ context }}", max_turns=1), "Arr")

    assert simulator.received[0][0].text == "You know: Nothing in particular."


def test_an_unusable_line_is_asked_anew_and_stays_on_record() -> None:
    raw, _ = hold(SimulatedUser(max_turns=1), "", "<think>hm</think> hi", '{"message": "hi"}')

    assert said(raw) == ["hi"]
    assert isinstance(raw, RawExecution)
    assert raw.payload["turns"][0]["speech"] == {
        "simulator": "sim",
        "discarded": [
            {"text": "", "fault": "it is empty"},
            {"text": "<think>hm</think> hi", "fault": "it has reasoning in it"},
        ],
    }


def test_what_one_of_several_replies_used_unknown_makes_their_sum_unknown() -> None:
    facts: Iterator[dict[str, Any]] = iter(
        [{"usage": {"input_tokens": 7}, "duration_ms": None}, {"usage": {"cost_usd": 1.0}, "duration_ms": 5}]
    )

    async def ask(request: SimulatorRequest) -> SimulatorReply:
        return SimulatorReply(text="" if not request.attempt else "Hello.", facts=next(facts))

    speech = asyncio.run(SimulatedSpeaker(SimulatedUser(persona="p"), ask).next(()))

    assert isinstance(speech, Speech)
    assert speech.made_by is not None
    assert speech.made_by["usage"] == {"input_tokens": None, "cost_usd": None}
    assert speech.made_by["duration_ms"] is None


def test_a_simulator_that_says_nothing_usable_three_times_is_a_fault_of_its_own() -> None:
    failure, simulator = hold(SimulatedUser(opener="where is it?"), "Where is it?", "Agent: hello", "{}")

    assert isinstance(failure, TargetFailure)
    assert failure.failure.id == "simulator-fault"
    assert failure.failure.origin == "simulator"
    assert not failure.failure.graded
    assert said(failure) == ["where is it?"]
    assert len(simulator.received) == 3


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        ('{"message": " hi ", "end": true}', Line("hi", ends=True)),
        ('```json\n{"message": "hi", "end": false}\n```', Line("hi")),
        ("plain words", Line("plain words")),
        ('{"message": "hi", "end": "yes"}', Line("hi")),
        ("Done. Goodbye!", Line("Done. Goodbye!")),
        ('{"message": 3}', Line('{"message": 3}')),
    ],
)
def test_a_reply_is_read_as_an_object_or_as_the_words_themselves(reply: str, line: Line) -> None:
    assert read_line(reply) == line


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("Where is it?", True),
        ("The agent: she said 8 o'clock", True),
        ("", False),
        ("User: where is it?", False),
        ("My login is\nUser: bob", True),
        ("Yes, please.", True),
        ("Where?\nAssistant: here", False),
        ("[Agent]: here", False),
        ("<|im_start|>", False),
        ("WHERE  is my bus?", False),
    ],
)
def test_which_lines_are_faults(text: str, usable: bool) -> None:
    assert (fault_of(Line(text), ["Where is my bus?", "Yes, please."]) is None) is usable


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("[" * 200_000, "200,000 characters"),
        ("a" + "\n" * 200_000 + "b", "200,002 characters"),
        ("```" + "\n" * 200_000 + "x", "200,004 characters"),
        ("```\n" + ("```" + " " * 300) * 3_000 + "x", "characters"),
        (json.dumps({"message": "word " * 200_000}), "999,999 characters"),
    ],
)
def test_a_hostile_reply_is_a_fault_within_a_second(reply: str, fault: str) -> None:
    begun = time.process_time()

    failure, _ = hold(SimulatedUser(opener="hi"), reply, reply, reply)

    assert isinstance(failure, TargetFailure)
    assert failure.failure.id == "simulator-fault"
    assert fault in str(failure)
    assert time.process_time() - begun < 1


@pytest.mark.parametrize("reply", ["a" + "\n" * 15_000 + "b", " " * 9_000 + "\n" * 9_000 + "bot"])
def test_a_line_of_empty_lines_is_searched_once(reply: str) -> None:
    begun = time.process_time()

    fault_of(Line(reply), [])

    assert time.process_time() - begun < 0.2


def test_a_reply_nested_too_deeply_is_words() -> None:
    assert read_line("[" * 10_000) == Line("[" * 10_000)


def test_a_conversation_that_nobody_ends_has_an_end() -> None:
    raw, _ = hold(SimulatedUser(), *(f"and {number}?" for number in range(MOST_TURNS + 1)))

    assert len(said(raw)) == MOST_TURNS
    assert isinstance(raw, RawExecution)
    assert raw.payload["ended_by"] == "max-turns"
