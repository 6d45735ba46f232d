"""`python`: a function of the user's, named `module:callable`, sync or async."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, Call
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.failures import TARGET_CRASH
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.plugins import import_function

_ANSWER_KEYS = ("output", "messages", "usage", "cost_usd", "latency_ms", "model", "metadata")


@ADAPTERS.register("python")
class Python:
    """Calls a function once per case.

    Settings: `function` (`module:callable`; the module is looked for beside the runners file first) and `arguments`
    (keyword arguments of every call). The function is given what its parameters name: `prompt` (text), `messages`
    (list of role and content), `case` (the Case), `suite`, `repetition`; a first parameter of another name gets the
    prompt. It returns a text, or a mapping with `output` and optionally `messages`, `usage`, `cost_usd`, `latency_ms`.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[frozenset[str]] = frozenset({"function", "arguments", "model"})
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        self._name = settings.text(runner.settings, "function")
        self._arguments = dict(settings.mapping(runner.settings, "arguments"))
        self._folder = runner.folder
        self._function = import_function(self._name, runner.folder, "function")

    def content(self) -> Mapping[str, str]:
        file = getattr(sys.modules.get(self._function.__module__), "__file__", None)
        return {self._name: file_fingerprint(Path(file))} if file else {}

    async def execute(self, call: Call) -> RawExecution:
        arguments = {**_offered(self._function, call), **self._arguments}
        try:
            if inspect.iscoroutinefunction(self._function):
                answer = await self._function(**arguments)
            else:
                answer = await asyncio.to_thread(self._function, **arguments)
        except TargetFailure:
            raise
        except Exception as error:
            # The user's function is the system under test: what it raises is its failure, not ours.
            raise TargetFailure(TARGET_CRASH, f"{type(error).__name__}: {error}") from error
        return RawExecution(format="python", payload=_payload(answer))

    async def close(self) -> None:
        return None


def _offered(function: Callable[..., Any], call: Call) -> dict[str, Any]:
    plan = call.plan
    prompt = prompt_text(plan.case)
    known: dict[str, Any] = {
        "prompt": prompt,
        "messages": [{"role": message.role, "content": message.content} for message in plan.case.input],
        "case": plan.case,
        "suite": plan.suite,
        "repetition": plan.repetition,
    }
    parameters = inspect.signature(function).parameters
    offered = {name: known[name] for name in parameters if name in known}
    if not offered and parameters:
        offered[next(iter(parameters))] = prompt
    return offered


def _payload(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, Mapping):
        unknown = [key for key in answer if key not in _ANSWER_KEYS]
        if "output" in answer and not unknown:
            return dict(answer)
        if "output" in answer:
            raise TargetFailure(TARGET_CRASH, f"returned unknown keys {unknown}; there are: {', '.join(_ANSWER_KEYS)}")
    return {"output": answer}
