"""Bedrock and Vertex against servers on this machine that check what authorizes each request, as the real ones do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import httpx
import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.failures import AUTHENTICATION
from eval_pipeline.llm.aws_signature import AwsSignature
from eval_pipeline.llm.client import ChatClient, ChatReply
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.google_tokens import GoogleTokens
from eval_pipeline.llm.model import CloudAccount, Options, Reply, TokenUsage, ToolCall
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline_tests.llm.client_calls import QUESTION, ask
from eval_pipeline_tests.llm.providers import GEMINI, plain, streamed
from eval_pipeline_tests.local_server import Answer, Received, json_reply, serve
from eval_pipeline_tests.local_server import Reply as HttpReply

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
AWS = CloudAccount(region="eu-west-1", access_key_id="AKIDEXAMPLE", secret_access_key=SECRET)
MODEL = "anthropic.claude-3-5-sonnet-20241022-v2:0"
CONVERSE = {
    "metrics": {"latencyMs": 551},
    "output": {
        "message": {
            "role": "assistant",
            "content": [
                {"reasoningContent": {"reasoningText": {"text": "Two and two", "signature": "c2ln"}}},
                {"text": "Grüße: 4"},
                {"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 2, "b": 2}}},
            ],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 14, "outputTokens": 9, "totalTokens": 29, "cacheReadInputTokens": 4,
              "cacheWriteInputTokens": 2},
}  # fmt: skip


def test_a_signature_is_the_one_that_aws_publishes_for_its_example() -> None:
    signature = AwsSignature(
        access_key_id="AKIDEXAMPLE", secret_access_key=SECRET, region="us-east-1", service="iam",
        now=lambda: datetime(2015, 8, 30, 12, 36, tzinfo=UTC),
    )  # fmt: skip
    url = httpx.URL("https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08")
    sent = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}

    headers = signature.signed("GET", url, sent, b"")

    assert headers["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, "
        "SignedHeaders=content-type;host;x-amz-date, "
        "Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    )


def signed_by(request: Received, secret: str) -> str:
    """Return the signature that a request should have, from what arrived: written apart from ours."""
    scope, names = (
        request.headers["authorization"].split(f"{name}=")[1].split(",")[0] for name in ("Credential", "SignedHeaders")
    )
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in names.split(";"))
    content = hashlib.sha256(request.body).hexdigest()
    path = quote(request.path, safe="/-_.~")
    canonical = f"{request.method}\n{path}\n\n{headers}\n{names}\n{content}"
    text = "\n".join([
        "AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope.partition("/")[2],
        hashlib.sha256(canonical.encode()).hexdigest(),
    ])  # fmt: skip
    key = ("AWS4" + secret).encode()
    for part in scope.split("/")[1:]:
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.new(key, text.encode(), "sha256").hexdigest()


def bedrock(request: Received) -> HttpReply:
    """Answer as Bedrock does, if the request is signed with the secret."""
    given = request.headers.get("authorization", "").partition("Signature=")[2]
    if not given or given != signed_by(request, SECRET):
        refusal = {"message": "The request signature we calculated does not match the signature you provided."}
        return json_reply(refusal, 403, x_amzn_errortype="InvalidSignatureException")
    return plain(CONVERSE)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (MODEL, "/model/anthropic.claude-3-5-sonnet-20241022-v2:0/converse"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.x-v1:0",
         "/model/arn:aws:bedrock:eu-west-1:1:inference-profile%2Feu.x-v1:0/converse"),
    ],
)  # fmt: skip
def test_a_request_to_bedrock_has_a_signature_that_the_server_finds_right(model: str, path: str) -> None:
    answer, request = ask("bedrock", bedrock, model=model, endpoint={"cloud": AWS}, max_tokens=50, stop="\n")

    assert request.path == path
    assert request.json == {
        "messages": [{"role": "user", "content": [{"text": "What is 2 + 2?"}]}],
        "inferenceConfig": {"maxTokens": 50, "stopSequences": ["\n"]},
    }
    assert answer.read() == Reply(
        text="Grüße: 4", thinking="Two and two", finish="tool_calls",
        tool_calls=(ToolCall(name="add", arguments={"a": 2, "b": 2}, id="t1"),),
        usage=TokenUsage(input_tokens=20, cached_input_tokens=4, cache_write_tokens=2, output_tokens=9),
    )  # fmt: skip


def test_the_token_of_a_session_is_signed_and_sent() -> None:
    cloud = CloudAccount(region="eu-west-1", access_key_id="ASIA", secret_access_key=SECRET, session_token="tok/en==")

    _, request = ask("bedrock", bedrock, endpoint={"cloud": cloud})

    assert request.headers["x-amz-security-token"] == "tok/en=="
    assert "x-amz-security-token" in request.headers["authorization"]


def test_another_secret_is_refused_by_the_server() -> None:
    cloud = CloudAccount(region="eu-west-1", access_key_id="AKIDEXAMPLE", secret_access_key="another")

    with pytest.raises(ModelError, match="HTTP 403: The request signature we calculated does not match") as raised:
        ask("bedrock", bedrock, endpoint={"cloud": cloud})

    assert (raised.value.failure, raised.value.retryable) == (AUTHENTICATION, False)


def test_an_api_key_of_bedrock_is_a_bearer_token_and_nothing_is_signed() -> None:
    _, request = ask("bedrock", plain(CONVERSE), endpoint={"api_key": "k-1", "cloud": CloudAccount(region="x")})

    assert request.headers["authorization"] == "Bearer k-1"
    assert "x-amz-date" not in request.headers


def test_bedrock_is_sent_the_system_tools_calls_results_and_images_in_its_own_form() -> None:
    function = {"name": "add", "description": "Adds", "parameters": {"type": "object", "properties": {}}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief"},
        {"role": "user", "content": [{"type": "text", "text": "See"},
                                     {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]},
        {"role": "assistant", "content": "",
         "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2}'}}]},
        {"role": "tool", "tool_call_id": "t1", "content": "4"},
    ]  # fmt: skip

    _, request = ask(
        "bedrock", bedrock, messages, endpoint={"cloud": AWS}, tools=[{"type": "function", "function": function}],
        tool_choice="required", thinking_budget=1024,
    )  # fmt: skip

    assert request.json == {
        "system": [{"text": "Be brief"}],
        "messages": [
            {"role": "user",
             "content": [{"text": "See"}, {"image": {"format": "png", "source": {"bytes": "iVBO"}}}]},
            {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "add", "input": {"a": 2}}}]},
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "4"}]}}]},
        ],
        "toolConfig": {
            "tools": [{"toolSpec": {"name": "add", "description": "Adds",
                                    "inputSchema": {"json": {"type": "object", "properties": {}}}}}],
            "toolChoice": {"any": {}},
        },
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wire", "cloud", "options", "problem"),
    [
        ("bedrock", CloudAccount(), {}, "region: Bedrock needs a region"),
        ("bedrock", CloudAccount(region="x"), {}, "access_key_id: Bedrock needs region, access_key_id"),
        ("bedrock", CloudAccount(region="evil.com/"), {}, "region: 'evil.com/' is not the name of a region"),
        ("bedrock", AWS, {"stream": True}, "stream: wire 'bedrock' does not stream"),
        ("bedrock", AWS, {"settings": {"tool_choice": "none"}}, "tool_choice: wire 'bedrock' has no choice 'none'"),
        ("vertex", CloudAccount(), {}, "project: Vertex needs the id"),
        ("vertex", CloudAccount(project="a/b"), {}, "project: 'a/b' is not the name of a project"),
        ("openai", CloudAccount(project="p"), {}, "project: wire 'openai' has no such setting"),
        ("vertex", CloudAccount(project="p", session_token="t"), {}, "session_token: wire 'vertex' has no such"),
    ],
)
def test_what_an_account_lacks_or_has_too_much_is_an_input_error(
    wire: str, cloud: CloudAccount, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError) as raised:
        ChatClient(wire=wire, cloud=cloud).model(Options(model="m", **options))

    assert problem in str(raised.value)


@dataclass(frozen=True)
class Key:
    """An RSA key pair, made anew in each run: `pem` is its private half as PKCS #8 or PKCS #1."""

    modulus: int
    exponent: int

    def verifies(self, text: bytes, signature: bytes) -> bool:
        padded = pow(int.from_bytes(signature, "big"), 65537, self.modulus).to_bytes(128, "big")
        digest = bytes.fromhex("3031300d060960864801650304020105000420") + hashlib.sha256(text).digest()
        return padded == b"\x00\x01" + b"\xff" * (128 - 3 - len(digest)) + b"\x00" + digest

    def pem(self, *, wrapped: bool = True) -> str:
        numbers = (0, self.modulus, 65537, self.exponent, 0, 0, 0, 0, 0)
        inner = _der(0x30, b"".join(_der(0x02, n.to_bytes(n.bit_length() // 8 + 1, "big")) for n in numbers))
        name = bytes.fromhex("300d06092a864886f70d0101010500")
        whole = _der(0x30, _der(0x02, b"\x00") + name + _der(0x04, inner)) if wrapped else inner
        kind = "PRIVATE KEY" if wrapped else "RSA PRIVATE KEY"
        return f"-----BEGIN {kind}-----\n{base64.encodebytes(whole).decode()}-----END {kind}-----\n"


def _der(tag: int, value: bytes) -> bytes:
    size = len(value).to_bytes(2, "big")
    return bytes([tag, len(value)]) + value if len(value) < 128 else bytes([tag, 0x82]) + size + value


def _prime(random_: random.Random) -> int:
    while True:
        number = random_.getrandbits(512) | 1 | (0b11 << 510)
        if all(pow(base, number - 1, number) == 1 for base in (2, 3, 5, 7)) and (number - 1) % 65537:
            return number


@pytest.fixture(scope="module")
def key() -> Key:
    random_ = random.Random(442)
    first, second = _prime(random_), _prime(random_)
    return Key(first * second, pow(65537, -1, (first - 1) * (second - 1)))


@dataclass
class GoogleServer:
    """Exchanges assertions and refresh tokens for access tokens, and answers requests that carry the latest one."""

    key: Key
    tokens: int = 0

    def __call__(self, request: Received) -> HttpReply:
        if request.path == "/token":
            return self._token({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
        if request.headers.get("authorization") != f"Bearer access-token-{self.tokens}":
            return json_reply({"error": {"code": 401, "message": "no valid token", "status": "UNAUTHENTICATED"}}, 401)
        if "streamGenerateContent" in request.path:
            return streamed(GEMINI.stream())
        return plain(GEMINI.response)

    def _token(self, form: Mapping[str, str]) -> HttpReply:
        if form.get("refresh_token") != "refresh-me" and not self._is_signed(form.get("assertion", "..")):
            return json_reply({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400)
        self.tokens += 1
        return json_reply({"access_token": f"access-token-{self.tokens}", "expires_in": 3600, "token_type": "Bearer"})

    def _is_signed(self, assertion: str) -> bool:
        text, _, signature = assertion.rpartition(".")
        claims = json.loads(_decoded(text.partition(".")[2]) or b"{}")
        lasts = claims.get("exp", 0) - claims.get("iat", 0) == 3600 and claims["aud"].endswith("/token")
        return bool(lasts and claims["iss"] == "me@p.iam" and self.key.verifies(text.encode(), _decoded(signature)))


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def credentials(folder: Path, url: str, **fields: Any) -> str:
    """The name of a file of credentials whose tokens come from a server."""
    path = folder / "credentials.json"
    path.write_text(json.dumps({"token_uri": f"{url}/token", **fields}))
    return str(path)


def service_account(key: Key, **fields: Any) -> dict[str, Any]:
    return {"type": "service_account", "client_email": "me@p.iam", "private_key": key.pem(), **fields}


def vertex_answers(
    server: Answer, folder: Path, given: Mapping[str, Any], *, count: int = 1, stream: bool = False
) -> tuple[list[ChatReply], list[Received]]:
    with serve(server) as running:
        cloud = CloudAccount(project="p-1", region="eu", credentials=credentials(folder, running.url, **given))
        client = ChatClient(running.url, wire="vertex", cloud=cloud)
        model = client.model(Options(model="gemini-2.5-flash", stream=stream))

        async def main() -> list[ChatReply]:
            try:
                return await asyncio.gather(*(model.complete(QUESTION, timeout_s=5) for _ in range(count)))
            finally:
                await client.close()

        return asyncio.run(main()), running.requests


@pytest.mark.parametrize("wrapped", [True, False], ids=["PKCS #8", "PKCS #1"])
def test_a_service_account_signs_for_one_token_that_all_requests_carry(tmp_path: Path, key: Key, wrapped: bool) -> None:
    given = service_account(key, private_key=key.pem(wrapped=wrapped), private_key_id="k1")

    answers, requests = vertex_answers(GoogleServer(key), tmp_path, given, count=3)

    assert [answer.read().text for answer in answers] == [GEMINI.reply.text] * 3
    assert [request.path for request in requests][:2] == [
        "/token", "/v1/projects/p-1/locations/eu/publishers/google/models/gemini-2.5-flash:generateContent",
    ]  # fmt: skip
    assert sum(request.path == "/token" for request in requests) == 1


def test_the_credentials_of_a_user_are_refreshed_for_a_token_and_streams_carry_it_too(tmp_path: Path, key: Key) -> None:
    given = {"type": "authorized_user", "client_id": "c", "client_secret": "s" * 9, "refresh_token": "refresh-me"}

    (answer,), requests = vertex_answers(GoogleServer(key), tmp_path, given, stream=True)

    assert answer.read().text == GEMINI.reply.text
    assert requests[1].path.endswith(":streamGenerateContent?alt=sse")


def test_a_token_is_renewed_before_it_expires(tmp_path: Path, key: Key) -> None:
    now = [1_000.0]
    with serve(GoogleServer(key)) as running:
        path = Path(credentials(tmp_path, running.url, **service_account(key)))
        tokens = GoogleTokens(path, now=lambda: now[0])

        async def token() -> str:
            return (await tokens.headers(httpx.URL("http://x"), b""))["authorization"]

        async def main() -> list[str]:
            seen = [await token(), await token()]
            now[0] += 3_541
            return [*seen, await token()]

        assert asyncio.run(main()) == ["Bearer access-token-1"] * 2 + ["Bearer access-token-2"]


def test_a_key_that_the_server_does_not_know_is_an_error_with_its_reason(tmp_path: Path, key: Key) -> None:
    other = Key(key.modulus, key.exponent + 2)

    with pytest.raises(ModelError, match="HTTP 400: invalid_grant") as raised:
        vertex_answers(GoogleServer(key), tmp_path, service_account(other))

    assert not raised.value.retryable


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda given: given | {"type": "external_account"}, "credentials of type 'external_account'; usable: "),
        (lambda given: given | {"client_email": ""}, "has no client_email"),
        (lambda given: given | {"private_key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"},
         "private_key: no RSA private key"),
        (lambda given: given | {"token_uri": "file:///keys"}, "is not an address"),
    ],
)  # fmt: skip
def test_credentials_that_cannot_be_used_are_an_input_error(
    tmp_path: Path, key: Key, change: Callable[[dict[str, Any]], dict[str, Any]], problem: str
) -> None:
    given = change({"token_uri": "http://x/token", **service_account(key)})
    path = credentials(tmp_path, "http://x", **given)

    with pytest.raises(InputError, match="credentials") as raised:
        ChatClient(wire="vertex", cloud=CloudAccount(project="p", credentials=path))

    assert problem in str(raised.value)


def test_the_secrets_of_credentials_are_known_as_secrets(tmp_path: Path, key: Key) -> None:
    vertex_answers(GoogleServer(key), tmp_path, service_account(key))

    redactor = KNOWN.redactor()
    assert redactor.text("got access-token-1 for it") == "got *** for it"
    assert redactor.text(key.pem()) == "***"
