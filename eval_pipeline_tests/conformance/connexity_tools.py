"""Connexity's recorded facts about tools of an agent that is a model: a `chat` runner against a local server."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline.executions.model import RawExecution
from eval_pipeline.executions.runners import load_runners
from eval_pipeline.executions.tool_sets import PREDEFINED, as_sent, declared_tools
from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.reports.model import ToolResultEvent
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.simulation import ToolMock
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.differences.connexity_row_model import LASTING, failing_source, filtered_source
from eval_pipeline_tests.conformance.row_outcomes import Record, not_recorded
from eval_pipeline_tests.local_server import Reply, chat_reply, in_turn, serve

Calls = Sequence[tuple[str, str]]
NO_SOURCE = "source within a file is refused: a tool names a function of a module"
OWN_WORDS = "the words of results and errors are ours"
UNASKED = "a tool without a mode has the mocks of the case; nothing is simulated unless it is asked for"
BY_VALUE = "mocks compare values, as the page has it; `match: keys` compares names only"


def _row(*mocks: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"tool": "t", "mock_responses": list(mocks), **more}


DESCRIBED: Mapping[str, Mapping[str, Any]] = {
    "two expected_tool_calls rows for one tool share one queue in order": {
        "expected_tool_calls": [_row({"response": {"n": 1}}), _row({"response": {"n": 2}})],
        "calls": [["t", {}], ["t", {}]],
    },
    "out-of-order match removes only the matched entry": {
        "expected_tool_calls": [
            _row(*({"expected_params": {"k": number}, "response": {"n": number}} for number in (1, 2)))
        ],
        "calls": [["t", {"k": 2}], ["t", {"k": 2}], ["t", {"k": 1}]],
    },
    "expected_params on the call row (not the mock) do not restrict matching": {
        "expected_tool_calls": [_row({"response": {"n": 1}}, expected_params={"k": 1})],
        "calls": [["t", {"k": 2}]],
    },
}
"""Rows that describe their calls in words, by these words."""


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


def results_of(
    calls: Calls,
    mocks: Sequence[ToolMock],
    tools: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any] | None = None,
    *,
    folder: Path = Path(),
    context: Mapping[str, Any] | None = None,
    isolation: str = "in-process",
) -> list[Any]:
    """What a model that makes these calls is told, each result read as JSON. `settings` are further ones of the
    runner in `folder`; `context` is what the user knows."""
    with serve(in_turn(calling(calls), chat_reply("done"))) as server:
        chat = {"base_url": server.url + "/v1", "model": "m", "tools": list(tools), **(settings or {})}
        adapter = Chat(a_runner(adapter="chat", settings=chat, folder=folder, isolation=isolation))
        call = replace(a_call(Path("files"), a_plan(a_case(mocks=tuple(mocks)))), turn=1, context=context)

        async def main() -> RawExecution:
            try:
                return await adapter.execute(call)
            finally:
                await adapter.close()

        asyncio.run(main())
        sent = server.requests[-1].json["messages"]
    return [json.loads(message["content"]) for message in sent if message["role"] == "tool"]


def check_mocks(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about which canned answer a call gets."""
    given, expected = data["input"], data["expected"]
    if "note" in given and "calls" not in given:
        given = DESCRIBED[given["note"]] if given["note"] in DESCRIBED else not_recorded("its calls")
    if "expected_params" in given:
        _check_match(data, record)
        return
    mocks = _mocks(given["expected_tool_calls"], data["generations"][-1], folder)
    calls = [(tool, json.dumps(arguments)) for tool, arguments in given["calls"]]
    tools = declared(*dict.fromkeys(tool for tool, _ in calls))
    results = results_of(calls, mocks, tools)
    if data["generations"] == ["g2"]:
        keys = [replace(mock, match="keys") for mock in mocks]
        if (by_keys := results_of(calls, keys, tools)) != results:
            record("difference", BY_VALUE)
            results = by_keys
    for result, each in zip(results, expected["results"], strict=True):
        if "error" in each or "has_key" in each:
            assert "no canned answer" in result["error"] or "every canned answer" in result["error"]
        else:
            assert_value(result, each)


