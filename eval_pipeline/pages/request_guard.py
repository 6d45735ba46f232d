"""The ASGI layer in front of a web server of this machine: it refuses what a page of another site makes a browser send.

The servers have no password. Refused are foreign hosts (a name that an attacker points at this machine), foreign
origins of requests and websockets, and frames. Programs that are no browsers send no `Origin`; they pass.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

FORBIDDEN = 403
POLICY_VIOLATION = 1008
"""The code that closes a websocket."""

PROTECTION = (
    (b"x-frame-options", b"SAMEORIGIN"),
    (b"content-security-policy", b"frame-ancestors 'self'"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
"""Headers of every answer: pages of other sites neither frame nor embed it."""

_MORE_THAN_A_HOST = frozenset("@\\/?# ")
_FRAMES = frozenset({"iframe", "frame", "embed", "object", "fencedframe"})
_OURS = frozenset({"", "same-origin", "none"})
"""Values of `Sec-Fetch-Site`; a program that is no browser sends none."""


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The hosts under which a server is reached: those of this machine, and those that the user names.

    Attributes:
        local: Names that need no proxy, in lower case.
        named: Names that the user allows, each `name` or `name:port`; an origin may have them, too.
        command: The command whose `--allowed-host` allows another one.
    """

    local: frozenset[str]
    named: frozenset[str]
    command: str

    def has(self, authority: str, server: str) -> bool:
        """Return whether a `Host` is one of ours; `server` is the address that the connection arrived at."""
        host = _host(authority)
        return bool(host) and (host in {*self.local, server} or _is_loopback(host) or self.names(authority))

    def names(self, authority: str) -> bool:
        """Return whether the user allows a host."""
        return not self.named.isdisjoint({authority.lower(), _host(authority)})


def allow_hosts(listening: str, named: Iterable[str], command: str) -> AllowedHosts:
    """Return the hosts of a server that listens on an address: a wildcard has the names of this machine as well."""
    local = {"localhost", listening.lower()}
    if not _is_loopback(listening) and listening != "localhost":
        local |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return AllowedHosts(frozenset(local), frozenset(name.lower() for name in named), command)


@dataclass(frozen=True, slots=True)
class RequestGuard:
    """An ASGI application that passes requests of this machine's pages and programs to another one."""

    app: App
    hosts: AllowedHosts
    refuses: Callable[[Scope], str | None] = lambda scope: None
    """What else is refused, with the reason."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with the reason."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        reason = refusal(scope, self.hosts) or self.refuses(scope)
        if reason is None:
            await self.app(scope, receive, _protected(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "refused"})
        else:
            await _refuse(send, reason)


def refusal(scope: Scope, hosts: AllowedHosts) -> str | None:
    """Return why a request is refused, None when it is not."""
    headers = headers_of(scope)
    host = headers.get("host", "")
    if not hosts.has(host, str((scope.get("server") or ("",))[0])):
        return f"the host {host!r} is not this machine; `{hosts.command} --allowed-host {_host(host)}` allows it"
    origin = headers.get("origin")
    if origin is not None and not _is_own(origin, host, hosts):
        return f"the request comes from a page of another origin, {origin!r}"
    if origin is None and not _is_welcome(scope, headers):
        return "the request comes from a page of another site"
    return None


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers of a request, names in lower case; the first of several of one name."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _host(authority: str) -> str:
    """The host of `host:port`, in lower case, IPv6 without brackets; empty where there is none, or more than that."""
    if not _MORE_THAN_A_HOST.isdisjoint(authority):
        return ""
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_own(origin: str, host: str, hosts: AllowedHosts) -> bool:
    """Whether a page has the address that its request is sent to, or one that the user allows."""
    scheme, _, authority = origin.partition("://")
    return scheme.lower() in ("http", "https") and (authority.lower() == host.lower() or hosts.names(authority))


def _is_welcome(scope: Scope, headers: Mapping[str, str]) -> bool:
    """Whether a request without origin is of our own pages, of no page, or the following of a link."""
    if headers.get("sec-fetch-site", "") in _OURS:
        return True
    destination = headers.get("sec-fetch-dest", "")
    follows = headers.get("sec-fetch-mode") == "navigate" and destination not in _FRAMES
    return follows and scope.get("method") == "GET"


def _protected(send: Send) -> Send:
    """Send answers with the headers that forbid framing."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *PROTECTION]}
        await send(message)

    return with_headers


async def _refuse(send: Send, reason: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff"), *PROTECTION]
    await send({"type": "http.response.start", "status": FORBIDDEN, "headers": headers})
    await send({"type": "http.response.body", "body": f"refused: {reason}\n".encode()})
