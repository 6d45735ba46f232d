"""Test cases that a model drafts: what it is told, the rules that its cases are checked by, and cases of conversations.

A draft is a case of the page's generation with status `draft`: a person makes it active.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.formats.connexity.cases import read_case
from eval_pipeline.formats.connexity.fields import CASE_OF_PAGE, CASE_WITH_ANSWER
from eval_pipeline.formats.connexity.generations import persona_parts
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import DETACHED, FieldCursor
from eval_pipeline.suites.case_formats import DraftBrief, StoredConversation

JsonMap = Mapping[str, Any]
MOST_NAME_CHARACTERS = 60
MOST_NAME_WORDS = 7
_SERVER_SET = ("id", "agent_id", "source_call_id", "created_at", "updated_at", "deleted_at", "company_id", "status")
_INSTRUCTIONS = """\
Write {count} test cases for the agent described below. In each, a simulated user talks to the agent. Answer with a JSON
array of {count} objects and nothing else. The fields of an object:

- "name": a short name, at most {words} words and {characters} characters, another one in every case
- "description": what the case exercises
- "difficulty": "normal" or "hard"
- "tags": a list of labels{focus}
- "persona": {{"type", "description", "instructions"}}, all texts: who the user is and how they behave
- "initial_message": what the user says first
- "user_context": an object with what the user knows, such as numbers and dates that the tools need
- "max_turns": how many answers of the agent are enough
- "expected_outcomes": an object of labels and their expected values: what has to be true at the end, and what not
- "expected_tool_calls": a list of {{"tool", "expected_params", "mock_responses": [{{"expected_params", "response"}}]}};
  use only the tools below, give every required parameter, and an object as the response; [] where no call is right

Personas differ in patience, knowledge and manner. What the user wants has to be possible with these tools, or has to be
refused by the agent; say which in the outcomes.

## The agent's instructions
{prompt}