def _check_match(data: Mapping[str, Any], record: Record) -> None:
    """Check a row about one call and one canned answer."""
    given, matched = data["input"], data["expected"]["matched"]
    mock = ToolMock(tool="t", response={"ok": 1}, params=given["expected_params"])

    def matches(mock: ToolMock) -> bool:
        return results_of([("t", given["arguments_raw"])], [mock], declared("t")) == [{"ok": 1}]

    found = matches(mock)
    if data["generations"] == ["g2"]:
        if (by_keys := matches(replace(mock, match="keys"))) is not found:
            record("difference", BY_VALUE)
            found = by_keys
    elif matched and not found:
        record("difference", "true is not the number 1")
        matched = False
    assert found is matched


def _mocks(expected_calls: Sequence[Mapping[str, Any]] | None, generation: str, folder: Path) -> tuple[ToolMock, ...]:
    shape = {"persona": {"type": "t", "description": "d", "instructions": "i"}}
    case = {"name": "n", **(shape if generation == "g0" else {"persona_context": "p"})}
    path = folder / "case.json"
    path.write_text(json.dumps({**case, "expected_tool_calls": expected_calls}))
    (loaded,) = load_suite(path).cases
    return loaded.mocks


def check_choice(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about what carries out the calls of a tool."""
    given = data["input"]
    if data["op"] == "composite_route":
        record("difference", "a tool that is not declared does not exist; the model is told so")
        modes = {"mock": {"platform_config": {"mode": "mock"}}, "live": {"implementation": {"type": "synthetic"}}}
        tools = [declared(name, **modes[mode])[0] for name, mode in given["tool_modes"].items()]
        mocks = [ToolMock(tool="check_balance", response={"from": "mock"})]
        mocked, live, unknown = results_of([(name, "{}") for name in (*given["tool_modes"], "unknown")], mocks, tools)
        assert (mocked, live["status"], list(unknown)) == ({"from": "mock"}, "simulated", ["error"])
        return
    tools = given.get("tools") or []
    if any((tool.get("platform_config") or {}).get("mode") == "live" for tool in tools):
        record("difference", "a live tool needs an implementation before anything runs")
        with pytest.raises(InputError, match="has no implementation"):
            declared_tools(tools)
        return
    if data["expected"]["executor"].startswith("composite"):
        _check_composite(tools, record)
        return
    names = [tool["name"] for tool in tools] or ["other"]
    mode = {"tool_mode": given["tool_mode"]} if "tool_mode" in given else {}
    config = {"implementation": {"type": "synthetic"}} if mode.get("tool_mode") in ("live", "synthetic") else {}
    results = results_of([(name, "{}") for name in names], [], declared(*names, **config), settings=mode)
    if data["expected"]["executor"] == "synthetic" and mode.get("tool_mode") != "synthetic":
        record("difference", UNASKED)
        assert all("error" in result for result in results) is (mode.get("tool_mode") != "live")
        return
    assert all("error" in result for result in results) is (data["expected"]["executor"] == "mock")


def _check_composite(tools: Sequence[Mapping[str, Any]], record: Record) -> None:
    """Check that each tool has canned answers, and that one without a mode is not simulated."""
    if any((tool.get("platform_config") or {}).get("mode") is None for tool in tools):
        record("difference", UNASKED)
    names = [tool["name"] for tool in tools]
    mocks = [ToolMock(tool=name, response={"of": name}) for name in names]
    results = results_of([(name, "{}") for name in names * 2], mocks, tools)
    assert results[: len(names)] == [{"of": name} for name in names]
    assert all("error" in result for result in results[len(names) :])


def check_live(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about which tools can be carried out."""
    tools = data["input"].get("tools")
    if "$raises" not in data["expected"]:
        assert {tool["name"] for tool in tools or ()} == declared_tools(tools).names
        return
    record("difference", "a tool without an implementation has the mocks of each case; one that is live needs one")
    assert not declared_tools(tools).implementations
    with pytest.raises(InputError, match=data["expected"]["message_contains"]):
        declared_tools([{**tool, "platform_config": {"mode": "live"}} for tool in tools])


def check_missing(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check the row about a call of a tool that nothing carries out."""
    record("difference", OWN_WORDS)
    (result,) = results_of([(data["input"]["call"], "{}")], [], declared("other"))
    assert list(result) == ["error"]


def check_synthetic(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check the row about a tool that is only simulated."""
    tool = data["input"]["tool"]
    (result,) = results_of([(tool, "{}")], [], declared(tool, implementation={"type": "synthetic"}))
    assert all(text in json.dumps(result) for text in data["expected"]["text"]["$contains"])


def check_webhook(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about a tool that a service carries out."""
    given, expected = data["input"], data["expected"]
    if "env" in given:
        record("difference", "variables are written as `${{ NAME }}`; a missing one is an error before anything runs")
        _check_variables(given, expected, folder)
        return
    if not isinstance(given["http"], Mapping):
        _check_no_answer(str(given["http"]))
        return
    reply = given["http"]
    body = json.dumps(reply["json"]) if "json" in reply else reply["text"]
    with serve(Reply(status=reply["status"], body=body.encode())) as server:
        http = {"type": "http_webhook", "url": server.url, "timeout_ms": 5000, "method": given.get("method", "POST")}
        tools = declared("t", platform_config={"mode": "live", "implementation": http})
        (result,) = results_of([("t", json.dumps(given.get("arguments", {})))], [], tools)
        (request,) = server.requests
    assert (request.method == "GET") or request.json == expected.get("request_json", {})
    if "error" in expected:
        assert expected["error"]["$contains"] in result["error"]
    else:
        assert result == expected["result"]


def _check_no_answer(what: str) -> None:
    """Check that a service that is too slow, or is not there, is an error that the model sees."""
    with serve(Reply(hang=True)) as server:
        url = server.url if "time" in what else "http://127.0.0.1:1"
        http = {"type": "http_webhook", "url": url, "timeout_ms": 1000}
        tools = declared("t", platform_config={"mode": "live", "implementation": http})
        (result,) = results_of([("t", "{}")], [], tools)
    assert list(result) == ["error"]


def _check_variables(given: Mapping[str, Any], expected: Mapping[str, Any], folder: Path) -> None:
    def ours(text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", r"${{ \1 }}", text)

    headers = {name: ours(value) for name, value in given.get("headers", {}).items()}
    http = {"type": "http", "url": ours(given["url"]), "headers": headers}
    runner = {"name": "r", "adapter": "chat", "model": "m", "tools": declared("t", implementation=http)}
    path = folder / "runners.yaml"
    path.write_text(json.dumps({"runners": [runner]}))
    (loaded,) = load_runners(path, given["env"])
    sent = loaded.settings["tools"][0]["implementation"]
    if "error" in expected:
        assert expected["error"]["$contains"] in loaded.unset
        return
    assert (sent["url"], sent["headers"]) == (expected["request_url"], expected["request_headers"])


def check_source(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about a tool's source: refused within a file, and carried out as a function of a module, without a
    filter of names."""
    given, expected = data["input"], data["expected"]
    with pytest.raises(InputError, match="source within a file"):
        declared_tools(declared("t", implementation={"type": "python", "code": given["impl"]}))
    module = f"source_{data['area'].replace('.', '_')}_{fingerprint(given)[:12]}"
    failing = failing_source(given["impl"])
    (folder / f"{module}.py").write_text(failing[1] if failing else _source(given, expected.get("result") or {}))
    tools = declared("t", implementation={"type": "python", "function": f"{module}:t", "timeout_s": 2})
    call = ("t", json.dumps(given.get("args", {})))
    with patch.dict(os.environ, given.get("env", {})):
        if failing:
            assert _fails(call, tools, folder, "in-process" if failing[0] is not LASTING else "process")
            return
        (result,) = results_of([call], [], tools, folder=folder, context=given.get("context.test_case_context", {}))
    if filtered_source(data):
        record("difference", NO_SOURCE)
        assert result == {"imported": "os"}
        return
    assert result == expected["result"]


def _fails(call: tuple[str, str], tools: Sequence[Mapping[str, Any]], folder: Path, isolation: str) -> bool:
    """Return whether a call has an error as its result, or its tool is refused before anything runs."""
    try:
        (result,) = results_of([call], [], tools, folder=folder, isolation=isolation)
    except InputError:
        return True
    return list(result) == ["error"]


def _source(given: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """A module whose function `t` does what a row describes. Settings of a tool are constants of its module."""
    name, *_ = [*result, "imported"]
    read = re.search(r"(?P<from>args|config|test_case_context|secret)\W+(?P<name>\w+)\W*(?P<times>\d*)", given["impl"])
    if read is None:
        return f"import os\n\ndef t():\n    return {{{name!r}: os.__name__}}\n"
    value = {
        "args": f"arguments[{read['name']!r}] * {read['times'] or 1}",
        "config": f"{given.get('context.config')!r}[{read['name']!r}]",
        "test_case_context": f"context[{read['name']!r}]",
        "secret": f"os.environ[{read['name']!r}]",
    }[read["from"]]
    return f"import os\n\ndef t(arguments, context):\n    return {{{name!r}: {value}}}\n"


def check_definitions(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about how tools are declared."""
    given, expected = data["input"], data["expected"]
    if "entry" in given:
        if isinstance(given["entry"], Mapping) and given["entry"].get("name"):
            record("difference", "a name may stand beside the type, as another wire has it")
            return
        assert declared_tools([given["entry"]]).names == {expected["name"]} - {None}
        return
    if "$raises" in expected:
        with pytest.raises(InputError, match=r"twice|expected a tool"):
            declared_tools(given["tools"])
        return
    if any("name" in tool for tool in given["raw"]):
        record("difference", "a name may stand beside the type, as another wire has it")
    parsed = [each["name"] if isinstance(each, Mapping) else each for each in expected["parsed"]]
    assert declared_tools([tool for tool in given["raw"] if "name" not in tool]).names == frozenset(parsed)


def check_predefined(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check the row about tools that everybody has."""
    expected = data["expected"]
    tools = declared_tools(list(PREDEFINED))
    assert sorted(tools.names) == sorted(tools.terminating) == sorted(expected["names"])
    (_, transfer) = as_sent(list(PREDEFINED))
    assert transfer["function"]["parameters"]["required"] == expected["transfer_call.required"]


def check_agent(data: Mapping[str, Any], folder: Path, record: Record) -> None:
    """Check a row about one turn of an agent that is a model."""
    given, expected = data["input"], data["expected"]
    own: dict[str, Any] | None = None
    if "config" in given:
        if "provider" in given["config"]:
            record("difference", "the wire of the runner is its provider; a run configuration sets none")
        given = {**given, "model": given["agent_model"], "llm": [{"content": "Hi"}]}
        own = {name: value for name, value in given["config"].items() if name != "provider"}
    replies = [_reply_of(each, given.get("per_call_total_tokens", 2)) for each in given["llm"]]
    with serve(in_turn(*replies)) as server:
        tools = {"tools": declared("lookup", implementation={"type": "synthetic"})} if len(replies) > 1 else {}
        model = given.get("model", "m")
        settings = {"base_url": server.url + "/v1", "model": model, "system": "S", **tools}
        runner = a_runner(adapter="chat", settings=settings)
        adapter = Chat(runner)

        async def main() -> RawExecution:
            try:
                return await adapter.execute(a_call(folder, a_plan(a_case(model_settings=own), runner)))
            finally:
                await adapter.close()

        report = normalize(an_execution(raw=asyncio.run(main())), a_case(), runner)
    sent = [request.json for request in server.requests]
    if "config" in given:
        assert sent[0] | {**expected["llm_config"], "provider": None} == {**sent[0], "provider": None}
        return
    assert all(body["model"] == model for body in sent)
    assert (len(sent), report.usage.total_tokens) == (expected["llm_calls"], expected["token_usage.total_tokens"])
    assert [message["role"] for message in sent[0]["messages"]] == expected.get(
        "llm_messages_roles", ["system", "user"]
    )
    assert report.final_output == given["llm"][-1]["content"]
    assert any(isinstance(event, ToolResultEvent) for event in report.events) is (
        "tool" in expected.get("messages_roles", ())
    )


def _reply_of(reply: Mapping[str, Any], tokens: int) -> Reply:
    usage = {"prompt_tokens": tokens // 2, "completion_tokens": tokens - tokens // 2}
    entries = [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in reply.get("tool_calls") or ()
    ]
    return chat_reply(reply.get("content"), usage=usage, **({"tool_calls": entries} if entries else {}))


CHECKS = {
    "tools.mock": check_mocks,
    "tools.executor_choice": check_choice,
    "tools.live_validation": check_live,
    "tools.live": check_missing,
    "tools.synthetic": check_synthetic,
    "tools.webhook": check_webhook,
    "tools.definitions": check_definitions,
    "tools.python_sandbox": check_source,
    "tools.predefined": check_predefined,
    "agent_simulator": check_agent,
}
