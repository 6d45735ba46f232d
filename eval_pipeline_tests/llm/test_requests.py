"""What each provider is sent: where, with which headers, and what stands in the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.llm.client import ChatClient
from eval_pipeline.llm.model import Options
from eval_pipeline.llm.wires import WIRES
from eval_pipeline_tests.llm.client_calls import ask
from eval_pipeline_tests.llm.providers import (
    GEMINI,
    PROVIDERS,
    plain,
    streamed,
)
from eval_pipeline_tests.local_server import Received

BY_WIRE = {provider.wire: provider for provider in PROVIDERS}
KEY = {"api_key": "k-1"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def sent(wire: str, *args: Any, **options: Any) -> Received:
    """What the provider of a wire was sent."""
    _, request = ask(wire, plain(BY_WIRE[wire].response), *args, **options)
    return request


def body(wire: str, *args: Any, **options: Any) -> dict[str, Any]:
    value: dict[str, Any] = sent(wire, *args, **options).json
    return value


@pytest.mark.parametrize(
    ("wire", "path", "endpoint", "address"),
    [
        pytest.param("openai", "/v1", {}, "/v1/chat/completions", id="openai"),
        pytest.param("openai", "/api/v1/", {}, "/api/v1/chat/completions", id="openai: a slash at the end"),
        pytest.param("openrouter", "/api/v1", {}, "/api/v1/chat/completions", id="openrouter"),
        pytest.param("openai-responses", "/v1", {}, "/v1/responses", id="responses"),
        pytest.param("azure", "", {}, "/openai/deployments/m/chat/completions?api-version=2024-12-01-preview",
                     id="azure"),
        pytest.param("azure", "/openai", {"api_version": "2025-01-01"},
                     "/openai/deployments/m/chat/completions?api-version=2025-01-01", id="azure: a version"),
        pytest.param("azure", "/openai/deployments/other/chat/completions", {},
                     "/openai/deployments/m/chat/completions?api-version=2024-12-01-preview", id="azure: pasted whole"),
        pytest.param("azure", "/openai/v1/", {}, "/openai/v1/chat/completions", id="azure: v1 by its address"),
        pytest.param("azure", "", {"api_version": "v1"}, "/openai/v1/chat/completions", id="azure: v1 by its version"),
        pytest.param("azure", "/team/a", {"api_version": "preview"},
                     "/team/a/openai/v1/chat/completions?api-version=preview", id="azure: behind a gateway"),
        pytest.param("azure-responses", "", {}, "/openai/v1/responses", id="azure responses"),
        pytest.param("azure-responses", "/openai/v1", {}, "/openai/v1/responses", id="azure responses: v1"),
        pytest.param("azure-responses", "", {"api_version": "2025-04-01-preview"},
                     "/openai/responses?api-version=2025-04-01-preview", id="azure responses: a version"),
        pytest.param("anthropic", "", {}, "/v1/messages", id="anthropic"),
        pytest.param("anthropic", "/v1", {}, "/v1/messages", id="anthropic: with its v1"),
        pytest.param("gemini", "/v1beta", {}, "/v1beta/models/m:generateContent", id="gemini"),
    ],
)  # fmt: skip
def test_a_wire_knows_its_address(wire: str, path: str, endpoint: Mapping[str, Any], address: str) -> None:
    request = sent(wire, path=path, endpoint=endpoint)

    assert (request.method, request.path) == ("POST", address)


@pytest.mark.parametrize(
    ("wire", "headers"),
    [
        ("openai", {"authorization": "Bearer k-1"}),
        ("openrouter", {"authorization": "Bearer k-1"}),
        ("openai-responses", {"authorization": "Bearer k-1"}),
        ("azure", {"api-key": "k-1"}),
        ("azure-responses", {"api-key": "k-1"}),
        ("anthropic", {"x-api-key": "k-1", "anthropic-version": "2023-06-01"}),
        ("gemini", {"x-goog-api-key": "k-1"}),
    ],
)
def test_the_key_goes_where_the_provider_looks_for_it(wire: str, headers: Mapping[str, str]) -> None:
    request = sent(wire, endpoint=KEY)

    known = ("authorization", "api-key", "x-api-key", "x-goog-api-key", "anthropic-version")
    assert {name: value for name, value in request.headers.items() if name in known} == headers
    assert request.headers["content-type"] == "application/json"
    assert "k-1" not in request.path


def test_headers_of_the_users_own_go_before_the_wires() -> None:
    fields = {"api_key": "k-1", "headers": {"Anthropic-Version": "2030-01-01", "Host": "models.test"}}

    request = sent("anthropic", endpoint=fields)

    assert request.headers["anthropic-version"] == "2030-01-01"
    assert request.headers["host"] == "models.test"


def test_a_version_of_anthropics_api_can_be_chosen() -> None:
    request = sent("anthropic", endpoint={"api_version": "2030-01-01"})

    assert request.headers["anthropic-version"] == "2030-01-01"


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        ("openai", {"stream": True, "stream_options": {"include_usage": True}}),
        ("azure", {"stream": True, "stream_options": {"include_usage": True}}),
        ("openai-responses", {"stream": True}),
        ("anthropic", {"stream": True}),
        ("gemini", {}),
    ],
)
def test_a_stream_is_asked_for(wire: str, expected: dict[str, Any]) -> None:
    _, request = ask(wire, streamed(BY_WIRE[wire].stream()), stream=True)

    assert {key: value for key, value in request.json.items() if key.startswith("stream")} == expected


def test_gemini_is_asked_for_a_stream_by_address() -> None:
    _, request = ask("gemini", streamed(GEMINI.stream()), path="/v1beta", stream=True, model="models/gemini-x")

    assert request.path == "/v1beta/models/gemini-x:streamGenerateContent?alt=sse"
    assert request.json == {"contents": [{"role": "user", "parts": [{"text": "What is 2 + 2?"}]}]}


ADD = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOLS = [{"type": "function", "function": {"name": "add", "description": "Sums", "parameters": ADD, "strict": True}}]
CHOICE = {"type": "function", "function": {"name": "add"}}
ANSWER = {"type": "object", "properties": {"sum": {"type": "integer"}}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": ANSWER, "strict": True}}
TUNED = {"temperature": 0, "top_p": 0.5, "max_output_tokens": 100}


@pytest.mark.parametrize(
    ("wire", "settings", "expected"),
    [
        pytest.param("openai", {**TUNED, "tools": TOOLS, "tool_choice": CHOICE, "response_format": FORMAT},
                     {"temperature": 0, "top_p": 0.5, "max_tokens": 100, "tools": TOOLS, "tool_choice": CHOICE,
                      "response_format": FORMAT}, id="openai"),
        pytest.param("azure", {"max_tokens": 5, "max_output_tokens": 100}, {"max_tokens": 5},
                     id="azure: one limit, by its own name"),
        pytest.param("azure", TUNED, {"temperature": 0, "top_p": 0.5, "max_completion_tokens": 100}, id="azure"),
        pytest.param("openrouter", {"thinking_budget": 50, "max_output_tokens": 9},
                     {"reasoning": {"max_tokens": 50}, "max_tokens": 9, "usage": {"include": True}}, id="openrouter"),
        pytest.param("openrouter", {"reasoning_effort": "low"},
                     {"reasoning": {"effort": "low"}, "usage": {"include": True}}, id="openrouter: effort"),
        pytest.param("openai-responses", {**TUNED, "tools": TOOLS, "tool_choice": CHOICE, "response_format": FORMAT,
                                          "reasoning_effort": "low"},
                     {"temperature": 0, "top_p": 0.5, "max_output_tokens": 100, "reasoning": {"effort": "low"},
                      "tools": [{"type": "function", "name": "add", "description": "Sums", "parameters": ADD,
                                 "strict": True}],
                      "tool_choice": {"type": "function", "name": "add"},
                      "text": {"format": {"type": "json_schema", "name": "answer", "schema": ANSWER, "strict": True}}},
                     id="responses"),
        pytest.param("openai-responses", {"response_format": {"type": "json_object"}, "tool_choice": "required",
                                          "max_tokens": 5, "tools": [{"type": "web_search"}]},
                     {"text": {"format": {"type": "json_object"}}, "tool_choice": "required", "max_output_tokens": 5,
                      "tools": [{"type": "web_search"}]}, id="responses: what is its own stays"),
        pytest.param("anthropic", {**TUNED, "stop": "END", "tools": TOOLS, "tool_choice": CHOICE,
                                   "response_format": FORMAT, "reasoning_effort": "low"},
                     {"temperature": 0, "top_p": 0.5, "max_tokens": 100, "stop_sequences": ["END"],
                      "tools": [{"name": "add", "description": "Sums", "input_schema": ADD, "strict": True}],
                      "tool_choice": {"type": "tool", "name": "add"},
                      "output_config": {"format": {"type": "json_schema", "schema": ANSWER}, "effort": "low"}},
                     id="anthropic"),
        pytest.param("anthropic", {}, {"max_tokens": 8_192}, id="anthropic: a limit there has to be"),
        pytest.param("anthropic", {"thinking_budget": 2_000},
                     {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 10_192},
                     id="anthropic: thinking goes on top of it"),
        pytest.param("anthropic", {"thinking_budget": 2_000, "max_tokens": 3_000},
                     {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 3_000},
                     id="anthropic: a limit that was given stays"),
        pytest.param("anthropic", {"thinking_budget": 2_000, "max_tokens": 3_000, "temperature": 0},
                     {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 3_000},
                     id="anthropic: who thinks has no temperature"),
        pytest.param("anthropic", {"thinking_budget": 0, "temperature": 0},
                     {"thinking": {"type": "disabled"}, "temperature": 0, "max_tokens": 8_192},
                     id="anthropic: no thinking"),
        pytest.param("openrouter", {"thinking_budget": 0},
                     {"reasoning": {"enabled": False}, "usage": {"include": True}}, id="openrouter: no thinking"),
        pytest.param("anthropic", {"tool_choice": "required", "parallel_tool_calls": False, "max_tokens": 5,
                                   "tools": [{"type": "web_search_20250305", "name": "web_search"}]},
                     {"tool_choice": {"type": "any", "disable_parallel_tool_use": True}, "max_tokens": 5,
                      "tools": [{"type": "web_search_20250305", "name": "web_search"}]}, id="anthropic: tools"),
        pytest.param("anthropic", {"parallel_tool_calls": False, "max_tokens": 5},
                     {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}, "max_tokens": 5},
                     id="anthropic: one call at a time"),
        pytest.param("anthropic", {"response_format": {"type": "json_object"}, "max_tokens": 5}, {"max_tokens": 5},
                     id="anthropic: plain JSON is for the messages to ask"),
        pytest.param("gemini", {**TUNED, "seed": 7, "stop": ["A", "B"], "tools": TOOLS, "tool_choice": CHOICE,
                                "response_format": FORMAT, "thinking_budget": 0, "presence_penalty": 1},
                     {"generationConfig": {"temperature": 0, "topP": 0.5, "maxOutputTokens": 100, "seed": 7,
                                           "stopSequences": ["A", "B"], "presencePenalty": 1,
                                           "responseMimeType": "application/json", "responseJsonSchema": ANSWER,
                                           "thinkingConfig": {"thinkingBudget": 0, "includeThoughts": True}},
                      "tools": [{"functionDeclarations": [{"name": "add", "description": "Sums",
                                                           "parametersJsonSchema": ADD}]}],
                      "toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["add"]}}},
                     id="gemini"),
        pytest.param("gemini", {"response_format": {"type": "json_object"}, "tool_choice": "none",
                                "tools": [{"googleSearch": {}}]},
                     {"generationConfig": {"responseMimeType": "application/json"}, "tools": [{"googleSearch": {}}],
                      "toolConfig": {"functionCallingConfig": {"mode": "NONE"}}}, id="gemini: what is its own stays"),
        pytest.param("gemini", {"response_format": {"type": "text"}, "temperature": None}, {}, id="gemini: nothing"),
    ],
)  # fmt: skip
def test_settings_stand_where_the_provider_has_them(
    wire: str, settings: dict[str, Any], expected: dict[str, Any]
) -> None:
    request_body = body(wire, **settings)

    left_out = ("model", "messages", "input", "contents")
    assert {key: value for key, value in request_body.items() if key not in left_out} == expected


@pytest.mark.parametrize(
    ("base_url", "field"),
    [(None, "max_completion_tokens"), ("http://127.0.0.1:1/v1", "max_tokens")],
    ids=["OpenAI's own", "compatible"],
)
def test_the_limit_on_tokens_has_a_newer_name_at_openai_itself(base_url: str | None, field: str) -> None:
    wire = ChatClient(base_url).wire

    fixed = wire.fixed(Options(model="m", settings={"max_output_tokens": 9}))

    assert fixed == {"model": "m", field: 9}


def test_extra_fields_of_the_body_go_last_and_deep() -> None:
    request_body = body("gemini", temperature=0, extra={"generationConfig": {"topK": 3}, "safetySettings": []})

    assert request_body["generationConfig"] == {"temperature": 0, "topK": 3}
    assert request_body["safetySettings"] == []


CONVERSATION = (
    {"role": "system", "content": "Be brief"},
    {"role": "system", "content": "Be kind"},
    {"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": PIXEL}}]},
    {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a":2}'}},
        {"id": "2", "type": "function", "function": {"name": "now", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "1", "content": '{"sum":4}'},
    {"role": "tool", "tool_call_id": "2", "content": "noon"},
    {"role": "assistant", "content": "It is 4"},
    {"role": "system", "content": "Now in German"},
    {"role": "user", "content": "Again"},
)  # fmt: skip
LATE = "@[System]:\nNow in German"


def test_chat_completions_take_the_messages_as_they_are() -> None:
    assert body("openai", CONVERSATION)["messages"] == list(CONVERSATION)


def test_responses_take_messages_calls_and_their_outputs_as_items() -> None:
    request_body = body("openai-responses", CONVERSATION)

    assert request_body["input"] == [
        {"role": "system", "content": "Be brief"},
        {"role": "system", "content": "Be kind"},
        {"role": "user", "content": [{"type": "input_text", "text": "See"},
                                     {"type": "input_image", "image_url": PIXEL}]},
        {"type": "function_call", "call_id": "1", "name": "add", "arguments": '{"a":2}'},
        {"type": "function_call", "call_id": "2", "name": "now", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "1", "output": '{"sum":4}'},
        {"type": "function_call_output", "call_id": "2", "output": "noon"},
        {"role": "assistant", "content": "It is 4"},
        {"role": "system", "content": "Now in German"},
        {"role": "user", "content": "Again"},
    ]  # fmt: skip


def test_anthropic_takes_turns_and_the_system_beside_them() -> None:
    request_body = body("anthropic", CONVERSATION)

    assert request_body["system"] == "Be brief\n\nBe kind"
    assert request_body["messages"] == [
        {"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "1", "name": "add", "input": {"a": 2}},
            {"type": "tool_use", "id": "2", "name": "now", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": '{"sum":4}'}]},
            {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "noon"}]}]},
        {"role": "assistant", "content": [{"type": "text", "text": "It is 4"}]},
        {"role": "user", "content": [{"type": "text", "text": LATE}, {"type": "text", "text": "Again"}]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("model", "sign"),
    [
        ("gemini-2.5-flash", {}),
        ("gemini-3-pro-preview", {"thoughtSignature": "skip_thought_signature_validator"}),
        ("models/gemini-10", {"thoughtSignature": "skip_thought_signature_validator"}),
    ],
)
def test_gemini_takes_contents_and_a_sign_for_calls_it_did_not_make(model: str, sign: dict[str, str]) -> None:
    request_body = body("gemini", CONVERSATION, model=model)

    assert request_body["systemInstruction"] == {"parts": [{"text": "Be brief\n\nBe kind"}]}
    assert request_body["contents"] == [
        {"role": "user", "parts": [{"text": "See"},
                                   {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {"a": 2}}, **sign},
                                    {"functionCall": {"name": "now", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": {"sum": 4}}},
                                   {"functionResponse": {"name": "now", "response": {"result": "noon"}}}]},
        {"role": "model", "parts": [{"text": "It is 4"}]},
        {"role": "user", "parts": [{"text": LATE}, {"text": "Again"}]},
    ]  # fmt: skip


IMAGE = ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://pictures.test/a.png"}}]},)


@pytest.mark.parametrize(
    ("wire", "part"),
    [
        ("openai-responses", {"type": "input_image", "image_url": "https://pictures.test/a.png"}),
        ("anthropic", {"type": "image", "source": {"type": "url", "url": "https://pictures.test/a.png"}}),
        ("gemini", {"fileData": {"fileUri": "https://pictures.test/a.png"}}),
    ],
)
def test_an_image_elsewhere_is_sent_by_its_address(wire: str, part: dict[str, Any]) -> None:
    request_body = body(wire, IMAGE)

    (turn,) = request_body.get("messages") or request_body.get("input") or request_body["contents"]
    assert turn.get("content", turn.get("parts")) == [part]


def test_a_turn_that_says_nothing_is_left_out_where_providers_refuse_it() -> None:
    turns = (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "Hm"},
    )

    assert body("anthropic", turns)["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "Hm"}]}
    ]


@pytest.mark.parametrize(
    ("wire", "turns"),
    [
        ("anthropic", {"messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello"}]}]}),
        ("gemini", {"contents": [{"role": "user", "parts": [{"text": "Say hello"}]}]}),
    ],
)
def test_instructions_alone_are_what_the_user_says(wire: str, turns: dict[str, Any]) -> None:
    request_body = body(wire, ({"role": "system", "content": "Say hello"},))

    assert {key: request_body[key] for key in request_body if key not in ("model", "max_tokens")} == turns


@pytest.mark.parametrize(
    ("wire", "options", "problem"),
    [
        pytest.param("openai", {"thinking_budget": 5}, "thinking_budget: wire 'openai' has no such setting; it has: ",
                     id="openai thinks as it likes"),
        pytest.param("anthropic", {"seed": 5}, "seed: wire 'anthropic' has no such setting", id="no seed"),
        pytest.param("gemini", {"parallel_tool_calls": True}, "parallel_tool_calls: wire 'gemini'", id="gemini"),
        pytest.param("anthropic", {"thinking_budget": 2_000, "max_tokens": 1_000},
                     "thinking_budget: 2000 tokens of thinking leave nothing for an answer of at most 1000 tokens",
                     id="thinking beyond the limit"),
    ],
)  # fmt: skip
def test_what_a_provider_has_no_place_for_is_an_input_error(wire: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        ChatClient("http://127.0.0.1:1", wire=wire).model(Options(model="m", settings=options))

    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("wire", "endpoint", "problem"),
    [
        pytest.param("openia", {}, "wire: no wire 'openia'; there are: anthropic, azure, ", id="name"),
        pytest.param("openai", {"base_url": "127.0.0.1:1"}, "base_url: expected an http:// or https:// address, got "
                     "'127.0.0.1:1'", id="no scheme"),
        pytest.param("gemini", {"base_url": "http://"}, "base_url: 'http://' names no host", id="no host"),
        pytest.param("azure", {}, "base_url: Azure needs the address or the name of your resource", id="no resource"),
        pytest.param("azure", {"base_url": "my resource"}, "base_url: expected an http:// or https://", id="resource"),
        pytest.param("openai", {"api_version": "1"}, "api_version: wire 'openai' has no versions", id="version"),
        pytest.param("gemini", {"api_version": "v1"}, "api_version: wire 'gemini' has no versions", id="gemini"),
        pytest.param("anthropic", {"api_key": "a\nb"}, "api_key: holds a line break", id="key"),
        pytest.param("azure", {"base_url": "x", "headers": {"a b": "c"}}, "headers: 'a b' cannot be the name of a"
                     " header", id="header"),
    ],
)  # fmt: skip
def test_an_endpoint_that_cannot_be_asked_is_an_input_error(wire: str, endpoint: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError) as raised:
        ChatClient(wire=wire, **endpoint)

    assert problem in str(raised.value)


@pytest.mark.parametrize("model", ["../admin", "a?b=c", "a#b", "a b", "a%2f", "a\\b", "a\n"])
@pytest.mark.parametrize("wire", ["azure", "gemini"])
def test_a_models_name_cannot_lead_to_another_address(wire: str, model: str) -> None:
    client = ChatClient("http://127.0.0.1:1", wire=wire)

    with pytest.raises(InputError, match="model: "):
        client.model(Options(model=model))


@pytest.mark.parametrize(
    ("wire", "host"),
    [
        ("openai", "api.openai.com"),
        ("openai-responses", "api.openai.com"),
        ("openrouter", "openrouter.ai"),
        ("anthropic", "api.anthropic.com"),
        ("gemini", "generativelanguage.googleapis.com"),
    ],
)
def test_a_wire_without_an_address_asks_its_provider(wire: str, host: str) -> None:
    url, _ = ChatClient(wire=wire).wire.request({"model": "m"})

    assert (url.scheme, url.host) == ("https", host)


def test_the_name_of_an_azure_resource_is_enough() -> None:
    url, _ = ChatClient("openai-prod", wire="azure").wire.request({"model": "m"})

    assert str(url) == (
        "https://openai-prod.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-12-01-preview"
    )


def test_every_wire_is_among_those_tried_here() -> None:
    assert {name for name, _ in WIRES} == set(BY_WIRE) | {"bedrock", "vertex"}  # these two in test_cloud_wires
