"""Connexity's recorded facts about drafted cases, with a scripted model in place of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError, UnknownName
from eval_pipeline.formats.connexity.drafts import check_draft
from eval_pipeline.formats.connexity.editing import CASE_FORMAT
from eval_pipeline.suites.case_formats import DraftBrief
from eval_pipeline.sweeps.drafting import Drafts, answered_items, write_drafts
from eval_pipeline_tests.conformance.connexity_storage import check_import
from eval_pipeline_tests.conformance.row_outcomes import Record
from eval_pipeline_tests.sweeps.sample_project import make_project

JsonMap = Mapping[str, Any]
PERSONA = "[Persona type]\na\n\n[Description]\nb\n\n[Behavioral instructions]\nc"
TOOL = {"name": "test_tool"}
A_DRAFT_IS_A_DRAFT = "what a model wrote is a draft until a person makes it active"


def draft(name: str = "Kept", **fields: Any) -> dict[str, Any]:
    return {"name": name, "persona_context": PERSONA, "first_message": "Hi", **fields}


def written(*answers: Any, count: int) -> Drafts:
    """What comes of the answers of a model; the last one is given again and again."""
    replies = [answer if isinstance(answer, str) else json.dumps(answer) for answer in answers]
    return write_drafts(
        lambda _: replies.pop(0) if len(replies) > 1 else replies[0], CASE_FORMAT, DraftBrief(count=count)
    )


def check_parse(data: JsonMap, record: Record) -> None:
    """Check a row about reading a model's answer."""
    given, expected = data["input"], data["expected"]
    if "item.status" in given:
        (case,) = written([draft(status=given["item.status"])], count=1).cases
        if expected["status"] == "active":
            record("difference", A_DRAFT_IS_A_DRAFT)
        assert case["status"] == "draft"
    elif "$raises" in expected:
        message = expected.get("message_contains", "not JSON")
        with pytest.raises(InputError, match=message):
            answered_items(given["raw"])
    elif "items" in given:
        drafts = written([draft()], count=given["expected_count"])
        record("difference", "cases that are missing are asked for once more; then each is named")
        assert (len(drafts.cases), drafts.calls) == (expected["count"], 2)
        assert len(drafts.problems) == given["expected_count"] - 1
    else:
        items = json.dumps([draft(f"Case {at}") for at in range(10)])
        text = f"```json\n{items}\n```" if "fenced" in given["raw"] else items
        assert len(written(text, count=10).cases) == expected["count"]


def check_rules(data: JsonMap, record: Record) -> None:
    """Check a row about what makes a drafted case usable."""
    given, expected = data["input"], data["expected"]
    brief = DraftBrief(count=1, tools=[_tool(tool) for tool in given.get("tools", [TOOL])])
    calls = given.get("expected_tool_calls", [])
    raw = draft(**{name: value for name, value in given.items() if name == "persona_context"})
    raw["name"] = " ".join(["word"] * given.get("name_words", 1))
    raw["expected_tool_calls"] = [{"tool": "test_tool", "mock_response": {}}] if isinstance(calls, str) else calls
    if "$raises" not in expected:
        (call,) = check_draft(raw, brief)["expected_tool_calls"]
        assert call.get("mock_response") is expected["mock_response"] is None
        return
    with pytest.raises(InputError) as raised:
        check_draft(raw, brief)
    assert expected["message_contains"] in str(raised.value)


def _tool(tool: JsonMap) -> JsonMap:
    required = {"parameters": {"required": tool["required"]}} if "required" in tool else {}
    return {name: value for name, value in tool.items() if name != "required"} | required


def check_repair(data: JsonMap) -> None:
    """Check a row about cases of which only the wrong ones are written anew."""
    expected = data["expected"]
    drafts = written([draft(), draft("Wrong", difficulty="none")], [draft("Fixed")], count=2)
    assert [case["name"] for case in drafts.cases] == expected["created_order"]
    assert drafts.calls == expected["llm_calls"]


def check_assistant(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about the model that writes or changes one case."""
    given = data["input"]
    if "args.difficulty" in given:
        assert written([draft(difficulty=given["args.difficulty"])], count=1).cases == data["expected"]["created"]
    elif "args" in given:
        case = check_draft(draft(**given["args"]), DraftBrief(count=1))
        record("difference", A_DRAFT_IS_A_DRAFT)
        assert case["status"] == "draft"
        assert (case["name"], case.get("agent_id"), case.get("source_call_id")) == ("patched", None, None)
    else:
        record("difference", "a patch of a case is an import that overwrites the fields that it has")
        existing = {"id": "X", "name": "n", "evaluation_criteria_override": "old", "user_context": {"kept": True}}
        items = [{"id": "X", **given["patch"]}]
        stored = {"evaluation_criteria_override": None, "user_context": {"kept": True}}
        row = {"existing": existing, "items": items, "on_conflict": "overwrite"}
        check_import({"input": row, "expected": {"overwritten": 1, "stored": stored}}, folder)


def check_request(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about a request that cannot be carried out."""
    if data["input"].get("llm") != "raises":
        version = str(data["input"]["agent_version"])
        record("difference", "an agent has one version: that of its runners file")
        with pytest.raises(UnknownName, match=version):
            make_project(folder / "project").session().runner(version)
        return

    def fail(prompt: str) -> str:
        raise InputError("runner 'm' did not answer: 500")

    with pytest.raises(InputError, match="did not answer"):
        write_drafts(fail, CASE_FORMAT, DraftBrief(count=1))


CHECKS: Mapping[str, Any] = {
    "generator.parse": lambda data, folder, record: check_parse(data, record),
    "generator.validate": lambda data, folder, record: check_rules(data, record),
    "generator.repair": lambda data, folder, record: check_repair(data),
    "generator.ai_agent": check_assistant,
    "generator.api": lambda data, folder, record: check_request(data, folder, record),
}
