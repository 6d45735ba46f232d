"""`mcp`: a tool of a server of the Model Context Protocol, which is started as a program (stdio)."""

from __future__ import annotations

import asyncio
import importlib
import os
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import error_text
from eval_pipeline.executions.tools import TOOLS, ToolAnswer, ToolError, ToolPlace, ToolRequest
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import POSITIVE, TEXT, TEXT_MAPPING, TEXTS, Field, FieldTable

_START_S = 30.0
_CONNECTION_CLOSED = -32000
"""The code of the library's error for a connection that is gone."""
_INSTALL = "install the package 'mcp': pip install 'eval-pipeline[mcp]'"


@TOOLS.register("mcp")
class Mcp:
    """Call a tool of an MCP server. The server is started at the first call, one process for each tool that is declared
    so, and serves every conversation of the runner. It needs the package `mcp` (extra `mcp`)."""

    keeps_state: ClassVar[bool] = True
    settings: ClassVar[FieldTable] = FieldTable(
        "mcp tool",
        (
            Field("command", TEXTS, "The server's program and its arguments.", required=True),
            Field("tool", TEXT, "The name of the tool on the server (default: the declared name)."),
            Field("env", TEXT_MAPPING, "Further variables of its environment."),
            Field("timeout_s", POSITIVE, "The most seconds of a call.", 30.0),
        ),
        "Calls a tool of an MCP server.",
    )

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        try:
            self._sdk = importlib.import_module("mcp")
        except ImportError:
            raise cursor.error(f"needs a package that is not installed; {_INSTALL}", "type") from None
        self._command, self._tool = tuple(config["command"]), config.get("tool")
        self._folder, self._environment = place.folder, config.get("env") or {}
        self._timeout_s = config.get("timeout_s") or 30.0
        self._calls: asyncio.Queue[tuple[str, Mapping[str, Any], asyncio.Future[Any]]] | None = None
        self._server: asyncio.Task[None] | None = None

    def content(self) -> Mapping[str, str]:
        return {}

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        if self._server is None or self._server.done() or self._calls is None:
            self._calls = asyncio.Queue()
            self._server = asyncio.create_task(self._serve(self._calls))
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((self._tool or request.tool, request.named, future))
        limit_s = min(self._timeout_s, request.timeout_s)
        try:
            async with asyncio.timeout(limit_s):
                await asyncio.wait([future, self._server], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise ToolError(f"no result within {limit_s:g} s") from None
        if not future.done():
            raise ToolError(_why_ended(self._server))
        try:
            return _answer(future.result())
        except _ServerGone as gone:
            await self.close()
            raise ToolError(str(gone)) from None

    async def _serve(self, calls: asyncio.Queue[tuple[str, Mapping[str, Any], asyncio.Future[Any]]]) -> None:
        """Hold the session with the server: it is opened and closed in one task, as its library wants it."""
        async with AsyncExitStack() as stack:
            parameters = self._sdk.StdioServerParameters(
                command=self._command[0],
                args=list(self._command[1:]),
                env={**os.environ, **self._environment},
                cwd=self._folder,
            )
            # What the server prints to its standard error is not kept: ours may be no file (a notebook, Dagster).
            errors = stack.enter_context(Path(os.devnull).open("w"))  # noqa: SIM115 — the stack closes it
            async with asyncio.timeout(_START_S):
                read, write = await stack.enter_async_context(self._sdk.stdio_client(parameters, errlog=errors))
                session = await stack.enter_async_context(self._sdk.ClientSession(read, write))
                await session.initialize()
            async with asyncio.TaskGroup() as group:
                while True:
                    group.create_task(_call(session, *await calls.get()))

    async def close(self) -> None:
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
            self._server = None


class _ServerGone(ToolError):
    """The connection to a server is closed: the next call starts it again."""


async def _call(session: Any, tool: str, arguments: Mapping[str, Any], future: asyncio.Future[Any]) -> None:
    try:
        result = await session.call_tool(tool, dict(arguments))
    except Exception as error:  # noqa: BLE001 — the boundary to the server: the model sees what went wrong
        gone = getattr(getattr(error, "error", error), "code", _CONNECTION_CLOSED) == _CONNECTION_CLOSED
        if not future.done():
            future.set_exception((_ServerGone if gone else ToolError)(error_text(error)))
        return
    if not future.done():
        future.set_result(result)


def _answer(result: Any) -> ToolAnswer:
    """Return the structured content of a result, else its texts."""
    structured = getattr(result, "structured_content", None) or getattr(result, "structuredContent", None)
    texts = [part.text for part in result.content if getattr(part, "type", None) == "text"]
    failed = bool(getattr(result, "is_error", None) or getattr(result, "isError", None))
    if failed:
        return ToolAnswer(output={"error": "\n".join(texts)}, is_error=True)
    return ToolAnswer(output=structured if structured is not None else "\n".join(texts))


def _why_ended(server: asyncio.Task[None]) -> str:
    error = server.exception() if not server.cancelled() else None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"the MCP server cannot be used: {error_text(error)}" if error is not None else "the MCP server ended"
