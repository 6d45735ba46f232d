"""The simulated user of a conversation, and canned answers of tools. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLimits:
    """What a conversation may use before it is a failure without an end; None is no limit."""

    turns: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedUser:
    """The user of a conversation, played by a simulator or by a script.

    `persona` describes the user: a text, or an object with `type`, `description` and `instructions`; None is any user.
    `context` holds what the user knows. `first_turn` is the side that speaks first; `opener` holds its first words
    (None: that side words them). The lines of `script` are said in order, in place of a simulator. `max_turns` limits
    the agent's rounds; None ends the conversation by a signal of either side, after 100 rounds at the latest.
    `simulator` is the name of the runner that plays the user (None: the choice of the suite, the runner or the run),
    `prompt` the text of its instructions (None: the built-in ones), `temperature` its sampling temperature, `model` the
    model that it is asked for (None: its runner's).
    `limits` are what the conversation may use at most: a failure when it reaches one, where `max_turns` is an end.
    `reviewer` is the name of a runner that reviews each line of the simulator (None: only code does).
    """

    persona: Mapping[str, Any] | str | None = None
    context: Mapping[str, Any] | None = None
    first_turn: Literal["user", "agent"] = "user"
    opener: str | None = None
    script: tuple[str, ...] = ()
    max_turns: int | None = None
    simulator: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    model: str | None = None
    limits: ConversationLimits | None = None
    reviewer: str | None = None

    def fingerprint_fields(self) -> dict[str, Any]:
        """The fields that are set, for fingerprints: a field added later changes no key."""
        defaults = SimulatedUser()
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) != getattr(defaults, name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolMock:
    """One canned answer of a tool.

    `params` are the arguments that a call must have for this answer, a subset of them (None: any); `match` compares
    their values, or their names only. Answers of one tool are given in order, each once. `state` is what the call
    changes in the state of the case.
    """

    tool: str
    response: Mapping[str, Any]
    params: Mapping[str, Any] | None = None
    match: Literal["values", "keys"] = "values"
    state: Mapping[str, Any] | None = None

    def fingerprint_fields(self) -> dict[str, Any]:
        """The fields for fingerprints; `state` only where it is set: it was added later and changes no key."""
        fields = {"tool": self.tool, "response": self.response, "params": self.params, "match": self.match}
        return fields if self.state is None else {**fields, "state": self.state}
