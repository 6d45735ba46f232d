"""A scripted model server: `python3 model_server.py [PORT]`. It speaks every wire of the pipeline and knows no model.

The model `desk` asks for the number of a parcel, calls the tool `find_parcel` and says what it found; the model `user`
plays a commuter. `POST /agent/respond` is the desk as an agent behind an address, which calls its tool itself.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

USAGE = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
CITIES = {7: "Ulm", 9: "Bonn"}


class Said(NamedTuple):
    """One message: who said it (user, assistant, tool), and its words."""

    role: str
    text: str


class Reply(NamedTuple):
    """What a model replies: words, or the number of the parcel that it looks for."""

    text: str
    parcel: int | None = None


def reply_to(model: str, said: list[Said]) -> Reply:
    """Return what a model says next."""
    role, text = said[-1] if said else Said("user", "")
    if model == "user":
        return Reply(json.dumps(_user(text.lower())))
    if role == "tool":
        found = json.loads(text)
        return Reply(f"Parcel {found['id']} is in {found['city']}." if "city" in found else f"That failed: {text}")
    number = re.search(r"\d+", text)
    if number is not None:
        return Reply("", int(number[0]))
    return Reply("You are welcome." if "great" in text.lower() else "Which number has your parcel?")


def _user(heard: str) -> dict[str, Any]:
    if "ulm" in heard:
        return {"message": "Great.", "end": True}
    return {"message": "It is number 7." if "number" in heard else "Where is my parcel?", "end": False}


def openai(body: dict[str, Any]) -> dict[str, Any]:
    """`/v1/chat/completions`."""
    said = [Said(message["role"], message.get("content") or "") for message in body["messages"]]
    reply = reply_to(body["model"], said)
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if reply.parcel is not None:
        message["tool_calls"] = [_openai_call(reply.parcel)]
    return {"id": "r", "object": "chat.completion", "model": body["model"], "usage": USAGE,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


def _openai_call(parcel: int) -> dict[str, Any]:
    function = {"name": "find_parcel", "arguments": json.dumps({"id": parcel})}
    return {"id": f"call-{parcel}", "type": "function", "function": function}


def openai_stream(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same as a stream: one word at a time."""
    message = openai(body)["choices"][0]["message"]
    deltas = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in re.findall(r"\S+\s*", message["content"] or "")]
    deltas += [{"tool_calls": [{"index": 0, **call}]} for call in message.get("tool_calls", ())]
    for delta in deltas:
        yield {"id": "r", "model": body["model"], "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"id": "r", "model": body["model"], "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield {"id": "r", "model": body["model"], "choices": [], "usage": USAGE}


def responses(body: dict[str, Any]) -> dict[str, Any]:
    """`/v1/responses`."""
    said = []
    for item in body["input"]:
        if item.get("type") == "function_call_output":
            said.append(Said("tool", item["output"]))
        elif "role" in item:
            content = item["content"]
            said.append(Said(item["role"], content if isinstance(content, str) else content[0]["text"]))
    reply = reply_to(body["model"], said)
    output: dict[str, Any] = {"type": "message", "id": "m", "role": "assistant", "status": "completed",
                              "content": [{"type": "output_text", "text": reply.text, "annotations": []}]}  # fmt: skip
    if reply.parcel is not None:
        output = {"type": "function_call", "id": "f", "call_id": f"call-{reply.parcel}", "name": "find_parcel",
                  "arguments": json.dumps({"id": reply.parcel}), "status": "completed"}  # fmt: skip
    usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25}
    return {"id": "r", "object": "response", "status": "completed", "model": body["model"], "output": [output],
            "usage": usage}  # fmt: skip


def anthropic(body: dict[str, Any]) -> dict[str, Any]:
    """`/v1/messages`."""
    said = []
    for message in body["messages"]:
        parts = message["content"]
        for part in parts if isinstance(parts, list) else [{"type": "text", "text": parts}]:
            if part["type"] == "tool_result":
                content = part["content"]
                said.append(Said("tool", content if isinstance(content, str) else content[0]["text"]))
            elif part["type"] == "text":
                said.append(Said(message["role"], part["text"]))
    reply = reply_to(body["model"], said)
    content = [{"type": "text", "text": reply.text}]
    if reply.parcel is not None:
        content = [{"type": "tool_use", "id": f"call-{reply.parcel}", "name": "find_parcel",
                    "input": {"id": reply.parcel}}]  # type: ignore[dict-item]  # fmt: skip
    return {"id": "r", "type": "message", "role": "assistant", "model": body["model"], "content": content,
            "stop_reason": "end_turn", "usage": {"input_tokens": 20, "output_tokens": 5}}  # fmt: skip


def gemini(body: dict[str, Any]) -> dict[str, Any]:
    """`/v1beta/models/desk:generateContent`."""
    said = []
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionResponse" in part:
                result = part["functionResponse"]["response"]
                said.append(Said("tool", json.dumps(result.get("result", result.get("output", result)))))
            elif "text" in part:
                said.append(Said("assistant" if content["role"] == "model" else "user", part["text"]))
    if said and said[-1].role == "tool" and said[-1].text.startswith('"'):
        said[-1] = Said("tool", json.loads(said[-1].text))
    reply = reply_to("desk", said)
    part: dict[str, Any] = {"text": reply.text}
    if reply.parcel is not None:
        part = {"functionCall": {"name": "find_parcel", "args": {"id": reply.parcel}}}
    usage = {"promptTokenCount": 20, "candidatesTokenCount": 5, "totalTokenCount": 25}
    return {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage, "modelVersion": "desk"}  # fmt: skip


def agent(body: dict[str, Any]) -> dict[str, Any]:
    """`/agent/respond`: the desk with its tool, the messages of one turn."""
    said = [Said(message["role"], message["content"] or "") for message in body["messages"]]
    reply = reply_to("desk", said)
    if reply.parcel is None:
        return {"messages": [{"role": "assistant", "content": reply.text}], "model": "desk", "usage": USAGE}
    call = _openai_call(reply.parcel)
    result = json.dumps({"id": reply.parcel, "city": CITIES.get(reply.parcel, "transit")})
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": result, "tool_call_id": call["id"]},
        {"role": "assistant", "content": reply_to("desk", [Said("tool", result)]).text},
    ]
    return {"messages": messages, "model": "desk", "usage": USAGE, "metadata": {"end": True}}


WIRES = {
    "/v1/chat/completions": openai, "/v1/responses": responses, "/v1/messages": anthropic, "/agent/respond": agent,
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Answers requests of every wire."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        path = self.path.split("?")[0]
        if body.get("stream") and path == "/v1/chat/completions":
            events = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in openai_stream(body))
            self._send(200, "text/event-stream", events + b"data: [DONE]\n\n")
            return
        wire = gemini if ":generateContent" in path else WIRES.get(path)
        if wire is None:
            self._send(404, "application/json", b'{"error": {"message": "no such address"}}')
            return
        self._send(200, "application/json", json.dumps(wire(body)).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main(port: int) -> None:
    """Serve until the process is ended; the address is printed first."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9200)
