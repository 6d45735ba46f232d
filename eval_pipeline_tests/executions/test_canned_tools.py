"""Canned answers of tools: a model calls, the case's mocks answer, and it goes on until it speaks."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import orjson
import pytest

from eval_pipeline.executions.adapters.chat import Chat
from eval_pipeline.executions.model import RawExecution, TargetFailure
from eval_pipeline.failures import MAX_STEPS
from eval_pipeline.reports.model import ToolResultEvent
from eval_pipeline.reports.normalize import normalize
from eval_pipeline.suites.simulation import ToolMock
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution
from eval_pipeline_tests.llm.providers import PROVIDERS, Provider, plain, streamed
from eval_pipeline_tests.local_server import Answer, Received, Reply, chat_reply, in_turn, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project


def tool(name: str, **mark: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}, **mark}


def calls(*named: tuple[str, Any], text: str | None = None) -> Reply:
    made = [
        {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": orjson.dumps(given).decode()}}
        for number, (name, given) in enumerate(named, start=1)
    ]
    return chat_reply(text, tool_calls=made, usage={"prompt_tokens": 10, "completion_tokens": 2})


SPOKEN = chat_reply("done", usage={"prompt_tokens": 20, "completion_tokens": 3})


def ask(reply: Answer | Reply, *mocks: ToolMock, **fields: Any) -> tuple[Any, list[Received]]:
    """What a model that answers so brings back (a raw execution or a failure), and what it was sent."""
    with serve(reply) as server:
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": [tool("find"), tool("add")], **fields}
        adapter = Chat(a_runner(adapter="chat", settings=settings))

        async def main() -> RawExecution:
            try:
                return await adapter.execute(a_call(Path("files"), a_plan(a_case(mocks=mocks))))
            finally:
                await adapter.close()

        try:
            return asyncio.run(main()), server.requests
        except TargetFailure as failure:
            return failure, server.requests


def results(raw: RawExecution) -> list[tuple[Any, bool | None]]:
    report = normalize(an_execution(raw=raw), a_case(), a_runner())
    return [
        (orjson.loads(event.output), event.is_error) for event in report.events if isinstance(event, ToolResultEvent)
    ]


def test_a_call_is_answered_and_the_model_goes_on() -> None:
    mock = ToolMock(tool="find", response={"at": "{{city}}, parcel {{id}}", "id": "{{ id }}", "who": "{{none}}"})

    raw, (_, second) = ask(in_turn(calls(("find", {"city": "Ulm", "id": 7}), text="wait"), SPOKEN), mock)
    report = normalize(an_execution(raw=raw), a_case(), a_runner())

    assert results(raw) == [({"at": "Ulm, parcel 7", "id": 7, "who": "{{none}}"}, False)]
    assert [message["role"] for message in second.json["messages"]] == ["user", "assistant", "tool"]
    assert (report.final_output, report.model_calls) == ("done", 2)
    assert (report.usage.input_tokens, report.usage.output_tokens) == (30, 5)


@pytest.mark.parametrize(
    ("params", "match", "answered"),
    [
        (None, "values", True),
        ({"city": " ULM "}, "values", True),
        ({"city": "Bonn"}, "values", False),
        ({"city": "Bonn"}, "keys", True),
        ({"city": "{{ city }}", "id": "{{id}}"}, "values", True),
        ({"street": "{{ street }}"}, "values", False),
        ({"street": None}, "keys", False),
        ({"id": 7.0}, "values", True),
        ({"id": "7"}, "values", False),
        ({"deep": {"a": "x"}}, "values", True),
        ({"deep": {"a": "X"}}, "values", False),
        ({"flag": 1}, "values", False),
    ],
)
def test_a_canned_answer_is_for_calls_with_its_arguments(params: Any, match: Any, answered: bool) -> None:
    given = {"city": "Ulm", "id": 7, "deep": {"a": "x"}, "flag": True}

    raw, _ = ask(
        in_turn(calls(("find", given)), SPOKEN), ToolMock(tool="find", response={}, params=params, match=match)
    )

    assert results(raw) == (
        [({}, False)] if answered else [({"error": "no canned answer of 'find' has these arguments"}, True)]
    )


def test_canned_answers_are_given_in_order_and_each_once() -> None:
    mocks = [ToolMock(tool="find", response={"n": 1}), ToolMock(tool="find", response={"n": 2})]

    raw, _ = ask(in_turn(calls(*[("find", {})] * 3, ("add", {})), SPOKEN), *mocks)

    assert results(raw) == [
        ({"n": 1}, False),
        ({"n": 2}, False),
        ({"error": "every canned answer of 'find' was given"}, True),
        ({"error": "there is no canned answer of 'add'"}, True),
    ]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda provider: provider.wire)
def test_every_wire_is_sent_the_results_and_no_model_calls_tools_for_ever(provider: Provider, stream: bool) -> None:
    reply = streamed(provider.stream()) if stream else plain(provider.response)
    mock = ToolMock(tool="add", response={"sum": "planted"}, params={"a": 2})

    failure, requests = ask(reply, mock, wire=provider.wire, stream=stream, max_output_tokens=9)

    assert (failure.failure, str(failure)) == (MAX_STEPS, "the model still calls tools after 16 rounds")
    assert len(requests) == 16
    assert b"planted" not in requests[0].body
    assert b"planted" in requests[1].body
    assert len(results(failure.raw)) == 16


def test_a_failed_round_keeps_the_rounds_before_it() -> None:
    failure, _ = ask(in_turn(calls(("find", {})), json_reply({}, 429)), ToolMock(tool="find", response={}))

    report = normalize(an_execution(raw=failure.raw), a_case(), a_runner())
    assert failure.retryable
    assert (report.usage.input_tokens, report.model_calls) == (10, 2)


def test_a_turn_that_times_out_after_its_rounds_keeps_what_they_used_and_pays_for_each_call(tmp_path: Path) -> None:
    prices = {"input_per_million": 1e6, "output_per_million": 1e6, "per_call": 100.0}
    with serve(in_turn(SPOKEN, calls(("find", {})), Reply(hang=True))) as server:
        folder = project(tmp_path / "p", server.url, tool("find"), user={"script": ["one", "two"]})
        runner = {"base_url": server.url + "/v1", "model": "m", "tools": [tool("find")], "prices": prices}
        retries = {"max_retries": 0}
        folder.write_runners({"name": "agent", "adapter": "chat", "timeout_s": 0.4, "retries": retries, **runner})
        folder.sweep(runner="agent")

    used = folder.ask("SELECT failure_class, input_tokens, output_tokens, model_calls, cost_usd FROM session_reports")
    assert used == [("timeout", 30, 5, 3, 335.0)]
    assert folder.ask("SELECT sum(cost_usd) FROM conversation_spending") == [(335.0,)]


def test_without_canned_answers_the_calls_are_the_answer_as_ever() -> None:
    raw, requests = ask(calls(("find", {})))

    assert len(requests) == 1
    assert "response" in raw.payload


def project(folder: Path, url: str, *tools: Any, **case: Any) -> ProjectFolder:
    made = make_project(folder)
    runner = {"name": "agent", "adapter": "chat", "base_url": url + "/v1", "model": "m", "tools": list(tools)}
    made.write_runners(runner)
    made.write_suite({"id": "talk", "assertions": [contains("done")], **case})
    return made


def test_a_conversation_has_one_queue_and_the_model_is_sent_its_earlier_calls(tmp_path: Path) -> None:
    case = {"user": {"script": ["one", "two"]}, "mocks": [{"tool": "find", "response": {"n": n}} for n in (1, 2)]}
    with serve(in_turn(calls(("find", {})), SPOKEN, calls(("find", {})), SPOKEN)) as server:
        project(tmp_path / "p", server.url, tool("find"), **case).sweep(runner="agent")

        last = server.requests[-1].json["messages"]

    assert [message["role"] for message in last] == [
        "user",
        *["assistant", "tool", "assistant", "user"],
        *["assistant", "tool"],
    ]
    assert [message["content"] for message in last if message["role"] == "tool"] == ['{"n":1}', '{"n":2}']


def test_a_terminating_tool_ends_the_conversation_and_is_sent_without_its_mark(tmp_path: Path) -> None:
    with serve(in_turn(SPOKEN, calls(("hang_up", {}), text="done, bye"))) as server:
        folder = project(
            tmp_path / "p", server.url, tool("hang_up", terminating=True), user={"script": ["one", "two", "three"]}
        )
        folder.sweep(runner="agent")

        assert len(server.requests) == 2
        assert "terminating" not in server.requests[0].json["tools"][0]
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]


def test_a_canned_answer_of_a_tool_that_the_runner_has_not_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    folder = project(
        tmp_path / "p", "http://127.0.0.1:9", tool("find"), input="x", mocks=[{"tool": "fnid", "response": {}}]
    )
    session = folder.session()

    checked = preflight(session, session.pairs([PairKey("sums", "agent")]), SweepOptions())

    (error,) = checked.errors.values()
    assert error.place.field == "mocks[0].tool"
    assert "no tool of runner 'agent' 'fnid'; there are: find" in str(error)


def test_an_answer_of_a_tool_where_the_runner_has_none_says_so(tmp_path: Path) -> None:
    folder = project(tmp_path / "p", "http://127.0.0.1:9", input="x", mocks=[{"tool": "find", "response": {}}])
    session = folder.session()

    (error,) = preflight(session, session.pairs([PairKey("sums", "agent")]), SweepOptions()).errors.values()

    assert "mocks[0].tool: runner 'agent' has no tools, and this is an answer of 'find'; declare it" in str(error)


def test_an_attempt_that_is_tried_again_goes_on_after_the_rounds_before_it(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    mocks = [{"tool": "find", "response": {"n": number}} for number in (1, 2)]
    folder.write_suite({"id": "c1", "input": "go", "mocks": mocks, "assertions": [contains("done")]})
    replies = in_turn(calls(("find", {})), json_reply({}, 429), calls(("find", {})), json_reply({}, 503), SPOKEN)
    with serve(replies) as server:
        retries = {"max_retries": 3, "initial_delay_s": 0.0}
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": [tool("find")], "retries": retries}
        folder.write_runners({"name": "echo", "adapter": "chat", **settings})
        folder.sweep()

    assert [len(request.json["messages"]) for request in server.requests] == [1, 3, 3, 5, 5]
    assert folder.ask("SELECT status FROM current_verdicts") == [("passed",)]
    assert folder.ask("SELECT input_tokens, model_calls FROM session_reports") == [(40, 3)]


def test_a_call_that_no_canned_answer_matches_is_named_beside_the_verdict(tmp_path: Path) -> None:
    folder = make_project(tmp_path / "project")
    mocks = [{"tool": "find", "params": {"id": 7}, "response": {}}]
    folder.write_suite({"id": "c1", "input": "go", "mocks": mocks, "assertions": [contains("done")]})
    with serve(in_turn(calls(("find", {"id": 8}), ("find", {"id": 7})), SPOKEN)) as server:
        settings = {"base_url": server.url + "/v1", "model": "m", "tools": [tool("find")]}
        folder.write_runners({"name": "echo", "adapter": "chat", **settings})
        folder.sweep()

    ((reason,),) = folder.ask("SELECT reason FROM current_verdicts")
    assert reason.endswith('; no canned answer matches find({"id":8})')
