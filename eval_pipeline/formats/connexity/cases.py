"""A test case of Connexity → Case: the simulated user, canned answers of tools, and what the judge is to find.

The meaning is that of the test case schema page. Fields that only people read become metadata of the case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from eval_pipeline.errors import did_you_mean
from eval_pipeline.formats.connexity.fields import ANY_CALL, MOCK_RESPONSE, PERSONA
from eval_pipeline.formats.connexity.generations import EVERY_FIELD, Generation, generation_of
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.parsing.interpolation import names_in
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message
from eval_pipeline.suites.simulation import SimulatedUser, ToolMock

JUDGE = "judge"
EXPECTED_CALLS = "expected-calls"
_ABOUT = ("name", "description", "id", "agent_id", "created_at", "updated_at", "source_call_id", "company_id")
_NOT_IN_IDS = re.compile(r"[\W_]+")


def read_case(raw: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Case:
    """Return the case. Raises InputError with every wrong field of it."""
    if not isinstance(raw, Mapping):
        raise cursor.error(f"expected a test case (an object), got {kind(raw)}")
    generation = generation_of(raw, cursor)
    warn_unknown(raw, generation.table, cursor, diagnostics, others=EVERY_FIELD)
    _warn_of_placeholders(raw, cursor, diagnostics)
    values = generation.table.read_values(raw, cursor)
    values["expected_outcomes"] = raw.get("expected_outcomes")
    calls = list(_calls(values["expected_tool_calls"], cursor.at("expected_tool_calls"), diagnostics))
    return Case(
        id=case_id(values),
        input=_greeting(values),
        user=_user(values, generation, cursor, diagnostics, has_persona=raw.get("persona") is not None),
        mocks=tuple(mock for call in calls for mock in _mocks(call)),
        evaluators=tuple(_evaluators(values, calls, cursor)),
        tags=values["tags"] or (),
        difficulty=values["difficulty"] or "normal",
        status="archived" if values.get("deleted_at") else values["status"] or "active",
        metadata={name: values[name] for name in _ABOUT if values.get(name) is not None},
        line=cursor.line,
    )


def warn_unknown(
    raw: Map, table: FieldTable, cursor: FieldCursor, diagnostics: Diagnostics, others: Collection[str] = ()
) -> None:
    """Warn of fields that are not read, with the nearest name of the table and of `others`."""
    for key in raw:
        if key not in table.names:
            what = f"unknown {table.title} field, ignored{did_you_mean(str(key), (*table.names, *others))}"
            if key in others:
                what = "a field of another generation of the format than the case has, ignored"
            diagnostics.add(what, cursor.place(str(key)), kind=f"field {key}")


def _warn_of_placeholders(raw: Map, cursor: FieldCursor, diagnostics: Diagnostics) -> None:
    """Warn of names of the environment: a test case is the same for everyone, and none is replaced in it."""
    for key, value in raw.items():
        names = dict.fromkeys(name for text in _texts(value) for name in names_in(text))
        for name in names:
            problem = (
                f"'{name}' of the environment is not replaced in a test case, it stays as written; "
                "write the value, or use it in a tool or a runner"
            )
            diagnostics.add(problem, cursor.place(str(key)), kind=f"environment {key} {name}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each)


def case_id(values: Map) -> str:
    """Return the identity of a case: that of its store, else its name as a word."""
    return str(values.get("id") or _NOT_IN_IDS.sub("-", str(values.get("name", "")).lower()).strip("-") or "case")


def _user(
    values: Map, generation: Generation, cursor: FieldCursor, diagnostics: Diagnostics, *, has_persona: bool
) -> SimulatedUser:
    if generation is not Generation.PAGE:
        return SimulatedUser(
            persona=_filled(values["persona_context"]),
            context=values["user_context"],
            first_turn=values["first_turn"] or "user",
            opener=_filled(values["first_message"]),
        )
    persona = values["persona"] if has_persona else None
    if persona is not None:
        warn_unknown(persona, PERSONA, cursor.at("persona"), diagnostics)
        persona = PERSONA.read_values(persona, cursor.at("persona"))
        if not any(text.strip() for text in persona.values()):
            problem = "is empty: the simulator makes up who the user is; describe them, or leave the field out"
            diagnostics.add(problem, cursor.place("persona"))
    return SimulatedUser(
        persona=persona,
        context=values["user_context"],
        opener=_filled(values["initial_message"]),
        max_turns=values["max_turns"],
    )


def _greeting(values: Map) -> tuple[Message, ...]:
    """Return the first words of an agent that begins, as part of the input: it is not called for them."""
    greeting = _filled(values.get("first_message")) if values.get("first_turn") == "agent" else None
    return (Message(role="assistant", content=greeting),) if greeting is not None else ()


def _filled(text: str | None) -> str | None:
    """Return a text; None for one that is blank."""
    return text if text is not None and text.strip() else None


def _calls(raw: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Iterator[dict[str, Any]]:
    if raw is None:
        return
    if not isinstance(raw, list):
        raise cursor.error(f"expected a list of tool calls, got {kind(raw)}")
    for index, call in enumerate(raw):
        at = cursor.at(index)
        if not isinstance(call, Mapping):
            raise at.error(f"expected a tool call (an object with 'tool'), got {kind(call)}")
        warn_unknown(call, ANY_CALL, at, diagnostics)
        values = ANY_CALL.read_values(call, at)
        values["mock_responses"] = list(_answers(values["mock_responses"], at.at("mock_responses"), diagnostics))
        yield values


def _answers(raw: Any, cursor: FieldCursor, diagnostics: Diagnostics) -> Iterator[dict[str, Any]]:
    if raw is None:
        return
    if not isinstance(raw, list):
        raise cursor.error(f"expected a list of answers, got {kind(raw)}")
    for index, answer in enumerate(raw):
        at = cursor.at(index)
        if not isinstance(answer, Mapping):
            raise at.error(f"expected an answer (an object with 'response'), got {kind(answer)}")
        warn_unknown(answer, MOCK_RESPONSE, at, diagnostics)
        yield MOCK_RESPONSE.read_values(answer, at)


def _mocks(call: Map) -> Iterator[ToolMock]:
    if call["mock_response"] is not None:
        yield ToolMock(tool=call["tool"], response=call["mock_response"], params=call["expected_params"])
        return
    for answer in call["mock_responses"]:
        yield ToolMock(tool=call["tool"], response=answer["response"], params=answer["expected_params"])


def _evaluators(values: Map, calls: list[dict[str, Any]], cursor: FieldCursor) -> Iterator[EvaluatorSpec]:
    """Yield the judge, and the check of expected calls: null expects nothing, an empty list no call at all."""
    outcomes = _outcomes(values["expected_outcomes"], cursor)
    config: dict[str, Any] = {"outcomes": outcomes} if outcomes else {}
    expected = None
    if values["expected_tool_calls"] is not None:
        expected = [{"tool": call["tool"], "arguments": call["expected_params"]} for call in calls]
        config["expected_calls"] = expected
    if (criteria := _filled(values["evaluation_criteria_override"])) is not None:
        config["criteria"] = criteria
    yield EvaluatorSpec(type=JUDGE, name=JUDGE, config=config)
    if expected is not None:
        yield EvaluatorSpec(type=EXPECTED_CALLS, name=EXPECTED_CALLS, weight=0.0, config={"calls": expected})


def _outcomes(raw: Any, cursor: FieldCursor) -> list[dict[str, Any]]:
    """Return the expected outcomes: a label or statement each, and the state that is expected of it."""
    if isinstance(raw, Mapping):
        return [{"outcome": str(label), "expected": expected} for label, expected in raw.items()]
    if raw is not None and not isinstance(raw, list):
        raise cursor.error(
            f"expected labels with values, or a list of statements; got {kind(raw)}", "expected_outcomes"
        )
    for index, statement in enumerate(raw or ()):
        if not isinstance(statement, str) or not statement.strip():
            raise cursor.error(f"expected a statement (a text), got {kind(statement)}", "expected_outcomes", index)
    return [{"outcome": statement, "expected": True} for statement in raw or ()]
