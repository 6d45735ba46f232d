"""A real HTTP server on 127.0.0.1, in a thread, that answers as a test says and remembers what it was asked."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Received:
    """A request: its method, path, headers (names in lower case), body, and the port that the client asked from."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    port: int = 0

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer. `chunks` are sent one by one instead of `body`; with `cut` the connection ends before the answer does.

    `pause_s` lies between one chunk and the next. `hang` keeps the client waiting until the server is closed.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    chunks: Sequence[bytes] | None = None
    pause_s: float = 0.0
    cut: bool = False
    hang: bool = False

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


Answer = Callable[[Received], Reply]


@dataclass(slots=True)
class LocalServer:
    """A server while it runs: where it is, and what came in so far."""

    url: str
    requests: list[Received] = field(default_factory=list)


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    """A JSON answer; header names are written with `_` for `-`."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Reply(status=status, body=orjson.dumps(value), headers={"content-type": "application/json", **named})


def chat_reply(text: str | None = "4", *, usage: object = None, **message: Any) -> Reply:
    """A chat completion of the OpenAI wire format."""
    chat_message = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": chat_message, "finish_reason": "stop"}
    return json_reply({"id": "chat-1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": usage})


def stream_reply(*events: object, done: bool = True, cut: bool = False) -> Reply:
    """A stream of server-sent events, one JSON chunk each."""
    lines = [b"data: " + orjson.dumps(event) + b"\n\n" for event in events]
    chunks = [*lines, b"data: [DONE]\n\n"] if done else lines
    return Reply(chunks=chunks, cut=cut, headers={"content-type": "text/event-stream"})


def in_turn(*replies: Reply) -> Answer:
    """Answers one after the other, the last one again and again."""
    waiting = list(replies)
    return lambda request: waiting.pop(0) if len(waiting) > 1 else waiting[0]


@contextlib.contextmanager
def serve(answer: Answer | Reply) -> Iterator[LocalServer]:
    """Runs a server that gives `answer` to every request, until the block ends."""
    closing = threading.Event()
    server = _Server(("127.0.0.1", 0), _Handler)
    running = LocalServer(f"http://127.0.0.1:{server.server_port}")
    reply_to: Answer = answer if callable(answer) else lambda request: answer
    server.take_up(running, reply_to, closing)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def take_up(self, running: LocalServer, reply_to: Answer, closing: threading.Event) -> None:
        self.running, self.reply_to, self.closing = running, reply_to, closing

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a client on a kept connection waits 40 ms for the body after the headers
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Received(self.command, self.path, headers, self.rfile.read(length), self.client_address[1])
        self.server.running.requests.append(request)
        reply = self.server.reply_to(request)
        if reply.hang:
            self.server.closing.wait()
            self.close_connection = True
            return
        with contextlib.suppress(OSError):  # the client may have gone away
            self._send(reply)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on stderr."""

    def _send(self, reply: Reply) -> None:
        pieces = reply.chunks if reply.chunks is not None else [reply.body]
        length = sum(map(len, pieces)) + (1 if reply.cut else 0)  # what a cut answer promises never comes
        self.send_response(reply.status)
        for name, value in {"content-length": str(length), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()
            self.server.closing.wait(reply.pause_s)
        self.close_connection = reply.cut