## The agent's tools
{tools}
"""


def drafts_prompt(brief: DraftBrief, problems: Mapping[int, str]) -> str:
    """Return what a model is told: the task, names that are taken, and what is wrong with its earlier cases."""
    focus = f"; every case has {json.dumps(list(brief.focus))} among them and is about that" if brief.focus else ""
    tools = json.dumps([_plain(tool) for tool in brief.tools], indent=2) if brief.tools else "It has none."
    text = _INSTRUCTIONS.format(
        count=brief.count,
        words=MOST_NAME_WORDS,
        characters=MOST_NAME_CHARACTERS,
        focus=focus,
        prompt=brief.prompt or "They are not known.",
        tools=tools if brief.tools is not None else "They are not known.",
    )
    if brief.known:
        text += "\n## Names that are taken\n" + "\n".join(f"- {name}" for name in brief.known) + "\n"
    if problems:
        listed = "\n".join(f"- case {place}: {problem}" for place, problem in problems.items())
        text += f"\n## What was wrong with earlier cases: write {brief.count} others in their place\n{listed}\n"
    return text


def check_draft(raw: Any, brief: DraftBrief) -> JsonMap:
    """Return a case as a draft: without fields that a store sets, and without answers of tools that end the
    conversation. Raises InputError naming what is wrong with it."""
    if not isinstance(raw, Mapping):
        raise InputError(f"expected a test case (an object), got {json.dumps(raw)[:60]}")
    draft = {name: value for name, value in raw.items() if name not in _SERVER_SET} | {"status": "draft"}
    diagnostics = Diagnostics()
    _check_unknown(draft)
    read_case(draft, DETACHED, diagnostics)
    _check_name(draft, brief)
    _check_persona(draft)
    draft["expected_tool_calls"] = _checked_calls(draft.get("expected_tool_calls"), brief)
    if draft["expected_tool_calls"] is None:
        del draft["expected_tool_calls"]
    if brief.focus:
        draft["tags"] = list(dict.fromkeys([*draft.get("tags", ()), *brief.focus]))
    return draft


def _check_unknown(draft: JsonMap) -> None:
    known = CASE_OF_PAGE.joined(CASE_WITH_ANSWER.without(*CASE_OF_PAGE.names)).names
    for name in draft:
        if name not in known:
            raise DETACHED.error(f"unknown test case field{did_you_mean(name, known)}", name)


def _check_name(draft: JsonMap, brief: DraftBrief) -> None:
    name = draft["name"].strip()
    if not name or len(name) > MOST_NAME_CHARACTERS or len(name.split()) > MOST_NAME_WORDS:
        raise DETACHED.error(
            f"expected a name of 1 to {MOST_NAME_WORDS} words and at most {MOST_NAME_CHARACTERS} characters", "name"
        )
    if name.casefold() in {known.casefold() for known in brief.known}:
        raise DETACHED.error(f"'{name}' is the name of another case", "name")


def _check_persona(draft: JsonMap) -> None:
    if "persona_context" in draft:
        if persona_parts(draft["persona_context"] or "") is None:
            raise DETACHED.error("expected the three labelled sections of a persona", "persona_context")
    elif not all(str(part).strip() for part in (draft.get("persona") or {"": ""}).values()):
        raise DETACHED.error("expected a persona whose parts are not empty", "persona")


def _checked_calls(calls: Any, brief: DraftBrief) -> list[dict[str, Any]] | None:
    if calls is None:
        return None
    tools = {str(_plain(tool).get("name")): tool for tool in brief.tools or ()}
    if calls and brief.tools is not None and not tools:
        raise DETACHED.error("the agent has no tools: expected []", "expected_tool_calls")
    return [
        _checked_call(call, tools, DETACHED.at("expected_tool_calls").at(index), known=brief.tools is not None)
        for index, call in enumerate(calls)
    ]


def _checked_call(call: JsonMap, tools: Mapping[str, JsonMap], cursor: FieldCursor, *, known: bool) -> dict[str, Any]:
    name = call["tool"]
    if known and name not in tools:
        raise cursor.error(f"the agent has no tool '{name}'{did_you_mean(name, tools)}", "tool")
    if known and _ends(tools[name]):
        return {field: value for field, value in call.items() if field not in ("mock_response", "mock_responses")}
    answers = list(_answers_of(call))
    if not answers:
        raise cursor.error("expected an answer of the tool: mock_response, or mock_responses", "mock_response")
    required = _required(tools[name]) if known else ()
    _check_params(call.get("expected_params"), required, cursor, "expected_params")
    for answer in answers if "mock_responses" in call else ():
        _check_answer(call.get("expected_params"), answer.get("expected_params"), required, cursor)
    return dict(call)


def _answers_of(call: JsonMap) -> Iterator[JsonMap]:
    if call.get("mock_response") is not None:
        yield {"response": call["mock_response"]}
    yield from call.get("mock_responses") or ()


def _check_params(params: JsonMap | None, required: Sequence[str], cursor: FieldCursor, field: str) -> None:
    missing = [name for name in required if name not in (params or {})]
    if missing and params is not None:
        raise cursor.error(f"the tool has required params that are missing: {', '.join(missing)}", field)


def _check_answer(
    expected: JsonMap | None, params: JsonMap | None, required: Sequence[str], cursor: FieldCursor
) -> None:
    """Raise InputError for an answer that the expected call would not get."""
    if params is None:
        if required:
            raise cursor.error("the answer has to include required params of the tool", "mock_responses")
        return
    if any((expected or {}).get(name, value) != value for name, value in params.items()):
        raise cursor.error("the params of an answer must match expected_params", "mock_responses")


def _plain(tool: JsonMap) -> JsonMap:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool


def _ends(tool: JsonMap) -> bool:
    """Return whether a tool ends the conversation."""
    config = tool.get("platform_config")
    nested = config.get("terminating") if isinstance(config, Mapping) else False
    return bool(tool.get("terminating") or _plain(tool).get("terminating") or nested)


def _required(tool: JsonMap) -> tuple[str, ...]:
    parameters = _plain(tool).get("parameters")
    names = parameters.get("required") if isinstance(parameters, Mapping) else _plain(tool).get("required")
    return tuple(str(name) for name in names or ())


def draft_of_conversation(conversation: StoredConversation) -> JsonMap:
    """Return the draft of a case that begins as a conversation did, with the answers that its tools gave.

    A person adds what is expected: a conversation that went wrong does not tell what would have been right.
    """
    said = [text for speaker, text in conversation.lines if speaker == "user"]
    first = conversation.lines[0] if conversation.lines else ("user", "")
    opener = {"first_turn": "agent", "first_message": first[1]} if first[0] == "agent" else {}
    later = "\n".join(f"- {line}" for line in said[0 if opener else 1 :])
    then = f" Then they said, in this order:\n{later}" if later else ""
    calls = [
        {"tool": tool, "expected_params": dict(arguments), "mock_response": _object(answer)}
        for tool, arguments, answer in conversation.calls
    ]
    return {
        "name": f"Again: {conversation.case_id}"[:255],
        "description": "A conversation that took place; add what is expected of it",
        "status": "draft",
        "persona_context": f"A user who wants what they wanted in an earlier conversation.{then}",
        "first_turn": "user",
        **({"first_message": said[0]} if said and not opener else {}),
        **opener,
        "expected_tool_calls": calls or None,
        "source_call_id": conversation.execution_id,
    }


def _object(answer: Any) -> JsonMap:
    if isinstance(answer, Mapping):
        return answer
    try:
        value = json.loads(answer) if isinstance(answer, str) else answer
    except ValueError:
        value = answer
    return value if isinstance(value, Mapping) else {"result": value}
