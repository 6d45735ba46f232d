"""Tools of a model that something carries out: functions, services, MCP servers; and the state that they change."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline_tests.builders import a_runner
from eval_pipeline_tests.executions.test_canned_tools import calls, tool
from eval_pipeline_tests.local_server import Answer, Received, Reply, chat_reply, in_turn, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

FUNCTIONS = """
import os
import time


def find(id, context):
    return {"id": id, "city": context["city"]}


def book(arguments, state):
    booked = [*state["booked"], arguments["seat"]]
    return {"result": {"ok": True}, "state": {**state, "booked": booked}}


def crash():
    os._exit(3)


def fail(id):
    raise KeyError(id)


def shapeless(state):
    return 7


def sleepy():
    time.sleep(1.5)
"""
MCP_SERVER = """
import json
import sys

for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = {}
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "parcels", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif request["method"] == "tools/list":
        result = {"tools": [{"name": "find_parcel", "inputSchema": {"type": "object"}}]}
    elif request["method"] == "tools/call":
        given = request["params"]["arguments"]
        if given.get("id") == 0:
            sys.exit(3)
        text = {"type": "text", "text": f"parcel {given.get('id')} is in Ulm"}
        result = {"content": [text], "isError": given.get("id") == 13}
    reply = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    if request["method"] not in ("initialize", "tools/list", "tools/call"):
        reply = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "unknown"}}
    print(json.dumps(reply), flush=True)
