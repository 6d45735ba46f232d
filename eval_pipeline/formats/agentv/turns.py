"""Live conversations: `turns` of a test → the user's messages, and the evaluators of each turn and of the whole.

Arguments of the two evaluators: `turn` takes the number of its turn, the expected output and the evaluators of the
answer; `conversation` takes the evaluators of the whole conversation, and with an `aggregation` also the turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from typing import Any, cast

from eval_pipeline.formats.agentv.evaluators import default_grader, read_evaluators
from eval_pipeline.formats.agentv.field_hints import misspelling_of
from eval_pipeline.formats.agentv.load_context import LoadContext
from eval_pipeline.formats.agentv.messages import read_expected, read_messages
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.fields import FieldCursor, Map, kind
from eval_pipeline.suites.fields import TURN
from eval_pipeline.suites.model import Conversation, EvaluatorSpec, Message

_ON_FAILURE = ("continue", "stop")
_AGGREGATIONS = ("mean", "min", "max")


def is_conversation(raw: Map, cursor: FieldCursor) -> bool:
    """Whether a test is a live conversation."""
    mode = fields.choice(raw, "mode", cursor, ("conversation",))
    if mode is not None and raw.get("turns") is None:
        raise cursor.error("a conversation needs a list of turns", "turns")
    return raw.get("turns") is not None


def read_conversation(raw: Map, cursor: FieldCursor, context: LoadContext) -> Conversation | None:
    """Return the user's messages, turn by turn; None for a test without a conversation."""
    if not is_conversation(raw, cursor):
        return None
    turns = _turns(raw, cursor)
    failure = fields.choice(raw, "on_turn_failure", cursor, _ON_FAILURE)
    return Conversation(
        turns=tuple(_turn_input(turn, cursor.at("turns", index), context) for index, turn in enumerate(turns)),
        window=fields.count(raw, "window_size", cursor),
        on_failure="stop" if failure == "stop" else "continue",
    )


def conversation_evaluators(
    raw: Map, cursor: FieldCursor, context: LoadContext, whole: Sequence[EvaluatorSpec], grader: str | None
) -> tuple[EvaluatorSpec, ...]:
    """Return the evaluators of a conversation: one per turn, and one for the whole when `whole` has any."""
    turns = [
        _turn_config(turn, index + 1, cursor.at("turns", index), context, grader)
        for index, turn in enumerate(_turns(raw, cursor))
    ]
    if not whole and not any(turn["assertions"] for turn in turns):
        whole = _default_of_the_whole(raw, cursor, context, grader)
    assertions = [as_entry(spec) for spec in whole]
    aggregation = fields.choice(raw, "aggregation", cursor, _AGGREGATIONS)
    if aggregation in ("min", "max"):
        config = {"aggregation": aggregation, "turns": turns, "assertions": assertions}
        return (EvaluatorSpec(type="conversation", name="conversation", config=config),)
    specs = [EvaluatorSpec(type="turn", name=f"turn-{turn['turn']}", config=turn) for turn in turns]
    if assertions:
        specs.append(EvaluatorSpec(type="conversation", name="conversation", config={"assertions": assertions}))
    return tuple(specs)


def as_entry(spec: EvaluatorSpec) -> dict[str, Any]:
    """Return a nested evaluator as an argument: the fields of its spec."""
    return {field.name: getattr(spec, field.name) for field in dataclass_fields(spec)}


def _turns(raw: Map, cursor: FieldCursor) -> list[Map]:
    turns = raw.get("turns")
    if not isinstance(turns, list) or not turns:
        raise cursor.error(f"expected a list of turns, got {kind(turns)}", "turns")
    for index, turn in enumerate(turns):
        if not isinstance(turn, Mapping):
            raise cursor.error(f"expected a turn with an input, got {kind(turn)}", "turns", index)
    return cast("list[Map]", turns)


def _turn_input(turn: Map, cursor: FieldCursor, context: LoadContext) -> tuple[Message, ...]:
    for key in turn:
        if key not in TURN.names:
            context.warn_of_unknown(str(key), TURN.names, cursor, "field of a turn")
    if "input" not in turn:
        raise cursor.error(f"a turn needs an input{misspelling_of('input', turn, TURN.names)}", "input")
    return read_messages(turn["input"], cursor.at("input"), context)


def _turn_config(
    turn: Map, number: int, cursor: FieldCursor, context: LoadContext, grader: str | None
) -> dict[str, Any]:
    config: dict[str, Any] = {"turn": number}
    expected = read_expected(turn.get("expected_output"), cursor.at("expected_output"), context)
    criteria = fields.text(turn, "criteria", cursor)
    specs = read_evaluators(turn, cursor, context)
    if expected:
        config["expected_output"] = [_plain(message) for message in expected]
    if criteria:
        config["criteria"] = criteria
    if not specs and (expected or criteria):
        specs = (default_grader(grader),)
    return {**config, "assertions": [as_entry(spec) for spec in specs]}


def _default_of_the_whole(
    raw: Map, cursor: FieldCursor, context: LoadContext, grader: str | None
) -> Sequence[EvaluatorSpec]:
    if raw.get("criteria") or raw.get("expected_output") is not None:
        return [default_grader(grader)]
    context.diagnostics.add(
        "nothing of this conversation is evaluated: it passes whenever the target answers", cursor.place
    )
    return []


def _plain(message: Message) -> dict[str, Any]:
    """Return a message as plain YAML values."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.name is not None:
        plain["name"] = message.name
    if message.tool_calls:
        plain["tool_calls"] = list(message.tool_calls)
    return plain
