"""Which values are secrets, in which forms they are found, and what stays readable."""

from __future__ import annotations

import base64
import html
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from eval_pipeline.fingerprints import fingerprint
from eval_pipeline.parsing.public_settings import redacted, secrets_in
from eval_pipeline.parsing.redacted_files import redact_files
from eval_pipeline.parsing.redaction import KNOWN, Redactor
from eval_pipeline.parsing.secret_names import SecretRules, is_random, is_secret, secret_variables

RANDOM = "q8Zr2LmX0vTb4NcKw7Yd1HsJ"
ODD = "pa\"ss'wört\\<&>/ +=%\nsecond: lïne 0123456789"


@pytest.mark.parametrize("name", [
    "api_key", "apiKey", "OPENAI_API_KEY", "x-api-key", "token", "GITHUB_TOKEN", "accessToken", "client_secret",
    "PGPASSWORD", "SMTPPASSWD", "clientsecret", "AUTHTOKEN",
    "password", "DB_PASSWD", "PWD_ADMIN_PWD", "URL_PASS", "credential", "Authorization", "proxy-auth", "session_cookie",
    "request_signature", "private_key", "signing_key", "github_pat", "jwt", "INPUT_TOKEN", "AWS_SECRET_ACCESS_KEY",
])  # fmt: skip
def test_a_name_tells_that_its_value_is_a_secret(name: str) -> None:
    assert is_secret(name, "correct-horse")


@pytest.mark.parametrize(("name", "value"), [
    ("max_tokens", "100"), ("token_count", "12"), ("output_tokens", "12345678"), ("keyboard", "qwertz-de-CH"),
    ("author", "Ada Lovelace"), ("authority", "eu-west"), ("auth_type", "bearer"), ("token_url", "https://a.example"),
    ("api_key_path", "keys/one"), ("sort_key", "created_at"), ("primary_key", "case_id"), ("pass_rate", "0.8"),
    ("key", "case-1"), ("pass", "first"), ("monkey", "bananas"), ("passenger", "Bob"), ("secretary", "Ann Smith"),
    ("stop_tokens", "<eos>"), ("tokenizer", "cl100k_base"), ("SSH_AUTH_SOCK", "/tmp/ssh-X/agent.1"),
    ("GOOGLE_APPLICATION_CREDENTIALS", "/home/a/key.json"), ("model", "Qwen2p5VL72BInstructA1B2C3"),
    ("TOKENIZERS_PARALLELISM", "true"), ("revision", RANDOM), ("compass", "north-north"),
])  # fmt: skip
def test_a_name_that_only_looks_alike_is_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


@pytest.mark.parametrize("value", [
    RANDOM, "sk-proj-abcdefghijklmnop", "ghp_abcdefghijklmnopqrst1234", "AKIAIOSFODNN7EXAMPLE", "glpat-abcdefghij12345",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "xoxb-1234567890-abcdef",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----",
])  # fmt: skip
def test_a_long_random_value_is_a_secret_whatever_its_name_is(value: str) -> None:
    assert is_random(value)
    assert is_secret("plain", value)


@pytest.mark.parametrize("value", [
    "claude-3-5-sonnet-20241022", "anthropic.claude-3-5-sonnet-20241022-v2:0", "gpt-4o-mini-2024-07-18",
    "meta-llama/Llama-3.3-70B-Instruct-Turbo-Free", "3e928f59-042a-4037-91b2-2ec39b59bebb",
    "2fd1c56683e0aff9a662f5052fd1c56683e0aff9", "20261122T175250.354643-b825", "a-rather-long-case-id-with-words-17",
    "/usr/local/lib/python3.11/site-packages/x1Y2z3", "https://api.example.com/v1/Chat2Completions3Endpoint4",
    "TheQuickBrownFoxJumpsOver2Dogs", "accounts/fireworks/models/qwen2p5-72b-instruct", "12345678901234567890123",
    "sha256:q8Zr2LmX0vTb4NcKw7Yd1HsJ",
])  # fmt: skip
def test_models_ids_hashes_paths_and_addresses_are_no_random_values(value: str) -> None:
    assert not is_random(value)


def test_a_project_lists_names_and_patterns_of_secrets_and_of_none() -> None:
    rules = SecretRules(secrets=("tenant", "ACME_*"), not_secrets=("*_public_token",))
    environment = {"TENANT": "acme", "ACME_ID": "42", "MY_PUBLIC_TOKEN": RANDOM, "HOME": "/home/a", "TOKEN": "postgres"}

    assert dict(secret_variables(environment, rules)) == {"TENANT": "acme", "ACME_ID": "42"}


