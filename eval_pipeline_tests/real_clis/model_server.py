"""A scripted model on 127.0.0.1 that real agent CLIs accept as their provider.

A prompt names its scenario as `[[script:NAME]]`. The newest such mark in the user's messages counts, and the number of
tool results after it is the step, so the server keeps no state: a resumed session brings a new mark.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from eval_pipeline_tests.local_server import LocalServer, Received, Reply, json_reply, serve
from eval_pipeline_tests.real_clis.model_calls import Action, call_of
from eval_pipeline_tests.real_clis.model_wires import (
    CHAT,
    GEMINI,
    MESSAGES,
    RESPONSES,
    JsonMap,
    ModelAnswer,
    ModelWire,
    Turn,
)

REJECTED_MODEL = "no-such-model"
FINAL = "Done: scenario {name} ended."
SCENARIOS: Mapping[str, Sequence[Action]] = {
    "plain": (),
    "second": (),
    "env": (Action("shell", {"command": "env; pwd; ls -a . .. ~; git log --oneline --all; cat ../../*/*.yaml"}),),
    "fail": (
        Action("shell", {"command": "echo to-stdout; echo to-stderr >&2; exit 3"}),
        Action("read", {"path": "does-not-exist.txt"}),
    ),
    "files": (
        Action("read", {"path": "notes.txt"}),
        Action("shell", {"command": "wc -l notes.txt"}),
        Action("write", {"path": "out.txt", "content": "alpha\nbeta\n"}),
        Action("edit", {"path": "notes.txt", "old": "line two", "new": "line TWO"}),
    ),
    "big": (Action("shell", {"command": "seq 1 60000"}),),
    "skill": (Action("skill", {"name": "demo-skill"}),),
    "tool_hang": (Action("shell", {"command": "echo before-sleep; sleep 987"}),),
}
_REFUSALS: Mapping[str, tuple[int, str, str]] = {
    "auth401": (401, "invalid_api_key", "Incorrect API key provided (scripted)."),
    "err429": (429, "rate_limit_exceeded", "Rate limit reached (scripted). Please try again in 1s."),
}
_MARK = re.compile(r"\[\[script:([a-z0-9_]+)\]\]")
_GEMINI_PATH = re.compile(r"/models/([^/:]+):(\w+)\Z")
_WORKSPACE = re.compile(rb"/[^\s\"'<>\\`]*/sessions-\d+/[0-9a-f]{16}/[0-9a-f]{8}")
_PATHS: Sequence[tuple[str, ModelWire]] = (
    ("/chat/completions", CHAT),
    ("/responses", RESPONSES),
    ("/messages", MESSAGES),
)


@dataclass(slots=True)
class ScriptedModel:
    """The model: how many calls it has answered by scenario, and when the newest came in."""

    calls: dict[str, int] = field(default_factory=dict)
    newest: dict[str, float] = field(default_factory=dict)

    def answer(self, request: Received) -> Reply:
        path = request.path.partition("?")[0].rstrip("/")
        body = orjson.loads(request.body) if request.body else {}
        gemini = _GEMINI_PATH.search(path)
        if path.endswith("/count_tokens") or (gemini is not None and gemini[2] == "countTokens"):
            return json_reply({"input_tokens": 1234, "totalTokens": 1234})
        if gemini is not None:
            return self._answered(GEMINI, {**body, "model": gemini[1], "stream": "stream" in gemini[2]}, request)
        wire = next((wire for suffix, wire in _PATHS if path.endswith(suffix)), None)
        if wire is None or not isinstance(body, dict):
            return json_reply({"object": "list", "data": [{"id": "scripted", "object": "model"}]})
        return self._answered(wire, body, request)

    def _answered(self, wire: ModelWire, body: JsonMap, request: Received) -> Reply:
        name, step = _scene(list(wire.turns(body)))
        self.calls[name], self.newest[name] = self.calls.get(name, 0) + 1, time.monotonic()
        model = str(body.get("model"))
        if model == REJECTED_MODEL:
            status = 400 if wire is RESPONSES else 404
            text = f"The model `{model}` does not exist or you do not have access to it."
            return wire.refusal(status, "not_found_error" if wire is MESSAGES else "model_not_found", text)
        if name in _REFUSALS:
            return wire.refusal(*_REFUSALS[name], retry_after="1")
        answer = _answer_of(wire, body, name, step, _workspace(request))
        if body.get("stream"):
            return wire.reply(answer)
        return json_reply(_plain_body(wire, answer))


def turns_of(request: Received) -> list[Turn]:
    """Return the conversation that a request to the model holds; empty for any other request."""
    path = request.path.partition("?")[0].rstrip("/")
    wire = GEMINI if _GEMINI_PATH.search(path) else next((wire for end, wire in _PATHS if path.endswith(end)), None)
    return list(wire.turns(orjson.loads(request.body))) if wire is not None else []


def _scene(turns: Sequence[Turn]) -> tuple[str, int]:
    """Return the scenario of a conversation and the step in it: the number of tool results after its mark."""
    marks = [
        (index, match[-1])
        for index, turn in enumerate(turns)
        if turn.role == "user" and not turn.is_result and (match := _MARK.findall(turn.text))
    ]
    index, name = marks[-1] if marks else (len(turns), "plain")
    return name, sum(turn.is_result for turn in turns[index:])


def _answer_of(wire: ModelWire, body: JsonMap, name: str, step: int, workspace: str) -> ModelAnswer:
    model, schemas, actions = str(body.get("model")), wire.tools(body), SCENARIOS.get(name, ())
    if not schemas:  # a title or a summary, which a CLI asks for beside the session
        return ModelAnswer(model=model, step=step, text="A title")
    if step >= len(actions):
        return ModelAnswer(model=model, step=step, text=FINAL.format(name=name), reasoning="I know what to say.")
    call = call_of(actions[step], schemas, workspace)
    reasoning = "I look at the workspace first." if step == 0 else None
    return ModelAnswer(model=model, step=step, reasoning=reasoning, calls=[call])


def _workspace(request: Received) -> str:
    """Return the folder that the session works in, as the request has it; `.` where it has none."""
    found = _WORKSPACE.findall(request.body)
    return found[-1].decode() if found else "."


def _plain_body(wire: ModelWire, answer: ModelAnswer) -> Any:
    """Return an answer that is no stream, which CLIs ask for beside the session only."""
    text, usage = answer.text or "", {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens}
    if wire is GEMINI:
        return next(iter(wire.events(answer)))[1]
    if wire is MESSAGES:
        content = [{"type": "text", "text": text}]
        return {"id": "msg", "type": "message", "role": "assistant", "model": answer.model, "content": content,
                "stop_reason": "end_turn", "usage": usage}  # fmt: skip
    message = {"role": "assistant", "content": text}
    return {"id": "chat", "object": "chat.completion", "model": answer.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


@contextlib.contextmanager
def scripted_model() -> Iterator[tuple[LocalServer, ScriptedModel]]:
    """Run a scripted model until the block ends."""
    model = ScriptedModel()
    with serve(model.answer) as server:
        yield server, model