"""


def carried_out(
    folder: Path, made: Sequence[tuple[str, Any]], tools: Sequence[Any], isolation: str = "process", **case: Any
) -> tuple[ProjectFolder, list[Any]]:
    """The project in which a model made these calls in one round, and the results that it was sent."""
    project = make_project(folder / "project")
    (project.root / "shop.py").write_text(FUNCTIONS)
    project.write_suite({"id": "c1", "input": "go", "assertions": [contains("done")], **case})
    with serve(in_turn(calls(*made), chat_reply("done"))) as server:
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": list(tools), "timeout_s": 10}
        project.write_runners({"name": "echo", "adapter": "chat", "isolation": isolation, **settings})
        project.sweep()
        sent = server.requests[-1].json["messages"]
    return project, [json.loads(message["content"]) for message in sent if message["role"] == "tool"]


def by(function: str, **more: Any) -> dict[str, Any]:
    return {"implementation": {"type": "python", "function": f"shop:{function}", **more}}


def test_functions_get_arguments_context_and_the_state_which_they_change(tmp_path: Path) -> None:
    tools = [tool("find", **by("find")), tool("book", **by("book"))]
    user = {"script": ["go"], "context": {"city": "Ulm"}}
    made = [("find", {"id": 7}), ("book", {"seat": 3}), ("book", {"seat": 4})]

    project, results = carried_out(tmp_path, made, tools, user=user, state={"booked": [1]})

    assert results == [{"id": 7, "city": "Ulm"}, {"ok": True}, {"ok": True}]
    query = "SELECT event -> '$.state.booked' FROM session_events WHERE kind = 'tool_result' ORDER BY position"
    assert [json.loads(state) for (state,) in project.ask(query) if state is not None] == [[1, 3], [1, 3, 4]]


@pytest.mark.parametrize(
    ("function", "arguments", "problem"),
    [
        ("fail", {"id": "x"}, "KeyError: 'x'"),
        ("fail", {"other": 1}, "unexpected keyword argument"),
        ("crash", {}, "the process of the function"),
        ("shapeless", {}, "expected an object with result"),
    ],
)
def test_what_a_function_does_wrong_is_an_error_that_the_model_sees(
    function: str, arguments: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    project, (result,) = carried_out(tmp_path, [("t", arguments)], [tool("t", **by(function))])

    assert problem in result["error"]
    assert project.ask("SELECT status FROM current_verdicts") == [("passed",)]


@pytest.mark.parametrize("isolation", ["process", "in-process"])
def test_a_function_has_its_time_limit_wherever_it_runs(isolation: str, tmp_path: Path) -> None:
    limited = tool("t", **by("sleepy", timeout_s=0.3))

    _, (result,) = carried_out(tmp_path, [("t", {})], [limited], isolation)

    assert result["error"] == "no result within 0.3 s"


@pytest.mark.parametrize(
    ("reply", "result"),
    [
        (json_reply({"city": "Ulm"}), {"city": "Ulm"}),
        (Reply(body=b"plain"), {"result": "plain"}),
        (Reply(status=500, body=b"boom"), {"error": "HTTP 500: boom"}),
        (Reply(status=302, headers={"location": "http://127.0.0.1:1/"}), {"error": "HTTP 302: "}),
        (Reply(hang=True), {"error": "no answer within 0.2 s"}),
        (Reply(body=b"half", cut=True), None),
    ],
    ids=["json", "text", "500", "redirect", "silent", "half a body"],
)
def test_a_service_carries_out_calls(reply: Reply, result: Any, tmp_path: Path) -> None:
    with serve(reply) as service:
        http = {"type": "http", "url": service.url + "/find", "headers": {"x-key": "k"}, "timeout_s": 0.2}
        _, (answer,) = carried_out(tmp_path, [("find", {"id": 7})], [tool("find", implementation=http)])

    (request,) = service.requests
    assert (request.method, request.path, request.json, request.headers["x-key"]) == ("POST", "/find", {"id": 7}, "k")
    assert answer == result if result is not None else "error" in answer


def test_a_service_with_an_envelope_changes_the_state_and_get_puts_arguments_into_the_address(tmp_path: Path) -> None:
    def service(request: Received) -> Reply:
        if request.method == "GET":
            return json_reply({"path": request.path})
        return json_reply({"result": {}, "state": {**request.json["state"], "id": request.json["arguments"]["id"]}})

    answer: Answer = service
    with serve(answer) as server:
        whole = {"type": "http", "url": server.url, "envelope": True}
        get = {"type": "http", "url": server.url + "/find", "method": "GET"}
        tools = [tool("put", implementation=whole), tool("get", implementation=get)]
        made = [("put", {"id": 7}), ("get", {"id": 7, "deep": [1]})]
        project, results = carried_out(tmp_path, made, tools, state={"n": 1})

    assert results[1] == {"path": "/find?id=7&deep=%5B1%5D"}
    ((state,),) = project.ask("SELECT event -> '$.state' FROM session_events WHERE event ->> '$.state' IS NOT NULL")
    assert json.loads(state) == {"n": 1, "id": 7}


def test_canned_answers_go_before_the_tool_itself_and_change_the_state(tmp_path: Path) -> None:
    mock = {"tool": "find", "response": {"canned": "{{ id }}"}, "state": {"seen": {"{{ id }}": True}, "old": None}}

    project, results = carried_out(
        tmp_path, [("find", {"id": 7})], [tool("find", **by("fail"))], mocks=[mock], state={"old": 1, "kept": 2}
    )

    assert results == [{"canned": 7}]
    ((state,),) = project.ask("SELECT event -> '$.state' FROM session_events WHERE event ->> '$.state' IS NOT NULL")
    assert json.loads(state) == {"kept": 2, "seen": {"7": True}}


def test_calls_of_a_synthetic_tool_and_of_a_tool_that_is_not_declared_are_told_so(tmp_path: Path) -> None:
    synthetic = tool("find", implementation={"type": "synthetic"})

    _, results = carried_out(tmp_path, [("find", {}), ("other", {})], [synthetic])

    assert results[0]["status"] == "simulated"
    assert results[1] == {"error": "there is no tool 'other'"}


def test_a_tool_of_an_mcp_server_is_called_and_a_server_that_ends_is_started_again(tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(MCP_SERVER)
    command = [sys.executable, str(tmp_path / "server.py")]
    mcp = {"type": "mcp", "command": command, "tool": "find_parcel"}
    made = [("find", {"id": 7}), ("find", {"id": 13}), ("find", {"id": 0}), ("find", {"id": 8})]
    project, results = make_project(tmp_path / "project"), list[Any]()
    project.write_suite({"id": "c1", "input": "go", "assertions": [contains("done")]})
    with serve(in_turn(calls(*made), chat_reply("done"))) as server:
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": [tool("find", implementation=mcp)]}
        project.write_runners({"name": "echo", "adapter": "chat", **settings})
        project.sweep()
        results = [each["content"] for each in server.requests[-1].json["messages"] if each["role"] == "tool"]

    assert results[0] == "parcel 7 is in Ulm"
    assert json.loads(results[1]) == {"error": "parcel 13 is in Ulm"}
    assert "error" in json.loads(results[2])
    assert results[3] == "parcel 8 is in Ulm"


@pytest.mark.parametrize(
    ("tools", "field", "problem"),
    [
        ([{"type": "function", "terminating": True}], "tools[0]", "expected a tool with a name"),
        (["end_call", "end_call"], "tools[1]", "declared twice"),
        (["hang_up"], "tools[0]", "end_call"),
        ([tool("a", implementation={"type": "pyton"})], "tools[0].implementation.type", "did you mean 'python'"),
        ([tool("a", implementation={"type": "http"})], "tools[0].implementation.url", "expected a text"),
        ([tool("a", implementation={"type": "http", "url": "x"})], "tools[0].implementation.url", "http://"),
        ([tool("a", implementation={"type": "http", "uri": "x"})], "tools[0].implementation", "did you mean 'url'"),
        ([tool("a", **by("nothing"))], "tools[0].implementation.function", "nothing"),
        ([tool("a", implementation={"type": "python", "code": "x"})], "tools[0].implementation.code", "into a module"),
        ([tool("a", platform_config={"mode": "live"})], "tools[0].platform_config", "has no implementation"),
        (
            [tool("a", implementation={"type": "http_webhook", "url": "http://x", "timeout_ms": "5"})],
            "tools[0].implementation.timeout_ms",
            "a number of milliseconds, got a text",
        ),
    ],
    ids=["no name", "twice", "unknown", "type", "missing", "address", "field", "function", "inline", "live", "limit"],
)
def test_a_tool_that_cannot_be_used_is_an_error_with_its_place(
    tools: list[Any], field: str, problem: str, tmp_path: Path
) -> None:
    (tmp_path / "shop.py").write_text(FUNCTIONS)

    with pytest.raises(InputError) as raised:
        Chat(a_runner(adapter="chat", settings={"model": "m", "tools": tools}, folder=tmp_path))

    assert str(raised.value.place.field).startswith(field)
    assert problem in str(raised.value)


def test_an_edited_function_executes_anew(tmp_path: Path) -> None:
    project, _ = carried_out(tmp_path, [("find", {"id": 7})], [tool("book", **by("fail"))])
    before = project.ask("SELECT key FROM current_executions")

    (project.root / "shop.py").write_text(FUNCTIONS + "\n\nEDITED = True\n")
    with serve(chat_reply("done")) as server:
        entry = json.loads((project.root / "runners.yaml").read_text())["runners"][0]
        project.write_runners({**entry, "base_url": server.url + "/v1"})
        counts = project.sweep()

    assert (counts.executed, project.ask("SELECT key FROM current_executions") == before) == (1, False)
