"""The way out: a pool of connections behind httpx's transport seam, and what the network's own failures mean."""

from __future__ import annotations

import os
from typing import Any

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from eval_pipeline.failures import CONNECTION, TIMEOUT
from eval_pipeline.llm.errors import ModelError

CONNECT_TIMEOUT_S = 15.0
NETWORK_ERRORS = (httpx.TransportError, aiohttp.ClientError, OSError)


def pooled_transport(url: httpx.URL, max_connections: int) -> httpx.AsyncBaseTransport:
    """aiohttp's connection pool behind httpx's transport interface, proxies taken from the environment."""
    secure = url.scheme == "https"

    def session() -> aiohttp.ClientSession:
        context = httpx.create_ssl_context() if secure else False
        connector = aiohttp.TCPConnector(limit=max_connections, ssl=context, keepalive_timeout=30)
        return aiohttp.ClientSession(connector=connector, trust_env=_proxied())

    return AiohttpTransport(client=session, verify=False)


def timeouts(timeout_s: float) -> dict[str, Any]:
    """`timeout_s` for each wait for the network, less for making a connection, as transports take it."""
    connect = min(CONNECT_TIMEOUT_S, timeout_s)
    return {"timeout": {"connect": connect, "read": timeout_s, "write": timeout_s, "pool": timeout_s}}


def network_error(error: Exception, url: httpx.URL) -> ModelError:
    """A broken connection, or one that took too long. Another try may find a better one."""
    failure, what = (TIMEOUT, "the network took too long") if _timed_out(error) else (CONNECTION, url.host)
    return ModelError(failure, f"{what}: {str(error) or type(error).__name__}", retryable=True)


def _timed_out(error: Exception) -> bool:
    """Whether time ran out: aiohttp's transport calls every broken connection a timeout, its cause knows better."""
    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientError):
        return isinstance(cause, TimeoutError)
    return isinstance(error, (httpx.TimeoutException, TimeoutError))


def _proxied() -> bool:
    return any(
        os.environ.get(name) or os.environ.get(name.upper()) for name in ("http_proxy", "https_proxy", "all_proxy")
    )
