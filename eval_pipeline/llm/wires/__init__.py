"""Wires: one file per provider's request and response format.

A wire turns plain messages and options into an address, headers and a body, assembles a stream of events into a
response object, and reads such an object into a Reply. It makes no calls; `llm/client` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol

import httpx

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.llm.model import ChatMessage, CloudAccount, Endpoint, JsonMap, Options, Reply
from eval_pipeline.llm.reading import merged
from eval_pipeline.plugins import Registry

Places = Mapping[str, Callable[[Any], Mapping[str, Any]]]
"""Maps a setting's name to a function from its value to a fragment of the request body."""

_OWN_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_NOT_IN_HEADERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CLOUD_NAMES = {"region": re.compile(r"[a-z0-9-]+"), "project": re.compile(r"[a-z0-9][a-z0-9.:-]*")}
_UNSAFE_IN_PATHS = re.compile(r"[\x00-\x20\x7f?#%\\]|\.\.")


class Assembly(Protocol):
    """A streamed response under construction; `done` is set once the last event has arrived."""

    done: bool

    def add(self, event: JsonMap) -> bool:
        """Add an event; return whether it held a part of the answer.

        Raises KeyError, TypeError and the like if broken.
        """

    def response(self) -> JsonMap:
        """Return the response object of the stream. Raises ModelError when the end is missing."""


class Wire(Protocol):
    """The format of one provider, created for one endpoint.

    Raises InputError for an endpoint that it cannot use. `name` is its name in the registry; `headers` are sent with
    every request. A wire of a cloud also has `cloud_settings`, the fields of CloudAccount that it reads, and
    `authorization` (see `llm/authorization`).
    """

    name: ClassVar[str]
    headers: Mapping[str, str]

    def __init__(self, endpoint: Endpoint) -> None: ...

    def fixed(self, options: Options) -> dict[str, Any]:
        """Return the body without the messages, built once.

        Raises InputError for settings that the provider lacks. `model` and, for streams, `stream` are always present.
        """

    def body(self, fixed: JsonMap, messages: Sequence[ChatMessage]) -> dict[str, Any]:
        """Return the body of one request."""

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        """Return the address of a request and the body to send there."""

    def embeddings(self, model: str) -> httpx.URL:
        """Return the address for embeddings in OpenAI's format. Raises InputError where there are none."""

    def assembly(self) -> Assembly:
        """Return an empty assembly for a stream."""

    @staticmethod
    def answers(response: JsonMap) -> bool:
        """Return whether an object is a response of this format."""

    @staticmethod
    def read(response: JsonMap) -> Reply:
        """Read a response. Raises KeyError, IndexError, TypeError or AttributeError for another shape."""


WIRES: Registry[type[Wire]] = Registry(
    "wire",
    folder="eval_pipeline.llm.wires",
    entry_point_group="eval_pipeline.wires",
    requires=("name", "fixed", "body", "request", "embeddings", "assembly", "answers", "read"),
)


def address(base_url: str, path: str = "", field: str = "base_url") -> httpx.URL:
    """Return an address below a base. Raises InputError, naming the setting, for an unusable address."""
    if not base_url.startswith(("http://", "https://")):
        given = f"'{base_url}'" if base_url.strip() else "an empty text"
        raise InputError(f"expected an http:// or https:// address, got {given}", SourceLocation(field=field))
    try:
        url = httpx.URL(base_url.rstrip("/") + path)
    except httpx.InvalidURL as error:
        raise InputError(f"'{base_url}' is not an address: {error}", SourceLocation(field=field)) from None
    if not url.host:
        raise InputError(f"'{base_url}' names no host", SourceLocation(field=field))
    return url


def in_path(model: str) -> str:
    """Return a model's name as a path segment. Raises InputError for a name that would change the path."""
    if _UNSAFE_IN_PATHS.search(model):
        raise InputError(f"'{model}' cannot be part of an address", SourceLocation(field="model"))
    return model


def headers_of(endpoint: Endpoint, key_header: str = "", **fixed: str) -> dict[str, str]:
    """Return an endpoint's headers: fixed ones (`_` for `-`), the key (empty `key_header`: as a bearer token), the
    user's."""
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
    """Return the value.

    Raises InputError for control characters; the value is not shown, because it may be a secret.
    """
    if _NOT_IN_HEADERS.search(value):
        raise InputError("holds a line break or another control character", SourceLocation(field=field))
    return value


def without_version(endpoint: Endpoint, wire: str) -> None:
    """Raise InputError when an endpoint has an `api_version` but the wire has no versions."""
    if endpoint.api_version is not None:
        raise InputError(f"wire '{wire}' has no versions", SourceLocation(field="api_version"))


def check_cloud(wire: str, cloud: CloudAccount, known: Collection[str]) -> None:
    """Raise InputError for a cloud setting that a wire does not read, or a name that would change an address."""
    for name in (field.name for field in fields(cloud)):
        value = getattr(cloud, name)
        if value is not None and name not in known:
            raise InputError(f"wire '{wire}' has no such setting", SourceLocation(field=name))
        if value is not None and name in _CLOUD_NAMES and not _CLOUD_NAMES[name].fullmatch(value):
            raise InputError(f"'{value}' is not the name of a {name}", SourceLocation(field=name))


def no_embeddings(wire: str) -> InputError:
    """Return the error for a provider without embeddings in OpenAI's format."""
    return InputError(f"wire '{wire}' has no embeddings; openai and azure have", SourceLocation(field="wire"))


def placed(wire: str, options: Options, places: Places) -> dict[str, Any]:
    """Return a body with every setting mapped, the extra fields last. Raises InputError for an unknown setting.

    A token limit under a provider's own name overrides `max_output_tokens`: no provider accepts two.
    """
    body: dict[str, Any] = {"model": options.model}
    values = {name: value for name, value in options.settings.items() if value is not None}
    if _OWN_LIMITS & values.keys():
        values.pop("max_output_tokens", None)
    for name, value in values.items():
        if name not in places:
            hint = did_you_mean(name, places)
            raise InputError(f"wire '{wire}' has no such setting; it has: {', '.join(sorted(places))}{hint}",
                             SourceLocation(field=name))  # fmt: skip
        body = merged(body, places[name](value))
    if options.stream:
        body["stream"] = True
    return merged(body, options.extra)


def at(*keys: str) -> Callable[[Any], dict[str, Any]]:
    """Return a function that nests a value below these keys."""

    def place(value: Any) -> dict[str, Any]:
        for key in reversed(keys):
            value = {key: value}
        return value  # type: ignore[no-any-return]

    return place
