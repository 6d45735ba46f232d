"""Three services on this machine, for the suites in evals-with-services: a model that grades, embeddings, a webhook.

    python3 programs/services.py 8765

It prints its address and serves until it is ended. The model is `judge.py`; a text's embedding counts its words.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from judge import reply, words

DIMENSIONS = 64


def chat(asked: dict[str, Any]) -> dict[str, Any]:
    """A chat completion in OpenAI's format."""
    prompt = "\n\n".join(str(message["content"]) for message in asked["messages"])
    message = {"role": "assistant", "content": reply(prompt, 0.5)}
    usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": 20, "total_tokens": len(prompt) // 4 + 20}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {"id": "1", "object": "chat.completion", "model": asked["model"], "choices": choices, "usage": usage}


def embeddings(asked: dict[str, Any]) -> dict[str, Any]:
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    data = [{"object": "embedding", "index": index, "embedding": vector(text)} for index, text in enumerate(texts)]
    return {"object": "list", "model": asked["model"], "data": data, "usage": {"prompt_tokens": 8, "total_tokens": 8}}


def vector(text: str) -> list[float]:
    counts = [0.0] * DIMENSIONS
    for word in words(text):
        counts[sum(word.encode()) % DIMENSIONS] += 1.0
    return counts


def webhook(asked: dict[str, Any]) -> dict[str, Any]:
    """Says whether the answer keeps to the length that the eval file's `config` allows."""
    count, most = len(asked["output"].split()), asked["context"]["config"].get("most_words", 50)
    return {"pass": count <= most, "score": min(1.0, most / max(count, 1)), "reason": f"{count} words, at most {most}"}


SERVICES = {"/v1/chat/completions": chat, "/v1/embeddings": embeddings, "/check": webhook}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        service = SERVICES.get(self.path)
        body = json.dumps(service(asked) if service else {"error": f"nothing at {self.path}"}).encode()
        self.send_response(200 if service else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
