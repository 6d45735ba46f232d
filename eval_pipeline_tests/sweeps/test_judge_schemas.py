"""The judge's reply as a strict schema: sent where the wire has one, left out where it or the model has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.local_server import Received, Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

POINTS = {"score": 4, "justification": "j", "failure_code": None, "turns": [1]}
OUTCOME = {"statement": "greeted", "passed": True, "justification": "it is"}
JUDGEMENT = json.dumps({"tool_routing": POINTS, "expected_outcomes": [OUTCOME]})
JUDGE = {"type": "judge", "metrics": ["tool_routing"], "outcomes": ["greeted"]}


def _responses(text: str) -> Reply:
    content = [{"type": "output_text", "text": text}]
    return json_reply({"output": [{"type": "message", "role": "assistant", "content": content}], "status": "completed"})


def _messages(text: str) -> Reply:
    return json_reply({"type": "message", "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"})


def _contents(text: str) -> Reply:
    candidate = {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
    return json_reply({"candidates": [candidate]})


def _converse(text: str) -> Reply:
    message = {"role": "assistant", "content": [{"text": text}]}
    return json_reply({"output": {"message": message}, "stopReason": "end_turn"})


WIRES: Mapping[str, tuple[Callable[[str], Reply], tuple[str, ...]]] = {
    "openai": (chat_reply, ("response_format", "json_schema", "schema")),
    "openai-responses": (_responses, ("text", "format", "schema")),
    "anthropic": (_messages, ("output_config", "format", "schema")),
    "gemini": (_contents, ("generationConfig", "responseJsonSchema")),
}


def judged(
    folder: Path, answer: Callable[[Received], Reply], *, cases: int = 1, **judge: Any
) -> tuple[ProjectFolder, list[Any]]:
    """A project whose judge is a model at a local server, and the bodies that it was sent."""
    project = make_project(folder / "project")
    tests = [{"id": f"c{number}", "input": f"Hi {number}", "assertions": [JUDGE]} for number in range(cases)]
    project.write_suite(*tests)
    with serve(answer) as server:
        model = {"name": "judge", "adapter": "chat", "base_url": server.url, "api_key": "k", "model": "m", **judge}
        project.write_runners({"name": "agent", "adapter": "mock", "response": "Good day"}, model)
        project.sweep(runner="agent", grader="judge")
        return project, [request.json for request in server.requests]


def within(body: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        body = body.get(name, {})
    return body


@pytest.mark.parametrize("wire", WIRES)
def test_the_reply_is_requested_as_a_strict_schema(wire: str, tmp_path: Path) -> None:
    reply, path = WIRES[wire]

    project, (body,) = judged(tmp_path, lambda request: reply(JUDGEMENT), wire=wire)

    schema = within(body, path)
    assert sorted(schema["properties"]) == sorted(schema["required"]) == ["expected_outcomes", "key", "tool_routing"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["tool_routing"]["required"] == ["score", "justification", "failure_code", "turns"]
    assert project.ask("SELECT status FROM current_verdicts") == [("passed",)]


def test_a_wire_without_schemas_is_asked_in_words_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    project, (body,) = judged(tmp_path, lambda request: _converse(JUDGEMENT), wire="bedrock", region="eu-west-1")

    assert set(body) == {"messages", "system"}
    assert project.ask("SELECT status FROM current_verdicts") == [("passed",)]
    assert "grader 'judge' holds to no schema of its replies: wire 'bedrock' has no such setting" in caplog.text


def test_a_model_that_refuses_the_schema_is_asked_in_words_from_then_on(tmp_path: Path) -> None:
    def answer(request: Received) -> Reply:
        if "response_format" in request.json:
            return json_reply({"error": {"message": "response_format is not supported"}}, 400)
        return chat_reply(JUDGEMENT)

    project, bodies = judged(tmp_path, answer, cases=3, concurrency=1)

    assert sum("response_format" not in body for body in bodies) == 3
    assert "response_format" not in bodies[-1]
    assert project.ask("SELECT DISTINCT status FROM current_verdicts") == [("passed",)]


def test_a_format_of_the_judges_own_goes_before_the_schema(tmp_path: Path) -> None:
    own = {"type": "json_object"}

    _, (body,) = judged(tmp_path, lambda request: chat_reply(JUDGEMENT), response_format=own)

    assert body["response_format"] == own