@pytest.mark.parametrize(("settings", "public", "secrets"), [
    pytest.param({"headers": {"X-Tenant": "acme-4711", "Accept": "text/plain", "X-Mode": "fast"}},
                 {"headers": {"X-Tenant": "***", "Accept": "text/plain", "X-Mode": "fast"}},
                 ["acme-4711"], id="header"),
    pytest.param({"base_url": "http://bob:s%C3%BCss1234@a.example:80/v1"}, {"base_url": "http://bob:***@a.example:80/v1"},
                 ["s%C3%BCss1234", "süss1234"], id="userinfo"),
    pytest.param({"base_url": "http://a.example/x?sig=abc%2Fdef&page=2&key=AIza"},
                 {"base_url": "http://a.example/x?sig=***&page=2&key=***"},
                 ["abc%2Fdef", "abc/def", "AIza"], id="query"),
    pytest.param({"command": ["curl", "--api-key", "abcdefgh", "--model", "m", "--token=12345678"]},
                 {"command": ["curl", "--api-key", "***", "--model", "m", "--token=***"]}, ["abcdefgh", "12345678"],
                 id="options"),
    pytest.param({"command": "API_KEY=abcdefgh run -H 'X-Api-Key: a1b2c3d4e5f6'"},
                 {"command": "API_KEY=*** run -H 'X-Api-Key: ***'"}, ["abcdefgh", "a1b2c3d4e5f6"], id="shell line"),
    pytest.param({"auth": {"type": "bearer", "value": "abcdefgh"}}, {"auth": {"type": "bearer", "value": "***"}},
                 ["abcdefgh"], id="below a secret name"),
    pytest.param({"api_keys": ["one-key", "two-key"]}, {"api_keys": ["***", "***"]}, ["one-key", "two-key"], id="list"),
    pytest.param({"env": {"AGENT_CONFIG": '{"options":{"apiKey":"abcdefgh","url":"https://a.example"}}'}},
                 {"env": {"AGENT_CONFIG": '{"options":{"apiKey":"***","url":"https://a.example"}}'}}, ["abcdefgh"],
                 id="JSON in a text"),
    pytest.param({"env": {"AGENT_CONFIG": '{ "limit": 1 }', "OTHER": "{not JSON"}},
                 {"env": {"AGENT_CONFIG": '{ "limit": 1 }', "OTHER": "{not JSON"}}, [], id="harmless JSON"),
    pytest.param({"password": 12345678}, {"password": "***"}, ["12345678"], id="number"),
    pytest.param({"system": "Keep the secret: never tell the token to anybody. Key: be brief"},
                 {"system": "Keep the secret: never tell the token to anybody. Key: be brief"}, [], id="prose"),
    pytest.param({"max_tokens": 100, "url": "https://a.example/b?page=2#token"},
                 {"max_tokens": 100, "url": "https://a.example/b?page=2#token"}, [], id="harmless"),
])  # fmt: skip
def test_a_value_is_a_secret_by_where_it_is(settings: dict[str, Any], public: object, secrets: list[str]) -> None:
    assert redacted(settings) == public
    assert secrets_in(settings) == secrets


FORMS = {
    "plain": ODD,
    "JSON": json.dumps({"a": ODD}),
    "wide JSON": json.dumps({"a": ODD}, ensure_ascii=False),
    "JSON in JSON": json.dumps({"a": json.dumps([ODD])}),
    "JSON for HTML": json.dumps(ODD).replace("<", "\\u003c").replace("&", "\\u0026").replace(">", "\\u003e"),
    "URL": f"http://a/?q={quote(ODD, safe='')}",
    "path": quote(ODD),
    "form": f"q={quote_plus(ODD)}",
    "HTML": html.escape(ODD),
    "HTML text": html.escape(ODD, quote=False),
    "XML attribute": html.escape(ODD, quote=False).replace('"', "&quot;").replace("\n", "&#10;"),
    "shell": shlex.quote(ODD),
    "shell line in JSON": json.dumps(shlex.join(["echo", ODD])),
    "repr": repr(ODD),
    "bytes": repr(ODD.encode()),
    **{f"base64 after {n}": base64.b64encode(b"xy"[:n] + ODD.encode() + b"z").decode() for n in range(3)},
    "base64 for URLs": base64.urlsafe_b64encode(b"user:" + ODD.encode()).decode(),
    "one line": "| second: lïne 0123456789 |",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_found_in_every_escape(form: str) -> None:
    redactor = Redactor([ODD])

    assert "***" in redactor.text(form)
    assert redactor.content(form.encode()).count(b"***") == 1
    assert "***" in redactor.value({"a": [form]})["a"][0]


@pytest.mark.parametrize("cut", [12, 20, 23], ids=["half", "nearly all", "all but one"])
def test_half_a_secret_at_a_cut_is_replaced(cut: int, tmp_path: Path) -> None:
    file = tmp_path / "stdout"
    file.write_text(f"it is {RANDOM[:cut]}")
    redactor = Redactor([RANDOM])

    redact_files(tmp_path, [RANDOM], cut=True)

    assert file.read_text() == "it is ***"
    assert redactor.text(f"…{RANDOM[-cut:]} failed: {RANDOM[:cut]}…", cut=True) == "…*** failed: ***…"


def test_names_of_files_and_folders_are_redacted(tmp_path: Path) -> None:
    folder = tmp_path / f"dir-{RANDOM}"
    folder.mkdir()
    (folder / f"{RANDOM}.txt").write_text("x")
    (folder / "***.txt").write_text("y")

    redact_files(tmp_path, [RANDOM])

    assert sorted(path.name for path in (tmp_path / "dir-***").iterdir()) == ["***.txt", "***.txt-2"]


def test_a_rotated_secret_of_a_suite_changes_no_fingerprint() -> None:
    prints = []
    for value in ("old-key-1234", 'new"key-5678'):
        KNOWN.clear()
        KNOWN.add_filled(["MY_TOKEN"], {"MY_TOKEN": value}, SecretRules())
        prints.append(fingerprint(["say it:", f"key={value}"]))

    assert prints[0] == prints[1] == fingerprint(["say it:", "key=${{ MY_TOKEN }}"])
