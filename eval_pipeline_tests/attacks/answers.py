"""Hostile answers of models behind HTTP and of programs: bombs, endless ones, wrong types, text that is no text.

Each is the only answer of a sweep. The sweep ends in time, without an exception, with one verdict; what cannot be used
is an execution with a failure class, and what is stored is shown and exported without raw control characters.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from eval_pipeline_tests.attacks.command_line import run_command, within_limits
from eval_pipeline_tests.attacks.findings import Attack, Findings, carry_out
from eval_pipeline_tests.attacks.patience import patience
from eval_pipeline_tests.local_server import Reply, chat_reply, json_reply, serve
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test, make_project

MB = 1_000_000
PATIENCE_S = 120.0
TIMEOUT_S = 2.0
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
JSON = {"content-type": "application/json"}
STREAM = {"content-type": "text/event-stream"}
EVIL = "\x1b]52;c;ZXZpbA==\x07\x9b31m\u202e\x00\x7f"
COMMANDS = (["show", "--failed"], ["show", "sums/a", "--full"], ["export", "-f", "json"], ["export", "-f", "html"],
            ["export", "-f", "junit"])  # fmt: skip


def attack(seconds: float, seed: str, folder: Path) -> Findings:
    """Give every kind of hostile answer, then again with other random values, until the time is over."""
    return carry_out(ATTACKS, seconds, seed, folder)


def _swept(folder: Path, runner: dict[str, Any]) -> str | None:
    project = make_project(folder / "project")
    project.write_suite(a_test("a"))
    project.write_runners(a_runner_entry(), {"name": "evil", "timeout_s": TIMEOUT_S, "max_output_mb": 4, **runner})
    problems: list[str] = []
    with within_limits(problems), patience(PATIENCE_S):
        project.sweep(runner="evil")
    return "; ".join([*problems, *_broken_promises(project)]) or None


def _broken_promises(project: ProjectFolder) -> Iterator[str]:
    rows = project.ask("SELECT status, failure_class FROM current_verdicts")
    if len(rows) != 1:
        yield f"{len(rows)} verdicts"
    elif (rows[0][0] == "error") != (rows[0][1] not in (None, "assertion")):
        yield f"the verdict is {rows[0]}"
    session = project.session()
    session.store.store_new_suites(session.load_suites(), set())
    session.warehouse.publish()
    for command in COMMANDS:
        printed = run_command(project.root, *command)
        if "Traceback" in printed.text or printed.code not in (0, 3):
            yield f"{' '.join(command)}: exit code {printed.code}: {printed.text[-500:]}"
        if found := RAW.search(printed.text):
            yield f"{' '.join(command)} prints {found[0]!r}"


def _http(make: Callable[[random.Random], Reply], folder: Path, rng: random.Random, **settings: Any) -> str | None:
    with serve(make(rng)) as server:
        return _swept(folder, {"adapter": "chat", "base_url": server.url, "model": "m", "retries": 0, **settings})


def _program(make: Callable[[random.Random], str], folder: Path, rng: random.Random) -> str | None:
    program = f"import os, sys, time\n{make(rng)}"
    return _swept(folder, {"adapter": "command", "command": [sys.executable, "-c", program]})


def _body(body: bytes, **headers: str) -> Callable[[random.Random], Reply]:
    more = {name.replace("_", "-"): text for name, text in headers.items()}
    return lambda rng: Reply(body=body, headers={**JSON, **more})


def _message(**fields: Any) -> Callable[[random.Random], Reply]:
    return lambda rng: chat_reply("4", **fields)


def _value(value: Any) -> Callable[[random.Random], Reply]:
    return lambda rng: json_reply(value)


def _random_value(rng: random.Random, depth: int = 0) -> Any:
    odd: tuple[Any, ...] = (None, True, -1, 10**15, 1e308, "", EVIL.replace("\x00", ""), "choices", [], {})
    if depth > 4 or rng.random() < 0.3:
        return rng.choice(odd)
    names = ("choices", "message", "content", "role", "tool_calls", "function", "arguments", "usage", "error", "id")
    if rng.random() < 0.3:
        return [_random_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(names): _random_value(rng, depth + 1) for _ in range(rng.randrange(6))}


def _event(text: str) -> bytes:
    return b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % text.encode()


def _chunks(chunk: bytes, headers: dict[str, str], megabytes: int = 40) -> Callable[[random.Random], Reply]:
    length = {"content-length": str(10**12)}
    return lambda rng: Reply(chunks=[chunk] * (megabytes * MB // len(chunk)), headers={**headers, **length})


def _deep(opening: bytes, closing: bytes) -> Callable[[random.Random], Reply]:
    def reply(rng: random.Random) -> Reply:
        depth = rng.choice([300, 1_000, 100_000])
        return Reply(body=b'{"choices": ' + opening * depth + closing * depth + b"}", headers=JSON)

    return reply


_CHAT = b'{"choices": [{"index": 0, "message": {"role": "assistant", "content": %s}, "finish_reason": "stop"}]}'
_ARGUMENTS = {"id": "t", "type": "function", "function": {"name": f"f{EVIL}", "arguments": '{"a": ' * 1_000}}
REPLIES: dict[str, Callable[[random.Random], Reply]] = {
    "a gzip bomb": _body(gzip.compress(b" " * 100 * MB), content_encoding="gzip"),
    "a deflate bomb": _body(zlib.compress(b" " * 100 * MB), content_encoding="deflate"),
    "gzip within gzip": _body(gzip.compress(gzip.compress(b"{}" * MB)), content_encoding="gzip, gzip"),
    "broken gzip": _body(gzip.compress(b"{}" * 1_000)[:-20], content_encoding="gzip"),
    "gzip that is none": _body(b"{}", content_encoding="gzip"),
    "an unknown encoding": _body(b"{}", content_encoding="br, zstd"),
    "an endless body": _chunks(b" " * 10_000, JSON),
    "a body cut short": lambda rng: Reply(body=_CHAT % b'"4"', headers=JSON, cut=True),
    "a connection without an answer": lambda rng: Reply(hang=True),
    "a byte at a time": lambda rng: Reply(chunks=[b" "] * 100, pause_s=0.5, headers=JSON),
    "nothing": _body(b""),
    "no JSON": _body(b"<html>busy</html>"),
    "JSON with an end missing": _body((_CHAT % b'"4"')[:-3]),
    "two documents": _body(_CHAT % b'"4"' + b"{}"),
    "a byte order mark": _body(b"\xef\xbb\xbf" + _CHAT % b'"4"'),
    "UTF-16": _body((_CHAT % b'"4"').decode().encode("utf-16")),
    "bad UTF-8": _body(_CHAT % b'"\xff\xfe\x80"'),
    "NaN": _body(_CHAT % b"NaN"),
    "a huge number": _body(_CHAT % (b"9" * 10_000)),
    "an infinite number": _body(_CHAT % b"1e999999"),
    "lone surrogates": _body(_CHAT % b'"\\ud800 4 \\udfff"'),
    "null characters": _body(_CHAT % b'"4 \\u0000"'),
    "escape sequences": lambda rng: chat_reply(f"4 {EVIL}"),
    "lists without end": _deep(b"[", b"]"),
    "mappings without end": _deep(b'{"a":', b"}"),
    "a list": _value([1]),
    "null": _value(None),
    "a text": _value("4"),
    "no choices": _value({"choices": []}),
    "choices of a wrong type": _value({"choices": {"0": 1}}),
    "a message of a wrong type": _value({"choices": [{"message": ["x"]}]}),
    "content of a wrong type": lambda rng: json_reply({"choices": [{"message": {"content": {"a": [1]}}}]}),
    "parts of wrong types": lambda rng: json_reply({"choices": [{"message": {"content": [1, None, {"type": 5}]}}]}),
    "usage of a wrong type": _message(usage={"prompt_tokens": "many", "completion_tokens": -5, "total_tokens": 1e300}),
    "negative and huge usage": _message(usage={"prompt_tokens": -(10**18), "completion_tokens": 10**18}),
    "tool calls of wrong types": _message(
        tool_calls=[1, None, {"function": 7}, {"id": [], "function": {"name": None}}]
    ),
    "tool calls with deep arguments": _message(tool_calls=[_ARGUMENTS]),
    "a thousand tool calls": _message(tool_calls=[_ARGUMENTS | {"id": str(number)} for number in range(1_000)]),
    "an error within 200": _value({"error": {"message": f"broken {EVIL}", "code": [1]}}),
    "an error of a wrong type": lambda rng: json_reply({"error": rng.choice([1, [], "x" * MB, {"message": {}}])}, 500),
    "a status of its own": lambda rng: Reply(status=rng.choice([204, 299, 304, 418, 599]), body=b"x"),
    "too many requests for ever": lambda rng: json_reply({}, 429, retry_after="99999999"),
    "a redirect to itself": lambda rng: Reply(status=307, headers={"location": "/v1/chat/completions"}),
    "a redirect to a file": lambda rng: Reply(status=302, headers={"location": "file:///etc/passwd"}),
    "random values": lambda rng: json_reply(_random_value(rng)),
    "random bytes": lambda rng: Reply(body=rng.randbytes(2_000), headers=JSON),
}
STREAMS: dict[str, Callable[[random.Random], Reply]] = {
    "an endless stream": _chunks(_event("x" * 1_000), STREAM),
    "an endless line": _chunks(b"data: x" * 1_000, STREAM),
    "endless comments": _chunks(b": still here\n\n" * 1_000, STREAM),
    "a stream without an end": lambda rng: Reply(chunks=[_event("4")], headers=STREAM),
    "a stream cut short": lambda rng: Reply(chunks=[_event("4")[:-9]], headers=STREAM, cut=True),
    "events of wrong types": lambda rng: Reply(
        chunks=[b"data: " + json.dumps(_random_value(rng)).encode() + b"\n\n" for _ in range(50)], headers=STREAM
    ),
    "events of random bytes": lambda rng: Reply(chunks=[b"data: " + rng.randbytes(200) + b"\n\n"] * 5, headers=STREAM),
}
_WRITE = "os.write({stream}, {data!r})"
PROGRAMS: dict[str, Callable[[random.Random], str]] = {
    "a program that prints without end": lambda rng: "while True: os.write(1, b'x' * 65536)",
    "a program that complains without end": lambda rng: "while True: os.write(2, b'x' * 65536)",
    "a program that never ends": lambda rng: "time.sleep(600)",
    "a program that ignores its end": lambda rng: (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    ),
    "a program that leaves a child": lambda rng: "if os.fork() == 0: time.sleep(600)\nprint(4)",
    "a program that closes its streams": lambda rng: "os.close(1); os.close(2); time.sleep(1)",
    "a program that kills itself": lambda rng: "os.kill(os.getpid(), 11)",
    "a program that prints escapes": lambda rng: _WRITE.format(stream=1, data=f"2 {EVIL}".encode()),
    "a program that fails with escapes": lambda rng: _WRITE.format(stream=2, data=EVIL.encode()) + "; sys.exit(3)",
    "a program that prints random bytes": lambda rng: _WRITE.format(stream=1, data=rng.randbytes(2_000)),
}
ATTACKS: dict[str, Attack] = {
    **{name: partial(_http, make) for name, make in REPLIES.items()},
    **{name: partial(_http, make, stream=True) for name, make in STREAMS.items()},
    **{name: partial(_program, make) for name, make in PROGRAMS.items()},
}
