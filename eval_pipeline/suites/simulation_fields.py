"""The simulated user and the canned answers of a case in a suite file: their fields, and their readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.file_search import NotFound, search_roots
from eval_pipeline.parsing.tables import (
    ANY,
    COUNT,
    MAPPING,
    POSITIVE,
    TEXTS,
    WEIGHT,
    WORDS,
    Field,
    FieldTable,
    mapping_of,
    one_of,
)
from eval_pipeline.suites.model import Message
from eval_pipeline.suites.simulation import ConversationLimits, SimulatedUser, ToolMock

FILE_PREFIX = "file://"
DIFFICULTIES = ("normal", "hard")
DEFAULT_DIFFICULTY = "normal"
STATUSES = ("draft", "active", "archived")
WEIGHTS = FieldTable(
    "weights",
    (
        Field("normal", POSITIVE, "The weight of normal cases, and of those without a difficulty.", 1),
        Field("hard", POSITIVE, "The weight of hard cases.", 1),
    ),
    "How much a case counts in rates, means and their intervals, by its difficulty.",
)

LIMITS = FieldTable(
    "limits",
    (
        Field("turns", COUNT, "The most turns."),
        Field("seconds", POSITIVE, "The most seconds that agent and simulator take in all turns."),
        Field("tokens", COUNT, "The most tokens of agent and simulator, as far as they report them."),
        Field("usd", POSITIVE, "The most USD of agent and simulator, as far as they are known."),
    ),
    "Limits of a conversation; one that reaches them has no end, which is a failure of the limit's own class.",
)
USER = FieldTable(
    "user",
    (
        Field("persona", ANY, "Who the user is: a text, or a mapping such as `type`, `description`, `instructions`."),
        Field("context", MAPPING, "What the user knows."),
        Field("first_turn", one_of("user", "agent"), "Who speaks first.", "user"),
        Field("opener", WORDS, "The first words of the side that speaks first; without them it words them itself."),
        Field("script", TEXTS, "What the user says after the opener, word for word, in place of a simulator."),
        Field(
            "max_turns",
            COUNT,
            "The most rounds of the agent; without it either side ends the conversation, within 100 rounds.",
        ),
        Field("simulator", WORDS, "The runner that plays the user."),
        Field(
            "prompt",
            WORDS,
            "The simulator's instructions with `{{ persona }}` and `{{ context }}`: a text, or `file://` and a path.",
        ),
        Field("reviewer", WORDS, "The runner that reviews each line of the simulator for facts that are made up."),
        Field("temperature", WEIGHT, "The sampling temperature of the simulator."),
        Field("model", WORDS, "The model that the simulator's runner is asked for, in place of its own."),
        Field("limits", mapping_of(LIMITS), "What the conversation may use before it is a failure without an end."),
    ),
    "A user whom a simulator plays, turn by turn, against the agent under test.",
)
MOCK = FieldTable(
    "mock",
    (
        Field("tool", WORDS, "The name of the tool.", required=True),
        Field("response", MAPPING, "What the tool answers.", required=True),
        Field("params", MAPPING, "Arguments that the call must have (default: any)."),
        Field("match", one_of("values", "keys"), "Whether their values are compared, or their names only.", "values"),
        Field("state", MAPPING, "What the call changes in the state, merged into it; null removes an entry."),
    ),
    "One canned answer of a tool; the answers of one tool are given in order, each once.",
)


def read_weights(raw: Map, cursor: FieldCursor) -> dict[str, float]:
    """Return how much cases of each difficulty count, as the field `weights` has it; empty: all the same. Raises
    InputError."""
    weights, at = fields.mapping(raw, "weights", cursor), cursor.at("weights")
    for name in weights:
        if name not in WEIGHTS:
            hint = did_you_mean(str(name), DIFFICULTIES)
            raise at.error(f"unknown difficulty; there are: {', '.join(DIFFICULTIES)}{hint}", name)
    return {name: value for name, value in WEIGHTS.read_values(weights, at).items() if value is not None}


def read_user(raw: Any, cursor: FieldCursor) -> SimulatedUser | None:
    """Return the simulated user in a mapping; None where there is none. Raises InputError with every wrong field."""
    if raw is None:
        return None
    values = read_table(raw, USER, cursor)
    persona = values["persona"]
    if persona is not None and not isinstance(persona, (str, Mapping)):
        raise cursor.error(f"expected a text or a mapping, got {kind(persona)}", "persona")
    return SimulatedUser(
        persona=persona,
        context=values["context"] or None,
        first_turn=values["first_turn"] or "user",
        opener=values["opener"],
        script=values["script"],
        max_turns=values["max_turns"],
        simulator=values["simulator"],
        prompt=_prompt(values["prompt"], cursor),
        reviewer=values["reviewer"],
        temperature=values["temperature"] if "temperature" in raw else None,
        model=values["model"],
        limits=_limits(raw.get("limits"), cursor.at("limits")),
    )


def greeting(raw: Any) -> tuple[Message, ...]:
    """Return the first words of an agent that begins, as the user of a case has them; it is not called for them."""
    opener = raw.get("opener") if isinstance(raw, Mapping) and raw.get("first_turn") == "agent" else None
    return (Message(role="assistant", content=opener),) if isinstance(opener, str) else ()


def _prompt(given: str | None, cursor: FieldCursor) -> str | None:
    """Return the instructions of a simulator; `file://` names a file beside the suite, or above."""
    if given is None or not given.startswith(FILE_PREFIX):
        return given
    try:
        return search_roots(cursor.source.path.parent).file(given.removeprefix(FILE_PREFIX)).read_text("utf-8")
    except (NotFound, OSError, UnicodeDecodeError) as error:
        raise cursor.error(f"cannot be read: {error}", "prompt") from None


def _limits(raw: Any, cursor: FieldCursor) -> ConversationLimits | None:
    return ConversationLimits(**read_table(raw, LIMITS, cursor)) if raw else None


def read_mocks(raw: Any, cursor: FieldCursor) -> tuple[ToolMock, ...]:
    """Return the canned answers in a list. Raises InputError."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise cursor.error(f"expected a list of mocks, got {kind(raw)}")
    return tuple(_mock(item, cursor.at(index)) for index, item in enumerate(raw))


