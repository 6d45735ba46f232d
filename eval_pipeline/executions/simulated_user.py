"""A user whom a simulator plays: what the simulator receives, how its reply is read, and which replies are faults.

The simulator sees the persona, what the user knows, and what was said. It never sees what the case expects: it could
lead the agent there. It replies with one JSON object, so that the end of a conversation is a field and no magic word.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eval_pipeline.executions.conversations import SCRIPT, End, Speech, SpeechFailure
from eval_pipeline.executions.exchanges import Exchange, known_sum, latest_state
from eval_pipeline.executions.model import TargetFailure
from eval_pipeline.failures import SIMULATOR_FAULT
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.reading import mapping
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import SimulatedUser

PROMPT_VERSION = "1"
MAX_TURNS, USER = "max-turns", "user"
MOST_TRIES = 3
MOST_TURNS = 100
"""The most rounds of a conversation whose user has no `max_turns`: two models can be polite to each other for ever."""
MOST_CHARACTERS = 20_000
"""The longest line of a user."""
MOST_REPEATED_WORDS = 2
"""A line of so few words ("Yes, please.") may be said again."""
MOST_SAME = 2
"""How often such a line may be said in a row."""
ANYONE = "An ordinary person with an everyday request, neither helpful nor difficult."
NOTHING_KNOWN = "Nothing in particular."
INSTRUCTIONS = """\
You play a person who talks to an assistant. You are that person, never the assistant.

Who you are:
{persona}

What you know, and may mention when it comes up:
{context}

How to speak:
- Write only what this person says next, in their own words: usually one or two short sentences.
- Do not tell everything you know at once. Answer what you are asked; leave out what the person would not know.
- Be as imperfect as people are: vague, impatient or mistaken where that fits the person.
- Never speak for the assistant, never write a name before your words, never explain your thoughts.

Reply with one JSON object and nothing else: {{"message": "what you say", "end": false}}
Set "end" to true when the person has what they came for, or gives up. The message is still delivered and answered.
"""
BEGIN = "The conversation begins. You speak first."
_FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(?P<inner>.*)```", re.DOTALL)
_REASONING = re.compile(r"</?(?:think|thinking|reasoning|scratchpad)\b|<\|", re.IGNORECASE)
_THOUGHT = re.compile(r"<(?P<mark>think|thinking)>.*?(?:</(?P=mark)>|\Z)", re.DOTALL)
_ROLE = re.compile(
    r"\A[^\S\n]*[\[*(]*(?:user|customer|human)[\])*]*[^\S\n]*:"
    r"|^[^\S\n]*[\[*(]*(?:assistant|agent|bot|ai|system)[\])*]*[^\S\n]*:",
    re.IGNORECASE | re.M,
)  # no `\s*`: it crosses lines, and would search a reply of empty lines for minutes
_PLACEHOLDER = re.compile(r"\{\{[^\S\n]*(?P<name>persona|context)[^\S\n]*\}\}")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorReply:
    """A simulator's reply. `facts` (its name, model, usage, duration) are stored with the turn."""

    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatorRequest:
    """What a simulator is sent for a turn (from 1): its messages, and the state that its tools may change. `attempt` is
    the number of tries before this one."""

    messages: Sequence[Message]
    turn: int
    attempt: int = 0
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What a reviewer found in a line: a fault, or None; `facts` are stored with the turn."""

    fault: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)


Ask = Callable[[SimulatorRequest], Awaitable[SimulatorReply]]
"""Sends a request to the simulator. Raises TargetFailure; a SpeechFailure where something is known of the simulator."""


@dataclass(frozen=True, slots=True)
class Line:
    """What a simulated user says, and whether they end the conversation with it."""

    text: str
    ends: bool = False


def instructions(user: SimulatedUser) -> str:
    """Return the instructions of the simulator: the user's own prompt or the built-in one, filled in."""
    persona, context = _persona(user.persona), NOTHING_KNOWN
    if user.context is not None:
        context = json.dumps(user.context, indent=2, ensure_ascii=False)
    if user.prompt is not None:
        filled = {"persona": persona, "context": context}
        return _PLACEHOLDER.sub(lambda match: filled[match["name"]], user.prompt)
    return INSTRUCTIONS.format(persona=persona, context=context)


