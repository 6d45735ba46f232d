"""`endpoint`: an agent behind an HTTP address that takes the messages so far and returns those of its turn."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx

from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.chat_messages import wire_messages
from eval_pipeline.executions.healthcheck import HEALTHCHECK, read_healthcheck
from eval_pipeline.executions.model import DEFAULT_CONCURRENCY, RawExecution, Runner, TargetFailure
from eval_pipeline.executions.model_failures import target_failure
from eval_pipeline.failures import FailureClass
from eval_pipeline.llm.errors import ModelError, malformed
from eval_pipeline.llm.json_client import JsonClient
from eval_pipeline.llm.model import Endpoint as Address
from eval_pipeline.llm.reading import text
from eval_pipeline.llm.wires import address, headers_of
from eval_pipeline.parsing.fields import kind
from eval_pipeline.parsing.tables import LIST, TEXT, TEXT_MAPPING, Field, FieldTable, mapping_of

MAX_CONNECTIONS = 1_000
_KEPT = ("messages", "model", "provider", "usage", "metadata")
_ROLES = ("system", "user", "assistant", "tool")
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_FACTS: Mapping[str, tuple[type, str]] = {
    "model": (str, "a text"),
    "provider": (str, "a text"),
    "usage": (dict, "an object"),
    "metadata": (dict, "an object"),
}


@ADAPTERS.register("endpoint")
class Endpoint:
    """Post the messages so far to an agent's address and read the messages of its turn.

    The request is `{"messages": […], "metadata": {"test_case_id", "turn_index"}}`; each message has `role`, `content`,
    `tool_calls`, `tool_call_id` and `name`, null where there is none. The agent answers `{"messages": […]}`, the last
    one the assistant's, and optionally `model`, `provider`, `usage` and `metadata`; `metadata: {"end": true}` ends the
    conversation. `system_prompt` and `tools` of the metadata are stored as those that the agent used, before those that
    the runner declares. The agent calls its own tools.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "endpoint",
        (
            Field("url", TEXT, "The address that receives the messages of each turn.", required=True),
            Field("headers", TEXT_MAPPING, "Further HTTP headers; write `${{ NAME }}` for one from the environment."),
            Field("healthcheck", mapping_of(HEALTHCHECK), "A check that runs once before the first case."),
            MODEL,
            Field("system_prompt", TEXT, "The agent's prompt, for the record: it is stored and compared, not sent."),
            Field("tools", LIST, "The agent's tools, for the record, as OpenAI declares them."),
        ),
        "Sends the messages of a case to an agent behind an HTTP address, turn by turn.",
    )
    default_timeout_s: ClassVar[float] = 120.0
    retries_timeouts: ClassVar[bool] = True
    reports_cost: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        config = runner.settings
        url = settings.text(config, "url")
        address(url, field="url")
        self._url = httpx.URL(url)  # as it is written: an ending slash belongs to it
        headers = headers_of(Address(headers=settings.texts(config, "headers")))
        self._http = JsonClient(
            headers,
            max_connections=max(runner.concurrency or DEFAULT_CONCURRENCY, MAX_CONNECTIONS),
            max_bytes=runner.max_output_bytes,
        )
        self._healthcheck = read_healthcheck(config, runner.folder, runner.base)
        self._health: asyncio.Task[tuple[FailureClass, str] | None] | None = None

    def content(self) -> Mapping[str, str]:
        return {}

    async def execute(self, call: Call) -> RawExecution:
        await self._check_health(call)
        messages = [_contract_message(message) for message in wire_messages(call.plan.case)]
        metadata = {"test_case_id": call.plan.case.id, "turn_index": len(messages)}
        try:
            reply, _ = await self._http.post(self._url, {"messages": messages, "metadata": metadata}, call.timeout_s)
        except ModelError as error:
            raise target_failure(error, call, "endpoint") from error
        problem = _problem(reply)
        if problem is not None:
            raise _broken(reply, problem, call)
        return RawExecution(format="endpoint", payload=_kept(reply))

    async def close(self) -> None:
        if self._health is not None and not self._health.done():
            self._health.cancel()
            await asyncio.wait([self._health])
        self._health = None
        await self._http.close()

    async def _check_health(self, call: Call) -> None:
        """Raise TargetFailure when the healthcheck fails. It runs only once."""
        if self._healthcheck is None:
            return
        if self._health is None:
            environment = call.environment if call.environment is not None else os.environ
            self._health = asyncio.ensure_future(self._healthcheck.problem(environment))
        problem = await asyncio.shield(self._health)
        if problem is not None:
            raise TargetFailure(*problem)


