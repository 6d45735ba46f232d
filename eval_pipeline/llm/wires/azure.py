"""`azure` and `azure-responses`: OpenAI's formats as Azure serves them, where a model is a deployment.

The chat form uses the deployment's own address with a dated `api-version`; the v1 form has one address for all
deployments and needs no version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import httpx

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.llm.model import Endpoint, JsonMap
from eval_pipeline.llm.wires import WIRES, Places, address, at, headers_of, in_path
from eval_pipeline.llm.wires.openai import AS_THEY_ARE, OpenAI
from eval_pipeline.llm.wires.openai_responses import OpenAIResponses

CHAT_VERSION = "2024-12-01-preview"
_V1 = frozenset({"v1", "latest", "preview"})
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*\Z")
_ADDRESS = re.compile(r"(https?://[^/]*.*?)(?:/openai(/.*)?)?\Z", re.DOTALL)


class _Site:
    """The address of an Azure resource, from any part of it that the user gives, and the selected API form."""

    def __init__(self, endpoint: Endpoint, default_version: str) -> None:
        address_ = (endpoint.base_url or "").rstrip("/")
        if not address_:
            raise InputError("Azure needs the address or the name of your resource", SourceLocation(field="base_url"))
        if _RESOURCE.match(address_):
            address_ = f"https://{address_}.openai.azure.com"
        match = _ADDRESS.match(address_)
        self._root, rest = (match[1], match[2] or "") if match else (address_, "")
        address(self._root)
        self.version = endpoint.api_version or ("v1" if rest.startswith("/v1") else default_version)
        self._urls: dict[str, httpx.URL] = {}

    def deployed(self, model: str, path: str) -> httpx.URL:
        """Return the address of a path of one deployment."""
        return self.url(path if self.version in _V1 else f"deployments/{in_path(model)}/{path}")

    def url(self, path: str) -> httpx.URL:
        """Return the address of a path below `/openai/` in the form of the version."""
        if path not in self._urls:
            query = "" if self.version in ("v1", "latest") else f"?api-version={in_path(self.version)}"
            v1 = "v1/" if self.version in _V1 else ""
            self._urls[path] = address(self._root, f"/openai/{v1}{path}{query}")
        return self._urls[path]


@WIRES.register("azure")
class Azure(OpenAI):
    """Chat completions of a deployment (`model`). `api_version: v1` selects the v1 form."""

    name: ClassVar[str] = "azure"

    def __init__(self, endpoint: Endpoint) -> None:
        self._site = _Site(endpoint, CHAT_VERSION)
        self.headers: Mapping[str, str] = headers_of(endpoint, "api-key")

    @property
    def places(self) -> Places:
        return {**{name: at(name) for name in AS_THEY_ARE}, "max_output_tokens": at("max_completion_tokens")}

    def request(self, body: JsonMap) -> tuple[httpx.URL, JsonMap]:
        return self._site.deployed(body["model"], "chat/completions"), body

    def embeddings(self, model: str) -> httpx.URL:
        return self._site.deployed(model, "embeddings")


@WIRES.register("azure-responses")
class AzureResponses(OpenAIResponses):
    """The Responses API of an Azure resource, by default in its v1 form."""

    name: ClassVar[str] = "azure-responses"

    def __init__(self, endpoint: Endpoint) -> None:
        self._site = _Site(endpoint, "v1")
        self._url = self._site.url("responses")
        self.headers: Mapping[str, str] = headers_of(endpoint, "api-key")

    def embeddings(self, model: str) -> httpx.URL:
        return self._site.deployed(model, "embeddings")