def _persona(persona: Mapping[str, Any] | str | None) -> str:
    if persona is None:
        return ANYONE
    if isinstance(persona, str):
        return persona
    return "\n".join(f"{name.replace('_', ' ').capitalize()}: {value}" for name, value in persona.items())


def request(user: SimulatedUser, opening: Sequence[Message], so_far: Sequence[Exchange]) -> list[Message]:
    """Return the simulator's messages: its instructions, then what was said with the roles exchanged.

    `opening` are the messages before the first turn. Of the agent only its words are shown, and no tool call.
    """
    said = [*opening, *_words(so_far)]
    turns = [Message(role=_OTHER_ROLE[each.role], content=_shown(each)) for each in said if each.role in _OTHER_ROLE]
    if not turns or turns[0].role != "user":
        turns.insert(0, Message(role="user", content=BEGIN))
    return [Message(role="system", content=instructions(user)), *(turn for turn in turns if turn.text.strip())]


_OTHER_ROLE = {"user": "assistant", "assistant": "user"}


def _words(so_far: Sequence[Exchange]) -> Iterator[Message]:
    for exchange in so_far:
        yield from exchange.messages
        yield from (message for message in exchange.replies if message.text)


def _shown(message: Message) -> str:
    """Return what was said: the user's own words in the form that the simulator writes, the agent's without reasoning
    that a model writes between marks."""
    if message.role == "user":
        return f'{{"message": {to_json(message.text).decode()}, "end": false}}'
    return _THOUGHT.sub("", message.text).strip() if "<think" in message.text else message.text


def read_line(reply: str) -> Line:
    """Return the user's line in a reply. A reply that is no such object is taken as the words themselves."""
    value = json_object(reply)
    if value is not None and isinstance(value.get("message"), str):
        return Line(value["message"].strip(), ends=value.get("end") is True)
    return Line(_without_fence(reply))


