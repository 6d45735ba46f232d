"""The fields of Connexity's test cases, in the three generations of the format.

Source: the test case schema page (generation 1); later generations renamed and split some of its fields.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from eval_pipeline.parsing import fields as readers
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.tables import (
    ANY,
    COUNT,
    LIST,
    MAPPING,
    TEXT,
    WHOLE,
    Field,
    FieldTable,
    Kind,
    list_of,
    mapping_of,
    one_of,
)

MOST_NAME_CHARACTERS = 255
DIFFICULTIES = ("normal", "hard")
STATUSES = ("draft", "active", "archived")
FIRST_TURNS = ("user", "agent")


def _name(raw: Map, key: str, cursor: FieldCursor) -> str | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise cursor.error(f"expected a text, got {kind(value)}", key)
    if value is not None and len(value) > MOST_NAME_CHARACTERS:
        raise cursor.error(
            f"expected at most {MOST_NAME_CHARACTERS} characters, got {len(value)}; shorten it and put the rest into "
            "'description'",
            key,
        )
    return value


def _texts(raw: Map, key: str, cursor: FieldCursor) -> tuple[str, ...] | None:
    if key not in raw:
        return None
    value = raw[key]
    if not isinstance(value, list):
        raise cursor.error(f"expected a list of texts, got {kind(value)}", key)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise cursor.error(f"expected a text, got {kind(item)}", key, index)
    return tuple(value)


def _mapping(raw: Map, key: str, cursor: FieldCursor) -> Map | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, dict):
        raise cursor.error(f"expected an object, got {kind(value)}", key)
    return value


def _one_of(*words: str) -> Kind:
    """One of some words, and not null."""

    def read(raw: Map, key: str, cursor: FieldCursor) -> str | None:
        if key in raw and raw[key] is None:
            raise cursor.error(f"expected one of {', '.join(words)}; got nothing; leave it out for its default", key)
        return readers.choice(raw, key, cursor, words)

    return replace(one_of(*words), read=read)


def _between(least: float, most: float) -> Kind:
    def read(raw: Map, key: str, cursor: FieldCursor) -> float | None:
        value = readers.number(raw, key, cursor)
        if value is not None and not least <= value <= most:
            raise cursor.error(f"expected a number from {least:g} to {most:g}, got {value:g}", key)
        return value

    schema = {"type": "number", "minimum": least, "maximum": most}
    return Kind(f"a number from {least:g} to {most:g}", schema, read)


def _list(raw: Map, key: str, cursor: FieldCursor) -> list[Any] | None:
    value = raw.get(key)
    if value is not None and not isinstance(value, list):
        raise cursor.error(f"expected a list, got {kind(value)}", key)
    return value


NAME = Kind("a text of at most 255 characters", {"type": "string", "maxLength": MOST_NAME_CHARACTERS}, _name)
TEXTS = Kind("a list of texts", {"type": "array", "items": {"type": "string"}}, _texts)
OBJECT = Kind("an object", {"type": ["object", "null"]}, _mapping)

PERSONA = FieldTable(
    "persona",
    (
        Field("type", TEXT, "A short label of the user's kind.", required=True),
        Field("description", TEXT, "Who the user is.", required=True),
        Field("instructions", TEXT, "How the user behaves.", required=True),
    ),
    "Who the simulated user is.",
)
MOCK_RESPONSE = FieldTable(
    "mock response",
    (
        Field("expected_params", OBJECT, "The arguments that a call must have for this answer (null: any)."),
        Field("response", OBJECT, "What the tool answers.", required=True),
    ),
    "One canned answer of a tool.",
)
_CALL = (
    Field("tool", TEXT, "The name of the tool that the agent is expected to call.", required=True),
    Field("expected_params", OBJECT, "The arguments that the call is expected to have (null: any)."),
)
CALL_WITH_ANSWERS = FieldTable(
    "expected tool call",
    (*_CALL, Field("mock_responses", list_of(MOCK_RESPONSE), "Canned answers of the tool, in order.")),
)
CALL_WITH_ANSWER = FieldTable(
    "expected tool call",
    (*_CALL, Field("mock_response", OBJECT, "The canned answer of the tool to this call.")),
)
ANY_CALL = CALL_WITH_ANSWERS.joined(CALL_WITH_ANSWER.without("tool", "expected_params"))

_SHARED = (
    Field("name", NAME, "A short name for people.", required=True),
    Field("description", TEXT, "What the case exercises."),
    Field("difficulty", _one_of(*DIFFICULTIES), "How hard the case is.", "normal"),
    Field("tags", TEXTS, "Labels to filter and group by."),
    Field("status", _one_of(*STATUSES), "Only active cases are carried out by default.", "active"),
    Field("user_context", OBJECT, "What the user knows."),
    Field("expected_tool_calls", list_of(ANY_CALL), "The calls that the agent is expected to make ([]: none)."),
    Field("evaluation_criteria_override", TEXT, "The criteria of the judge, in place of its own."),
    Field("id", TEXT, "The identity of the case in its store."),
    Field("agent_id", TEXT, "The agent that the case was written for."),
    Field("created_at", TEXT, "When the case was created."),
    Field("updated_at", TEXT, "When the case was changed last."),
)
CASE_OF_PAGE = FieldTable(
    "test case",
    (
        *_SHARED,
        Field("persona", mapping_of(PERSONA), "Who the simulated user is."),
        Field("initial_message", TEXT, "What the user says first."),
        Field("max_turns", COUNT, "The most rounds of the agent (null: until either side ends it, at most 100)."),
        Field("expected_outcomes", MAPPING, "What the conversation is to achieve: labels and their expected values."),
    ),
    "A test case as the page describes it.",
)
_LATER = (
    *_SHARED,
    Field("persona_context", TEXT, "Who the simulated user is, as one text."),
    Field("first_turn", _one_of(*FIRST_TURNS), "Who speaks first.", "user"),
    Field("first_message", TEXT, "The first words of the side that speaks first."),
    Field("expected_outcomes", LIST, "What the conversation is to achieve, one statement each."),
    Field("source_call_id", TEXT, "The observed call that the case was made from."),
)
CASE_WITH_ANSWERS = FieldTable("test case", _LATER, "A test case after personas became one text.")
CASE_WITH_ANSWER = FieldTable(
    "test case",
    (
        *_LATER,
        Field("deleted_at", TEXT, "When the case was deleted; it counts as archived."),
        Field("company_id", TEXT, "The owner of the case."),
    ),
    "A test case after each canned answer became a call of its own.",
)
EXPORT = FieldTable(
    "export",
    (
        Field("test_cases", LIST, "The test cases.", required=True),
        Field("exported_at", TEXT, "When they were exported."),
        Field("count", ANY, "How many there are."),
    ),
    "Exported test cases.",
)

ENTRIES = Kind("a list", {"type": "array"}, _list)
MEMBER = FieldTable(
    "member",
    (
        Field("test_case_id", TEXT, "The id of the case, or its name as a word where it has none.", required=True),
        Field("position", WHOLE, "Its place in the order of the set."),
        Field("repetitions", COUNT, "How often it is repeated.", 1),
    ),
    "A case of a set.",
)
JUDGE_CONFIG = FieldTable(
    "judge configuration",
    (
        Field("metrics", ENTRIES, "The metrics of the judge, each with a weight."),
        Field("pass_threshold", _between(0, 100), "The least score that passes.", 75),
        Field("model", TEXT, "The model that judges, of the runner that does."),
        Field("provider", ANY, "Recorded only."),
    ),
)
USER_SIMULATOR = FieldTable(
    "user simulator",
    (
        Field("mode", one_of("llm", "scripted"), "Whether a model plays the user, or a script.", "llm"),
        Field("scripted_messages", TEXTS, "The lines of the script."),
        Field("temperature", _between(0, 2), "The sampling temperature of the model."),
        Field("model", TEXT, "The model that plays the user, of the runner that does."),
        Field("provider", ANY, "Recorded only."),
    ),
)
AGENT_SIMULATOR = FieldTable(
    "agent simulator",
    (
        Field("model", TEXT, "The model, in place of the runner's."),
        Field("temperature", _between(0, 2), "Its sampling temperature."),
        Field("max_tokens", COUNT, "The most tokens of an answer."),
        Field("provider", ANY, "Recorded only: the wire of the runner is its provider."),
    ),
    "Settings of an agent that is a model.",
)
RUNTIME = FieldTable(
    "runtime",
    (
        Field("kind", one_of("connexity", "custom_endpoint", "retell"), "What holds the conversation.", required=True),
        Field("url", TEXT, "The address of an agent of its own."),
    ),
    "What holds the conversation; here the runner of the run does.",
)
RUN_CONFIG = FieldTable(
    "run configuration",
    (
        Field("concurrency", COUNT, "Conversations at the same time."),
        Field("timeout_per_test_case_ms", COUNT, "The most time of the agent for one answer."),
        Field("max_turns", COUNT, "The most rounds of the agent, where the case sets none."),
        Field("judge", OBJECT, "How conversations are judged."),
        Field("user_simulator", OBJECT, "Who plays the users."),
        Field("agent_simulator", OBJECT, "Settings of an agent that is a model, in place of its runner's."),
        Field("tool_mode", one_of("mock", "live", "synthetic"), "What answers the calls of such an agent."),
        Field("cases_pass_threshold", _between(0, 100), "The least percentage of passing cases; below it a run fails."),
        Field("metrics_pass_threshold", _between(0, 100), "The least mean score out of 100; below it a run fails."),
        Field("mode", TEXT, "`text`; others are recorded only."),
        Field("runtime", OBJECT, "What holds the conversation; other than `connexity` it is recorded only."),
    ),
)  # fmt: skip
SET = FieldTable(
    "set",
    (
        *EXPORT.fields,
        Field("id", TEXT, "The identity of the set in its store."),
        Field("agent_id", TEXT, "The agent that the set was made for."),
        Field("name", NAME, "The name of the suite."),
        Field("description", TEXT, "What the set is for."),
        Field("version", COUNT, "The version of the set in its store; recorded only."),
        Field("members", ENTRIES, "The cases of the set, with their repetitions (null: all, once each)."),
        Field("set_repetitions", COUNT, "How often the whole set is repeated.", 1),
        Field("config", OBJECT, "The configuration of its runs."),
        Field("weights", OBJECT, 'How much cases count in rates and means, by difficulty: `{"hard": 2}`.'),
        Field("deleted_at", TEXT, "When the set was deleted; its cases count as archived."),
        Field("created_at", TEXT, "When the set was created."),
        Field("updated_at", TEXT, "When the set was changed last."),
    ),
    "A set of test cases.",
)
