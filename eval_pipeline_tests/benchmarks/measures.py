"""Measures inside one process: scoring, and what a call costs by each way of making it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import httpx_aiohttp
import orjson

from eval_pipeline.llm.client import ChatClient
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.evaluate import bind, build, evaluate, requires_client
from eval_pipeline.scores.model import Subject
from eval_pipeline.suites.model import Case, EvaluatorSpec, Message

SPECS = (
    EvaluatorSpec(type="contains", name="contains", config={"value": "answer"}),
    EvaluatorSpec(type="regex", name="regex", config={"value": r"(\d+)\s*$"}),
    EvaluatorSpec(type="equals", name="equals", config={"value": "The answer is 7"}),
)


def measure_scoring(quick: bool) -> None:
    """Scoring reports with three evaluators each: µs of CPU per score, verdict included."""
    count = 20_000 if quick else 100_000
    case = Case(id="c", input=(Message(role="user", content="?"),), evaluators=SPECS)
    bound = [bind(spec, case, Path()) for spec in SPECS]
    subjects = [
        Subject(case, SessionReport(execution_id=str(number), final_output=f"The answer is {number}"))
        for number in range(count)
    ]
    bare = _bare_scoring(subjects)
    begun = time.process_time()
    for subject in subjects:
        decide(case, subject.report, evaluate(subject, bound))
    spent = time.process_time() - begun
    print(f"scoring: {spent / count / len(SPECS) * 1e6:.1f} µs/score over {count:,} reports; the three checks alone, "
          f"without scores, reasons or verdicts: {bare * 1e6:.1f} µs each", flush=True)  # fmt: skip


def _bare_scoring(subjects: list[Subject]) -> float:
    """Seconds per check when only the comparison itself is made."""
    evaluators = [part for part in map(build, SPECS) if not requires_client(part)]
    begun = time.process_time()
    for subject in subjects:
        for evaluator in evaluators:
            evaluator.evaluate(subject)
    return (time.process_time() - begun) / len(subjects) / len(SPECS)


def measure_http(quick: bool) -> None:
    """CPU per call at 10, 50 and 200 connections: our client, httpx on two transports, bare aiohttp."""
    count = 1_000 if quick else 5_000
    command = [sys.executable, "-m", "eval_pipeline_tests.benchmarks.stub_server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        try:
            for connections in (10, 50, 200):
                for name, way in WAYS.items():
                    begun = time.process_time()
                    asyncio.run(way(url, connections, count))
                    spent = (time.process_time() - begun) / count * 1000
                    print(f"{connections:>4} connections, {name:<28} {spent:.3f} ms CPU per call", flush=True)
        finally:
            process.kill()


def _body(number: int) -> dict[str, object]:
    return {"model": "stub", "messages": [{"role": "user", "content": f"What is {number} + 3?"}]}


async def _spread(count: int, connections: int, call: Callable[[int], Awaitable[object]]) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(worker() for _ in range(connections)))


async def _ours(url: str, connections: int, count: int) -> None:
    client = ChatClient(url, max_connections=connections)
    await _spread(count, connections, lambda number: client.complete(_body(number), timeout_s=30))
    await client.close()


async def _through_httpx(url: str, connections: int, count: int, transport: httpx.AsyncBaseTransport | None) -> None:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    async with httpx.AsyncClient(transport=transport, limits=limits, timeout=30) as client:
        await _spread(count, connections, lambda number: client.post(f"{url}/chat/completions", json=_body(number)))


async def _httpx_own(url: str, connections: int, count: int) -> None:
    await _through_httpx(url, connections, count, None)


async def _httpx_aiohttp(url: str, connections: int, count: int) -> None:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
    await _through_httpx(url, connections, count, httpx_aiohttp.AiohttpTransport(limits=limits))


async def _aiohttp(url: str, connections: int, count: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=connections)) as session:

        async def call(number: int) -> object:
            async with session.post(f"{url}/chat/completions", data=orjson.dumps(_body(number))) as response:
                return orjson.loads(await response.read())

        await _spread(count, connections, call)


WAYS: dict[str, Callable[[str, int, int], Coroutine[Any, Any, None]]] = {
    "our client": _ours,
    "httpx client, aiohttp pool": _httpx_aiohttp,
    "httpx client, own pool": _httpx_own,
    "bare aiohttp": _aiohttp,
}
