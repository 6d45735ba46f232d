"""Connexity's recorded facts about tools of an agent that is a model: a `chat` runner against a local server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.simulation import ToolMock
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.row_outcomes import Record, not_recorded
from eval_pipeline_tests.local_server import Reply, chat_reply, in_turn, serve

Calls = Sequence[tuple[str, str]]
OWN_WORDS = "the words of results and errors are ours"
BY_VALUE = "mocks compare values, as the page has it; `match: keys` compares names only"


def declared(*names: str, **more: Any) -> list[dict[str, Any]]:
    """Tools with these names, as a runner declares them."""
    return [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}, **more} for name in names
    ]


def calling(calls: Calls) -> Reply:
    """The reply of a model that calls tools."""
    entries = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return chat_reply(None, tool_calls=entries)


def results_of(calls: Calls, mocks: Sequence[ToolMock], tools: Sequence[Mapping[str, Any]], **runner: Any) -> list[Any]:
    """What a model that makes these calls is told, each result read as JSON."""
    with serve(in_turn(calling(calls), chat_reply("done"))) as server:
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": list(tools)}
        adapter = Chat(a_runner(adapter="chat", settings=settings, **runner))

        async def main() -> RawExecution:
            try:
                return await adapter.execute(replace(a_call(Path("files"), a_plan(a_case(mocks=tuple(mocks)))), turn=1))
            finally:
                await adapter.close()

        asyncio.run(main())
        sent = server.requests[-1].json["messages"]
    return [json.loads(message["content"]) for message in sent if message["role"] == "tool"]


def check_mocks(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about which canned answer a call gets."""
    given, expected = data["input"], data["expected"]
    if "note" in given and "calls" not in given:
        not_recorded("its calls: they are described only")
    if "expected_params" in given:
        (result,) = results_of(
            [("t", given["arguments_raw"])],
            [ToolMock(tool="t", response={"ok": 1}, params=given["expected_params"])],
            declared("t"),
        )
        matched = expected["matched"]
        if matched and any(isinstance(value, bool) for value in (given["expected_params"] or {}).values()):
            record("difference", "true is not the number 1")
            matched = False
        assert (result == {"ok": 1}) is matched
        return
    mocks = _mocks(given["expected_tool_calls"], data["generations"][-1], folder)
    calls = [(tool, json.dumps(arguments)) for tool, arguments in given["calls"]]
    tools = declared(*dict.fromkeys(tool for tool, _ in calls))
    results = results_of(calls, mocks, tools)
    if data["generations"] == ["g2"] and any("error" in result for result in results):
        keys = [replace(mock, match="keys") for mock in mocks]
        if (by_keys := results_of(calls, keys, tools)) != results:
            record("difference", BY_VALUE)
            results = by_keys
    for result, each in zip(results, expected["results"], strict=True):
        if "error" in each or "has_key" in each:
            assert "no canned answer" in result["error"] or "every canned answer" in result["error"]
        else:
            assert_value(result, each)


def _mocks(expected_calls: Sequence[Mapping[str, Any]], generation: str, folder: Path) -> tuple[ToolMock, ...]:
    shape = {"persona": {"type": "t", "description": "d", "instructions": "i"}}
    case = {"name": "n", **(shape if generation == "g0" else {"persona_context": "p"})}
    path = folder / "case.json"
    path.write_text(json.dumps({**case, "expected_tool_calls": list(expected_calls)}))
    (loaded,) = load_suite(path).cases
    return loaded.mocks


CHECKS = {"tools.mock": check_mocks}
