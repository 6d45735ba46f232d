"""The generations of Connexity's test cases: which one a case is of, and a case in the form of a later one.

Conversions go forward as the system's own migrations do, and back; what a form cannot hold is reported as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any

from eval_pipeline.formats.connexity.fields import CASE_OF_PAGE, CASE_WITH_ANSWER, CASE_WITH_ANSWERS
from eval_pipeline.parsing.fields import FieldCursor, Map
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.suites.conversion import ConversionLoss

JsonMap = Mapping[str, Any]
PERSONA_LABELS = {
    "type": "[Persona type]",
    "description": "[Description]",
    "instructions": "[Behavioral instructions]",
}


class Generation(IntEnum):
    """The forms of a test case, oldest first: as the page has it, personas as a text, one answer a call."""

    PAGE = 0
    PERSONA_TEXT = 1
    ANSWER_PER_CALL = 2

    @property
    def table(self) -> FieldTable:
        """The fields of a case of this generation."""
        return _TABLES[self]


_TABLES = {
    Generation.PAGE: CASE_OF_PAGE,
    Generation.PERSONA_TEXT: CASE_WITH_ANSWERS,
    Generation.ANSWER_PER_CALL: CASE_WITH_ANSWER,
}
EVERY_FIELD = tuple(dict.fromkeys(name for table in _TABLES.values() for name in table.names))
"""The fields of a case of any generation."""
_OUTCOMES = "expected_outcomes"
_ONLY_PAGE = ("persona", "initial_message", "max_turns")
_ONLY_LAST = ("deleted_at", "company_id")
_ONLY_LATER = ("persona_context", "first_turn", "first_message", "source_call_id", *_ONLY_LAST)


def generation_of(raw: Map, cursor: FieldCursor) -> Generation:
    """Return the generation of a case: that of the page where nothing shows another. Raises InputError for a mix."""
    page, later = _signs(raw, _ONLY_PAGE, dict), _signs(raw, _ONLY_LATER, list)
    if page and later:
        if [_OUTCOMES] in (page, later):
            raise cursor.error(_of_outcomes(page, later), _OUTCOMES)
        raise cursor.error(
            f"'{page[0]}' and '{later[0]}' belong to different generations of the format; "
            "use one: persona, initial_message, max_turns; or persona_context, first_turn, first_message",
            later[0],
        )
    if any("mock_response" in call for call in _calls(raw)) or any(raw.get(name) is not None for name in _ONLY_LAST):
        return Generation.ANSWER_PER_CALL
    return Generation.PERSONA_TEXT if later else Generation.PAGE


def _signs(raw: Map, names: tuple[str, ...], outcomes: type) -> list[str]:
    """Return the fields that show a generation: those only it has, and the kind of its outcomes."""
    present = [name for name in names if raw.get(name) is not None]
    return [*present, *([_OUTCOMES] if isinstance(raw.get(_OUTCOMES), outcomes) else [])]


def _of_outcomes(page: Sequence[str], later: Sequence[str]) -> str:
    """Return what is wrong with outcomes of the one form beside fields of the other."""
    if later == [_OUTCOMES]:
        other = _ONLY_LATER[0]
        return f"expected an object of labels and values beside '{page[0]}', got a list; statements belong to '{other}'"
    return f"expected a list of statements beside '{later[0]}', got an object; labels belong to '{_ONLY_PAGE[0]}'"


def _calls(raw: Map) -> Iterator[Map]:
    calls = raw.get("expected_tool_calls")
    return (call for call in (calls if isinstance(calls, list) else ()) if isinstance(call, Mapping))


def persona_text(persona: JsonMap | None) -> str | None:
    """Return a persona as one text: each part under its label, parts apart by an empty line."""
    if persona is None or not any(persona.get(name) for name in PERSONA_LABELS):
        return None
    return "\n\n".join(f"{label}\n{persona[name]}" for name, label in PERSONA_LABELS.items() if persona.get(name))


def outcome_statement(label: str, expected: Any) -> str:
    """Return an outcome as a statement: `refund_initiated: true` is `refund initiated`."""
    words = label.replace("_", " ")
    return words if expected is True else f"{words}: {expected}"


def as_generation(raw: JsonMap, cursor: FieldCursor, target: Generation, lost: ConversionLoss) -> dict[str, Any]:
    """Return a case in the form of another generation, or of its own. Raises InputError for a mix of forms."""
    now = generation_of(raw, cursor)
    case = dict(raw)
    for step in range(now, target):
        case = _STEPS[step](case, lost)
    for step in range(now, target, -1):
        case = _STEPS_BACK[step - 1](case, lost)
    return _with_answer_per_call(case, lost) if now is target is Generation.ANSWER_PER_CALL else case


def _with_persona_text(raw: dict[str, Any], lost: ConversionLoss) -> dict[str, Any]:
    case = {name: value for name, value in raw.items() if name not in _ONLY_PAGE}
    if raw.get("max_turns") is not None:
        lost.add("'max_turns' (a setting of the run in this generation)", raw.get("name"))
    if "persona" in raw:
        case["persona_context"] = persona_text(raw["persona"])
    if "initial_message" in raw:
        case["first_message"] = raw["initial_message"]
    case["first_turn"] = "user"
    outcomes = raw.get("expected_outcomes")
    if isinstance(outcomes, Mapping):
        case["expected_outcomes"] = [outcome_statement(label, expected) for label, expected in outcomes.items()]
    return case


def _with_answer_per_call(raw: dict[str, Any], lost: ConversionLoss) -> dict[str, Any]:
    calls = raw.get("expected_tool_calls")
    if not isinstance(calls, list):
        return raw
    return {**raw, "expected_tool_calls": [single for call in calls for single in _single_answers(call)]}


def _single_answers(call: Any) -> Iterator[Any]:
    """Yield a call once for each of its canned answers, with the arguments of the answer where it has some."""
    if not isinstance(call, Mapping):
        yield call
        return
    plain = {name: value for name, value in call.items() if name != "mock_responses"}
    answers = call.get("mock_responses") if "mock_response" not in call else None
    if not answers:
        yield plain
        return
    for answer in answers:
        params = answer.get("expected_params")
        expected = {"expected_params": params} if params is not None else {}
        yield {**plain, **expected, "mock_response": answer.get("response")}


_STEPS: tuple[Callable[[dict[str, Any], ConversionLoss], dict[str, Any]], ...] = (
    _with_persona_text,
    _with_answer_per_call,
)


def _with_answers(raw: dict[str, Any], lost: ConversionLoss) -> dict[str, Any]:
    """Return a case whose calls have lists of answers, each with the arguments of its call."""
    calls = raw.get("expected_tool_calls")
    for name in _OF_LAST:
        if raw.get(name) is not None:
            lost.add(f"'{name}' (this generation has none)", raw.get("name"))
    case = {name: value for name, value in raw.items() if name not in _OF_LAST}
    if isinstance(calls, list):
        case["expected_tool_calls"] = [_with_list(call) for call in calls]
    return case


def _with_list(call: Any) -> Any:
    if not isinstance(call, Mapping) or call.get("mock_response") is None:
        return call
    plain = {name: value for name, value in call.items() if name != "mock_response"}
    answer = {"expected_params": call.get("expected_params"), "response": call["mock_response"]}
    return {**plain, "mock_responses": [answer]}


def _with_persona_object(raw: dict[str, Any], lost: ConversionLoss) -> dict[str, Any]:
    case = {name: value for name, value in raw.items() if name not in _ONLY_LATER}
    name = raw.get("name")
    text = raw.get("persona_context")
    if text is not None:
        parts = persona_parts(text)
        case["persona"] = parts or {"type": "user", "description": text, "instructions": ""}
    if raw.get("first_turn") == "agent":
        lost.add("'first_turn: agent' (in this generation the user begins)", name)
    elif raw.get("first_message") is not None:
        case["initial_message"] = raw["first_message"]
    if raw.get("source_call_id") is not None:
        lost.add("'source_call_id' (this generation has none)", name)
    outcomes = raw.get("expected_outcomes")
    if isinstance(outcomes, list):
        case["expected_outcomes"] = {str(statement): True for statement in outcomes}
    return case


def persona_parts(text: str) -> dict[str, str] | None:
    """Return the parts of a persona that is written as one text; None where a label is missing."""
    found = {name: text.find(label) for name, label in PERSONA_LABELS.items()}
    if min(found.values()) < 0:
        return None
    ends = sorted([*found.values(), len(text)])
    return {
        name: text[at + len(label) : ends[ends.index(at) + 1]].strip()
        for (name, label), at in zip(PERSONA_LABELS.items(), found.values(), strict=True)
    }


_OF_LAST = ("deleted_at", "company_id")
_STEPS_BACK: tuple[Callable[[dict[str, Any], ConversionLoss], dict[str, Any]], ...] = (
    _with_persona_object,
    _with_answers,
)