def json_object(reply: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a reply is, fenced or not; None for any other reply."""
    try:
        value = json.loads(_without_fence(reply))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, Mapping) else None


def _without_fence(reply: str) -> str:
    fenced = _FENCE.fullmatch(reply.strip())
    return (fenced["inner"] if fenced else reply).strip()


def fault_of(line: Line, earlier: Sequence[str]) -> str | None:
    """Return what is wrong with a line, None for a usable one. `earlier` are the user's lines before it."""
    if not line.text:
        return "it is empty"
    if len(line.text) > MOST_CHARACTERS:
        return f"it has {len(line.text):,} characters, more than {MOST_CHARACTERS:,}"
    if _REASONING.search(line.text):
        return "it has reasoning in it"
    if _ROLE.search(line.text):
        return "it has a name before the words, or speaks for the assistant"
    if line.text.startswith("{"):
        return "it is no JSON object with a message"
    plain, said = _plain(line.text), [_plain(text) for text in earlier]
    if len(plain.split()) > MOST_REPEATED_WORDS and plain in said:
        return "the user said the same before"
    if said[-MOST_SAME:] == [plain] * MOST_SAME:
        return f"the user said the same {MOST_SAME} times in a row"
    return None


def _plain(text: str) -> str:
    return _SPACE.sub(" ", text).strip().casefold()


@dataclass(slots=True)
class SimulatedSpeaker:
    """The simulated user of one conversation: opener and script as written, everything else from the simulator.

    `greeting` are the messages before the first turn; where the agent begins, its words in them are its first round.
    """

    user: SimulatedUser
    ask: Ask
    greeting: Sequence[Message] = ()
    state: Mapping[str, Any] | None = None
    review: Callable[[SimulatorRequest, Line], Awaitable[Review]] | None = None

    async def next(self, so_far: Sequence[Exchange]) -> Speech | End:
        """See Speaker."""
        if so_far and so_far[-1].ends:
            return End(USER)
        if len(so_far) + self._greets >= self._most_turns:
            return End(MAX_TURNS)
        begins = self.user.first_turn == "agent" and not self._greets
        if begins and not so_far:
            return Speech(())
        written = self._written()
        number = len(so_far) - begins
        if number < len(written):
            return Speech((Message(role="user", content=written[number]),))
        if self.user.script:
            return End(SCRIPT)
        return await self._simulated(so_far)

    @property
    def _greets(self) -> bool:
        """Return whether the agent begins with words that are written."""
        return self.user.first_turn == "agent" and any(each.role == "assistant" for each in self.greeting)

    @property
    def _most_turns(self) -> float:
        """Return how many rounds there are at most; a script without `max_turns` ends by itself."""
        if self.user.max_turns is not None:
            return self.user.max_turns
        return math.inf if self.user.script else MOST_TURNS

    def _written(self) -> tuple[str, ...]:
        """Return the lines that are said as written, in order."""
        opener = self.user.opener if self.user.first_turn == "user" else None
        return (*((opener,) if opener is not None else ()), *self.user.script)

    async def _simulated(self, so_far: Sequence[Exchange]) -> Speech:
        """Return the simulator's next line. A fault is asked anew twice; then it ends the conversation."""
        messages, state = request(self.user, self.greeting, so_far), latest_state(so_far, self.state)
        earlier = [message.text for exchange in so_far for message in exchange.messages]
        replies: list[Mapping[str, Any]] = []
        discarded: list[dict[str, str]] = []
        for attempt in range(MOST_TRIES):
            asked = SimulatorRequest(messages=messages, turn=len(so_far) + 1, attempt=attempt, state=state)
            reply = await self._reply(asked, replies, discarded)
            replies.append(reply.facts)
            line = read_line(reply.text)
            fault = fault_of(line, earlier) or await self._reviewed(asked, line, replies)
            if fault is None:
                said = Message(role="user", content=line.text)
                return Speech((said,), _together(replies, discarded), line.ends)
            discarded.append({"text": reply.text[:MOST_CHARACTERS], "fault": fault})
        problem = f"the simulated user's line cannot be used after {MOST_TRIES} tries: {discarded[-1]['fault']}"
        raise _no_speech(TargetFailure(SIMULATOR_FAULT, problem), replies, discarded)

    async def _reviewed(self, asked: SimulatorRequest, line: Line, replies: list[Mapping[str, Any]]) -> str | None:
        """Return the fault that a reviewer finds in a line; None without one, and where none is named."""
        if self.review is None:
            return None
        review = await self.review(asked, line)
        replies[-1] = {**replies[-1], "review": review.facts}
        return review.fault

    async def _reply(
        self,
        asked: SimulatorRequest,
        replies: Sequence[Mapping[str, Any]],
        discarded: Sequence[Mapping[str, str]],
    ) -> SimulatorReply:
        """Return a reply of the simulator. A failure keeps the replies before it."""
        try:
            return await self.ask(asked)
        except TargetFailure as failure:
            known = failure.speech if isinstance(failure, SpeechFailure) else None
            raise _no_speech(failure, replies, discarded, known) from failure.__cause__


def _together(replies: Sequence[Mapping[str, Any]], discarded: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Return the facts of a line: what the simulator used, and its reviewer, is the sum over all replies."""
    facts = _summed(replies)
    reviews = [reply["review"] for reply in replies if "review" in reply]
    return {
        **facts,
        **({"review": _summed(reviews)} if reviews else {}),
        **({"discarded": list(discarded)} if discarded else {}),
    }


def _summed(replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts of the last reply with tokens, money and time of all; unknown where those of one are."""
    if len(replies) <= 1:
        return dict(replies[0]) if replies else {}
    usages = [mapping(facts.get("usage")) for facts in replies]
    names = dict.fromkeys(name for usage in usages for name in usage if name in _ADDED)
    summed = {name: known_sum([usage.get(name) for usage in usages]) for name in names}
    times = [facts.get("duration_ms") for facts in replies]
    total = {"usage": {**usages[-1], **summed}, "duration_ms": known_sum(times)}
    return {**replies[-1], **{name: total[name] for name in total if any(name in facts for facts in replies)}}


_ADDED = (
    "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens", "cost_usd",
)  # fmt: skip


def _no_speech(
    failure: TargetFailure,
    replies: Sequence[Mapping[str, Any]],
    discarded: Sequence[Mapping[str, str]],
    known: Mapping[str, Any] | None = None,
) -> SpeechFailure:
    """Return a failure that keeps what the simulator said instead of a line, and what it used. `known` are facts of a
    try without a reply."""
    return SpeechFailure(failure, {**(known or {}), **_together(replies, discarded), "fault": str(failure)})
