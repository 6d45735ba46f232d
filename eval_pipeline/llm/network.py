"""Network access: a connection pool behind httpx's transport seam, and the mapping of network errors."""

from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING, Any

import httpx

from eval_pipeline.failures import CONNECTION, TIMEOUT
from eval_pipeline.llm.errors import ModelError

if TYPE_CHECKING:
    import aiohttp

CONNECT_TIMEOUT_S = 15.0
_OF_TRANSPORT = frozenset({"aiohttp", "httpx_aiohttp", "asyncio"})


def network_errors() -> tuple[type[Exception], ...]:
    """The errors that a broken connection raises."""
    import aiohttp  # noqa: PLC0415 — heavy

    return httpx.TransportError, aiohttp.ClientError, OSError


def pooled_transport(url: httpx.URL, max_connections: int) -> httpx.AsyncBaseTransport:
    """Return aiohttp's connection pool behind httpx's transport interface, with proxies from the environment."""
    import aiohttp  # noqa: PLC0415 — heavy
    from httpx_aiohttp import AiohttpTransport  # noqa: PLC0415

    secure = url.scheme == "https"

    def session() -> aiohttp.ClientSession:
        context = httpx.create_ssl_context() if secure else False
        connector = aiohttp.TCPConnector(limit=max_connections, ssl=context, keepalive_timeout=30)
        return aiohttp.ClientSession(connector=connector, trust_env=_proxied())

    return AiohttpTransport(client=session, verify=False)


def timeouts(timeout_s: float) -> dict[str, Any]:
    """Return httpx timeouts: `timeout_s` for each network wait, at most 15 s to connect."""
    connect = min(CONNECT_TIMEOUT_S, timeout_s)
    return {"timeout": {"connect": connect, "read": timeout_s, "write": timeout_s, "pool": timeout_s}}


def raised_by_transport(error: BaseException) -> bool:
    """Return whether code of the connection pool raised an error, not code that it called, such as ours."""
    frames = list(traceback.walk_tb(error.__traceback__))
    module: str = frames[-1][0].f_globals.get("__name__", "") if frames else ""
    return module.partition(".")[0] in _OF_TRANSPORT


def network_error(error: Exception, url: httpx.URL) -> ModelError:
    """Map a broken connection or a timeout to a retryable ModelError."""
    failure, problem = (TIMEOUT, "the network took too long") if _timed_out(error) else (CONNECTION, url.host)
    return ModelError(failure, f"{problem}: {str(error) or type(error).__name__}", retryable=True)


def _timed_out(error: Exception) -> bool:
    """Return whether the error is a timeout. aiohttp's transport reports every broken connection as one; its cause is
    exact."""
    import aiohttp  # noqa: PLC0415 — heavy

    cause = error.__cause__
    if isinstance(cause, aiohttp.ClientError):
        return isinstance(cause, TimeoutError)
    return isinstance(error, (httpx.TimeoutException, TimeoutError))


def _proxied() -> bool:
    return any(
        os.environ.get(name) or os.environ.get(name.upper()) for name in ("http_proxy", "https_proxy", "all_proxy")
    )
