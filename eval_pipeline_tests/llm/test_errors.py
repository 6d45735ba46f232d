"""What providers say when they do not answer, in their own words and shapes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp.helpers
import httpx
import pytest

from eval_pipeline.llm.client import ChatClient
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.model import Options
from eval_pipeline_tests.llm.client_calls import QUESTION, error_of
from eval_pipeline_tests.llm.providers import ANTHROPIC, GEMINI, OPENAI, OPENROUTER, RESPONSES, Provider, sse, streamed
from eval_pipeline_tests.local_server import Reply, json_reply


def openai(message: str, code: str | None = None, type_: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def anthropic(type_: str, message: str, **more: Any) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type_, "message": message, **more}, "request_id": "req_1"}


def google(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


FILTERED = {
    "error": {
        "message": "The response was filtered", "type": None, "param": "prompt", "code": "content_filter",
        "status": 400, "innererror": {"code": "ResponsibleAIPolicyViolation",
                                      "content_filter_result": {"hate": {"filtered": True, "severity": "high"}}},
    }
}  # fmt: skip
NO_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID",
          "domain": "googleapis.com"}  # fmt: skip
QUOTA = {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
         "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]}  # fmt: skip
WAIT = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streaming"])
@pytest.mark.parametrize(
    ("wire", "reply", "failure_class", "retryable", "message"),
    [
        pytest.param("openai", json_reply(openai("Incorrect API key", "invalid_api_key"), 401), "authentication", False,
                     "HTTP 401: Incorrect API key", id="openai: key"),
        pytest.param("openai", json_reply(openai("You exceeded your current quota", "insufficient_quota",
                                                 "insufficient_quota"), 429),
                     "rate-limited", False, "HTTP 429: You exceeded", id="openai: no money"),
        pytest.param("openai", json_reply(openai("Rate limit reached", "rate_limit_exceeded", "requests"), 429),
                     "rate-limited", True, "HTTP 429: Rate limit", id="openai: rate"),
        pytest.param("openai", json_reply(openai("The model `x` does not exist", "model_not_found"), 404),
                     "model-rejected", False, "HTTP 404: The model", id="openai: model"),
        pytest.param("openai-responses", json_reply(openai("Invalid prompt", "invalid_prompt"), 400), "target-error",
                     False, "HTTP 400: Invalid prompt", id="responses: a prompt that is not allowed"),
        pytest.param("openai", json_reply({"object": "error", "message": "too long", "type": "BadRequestError",
                                           "code": 400}, 400), "bad-request", False, "HTTP 400: too long",
                     id="openai: as vLLM says it"),
        pytest.param("openai", json_reply({"detail": "Not Found"}, 404), "model-rejected", False, "HTTP 404: Not Found",
                     id="openai: as FastAPI says it"),
        pytest.param("openai", json_reply({"detail": [{"loc": ["body"]}]}, 422), "bad-request", False,
                     'HTTP 422: {"detail":[{"loc":["body"]}]}', id="openai: a shape unknown"),
        pytest.param("azure", json_reply(FILTERED, 400), "target-error", False, "HTTP 400: The response was filtered",
                     id="azure: filtered"),
        pytest.param("azure", json_reply({"error": {"code": "DeploymentNotFound", "message": "no deployment"}}, 404),
                     "model-rejected", False, "HTTP 404: no deployment", id="azure: deployment"),
        pytest.param("azure", json_reply({"statusCode": 401, "message": "Access denied"}, 401), "authentication", False,
                     "HTTP 401: Access denied", id="azure: the gateway's own words"),
        pytest.param("anthropic", json_reply(anthropic("overloaded_error", "Overloaded"), 529), "server-error", True,
                     "HTTP 529: Overloaded", id="anthropic: overloaded"),
        pytest.param("anthropic", json_reply(anthropic("rate_limit_error", "Slow down"), 429), "rate-limited", True,
                     "HTTP 429: Slow down", id="anthropic: rate"),
        pytest.param("anthropic",
                     json_reply(anthropic("rate_limit_error", "Spend limit",
                                          details={"error_code": "enforced_spend_limit_reached"}), 429),
                     "rate-limited", False, "HTTP 429: Spend limit", id="anthropic: no money"),
        pytest.param("anthropic", json_reply(anthropic("invalid_request_error", "max_tokens: too large"), 400),
                     "bad-request", False, "HTTP 400: max_tokens: too large", id="anthropic: request"),
        pytest.param("anthropic", json_reply(anthropic("not_found_error", "model: x"), 404), "model-rejected", False,
                     "HTTP 404: model: x", id="anthropic: model"),
        pytest.param("gemini", json_reply(google(429, "RESOURCE_EXHAUSTED", "Quota exceeded", QUOTA, WAIT), 429),
                     "rate-limited", True, "HTTP 429: Quota exceeded", id="gemini: rate"),
        pytest.param("gemini", json_reply(google(400, "INVALID_ARGUMENT", "API key not valid.", NO_KEY), 400),
                     "authentication", False, "HTTP 400: API key not valid.", id="gemini: key"),
        pytest.param("gemini", json_reply([google(503, "UNAVAILABLE", "The model is overloaded.")], 503),
                     "server-error", True, "HTTP 503: The model is overloaded.", id="gemini: overloaded, in a list"),
        pytest.param("openrouter", json_reply({"error": {"code": 403, "message": "Input was flagged", "metadata": {
                         "reasons": ["violence"], "flagged_input": "x"}}}, 403), "target-error", False,
                     "HTTP 403: Input was flagged", id="openrouter: moderation"),
        pytest.param("openrouter", json_reply({"error": {"code": 402, "message": "Insufficient credits"}}, 402),
                     "bad-request", False, "HTTP 402: Insufficient credits", id="openrouter: no money"),
        pytest.param("openai", Reply(status=502, body=b"<html>Bad gateway", headers={"content-type": "text/html"}),
                     "server-error", True, "HTTP 502: <html>Bad gateway", id="a gateway"),
        pytest.param("openai", json_reply([], 500), "server-error", True, "HTTP 500: []", id="an empty list"),
        pytest.param("openai", json_reply(openai("busy"), 409, x_should_retry="true"), "bad-request", True,
                     "HTTP 409: busy", id="told to try again"),
        pytest.param("openai", json_reply(openai("down"), 503, x_should_retry="false"), "server-error", False,
                     "HTTP 503: down", id="told not to"),
    ],
)  # fmt: skip
def test_a_refusal_has_the_failure_class_that_it_means(
    wire: str, reply: Reply, failure_class: str, retryable: bool, message: str, stream: bool
) -> None:
    error = error_of(wire, reply, stream=stream)

    assert (error.failure.id, error.retryable) == (failure_class, retryable)
    assert str(error).startswith(message)
    assert error.status == reply.status


def during(provider: Provider, event: dict[str, Any]) -> Reply:
    """A stream that reports an error after it began."""
    return streamed(sse((*provider.events[:3], event)))


@pytest.mark.parametrize(
    ("wire", "reply", "failure_class", "retryable", "status", "message"),
    [
        pytest.param("openai", during(OPENAI, openai("The server had an error", None, "server_error")), "server-error",
                     True, 500, "The server had an error", id="openai"),
        pytest.param("openai", during(OPENAI, openai("Slow down", "rate_limit_exceeded")), "rate-limited", True, 429,
                     "Slow down", id="openai: rate"),
        pytest.param("openrouter", during(OPENROUTER, {"id": "gen-1", "error": {"code": 502, "message": "Provider"
                     " disconnected"}, "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]}),
                     "server-error", True, 502, "Provider disconnected", id="openrouter"),
        pytest.param("openai-responses", during(RESPONSES, {"type": "error", "code": "rate_limit_exceeded",
                     "message": "Slow down", "param": None, "sequence_number": 3}), "rate-limited", True, 429,
                     "Slow down", id="responses: an error event"),
        pytest.param("openai-responses", during(RESPONSES, {"type": "response.failed", "response": {
                     "status": "failed", "output": [], "error": {"code": "server_error", "message": "Oh no"}}}),
                     "server-error", True, 500, "Oh no", id="responses: failed"),
        pytest.param("anthropic", during(ANTHROPIC, anthropic("overloaded_error", "Overloaded")), "server-error", True,
                     529, "Overloaded", id="anthropic: overloaded"),
        pytest.param("anthropic", during(ANTHROPIC, anthropic("api_error", "Internal")), "server-error", True, 500,
                     "Internal", id="anthropic: internal"),
        pytest.param("gemini", during(GEMINI, google(429, "RESOURCE_EXHAUSTED", "Quota", WAIT)), "rate-limited", True,
                     429, "Quota", id="gemini"),
        pytest.param("gemini", during(GEMINI, {"error": {"status": "UNAVAILABLE", "message": "Overloaded"}}),
                     "server-error", True, 503, "Overloaded", id="gemini: by its word alone"),
    ],
)  # fmt: skip
def test_an_error_in_the_middle_of_a_stream_is_an_error(
    wire: str, reply: Reply, failure_class: str, retryable: bool, status: int, message: str
) -> None:
    error = error_of(wire, reply, stream=True)

    assert (error.failure.id, error.retryable, error.status) == (failure_class, retryable, status)
    assert str(error) == message


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        pytest.param("openai-responses", {**RESPONSES.response, "status": "failed", "output": [],
                                          "error": {"code": "server_error", "message": "Oh no"}}, id="responses"),
        pytest.param("anthropic", anthropic("api_error", "Oh no"), id="anthropic"),
        pytest.param("gemini", google(500, "INTERNAL", "Oh no"), id="gemini"),
        pytest.param("openrouter", {"error": {"code": "500", "message": "Oh no"}, "user_id": "u"}, id="openrouter"),
    ],
)  # fmt: skip
def test_an_error_inside_a_reply_of_status_200_is_an_error(wire: str, reply: dict[str, Any]) -> None:
    error = error_of(wire, json_reply(reply))

    assert (str(error), error.failure.id, error.retryable) == ("Oh no", "server-error", True)


@pytest.mark.parametrize(
    ("wire", "reply"),
    [
        ("openai-responses", {"output": [], "status": "in_progress"}),
        ("openai-responses", {"choices": []}),
        ("anthropic", {"content": "4"}),
        ("gemini", {"candidates": []}),
        ("gemini", {"promptFeedback": {}}),
        ("openai", {"choices": [{"message": 5}]}),
        ("openai", {"choices": [{"message": {"content": "4", "tool_calls": [7]}}]}),
    ],
)
def test_what_is_no_response_of_the_wire_cannot_be_read(wire: str, reply: dict[str, Any]) -> None:
    error = error_of(wire, json_reply(reply))

    assert str(error).startswith(f"reply is not a response of the wire '{wire}': {{")
    assert (error.failure.id, error.retryable) == ("malformed-reply", True)


@pytest.mark.parametrize(
    ("reply", "seconds"),
    [
        pytest.param(json_reply(google(429, "RESOURCE_EXHAUSTED", "Quota", QUOTA, WAIT), 429), 34.5, id="in the body"),
        pytest.param(json_reply(google(429, "RESOURCE_EXHAUSTED", "Quota", WAIT), 429, retry_after="7"), 7.0,
                     id="a header goes before"),
        pytest.param(json_reply(google(429, "RESOURCE_EXHAUSTED", "Quota", {"retryDelay": "soon"}), 429), None,
                     id="not a time"),
        pytest.param(json_reply(google(429, "RESOURCE_EXHAUSTED", "Quota"), 429), None, id="not said"),
    ],
)  # fmt: skip
def test_gemini_says_in_the_body_when_to_come_back(reply: Reply, seconds: float | None) -> None:
    assert error_of("gemini", reply).retry_after_s == seconds


def test_a_stream_too_says_when_to_come_back() -> None:
    reply = during(GEMINI, google(429, "RESOURCE_EXHAUSTED", "Quota", WAIT))

    assert error_of("gemini", reply, stream=True).retry_after_s == 34.5


def ask_through(breaks: Callable[[httpx.Request], httpx.Response]) -> None:
    client = ChatClient("http://host.example:1", transport=httpx.MockTransport(breaks))
    asyncio.run(client.model(Options(model="m")).complete(QUESTION, timeout_s=1.0))


def test_an_error_of_the_library_within_a_broken_connection_is_one_of_the_network() -> None:
    no_url: Any = None

    with pytest.raises(ModelError) as raised:
        ask_through(lambda request: aiohttp.helpers.get_env_proxy_for_url(no_url))  # type: ignore[return-value,arg-type]

    assert (raised.value.failure.id, raised.value.retryable) == ("connection", True)
    assert "host.example" in str(raised.value)


@pytest.mark.parametrize("kind", [AttributeError, AssertionError])
def test_an_error_of_our_own_code_within_a_call_is_not_one_of_the_network(kind: type[Exception]) -> None:
    def breaks(request: httpx.Request) -> httpx.Response:
        raise kind("a mistake")

    with pytest.raises(kind, match="a mistake"):
        ask_through(breaks)
