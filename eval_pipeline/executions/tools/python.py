"""`python`: a function of the user carries out the calls of a tool."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.executions.function_calls import FunctionCall, FunctionError, TooMuchReturned, WorkerDied
from eval_pipeline.executions.threads import in_own_task, in_thread
from eval_pipeline.executions.tools import TOOLS, ToolAnswer, ToolError, ToolPlace, ToolRequest, with_state
from eval_pipeline.executions.user_functions import UserFunction
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.tables import POSITIVE, TEXT, Field, FieldTable
from eval_pipeline.parsing.user_modules import module_imports

_GIVEN = ("arguments", "context", "state")


@TOOLS.register("python")
class Python:
    """Call a function (`module:callable`) in a worker process with the arguments of the call, by name.

    A parameter `context` receives what the user of the conversation knows, `arguments` all arguments as one mapping.
    What it returns is the result. A function with a parameter `state` returns `{"result": …, "state": …}`, the whole
    state as it is afterwards. What it raises is an error that the model sees.
    """

    settings: ClassVar[FieldTable] = FieldTable(
        "python tool",
        (
            Field("function", TEXT, "The function, as `module:callable`; modules beside the runners file come first.",
                  required=True),
            Field("timeout_s", POSITIVE, "The most seconds of a call.", 30.0),
        ),
        "Calls a Python function.",
    )  # fmt: skip

    def __init__(self, config: Mapping[str, Any], place: ToolPlace, cursor: FieldCursor) -> None:
        self._name, self._folder = config["function"], place.folder
        self._timeout_s = config.get("timeout_s") or 30.0
        self._function = UserFunction(
            self._name, place.folder, cursor.place("function").field or "function", place.isolation
        )
        self._pool = self._function.pool(shared=True, anew=True) if self._function.isolated else None
        self._facts = self._function.facts(self._pool)

    def content(self) -> Mapping[str, str]:
        imported = module_imports(self._name, self._folder, (self._folder,))
        file = self._facts.file
        return {**imported, self._name: file_fingerprint(Path(file))} if file else dict(imported)

    async def answer(self, request: ToolRequest) -> ToolAnswer:
        named = self._named(request)
        limit_s = min(self._timeout_s, request.timeout_s)
        try:
            value = await self._returned(named, limit_s)
        except FunctionError as error:
            raise ToolError(error.text) from None
        except (WorkerDied, TooMuchReturned) as error:
            raise ToolError(str(error)) from None
        except TimeoutError:
            raise ToolError(f"no result within {limit_s:g} s") from None
        return with_state(value) if "state" in named else ToolAnswer(output=value)

    def _named(self, request: ToolRequest) -> dict[str, Any]:
        parameters = {name for name, _ in self._facts.parameters}
        available = {"arguments": request.named, "context": request.context, "state": request.state}
        given = {name: available[name] for name in _GIVEN if name in parameters}
        return given if "arguments" in parameters else {**request.named, **given}

    async def _returned(self, named: Mapping[str, Any], limit_s: float) -> Any:
        if self._pool is not None and self._function.reference is not None:
            return await self._pool.call(FunctionCall(self._function.reference, (), named), limit_s)
        function = self._function.here
        async with asyncio.timeout(limit_s):
            if inspect.iscoroutinefunction(function):
                return await in_own_task(function(**named))
            return await in_thread(function, **named)

    async def close(self) -> None:
        return None
