"""The wire between agents and their provider: recorded, compared with the report, and replayed without the provider."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.wire_records import WireCall
from eval_pipeline.agents.wire_server import WireServer, WireSession
from eval_pipeline.agents.wire_streams import joined
from eval_pipeline.agents.wired import WiredAgent
from eval_pipeline.errors import InputError
from eval_pipeline.executions.identity import runner_revision
from eval_pipeline.executions.model import Execution, RawExecution, Runner, TargetFailure
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.reports.model import ErrorEvent, SessionReport
from eval_pipeline.reports.normalize import normalize
from eval_pipeline_tests.builders import a_call, a_case, a_plan, a_runner, an_execution
from eval_pipeline_tests.local_server import LocalServer, Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.real_clis.model_calls import ToolCall
from eval_pipeline_tests.real_clis.model_wires import CHAT, GEMINI, MESSAGES, RESPONSES, ModelAnswer, ModelWire

AGENT = Path(__file__).parents[2] / "examples" / "agents" / "programs" / "small_agent.py"
KEY = "sk-provider-0123456789"
ANSWERS: Sequence[Sequence[ToolCall]] = (
    [ToolCall("shell", {"command": "pwd > where; echo looked"})],
    [ToolCall("write_file", {"path": "$HERE/out.txt", "content": "four"})],
    [],
)


def provider(request: Received) -> Reply:
    """Look, write a file by its absolute path, and say so."""
    body = request.json
    step = sum(message["role"] == "tool" for message in body["messages"])
    here = body["messages"][0]["content"].partition("You work in ")[2].partition(".\n")[0]
    calls = [ToolCall(call.name, {key: text.replace("$HERE", here) for key, text in call.arguments.items()})
             for call in ANSWERS[step]]  # fmt: skip
    reply = CHAT.reply(ModelAnswer(model=body["model"], step=step, text="" if calls else "Done.", calls=calls))
    assert reply.chunks is not None
    return Reply(chunks=[piece for chunk in reply.chunks for piece in in_pieces(chunk)], headers=reply.headers)


def in_pieces(chunk: bytes) -> Iterator[bytes]:
    """The arguments of a call in pieces of 7 characters, as providers send them."""
    event = json.loads(chunk[6:]) if chunk.startswith(b"data: {") else {"choices": []}
    calls = event["choices"][0]["delta"].get("tool_calls") if event["choices"] else None
    if not calls:
        yield chunk
        return
    arguments = calls[0]["function"]["arguments"]
    calls[0]["function"]["arguments"] = ""
    yield b"data: " + json.dumps(event).encode() + b"\n\n"
    del calls[0]["id"], calls[0]["type"], calls[0]["function"]["name"]
    for begin in range(0, len(arguments), 7):
        calls[0]["function"]["arguments"] = arguments[begin : begin + 7]
        yield b"data: " + json.dumps(event).encode() + b"\n\n"


def an_agent(folder: Path, url: str, **settings: Any) -> Runner:
    env = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY}
    given = {"agent": "codex", "executable": str(AGENT), "model": "m", "env": env, "provider_url": f"{url}/v1",
             "recording": "calls", **settings}  # fmt: skip
    return a_runner(adapter="agent", settings=given, folder=folder, secrets=(KEY,))


def session(runner: Runner, folder: Path, repetition: int = 1) -> tuple[RawExecution, SessionReport]:
    """Carry out a case in a workspace of its own."""

    async def carried_out() -> RawExecution:
        adapter = WiredAgent(runner)
        workspace = folder / "workspace"
        workspace.mkdir(parents=True)
        call = a_call(folder / "files", a_plan(a_case(text="Do it."), runner, repetition=repetition))
        try:
            object.__setattr__(call, "workspace", workspace)
            return await adapter.execute(call)
        finally:
            await adapter.close()

    raw = asyncio.run(carried_out())
    return raw, normalize(an_execution(a_plan(), raw=raw), a_case(), runner)


def calls_of(raw: RawExecution) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.files["wire"].read_text().splitlines()]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RawExecution, SessionReport, LocalServer]:
    folder = tmp_path_factory.mktemp("recorded")
    with serve(provider) as server:
        raw, report = session(an_agent(folder, server.url, record="wire"), folder / "first")
    return folder, raw, report, server


def test_every_call_is_kept_with_request_status_usage_and_times(recorded: Any) -> None:
    _, raw, report, server = recorded

    calls = calls_of(raw)

    assert [(call["path"], call["status"], call["model"]) for call in calls] == [("chat/completions", 200, "m")] * 3
    assert [call["usage"]["input_tokens"] for call in calls] == [1000, 1100, 1200]
    assert all(0 < call["first_byte_ms"] <= call["duration_ms"] and call["complete"] for call in calls)
    assert json.loads(calls[0]["request"])["messages"][0]["role"] == "user"
    assert report.final_output == "Done."
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


def test_neither_keys_nor_folders_of_this_machine_are_in_a_recording(recorded: Any) -> None:
    folder, raw, _, _ = recorded
    kept = (folder / "calls" / "suite" / "c1.jsonl").read_text()

    assert kept == raw.files["wire"].read_text()
    assert KEY not in kept
    assert str(folder) not in kept
    assert "You work in $WORKSPACE." in kept


def test_a_key_in_an_address_is_not_in_a_recording() -> None:
    KNOWN.add([KEY])
    call = WireCall(method="POST", path=f"models/m:generateContent?key={KEY}", request="{}", status=200)

    assert call.redacted({}).path == "models/m:generateContent?key=***"


def test_a_recording_answers_in_another_folder_without_the_provider(recorded: Any, tmp_path: Path) -> None:
    folder, _, first, server = recorded
    runner = an_agent(folder, "http://127.0.0.1:9", replay="wire")

    raw, report = session(runner, tmp_path / "again")

    assert (tmp_path / "again" / "workspace" / "out.txt").read_text() == "four"
    assert (tmp_path / "again" / "workspace" / "where").read_text().strip() == str(tmp_path / "again" / "workspace")
    assert (report.final_output, report.usage, report.commands) == (first.final_output, first.usage, first.commands)
    assert len(calls_of(raw)) == 3
    assert len(server.requests) == 3


def test_a_call_that_was_not_recorded_is_named(recorded: Any, tmp_path: Path) -> None:
    folder = recorded[0]
    (tmp_path / "calls" / "suite").mkdir(parents=True)
    lines = (folder / "calls" / "suite" / "c1.jsonl").read_text().splitlines()
    (tmp_path / "calls" / "suite" / "c1.jsonl").write_text(lines[0] + "\n")

    with pytest.raises(TargetFailure, match="no further answer to POST chat/completions") as raised:
        session(an_agent(tmp_path, "http://127.0.0.1:9", replay="wire"), tmp_path / "again")

    assert raised.value.failure.id == "recording-missing"
    assert raised.value.raw is not None


def test_a_case_without_recording_is_named(recorded: Any, tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()

    with pytest.raises(TargetFailure, match=r"there is no recording .*calls/suite/c1\.jsonl"):
        session(an_agent(tmp_path, "http://127.0.0.1:9", replay="wire"), tmp_path / "again")


def test_a_repetition_has_a_file_that_no_other_case_has(recorded: Any, tmp_path: Path) -> None:
    (tmp_path / "calls").mkdir()

    with pytest.raises(TargetFailure, match=r"there is no recording .*calls/suite/c1~2\.jsonl"):
        session(an_agent(tmp_path, "http://127.0.0.1:9", replay="wire"), tmp_path / "again", repetition=2)


def test_a_report_that_differs_from_the_wire_is_flagged(tmp_path: Path) -> None:
    stdout = tmp_path / "stdout"
    stdout.write_text('{"type": "turn.completed", "usage": {"input_tokens": 900, "output_tokens": 50}}\n')
    call = WireCall(method="POST", path="responses", request="{}", status=200, response=json.dumps(
        {"usage": {"input_tokens": 1000, "input_tokens_details": {}, "output_tokens": 50}}))  # fmt: skip
    (tmp_path / "wire").write_text(json.dumps(call.as_json()))
    raw = RawExecution(format="codex", payload={}, files={"stdout": stdout, "wire": tmp_path / "wire"})
    execution: Execution = an_execution(a_plan(), raw=raw)

    report = normalize(execution, a_case(), a_runner())

    (flag,) = [event for event in report.events if isinstance(event, ErrorEvent) and not event.terminal]
    assert flag.message == "usage at the wire differs: input_tokens 1,000 (report 900)"


@pytest.mark.parametrize(
    ("wire", "path", "usage"),
    [
        (CHAT, "v1/chat/completions", (1100, 256, 51)),
        (RESPONSES, "v1/responses", (1100, 256, 51)),
        (MESSAGES, "v1/messages?beta=true", (1100, 256, 51)),
        (GEMINI, "v1beta/models/m:streamGenerateContent?alt=sse", (1100, 256, 51)),
    ],
    ids=["chat", "responses", "messages", "gemini"],
)
def test_the_usage_of_every_wire_is_read(wire: ModelWire, path: str, usage: tuple[int, ...]) -> None:
    chunks = wire.reply(ModelAnswer(model="m", step=1, text="Hello", reasoning="So.")).chunks
    assert chunks is not None

    call = WireCall(method="POST", path=path, request='{"model": "m"}', status=200, content_type="text/event-stream",
                    response=b"".join(chunks).decode())  # fmt: skip

    assert (call.usage.input_tokens, call.usage.cached_input_tokens, call.usage.output_tokens) == usage
    assert (call.is_model_call, call.model) == (True, "m")


def test_pieces_of_one_text_are_joined_and_nothing_else() -> None:
    def event(**delta: Any) -> str:
        return "data: " + json.dumps({"choices": [{"delta": delta}]})

    stream = "\n\n".join([event(content="a$WORK"), event(content="SPACE"), event(content="", role="x"), "data: [DONE]"])

    assert joined(stream) == "\n\n".join([event(content="a$WORKSPACE"), event(content="", role="x"), "data: [DONE]"])


def test_streams_are_passed_on_as_they_come_and_errors_as_they_are() -> None:
    async def through(url: str) -> list[Any]:
        import aiohttp

        server, wire = WireServer(), WireSession(url)
        try:
            async with server.session(wire) as address, aiohttp.ClientSession() as client:
                began = time.monotonic()
                async with client.post(f"{address}/slow", json={}) as response:
                    first = await response.content.readany()
                    at_first = time.monotonic() - began
                    rest = await response.read()
                async with client.post(f"{address}/bad", json={}) as response:
                    status, retry = response.status, response.headers["retry-after"]
                async with client.post(f"{address.rpartition('/')[0]}/other/slow", json={}) as response:
                    unknown = response.status
            return [first, at_first, rest, status, retry, unknown, [call.status for call in wire.calls]]
        finally:
            await server.close()

    slow = Reply(chunks=[b"data: 1\n\n", b"data: 2\n\n"], pause_s=0.3, headers={"content-type": "text/event-stream"})
    bad = json_reply({"error": {}}, 429, retry_after="7")
    with serve(lambda request: bad if request.path == "/bad" else slow) as server:
        first, at_first, rest, status, retry, unknown, statuses = asyncio.run(through(server.url))

    assert (first, rest) == (b"data: 1\n\n", b"data: 2\n\n")
    assert at_first < 0.3
    assert (status, retry, unknown) == (429, "7", 404)
    assert statuses == [200, 429]


def test_a_stream_that_the_provider_breaks_off_breaks_off_quietly(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    cut = Reply(chunks=[b'data: {"choices": []}\n\n'], cut=True, headers={"content-type": "text/event-stream"})

    with serve(cut) as server:
        raw, report = session(an_agent(tmp_path, server.url, record="wire"), tmp_path / "first")

    assert [call["complete"] for call in calls_of(raw)] == [False]
    assert report.final_output is None
    assert "Traceback" not in capfd.readouterr().err


def test_a_provider_that_cannot_be_reached_is_a_bad_gateway(tmp_path: Path) -> None:
    with serve(chat_reply()) as server:
        gone = server.url

    with pytest.raises(TargetFailure):
        session(an_agent(tmp_path, gone, record="wire"), tmp_path / "first")

    (call,) = [json.loads(line) for line in (tmp_path / "calls" / "suite" / "c1.jsonl").read_text().splitlines()]
    assert (call["status"], call["complete"]) == (None, False)


def test_recording_is_no_part_of_the_identity_and_what_is_replayed_is(recorded: Any, tmp_path: Path) -> None:
    folder = recorded[0]
    plain = runner_revision(an_agent(folder, "http://127.0.0.1:9"))

    assert runner_revision(an_agent(folder, "http://127.0.0.1:9", record="wire")) == plain
    assert runner_revision(an_agent(folder, "http://127.0.0.1:9", replay="wire")) != plain


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"record": "wires"}, "did you mean 'wire'?"),
        ({"record": "wire", "replay": "wire"}, "expected record or replay, not both"),
        ({"replay": "wire", "recording": None}, "expected the folder of the recorded calls"),
        ({"replay": "wire", "recording": "nowhere"}, "of recorded calls"),
        ({"record": "wire", "provider_url": None}, "provider_url: expected the address of codex's provider"),
    ],
    ids=["near name", "both", "no recording", "no folder", "no address"],
)
def test_a_wire_that_cannot_be_used_is_refused(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        WiredAgent(an_agent(tmp_path, "http://127.0.0.1:9", **settings))

    assert problem in str(raised.value)
