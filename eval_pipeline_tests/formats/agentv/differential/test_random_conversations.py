"""Random conversations with a model that repeats what it is told, through the real `agentv` command and through ours:
the scores and verdicts of the tests are equal."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.formats.agentv.agentv_project import an_agentv_project, index_rows
from eval_pipeline_tests.formats.agentv.differential.agentv_command import agentv_command, agentv_rows
from eval_pipeline_tests.fuzzing.limits import SEED

pytestmark = [pytest.mark.slow, pytest.mark.real_agentv]
TESTS = 20
WORDS = ("red", "Red", "blue", "green tea", "42")
TARGETS = """\
targets:
  - name: default
    provider: openai
    model: ${{ ECHO_MODEL }}
    base_url: ${{ ECHO_URL }}
    api_key: ${{ ECHO_KEY }}
"""


class _Echo(BaseHTTPRequestHandler):
    """Chat completions whose answer is the last message."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = {"role": "assistant", "content": _text(request["messages"][-1]["content"])}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        answer = {"id": "1", "created": 0, "model": "echo", "usage": usage}
        choice = {"index": 0, "finish_reason": "stop"}
        if request.get("stream"):
            chunk = {**answer, "object": "chat.completion.chunk", "choices": [{**choice, "delta": message}]}
            self._send("text/event-stream", f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
        else:
            whole = {**answer, "object": "chat.completion", "choices": [{**choice, "message": message}]}
            self._send("application/json", json.dumps(whole).encode())

    def _send(self, type_: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


@contextlib.contextmanager
def an_echo() -> Iterator[str]:
    """The address of the model, while it answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def entries(draw: random.Random) -> list[dict[str, Any]]:
    """One to three evaluators."""
    known: list[dict[str, Any]] = [
        {"type": "contains", "value": draw.choice(WORDS), "weight": draw.choice((0.5, 1, 2))},
        {"type": "icontains-any", "value": draw.sample(WORDS, 2), "negate": draw.random() < 0.3},
        {"type": "regex", "value": draw.choice(("^[A-Z]", r"\d", "tea$"))},
        {"type": "contains", "value": draw.choice(WORDS), "required": True},
    ]
    return draw.sample(known, draw.randint(1, 3))


def a_conversation(number: int, draw: random.Random) -> dict[str, Any]:
    """A test of one to four turns, the first one with evaluators, with or without evaluators of its own."""
    turns: list[dict[str, Any]] = [
        {"input": " ".join(draw.choices(WORDS, k=2))} | ({"assertions": entries(draw)} if draw.random() < 0.8 else {})
        for _ in range(draw.randint(1, 4))
    ]
    turns[0]["assertions"] = entries(draw)
    settings: dict[str, Any] = {
        "aggregation": draw.choice(("mean", "min", "max")),
        "on_turn_failure": draw.choice(("continue", "stop")),
        "window_size": draw.randint(1, 3),
    }
    test: dict[str, Any] = {"id": f"t{number}", "mode": "conversation", "criteria": "is right", "input": "red"}
    test |= {"turns": turns} | {name: value for name, value in settings.items() if draw.random() < 0.5}
    return test | ({"assertions": entries(draw)} if draw.random() < 0.5 else {})


def test_conversations_have_the_scores_of_the_real_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = agentv_command()
    for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA"):
        monkeypatch.delenv(name, raising=False)
    draw = random.Random(SEED)
    tests = [a_conversation(number, draw) for number in range(TESTS)]
    files = {".agentv/targets.yaml": TARGETS, "random.eval.yaml": json.dumps({"name": "random", "tests": tests})}
    project = an_agentv_project(tmp_path, files)

    with an_echo() as address:
        monkeypatch.setenv("ECHO_URL", address)
        monkeypatch.setenv("ECHO_KEY", "none")
        monkeypatch.setenv("ECHO_MODEL", "echo")
        theirs = {row["test_id"]: row for row in agentv_rows(command, tmp_path, "random.eval.yaml")}
        ran = project("run", "random.eval.yaml", "--quiet")

    assert ran.code in (0, 1), ran.text
    ours = {row["test_id"]: row for row in index_rows(project)}
    wrong = [
        f"{test}: {theirs[test['id']]['score']} there, {ours[test['id']]['score']} here"
        for test in tests
        if theirs[test["id"]]["score"] != pytest.approx(ours[test["id"]]["score"])
        or theirs[test["id"]]["execution_status"] != ours[test["id"]]["execution_status"]
        or [each["name"] for each in theirs[test["id"]]["scores"]]
        != [each["name"] for each in ours[test["id"]]["scores"]]
    ]
    assert not wrong, "\n".join(wrong)
