"""A local HTTP server through which a grading program calls models while it runs.

Wire format: AgentV's. `GET /info`, `POST /invoke`, `POST /invokeBatch`, each with a bearer token of this single run.
The grader client sends the requests, so any runner can grade, replies are cached and every call is recorded.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.compatibility import GRADER_TOKEN_VARIABLE, GRADER_URL_VARIABLE, program_variables
from eval_pipeline.scores.grader_client import GraderClient, GraderFailure, GraderReply
from eval_pipeline.scores.programs.messages import token_usage
from eval_pipeline.suites.model import Message

MAX_CALLS = 50
_BODY_BYTES = 64_000_000
_ENDING_S = 0.1
Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Access:
    """The permissions of a program: a number of calls, of the default grader and the named ones."""

    max_calls: int = MAX_CALLS
    targets: tuple[str, ...] = ()


@dataclass(slots=True)
class Proxy:
    """A running proxy and the calls it made."""

    client: GraderClient
    access: Access
    url: str = ""
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    call_count: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        """The environment variables with the proxy's address and token."""
        return program_variables({GRADER_URL_VARIABLE: self.url, GRADER_TOKEN_VARIABLE: self.token})

    async def info(self, request: web.Request) -> Answer:
        """Return the limits and the number of calls so far."""
        named = self.access.targets
        return 200, {
            "targetName": named[0] if named else "default",
            "maxCalls": self.access.max_calls,
            "callCount": self.call_count,
            "availableTargets": list(named or ("default",)),
        }

    async def invoke(self, request: web.Request) -> Answer:
        """Handle one question."""
        body = await _body(request)
        if body is None:
            return _error(400, "expected a JSON object")
        if self.call_count >= self.access.max_calls:
            return _error(429, f"no more than {self.access.max_calls} calls are allowed")
        return await self._invoke(body)

    async def invoke_batch(self, request: web.Request) -> Answer:
        """Handle several questions sequentially; a failed question yields an error in its place."""
        body = await _body(request)
        questions = body.get("requests") if body is not None else None
        if not isinstance(questions, list):
            return _error(400, "expected a JSON object with a list 'requests'")
        if self.call_count + len(questions) > self.access.max_calls:
            return _error(429, f"{len(questions)} more calls than the {self.access.max_calls} allowed")
        return 200, {"responses": [_batch_item(await self._invoke(question)) for question in questions]}

    async def _invoke(self, body: Any) -> Answer:
        question = body.get("question") if isinstance(body, Mapping) else None
        if not isinstance(question, str) or not question:
            return _error(400, "expected a text 'question'")
        grader, system, sample = body.get("target"), body.get("systemPrompt"), body.get("attempt")
        if not isinstance(grader, str | None):
            return _error(400, "expected a text 'target'")
        messages = [Message(role="system", content=system)] if isinstance(system, str) and system else []
        messages.append(Message(role="user", content=question))
        self.call_count += 1
        try:
            reply = await self.client.complete(
                messages,
                grader=None if grader == "default" else grader,
                sample=sample - 1 if type(sample) is int and sample > 0 else 0,
            )
        except InputError as error:
            return _error(400, str(error))
        except GraderFailure as failure:
            self.calls.append({"question": question, "failure": str(failure)})
            return _error(502, str(failure))
        self.calls.append(_call_record(question, system, reply))
        if not reply.text:
            return _error(502, f"grader '{reply.grader}' returned no text")
        return 200, _response(reply)


def _response(reply: GraderReply) -> dict[str, Any]:
    usage = token_usage(reply.usage)
    return {"output": [{"role": "assistant", "content": reply.text}], "rawText": reply.text} | (
        {"tokenUsage": usage} if usage is not None else {}
    )


def _batch_item(answer: Answer) -> dict[str, Any]:
    status, body = answer
    return body if status == 200 else {"output": [], "rawText": f"Error: {body['error']}"}


def _call_record(question: str, system: Any, reply: GraderReply) -> dict[str, Any]:
    """Return the record of a call, stored with the score."""
    return {
        "question": question,
        "system_prompt": system,
        "reply": reply.text,
        "grader": reply.grader,
        "model": reply.model,
        "settings": dict(reply.settings),
        "usage": token_usage(reply.usage),
        "cost_usd": reply.usage.cost_usd,
        "cached": reply.cached,
    }


def _error(status: int, problem: str) -> Answer:
    return status, {"error": problem}


async def _body(request: web.Request) -> Mapping[str, Any] | None:
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        return None
    return body if isinstance(body, dict) else None


@contextlib.asynccontextmanager
async def run_proxy(access: Access | None, client: GraderClient) -> AsyncIterator[Proxy | None]:
    """Run a proxy for the duration of the block; yields None without access."""
    if access is None:
        yield None
        return
    proxy = Proxy(client, access)
    app = web.Application(client_max_size=_BODY_BYTES)
    app.add_routes([
        web.get("/info", _authenticated(proxy, proxy.info)),
        web.post("/invoke", _authenticated(proxy, proxy.invoke)),
        web.post("/invokeBatch", _authenticated(proxy, proxy.invoke_batch)),
    ])  # fmt: skip
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=_ENDING_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield proxy
    finally:
        await runner.cleanup()


def _authenticated(
    proxy: Proxy, answer: Callable[[web.Request], Awaitable[Answer]]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Reject requests without this run's token."""

    async def handle(request: web.Request) -> web.Response:
        header = request.headers.get("Authorization", "").encode("utf-8", "replace")
        authorized = hmac.compare_digest(header, f"Bearer {proxy.token}".encode())
        status, body = await answer(request) if authorized else _error(401, "the bearer token of this run is needed")
        return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")

    return handle
