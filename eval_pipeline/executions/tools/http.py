"""`http`: a service at an address carries out the calls of a tool."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import httpx
import orjson

from eval_pipeline.executions.tools import TOOLS, ToolAnswer, ToolError, ToolPlace, ToolRequest, with_state
from eval_pipeline.fingerprints import to_json
from eval_pipeline.llm.bodies import ACCEPTED, Body
from eval_pipeline.llm.errors import ModelError
from eval_pipeline.llm.network import network_errors, pooled_transport, timeouts
from eval_pipeline.llm.wires import address
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import FLAG, POSITIVE, TEXT, TEXT_MAPPING, Field, FieldTable, one_of

_METHODS = ("POST", "GET", "PUT", "PATCH", "DELETE")
_IN_ADDRESS = ("GET", "DELETE")
_MAX_BYTES = 10_000_000
_MAX_CONNECTIONS = 100
_SHOWN = 500


@TOOLS.register("http")
class Http:
    """Send the arguments of a call as JSON to an address; its JSON is the result, another text is `{"result": text}`.

    With GET and DELETE the arguments are in the address. With `envelope` the body is `{"arguments", "context",
    "state"}`, and the service returns `{"result", "state"}`: so it can change the state. A status from 300 on, a
    time-out and a broken connection are errors that the model sees; redirects are not followed.
    """

    settings: ClassVar[FieldTable] = FieldTable(
        "http tool",
        (
            Field("url", TEXT, "The address of the service; write `${{ NAME }}` for a part from the environment.",
                  required=True),
            Field("method", one_of(*_METHODS), "The method of the request.", "POST"),
            Field("headers", TEXT_MAPPING, "Further headers; write `${{ NAME }}` for one from the environment."),
            Field("timeout_s", POSITIVE, "The most seconds of a call.", 10.0),
            Field("envelope", FLAG, "Whether arguments, context and state are sent together.", default=False),
        ),
        "Sends calls to a service.",
    )  # fmt: skip

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        self._url = httpx.URL(address(config["url"], field=cursor.place("url").field or "url"))
        self._method = config.get("method") or "POST"
        self._headers = {
            "content-type": "application/json",
            "accept-encoding": ACCEPTED,
            **(config.get("headers") or {}),
        }
        self._timeout_s = config.get("timeout_s") or 10.0
        self._envelope = config.get("envelope") is True
        self._transport: httpx.AsyncBaseTransport | None = None

    def content(self) -> Mapping[str, str]:
        return {}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        limit_s = min(self._timeout_s, request.timeout_s)
        try:
            async with asyncio.timeout(limit_s):
                status, content = await self._reply(self._request(request, limit_s))
        except TimeoutError:
            raise ToolError(f"no answer within {limit_s:g} s") from None
        except ModelError as error:
            raise ToolError(str(error)) from error
        except network_errors() as error:
            raise ToolError(f"the service cannot be reached: {str(error) or type(error).__name__}") from error
        if status >= 300:
            raise ToolError(f"HTTP {status}: {content[:_SHOWN].decode(errors='replace')}")
        value = _parsed(content)
        return with_state(value) if self._envelope else ToolAnswer(output=value)

    def _request(self, request: ToolRequest, limit_s: float) -> httpx.Request:
        extensions = timeouts(limit_s)
        if self._method in _IN_ADDRESS:
            shown = {
                name: value if isinstance(value, str) else to_json(value).decode()
                for name, value in request.named.items()
            }
            url = self._url.copy_merge_params(shown)
            return httpx.Request(self._method, url, headers=self._headers, extensions=extensions)
        body: Any = request.arguments if request.arguments is not None else {}
        if self._envelope:
            body = {"arguments": body, "context": request.context, "state": request.state}
        return httpx.Request(
            self._method, self._url, headers=self._headers, content=to_json(body), extensions=extensions
        )

    async def _reply(self, request: httpx.Request) -> tuple[int, bytes]:
        if self._transport is None:
            self._transport = pooled_transport(self._url, _MAX_CONNECTIONS)
        response = await self._transport.handle_async_request(request)
        try:
            return response.status_code, await Body(response, _MAX_BYTES).read()
        finally:
            await response.aclose()

    async def close(self) -> None:
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None


def _parsed(content: bytes) -> Any:
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError:
        return {"result": content.decode(errors="replace")}
