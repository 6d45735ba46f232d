"""A chat-completions server for load: answers sums at once or after a latency, with faults drawn by prompt and attempt.

Run as a process of its own (`python -m eval_pipeline_tests.benchmarks.stub_server`); it prints its port first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

from eval_pipeline_tests.benchmarks.rate_limit import RateLimit

_SUM = re.compile(rb"What is (\d+) \+ (\d+)\?")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
_RATE_LIMITED = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}"
_SERVER_ERROR = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}"


@dataclass(slots=True)
class Stub:
    """How the server answers, and what it has been asked so far."""

    latency_s: float = 0.0
    rate_limited: float = 0.0
    server_error: float = 0.0
    hang: float = 0.0
    limit: RateLimit = field(default_factory=lambda: RateLimit(0.0))
    counts: Counter[bytes] = field(default_factory=Counter)
    calls: int = 0
    refused: int = 0
    times: list[float] = field(default_factory=list)

    def fault(self, prompt: bytes) -> bytes | None:
        """The fault of this attempt at a prompt, as a share of all; drawn from a hash, so order does not matter."""
        if self.limit.refuses(time.monotonic()):
            self.refused += 1
            return _RATE_LIMITED
        if not (self.rate_limited or self.server_error or self.hang):
            return None
        self.counts[prompt] += 1
        draw = zlib.crc32(b"%s|%d" % (prompt, self.counts[prompt]) * 3) / 2**32
        for share, answer in ((self.rate_limited, _RATE_LIMITED), (self.server_error, _SERVER_ERROR), (self.hang, b"")):
            if draw < share:
                return answer
            draw -= share
        return None

    def seen(self) -> dict[str, float]:
        """What the server was asked: calls, those refused, seconds from the first call to the last answer, and those
        that the middle half of the calls took."""
        times, quarter = self.times, len(self.times) // 4
        seconds = times[-1] + self.latency_s - times[0] if times else 0.0
        middle_s = times[-1 - quarter] - times[quarter] if times else 0.0
        return {"calls": self.calls, "refused": self.refused, "seconds": seconds, "middle_s": middle_s}

    def answer(self, body: bytes) -> bytes | None:
        """The response to a request body; None: never answer."""
        self.calls += 1
        self.times.append(time.monotonic())
        match = _SUM.search(body)
        prompt = match[0] if match else body
        fault = self.fault(prompt)
        if fault is not None:
            return fault or None
        total = int(match[1]) + int(match[2]) if match else self.calls  # a simulator may not say the same again
        reply = {
            "id": "stub",
            "object": "chat.completion",
            "model": "stub",
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": f"It is {total}."}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16},
        }
        text = json.dumps(reply).encode()
        return _HEAD % (len(text), text)


class _Connection(asyncio.Protocol):
    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._buffer[:head_end]
        if head.startswith(b"GET"):
            self._buffer = b""
            text = json.dumps(self._stub.seen()).encode()
            self._transport.write(_HEAD % (len(text), text))
            return
        length = _LENGTH.search(head)
        end = head_end + 4 + (int(length[1]) if length else 0)
        if len(self._buffer) < end:
            return
        body, self._buffer = self._buffer[head_end + 4 : end], self._buffer[end:]
        answer = self._stub.answer(body)
        if answer is not None and self._stub.latency_s:
            asyncio.get_running_loop().call_later(self._stub.latency_s, self._write, answer)
        elif answer is not None:
            self._transport.write(answer)

    def _write(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


async def serve(stub: Stub) -> None:
    """Serves on a free port of 127.0.0.1 until killed; the port is the first line of output."""
    server = await asyncio.get_running_loop().create_server(lambda: _Connection(stub), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(arguments: list[str]) -> None:
    """Command line: one option per share, latency in milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("latency-ms", "rate-limited", "server-error", "hang", "per-second"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    given = parser.parse_args(arguments)
    stub = Stub(
        given.latency_ms / 1000, given.rate_limited, given.server_error, given.hang, RateLimit(given.per_second)
    )
    asyncio.run(serve(stub))


if __name__ == "__main__":
    main(sys.argv[1:])
