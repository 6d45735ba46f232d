"""AWS Signature Version 4 of a request: an HMAC over its method, path, query, some headers and content.

Source: AWS, "Create a signed AWS API request". No network, no configuration files.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import quote

import httpx

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsSignature:
    """Signs requests to one service in one region with one key. `now` returns the time in UTC."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str
    service: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    async def headers(self, url: httpx.URL, content: bytes) -> Mapping[str, str]:
        """Return the headers that authorize a POST request of JSON."""
        return self.signed("POST", url, {"content-type": "application/json"}, content)

    def signed(self, method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes) -> dict[str, str]:
        """Return the headers that authorize a request which is sent with `headers`."""
        time = self.now().strftime("%Y%m%dT%H%M%SZ")
        token = {"x-amz-security-token": self.session_token} if self.session_token else {}
        own = {"x-amz-date": time, **token}
        covered = dict(sorted({**headers, "host": url.netloc.decode(), **own}.items()))
        names = ";".join(covered)
        scope = f"{time[:8]}/{self.region}/{self.service}/aws4_request"
        request = hashlib.sha256(canonical_request(method, url, covered, content).encode()).hexdigest()
        signature = hmac.new(
            self._key(time[:8]), f"{_ALGORITHM}\n{time}\n{scope}\n{request}".encode(), hashlib.sha256
        ).hexdigest()
        credential = f"Credential={self.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
        return {**own, "authorization": f"{_ALGORITHM} {credential}"}

    def _key(self, day: str) -> bytes:
        key = f"AWS4{self.secret_access_key}".encode()
        for part in (day, self.region, self.service, "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        return key


def canonical_request(method: str, url: httpx.URL, headers: Mapping[str, str], content: bytes) -> str:
    """Return the text that is signed. The path is escaped once more than it is sent, as for every service but S3."""
    path, _, query = url.raw_path.decode().partition("?")
    parameters = sorted(pair if "=" in pair else f"{pair}=" for pair in query.split("&") if pair)
    lines = [f"{name}:{' '.join(value.split())}\n" for name, value in headers.items()]
    return "\n".join([
        method, quote(path or "/", safe="/~"), "&".join(parameters), "".join(lines), ";".join(headers),
        hashlib.sha256(content).hexdigest(),
    ])  # fmt: skip