def _contract_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with every field of the contract, null where it has none."""
    fields = {name: message.get(name) for name in ("role", "content", "tool_calls", "tool_call_id", "name")}
    return fields if fields["content"] or not fields["tool_calls"] else {**fields, "content": None}


def _broken(reply: Any, problem: str, call: Call) -> TargetFailure:
    """Return the failure of an answer that breaks the contract, with what it used as far as that can be read."""
    failure = target_failure(malformed(f"the endpoint's answer breaks the contract: {problem}"), call, "endpoint")
    if isinstance(reply, Mapping) and isinstance(reply.get("usage"), Mapping):
        used = {"usage": reply["usage"], "model": text(reply.get("model"))}
        failure.raw = RawExecution(format="endpoint", payload={"error": str(failure), **_kept(used)})
    return failure


def _kept(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an answer."""
    kept = {name: reply[name] for name in _KEPT if reply.get(name) is not None}
    return {**kept, "usage": _usage(kept["usage"])} if "usage" in kept else kept


def _usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of an answer with its counts as numbers."""
    return {**usage, **{name: _count(usage[name]) for name in _COUNTS if usage.get(name) is not None}}


def _count(value: Any) -> int | None:
    """Return a count of tokens: a whole number, or one as a text or with a decimal point; None for anything else."""
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _problem(reply: Any) -> str | None:
    if not isinstance(reply, Mapping):
        return f"expected an object with messages, got {kind(reply)}"
    messages = reply.get("messages")
    if not isinstance(messages, list):
        return f"messages: expected a list, got {kind(messages)}"
    problems = ((number, _message_problem(message)) for number, message in enumerate(messages))
    problem = next((f"messages[{number}]{problem}" for number, problem in problems if problem is not None), None)
    if problem is None and messages and messages[-1]["role"] != "assistant":
        return f"the last message has the role '{messages[-1]['role']}'; expected 'assistant'"
    return problem or _facts_problem(reply)


def _facts_problem(reply: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the optional fields beside the messages."""
    for name, (type_, expected) in _FACTS.items():
        if not isinstance(reply.get(name), type_ | None):
            return f"{name}: expected {expected} or null, got {kind(reply[name])}"
    for name in _COUNTS:
        count = (reply.get("usage") or {}).get(name)
        if count is not None and _count(count) is None:
            return f"usage.{name}: expected a whole number or null, got {kind(count)}"
    return None


def _message_problem(message: Any) -> str | None:
    if not isinstance(message, Mapping):
        return f": expected an object, got {kind(message)}"
    if message.get("role") not in _ROLES:
        return f".role: expected one of {', '.join(_ROLES)}, got {str(message.get('role'))[:50]!r}"
    if not isinstance(message.get("content"), str | None):
        return f".content: expected a text or null, got {kind(message['content'])}"
    calls = message.get("tool_calls")
    if not isinstance(calls, list | None):
        return f".tool_calls: expected a list or null, got {kind(calls)}"
    problems = ((number, _call_problem(call)) for number, call in enumerate(calls or ()))
    return next((f".tool_calls[{number}]{problem}" for number, problem in problems if problem is not None), None)


def _call_problem(call: Any) -> str | None:
    if not isinstance(call, Mapping) or not isinstance(call.get("function"), Mapping):
        return ": expected an object with id, type and function"
    if call.get("type", "function") != "function":
        return f".type: expected 'function', got {str(call['type'])[:50]!r}"
    function = call["function"]
    texts = {"id": call.get("id"), "function.name": function.get("name")}
    texts["function.arguments"] = function.get("arguments")
    return next(
        (f".{name}: expected a text, got {kind(value)}" for name, value in texts.items() if not isinstance(value, str)),
        None,
    )
