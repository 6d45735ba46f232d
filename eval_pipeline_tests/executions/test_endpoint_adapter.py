"""Agents behind an address: what they are sent, what is read of their answers, and answers that break the contract."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.executions.adapters.endpoint import Endpoint
from eval_pipeline.executions.engine import Engine
from eval_pipeline.executions.model import Execution, RetryPolicy
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, ToolResultEvent
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.model import Message
from eval_pipeline_tests.builders import a_case, a_plan, a_runner
from eval_pipeline_tests.executions.simulated_provider import Sink, lane
from eval_pipeline_tests.local_server import Answer, Received, Reply, in_turn, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

CALL = {"id": "call_a", "type": "function", "function": {"name": "find_parcel", "arguments": '{"id": 7}'}}


def said(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


LOOKED_UP = [
    said("One moment.", tool_calls=[CALL]),
    {"role": "tool", "tool_call_id": "call_a", "content": "on its way"},
    said("It is on its way."),
]


def answer(*messages: Any, **more: Any) -> Reply:
    return json_reply({"messages": list(messages), **more})


def carried_out(reply: Answer | Reply, **fields: Any) -> tuple[SessionReport, Execution, list[Received]]:
    """The report of one case with an agent that answers so, and what the agent was sent."""
    runner_fields = {"timeout_s": 5.0, "retries": RetryPolicy(max_retries=0), **fields}
    with serve(reply) as server:
        settings = {"url": server.url + "/agent/respond", "headers": {"x-key": "secret"}}
        runner = a_runner(adapter="endpoint", settings=settings, **runner_fields)
        case = a_case(input=(Message(role="system", content="be brief"), Message(role="user", content="where is it?")))
        plan, sink = a_plan(case, runner), Sink()

        async def main() -> None:
            engine = Engine(sink=sink, folder_of=lambda plan: Path("files"))
            await engine.carry_out([lane(runner, Endpoint(runner), [plan])])

        asyncio.run(main())
        (execution,) = sink.kept
        return normalize(execution, case, runner), execution, server.requests


def test_the_agent_is_sent_the_messages_with_nulls_and_where_they_are_from() -> None:
    _, _, (request,) = carried_out(answer(said("hi")))

    empty = {"tool_calls": None, "tool_call_id": None, "name": None}
    assert (request.method, request.path, request.headers["x-key"]) == ("POST", "/agent/respond", "secret")
    assert request.json == {
        "messages": [
            {"role": "system", "content": "be brief", **empty}, {"role": "user", "content": "where is it?", **empty},
        ],
        "metadata": {"test_case_id": "c1", "turn_index": 2},
    }  # fmt: skip


def test_words_tool_calls_results_and_usage_of_the_agent_are_in_the_report() -> None:
    usage = {"prompt_tokens": "10", "completion_tokens": 3.0}
    report, _, _ = carried_out(answer(*LOOKED_UP, model="m1", usage=usage, metadata={"trace": "t"}))

    assert report.events == (
        MessageEvent(role="assistant", text="One moment.", phase="commentary"),
        ToolCallEvent(tool="find_parcel", call_id="call_a", arguments={"id": 7}),
        ToolResultEvent(tool="find_parcel", call_id="call_a", output="on its way"),
        MessageEvent(role="assistant", text="It is on its way.", phase="final"),
    )
    assert (report.final_output, report.model) == ("It is on its way.", "m1")
    assert (report.usage.input_tokens, report.usage.output_tokens) == (10, 3)


def test_a_result_beside_its_call_is_read_and_no_message_is_an_answer_without_words() -> None:
    inline, _, _ = carried_out(answer(said(None, tool_calls=[{**CALL, "tool_result": {"ok": True}}])))
    nothing, execution, _ = carried_out(answer())

    assert [use.result.output for use in inline.tool_uses if use.result] == ['{"ok":true}']
    assert (nothing.final_output, execution.failure_class) == (None, None)


MALFORMED = "malformed-reply"


@pytest.mark.parametrize(
    ("reply", "failure", "message"),
    [
        (Reply(body=b"{nope"), MALFORMED, "not JSON"),
        (json_reply(["hi"]), MALFORMED, "expected an object with messages, got a list"),
        (json_reply({"message": "hi"}), MALFORMED, "messages: expected a list"),
        (answer("hi"), MALFORMED, "messages[0]: expected an object"),
        (answer(said("hi"), {"role": "tool", "content": "x"}), MALFORMED, "the last message has the role 'tool'"),
        (answer({"role": "bot", "content": "x"}), MALFORMED, "messages[0].role: expected one of"),
        (answer(said(["x"])), MALFORMED, "messages[0].content: expected a text or null"),  # type: ignore[arg-type]
        (answer(said("x", tool_calls={})), MALFORMED, "messages[0].tool_calls: expected a list"),
        (
            answer(said("x", tool_calls=[{"id": "a", "function": {"name": "f", "arguments": {}}}])),
            MALFORMED,
            "messages[0].tool_calls[0].function.arguments: expected a text",
        ),
        (json_reply({"messages": [said("x")], "model": 5}), MALFORMED, "model: expected a text or null, got a number"),
        (json_reply({"messages": [said("x")], "usage": 5}), MALFORMED, "usage: expected an object or null"),
        (
            json_reply({"messages": [said("x")], "usage": {"prompt_tokens": "7.5"}}),
            MALFORMED,
            "usage.prompt_tokens: expected a whole number or null",
        ),
        (json_reply({"messages": [said("x")], "metadata": "end"}), MALFORMED, "metadata: expected an object or null"),
        (Reply(chunks=[b'{"messages": ['], cut=True), "connection", "127.0.0.1"),
        (json_reply({"detail": "who are you?"}, 401), "authentication", "HTTP 401: who are you?"),
        (json_reply({}, 429), "rate-limited", "HTTP 429"),
        (Reply(status=500, body=b"boom"), "server-error", "HTTP 500: boom"),
        (
            Reply(status=302, body=b"<html>Moved", headers={"location": "http://elsewhere/"}),
            MALFORMED,
            "redirects to http://elsewhere/",
        ),
        (Reply(body=b"[" * 2_000_000), "output-limit", "limit of 1 MB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_answer_that_breaks_the_contract_is_a_failure_that_says_what_is_wrong(
    reply: Reply, failure: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, execution, _ = carried_out(reply, max_output_mb=1.0)

    assert execution.failure_class == failure
    assert message in str(execution.error)


def test_what_an_answer_that_breaks_the_contract_used_is_known() -> None:
    reply = json_reply({"messages": [], "model": 5, "usage": {"prompt_tokens": "7", "completion_tokens": 2}})

    report, execution, _ = carried_out(reply)

    assert execution.failure_class == MALFORMED
    assert (report.usage.input_tokens, report.usage.output_tokens, report.final_output) == (7, 2, None)


@pytest.mark.parametrize("reply", [Reply(hang=True), Reply(chunks=[b" "] * 40, pause_s=0.1)], ids=["silent", "slow"])
def test_an_agent_that_takes_too_long_is_a_timeout(reply: Reply) -> None:
    _, execution, _ = carried_out(reply, timeout_s=0.2)

    assert (execution.failure_class, execution.error) == ("timeout", "no answer within 0.2 s")


def test_a_refused_turn_is_tried_again() -> None:
    quick = RetryPolicy(initial_delay_s=0.0, max_retries=1)
    report, _, requests = carried_out(in_turn(json_reply({}, 429), answer(said("hi"))), retries=quick)

    assert (report.final_output, len(requests)) == ("hi", 2)


@pytest.mark.parametrize("url", ["ftp://here", "http://", "nowhere", ""])
def test_an_address_that_cannot_be_used_names_the_setting(url: str) -> None:
    with pytest.raises(InputError) as raised:
        Endpoint(a_runner(adapter="endpoint", settings={"url": url}))

    assert raised.value.place.field == "url"


def project(folder: Path, url: str, **fields: Any) -> ProjectFolder:
    made = make_project(folder)
    made.write_runners({"name": "agent", "adapter": "endpoint", "url": url, **fields})
    made.write_suite(
        {"id": "talk", "user": {"script": ["where is it?", "thanks", "bye"]}, "assertions": [contains("i")]}
    )
    return made


def test_the_agent_is_sent_its_own_earlier_tool_calls_and_results(tmp_path: Path) -> None:
    with serve(in_turn(answer(*LOOKED_UP), answer(said("hi")))) as server:
        project(tmp_path / "p", server.url).sweep(runner="agent")

        sent = server.requests[1].json

    assert sent["metadata"]["turn_index"] == 5
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
    assert sent["messages"][1]["tool_calls"] == [CALL | {"function": {"name": "find_parcel", "arguments": '{"id":7}'}}]
    assert (sent["messages"][2]["tool_call_id"], sent["messages"][2]["content"]) == ("call_a", "on its way")


def test_the_agent_ends_the_conversation_by_a_field(tmp_path: Path) -> None:
    with serve(in_turn(answer(said("hi")), answer(said("bye"), metadata={"end": True}))) as server:
        folder = project(tmp_path / "p", server.url)
        folder.sweep(runner="agent")

        assert len(server.requests) == 2
    assert folder.ask("SELECT failure_class FROM current_verdicts") == [("assertion",)]


def test_a_failed_healthcheck_sends_nothing(tmp_path: Path) -> None:
    with serve(lambda request: Reply(status=503) if request.method == "GET" else answer(said("hi"))) as server:
        folder = project(tmp_path / "p", server.url, healthcheck={"url": server.url})
        folder.sweep(runner="agent")

        assert {request.method for request in server.requests} == {"GET"}
    assert folder.ask("SELECT failure_class FROM current_verdicts") == [("connection",)]