def _mock(raw: Any, cursor: FieldCursor) -> ToolMock:
    values = read_table(raw, MOCK, cursor)
    params = values["params"] if raw.get("params") is not None else None
    return ToolMock(
        tool=values["tool"],
        response=values["response"],
        params=params,
        match=values["match"] or "values",
        state=values["state"] if raw.get("state") is not None else None,
    )


def read_table(raw: Any, table: FieldTable, cursor: FieldCursor) -> dict[str, Any]:
    """Return the values of a table's fields. Raises InputError for a wrong, an unknown or a missing field."""
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a mapping, got {kind(raw)}")
    errors = [_unknown(key, table, cursor) for key in raw if key not in table.names]
    try:
        values = table.read_values(raw, cursor)
    except InputError as error:
        errors.append(error)
    if errors:
        raise first_of_each(errors)
    return values


def _unknown(key: Any, table: FieldTable, cursor: FieldCursor) -> InputError:
    return cursor.error(f"unknown {table.title} field{did_you_mean(str(key), table.names)}", str(key))


def read_state(raw: Any, cursor: FieldCursor) -> Mapping[str, Any] | None:
    """Return the state that the tools of a case begin with. Raises InputError."""
    if raw is not None and not isinstance(raw, Mapping):
        raise cursor.error(f"expected a mapping, got {kind(raw)}")
    return raw


def read_difficulty(raw: Map, cursor: FieldCursor) -> str | None:
    """Return how hard a case is. Raises InputError."""
    return fields.choice(raw, "difficulty", cursor, DIFFICULTIES)


def read_status(raw: Map, cursor: FieldCursor) -> str:
    """Return where a case is in its life. Raises InputError."""
    return fields.choice(raw, "status", cursor, STATUSES) or "active"
