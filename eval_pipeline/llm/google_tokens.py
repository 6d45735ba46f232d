"""Access tokens of Google Cloud, from a file of credentials: a service account's or a user's (`gcloud auth
application-default login`). A token is kept until shortly before it expires.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import orjson

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.bodies import Body
from eval_pipeline.llm.errors import malformed, status_error
from eval_pipeline.llm.network import network_error, network_errors, pooled_transport, timeouts
from eval_pipeline.llm.reading import amount, mapping, text
from eval_pipeline.llm.rsa_signature import rs256
from eval_pipeline.parsing.redaction import KNOWN

TOKEN_URI = "https://oauth2.googleapis.com/token"
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LIFETIME_S = 3600
_EARLY_S = 60
_TIMEOUT_S = 30.0
_MOST_BYTES = 100_000
_NEEDED = {
    "service_account": ("client_email", "private_key"),
    "authorized_user": ("client_id", "client_secret", "refresh_token"),
}
_SECRET = ("private_key", "client_secret", "refresh_token")


def default_credentials(environment: Mapping[str, str]) -> Path:
    """Return the file of Google's Application Default Credentials: the named one, or the one that gcloud writes."""
    named = environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    return Path(named) if named else Path("~/.config/gcloud/application_default_credentials.json").expanduser()


class GoogleTokens:
    """Authorizes requests with the access token of one file of credentials.

    `now` returns seconds since 1970. Raises InputError for a file that cannot be used.
    """

    def __init__(self, path: Path, *, now: Callable[[], float] = time.time) -> None:
        self._credentials = _credentials(path)
        self._url = _token_url(self._credentials)
        self._now = now
        self._token, self._ends = "", 0.0
        self._asking = asyncio.Lock()

    async def headers(self, url: httpx.URL, content: bytes) -> Mapping[str, str]:
        """Return the header with the token. Raises ModelError when there is none."""
        async with self._asking:
            if self._now() >= self._ends:
                await self._renew()
        return {"authorization": f"Bearer {self._token}"}

    async def _renew(self) -> None:
        reply = mapping(await _exchange(self._url, self._grant()))
        token = text(reply.get("access_token"))
        if not token:
            raise malformed(f"{self._url.host} returned no access token")
        KNOWN.add([token])
        self._token, self._ends = token, self._now() + (amount(reply.get("expires_in")) or 0.0) - _EARLY_S

    def _grant(self) -> Mapping[str, str]:
        given = self._credentials
        if given["type"] == "authorized_user":
            return {"grant_type": "refresh_token", **{name: given[name] for name in _NEEDED["authorized_user"]}}
        return {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": self._assertion()}

    def _assertion(self) -> str:
        given, issued = self._credentials, int(self._now())
        head = {"alg": "RS256", "typ": "JWT", **({"kid": given["private_key_id"]} if "private_key_id" in given else {})}
        claims = {
            "iss": given["client_email"], "scope": _SCOPE, "aud": str(self._url), "iat": issued,
            "exp": issued + _LIFETIME_S,
        }  # fmt: skip
        signed = f"{_encoded(to_json(head))}.{_encoded(to_json(claims))}"
        return f"{signed}.{_encoded(rs256(signed.encode(), given['private_key']))}"


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _credentials(path: Path) -> Mapping[str, Any]:
    """Return a file's credentials, and learn its secrets, which are never shown."""
    try:
        given = mapping(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise _unusable(f"'{path}' cannot be read: {error.strerror}") from None
    except orjson.JSONDecodeError:
        raise _unusable(f"'{path}' is not JSON") from None
    KNOWN.add(value for name in _SECRET if (value := text(given.get(name))))
    needed = _NEEDED.get(str(given.get("type")))
    if needed is None:
        raise _unusable(f"'{path}' has credentials of type {given.get('type')!r}; usable: {', '.join(sorted(_NEEDED))}")
    for name in needed:
        if not text(given.get(name)):
            raise _unusable(f"'{path}' has no {name}")
    if "private_key" in needed:
        _check_key(given["private_key"], path)
    return given


def _check_key(pem: str, path: Path) -> None:
    try:
        rs256(b"", pem)
    except ValueError as error:
        raise _unusable(f"'{path}': private_key: {error}") from None


def _token_url(given: Mapping[str, Any]) -> httpx.URL:
    url = httpx.URL(text(given.get("token_uri")) or TOKEN_URI)
    if url.scheme not in ("http", "https") or not url.host:
        raise _unusable(f"token_uri '{url}' is not an address")
    return url


def _unusable(problem: str) -> InputError:
    return InputError(problem, SourceLocation(field="credentials"))


async def _exchange(url: httpx.URL, form: Mapping[str, str]) -> Any:
    """Return the reply to a form. Raises ModelError."""
    headers = {"content-type": "application/x-www-form-urlencoded", "user-agent": "eval-pipeline"}
    extensions = timeouts(_TIMEOUT_S)
    request = httpx.Request("POST", url, headers=headers, content=urlencode(form), extensions=extensions)
    transport = pooled_transport(url, 1)
    try:
        response = await transport.handle_async_request(request)
        try:
            body = Body(response, _MOST_BYTES)
            if response.status_code != 200:
                raise status_error(response.status_code, response.reason_phrase, response.headers, await body.start())
            return orjson.loads(await body.read())
        finally:
            await response.aclose()
    except network_errors() as error:
        raise network_error(error, url) from error
    except orjson.JSONDecodeError:
        raise malformed(f"{url.host} answered a request for a token with something other than JSON") from None
    finally:
        await transport.aclose()
