"""Wires: one file per provider's way of being asked and of answering.

A wire turns plain messages and options into an address, headers and a body, puts a stream of events together into the
response object that it stands for, and reads such an object into a Reply. It makes no calls: `llm/client` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

import httpx

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.llm.model import ChatMessage, Endpoint, JsonMap, Options, Reply
from eval_pipeline.llm.reading import merged
from eval_pipeline.plugins import Registry

Places = Mapping[str, Callable[[Any], Mapping[str, Any]]]
"""Where a setting goes: from its value to the piece of a body that says it."""

_OWN_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x20\x7f?#%\\]|\.\.")


class Assembly(Protocol):
    """A streamed response while its events come in; `done` once one of them said that it was the last."""

    done: bool

    def add(self, event: JsonMap) -> bool:
        """Takes an event in; whether it held some of the answer. KeyError, TypeError and the like: a broken event."""

    def response(self) -> JsonMap:
        """The response object that the stream stands for; raises ModelError when the end is missing."""


class Wire(Protocol):
    """How one provider is asked and understood, made for one endpoint. Raises InputError for one it cannot use.

    `name` is its name in the registry; `headers` go with every request.
    """

    name: ClassVar[str]
    headers: Mapping[str, str]

    def __init__(self, endpoint: Endpoint) -> None: ...

    def fixed(self, options: Options) -> dict[str, Any]:
        """All of a body but the messages, made once; raises InputError for settings that the provider does not have.

        `model` and, when it streams, `stream` are always in it.
        """

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        """The body of one request."""

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        """Where a body goes, and what of it is sent there."""

    def embeddings(self, model: str) -> httpx.URL:
        """Where embeddings are asked for, in OpenAI's format; raises InputError where there are none."""

    def assembly(self) -> Assembly:
        """A stream's beginning."""

    @staticmethod
    def answers(response: JsonMap) -> bool:
        """Whether an object is a response of this format."""

    @staticmethod
    def read(response: JsonMap) -> Reply:
        """What a response says. Raises KeyError, IndexError, TypeError or AttributeError for what is none."""


WIRES: Registry[type[Wire]] = Registry(
    "wire", folder="eval_pipeline.llm.wires", entry_point_group="eval_pipeline.wires"
)


def address(base_url: str, path: str = "") -> httpx.URL:
    """An address below a base; raises InputError for one that no request can be sent to."""
    if not base_url.startswith(("http://", "https://")):
        raise InputError(f"expected an http:// or https:// address, got '{base_url}'", SourceLocation(field="base_url"))
    try:
        url = httpx.URL(base_url.rstrip("/") + path)
    except httpx.InvalidURL as error:
        raise InputError(f"'{base_url}' is not an address: {error}", SourceLocation(field="base_url")) from None
    if not url.host:
        raise InputError(f"'{base_url}' names no host", SourceLocation(field="base_url"))
    return url


def in_path(model: str) -> str:
    """A model's name as a part of an address; raises InputError for one that would lead elsewhere."""
    if _UNSAFE_IN_PATHS.search(model):
        raise InputError(f"'{model}' cannot be part of an address", SourceLocation(field="model"))
    return model


def headers_of(endpoint: Endpoint, key_header: str = "", **fixed: str) -> dict[str, str]:
    """An endpoint's headers: fixed ones (`_` for `-`), the key in its header (None: as a bearer), the user's own."""
    headers = {name.replace("_", "-"): value for name, value in fixed.items()}
    if endpoint.api_key:
        key = _header_value(endpoint.api_key, "api_key")
        headers |= {key_header: key} if key_header else {"authorization": f"Bearer {key}"}
    for name, value in endpoint.headers.items():
        if not _HEADER_NAME.match(name):
            raise InputError(f"'{name}' cannot be the name of a header", SourceLocation(field="headers"))
        headers[name.lower()] = _header_value(value, f"headers.{name}")
    return headers


def _header_value(value: str, field: str) -> str:
    """The value, unless it holds what no header may; it is not shown, because it may be a secret."""
    if _NOT_IN_HEADERS.search(value):
        raise InputError("holds a line break or another control character", SourceLocation(field=field))
    return value


def without_version(endpoint: Endpoint, wire: str) -> None:
    """Raises InputError when an endpoint has an `api_version` that this wire has no place for."""
    if endpoint.api_version is not None:
        raise InputError(f"wire '{wire}' has no versions", SourceLocation(field="api_version"))


def no_embeddings(wire: str) -> InputError:
    """The error of asking a provider for embeddings that it does not have in OpenAI's format."""
    return InputError(f"wire '{wire}' has no embeddings; openai and azure have", SourceLocation(field="wire"))


def placed(wire: str, options: Options, places: Places) -> dict[str, Any]:
    """A body with every setting in its place, the extra fields last. Raises InputError for one without a place.

    A limit on tokens under a provider's own name goes before `max_output_tokens`: no provider takes two.
    """
    body: dict[str, Any] = {"model": options.model}
    given = {name: value for name, value in options.settings.items() if value is not None}
    if _OWN_LIMITS & given.keys():
        given.pop("max_output_tokens", None)
    for name, value in given.items():
        if name not in places:
            hint = did_you_mean(name, places)
            raise InputError(f"wire '{wire}' has no such setting; it has: {', '.join(sorted(places))}{hint}",
                             SourceLocation(field=name))  # fmt: skip
        body = merged(body, places[name](value))
    if options.stream:
        body["stream"] = True
    return merged(body, options.extra)


def at(*keys: str) -> Callable[[Any], dict[str, Any]]:
    """The place below these keys, the value as it is."""

    def place(value: Any) -> dict[str, Any]:
        for key in reversed(keys):
            value = {key: value}
        return value  # type: ignore[no-any-return]

    return place
