"""`python`: a function of the user, named `module:callable`, sync or async."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import error_text
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.fields_read import fields_read
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.threads import in_own_task, in_thread, is_interruption
from eval_pipeline.failures import OUTPUT_LIMIT, OUTPUT_MISSING, TARGET_CRASH
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.tables import MAPPING, TEXT, Field, FieldTable
from eval_pipeline.parsing.user_modules import import_function, module_imports

_ANSWER_KEYS = ("output", "messages", "usage", "cost_usd", "latency_ms", "model", "metadata")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)


@ADAPTERS.register("python")
class Python:
    """Call a function once per case.

    Settings: `function` (`module:callable`; the runners file's folder is searched first) and `arguments` (keyword
    arguments of every call). The function receives what its parameters name: `prompt` (text), `messages` (list of role
    and content), `case` (the Case without its evaluators and threshold: a target does not know how it is scored; the
    fields that the function may read of it are part of a plan's identity), `suite`, `repetition`, `workspace` (a Path,
    or None); a first parameter of another name receives the prompt. It returns a text, or a mapping with `output` and
    optionally `messages`, `usage`, `cost_usd`, `latency_ms`.
    """

    version: ClassVar[str] = "1"
    settings: ClassVar[FieldTable] = FieldTable(
        "python",
        (
            Field("function", TEXT, "The function, as `module:callable`; modules beside the runners file come first.",
                  required=True),
            Field("arguments", MAPPING, "Keyword arguments of every call."),
            MODEL,
        ),
        "Calls a Python function once per case.",
    )  # fmt: skip
    default_timeout_s: ClassVar[float] = 600.0
    retries_timeouts: ClassVar[bool] = False

    def __init__(self, runner: Runner) -> None:
        self._name = settings.text(runner.settings, "function")
        self._arguments = dict(settings.mapping(runner.settings, "arguments"))
        self._folder = runner.folder
        self._max_bytes = runner.max_output_bytes
        self._function = import_function(self._name, runner.folder, "function")

    def content(self) -> Mapping[str, str]:
        file = getattr(sys.modules.get(self._function.__module__), "__file__", None)
        return {self._name: file_fingerprint(Path(file))} if file else {}

    def dependencies(self) -> Mapping[str, str]:
        """Return fingerprints of the modules that the function's module imports from the runners file's folder."""
        return module_imports(self._name, self._folder, (self._folder,))

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of a case, beyond its input, that the function may read."""
        parameters = inspect.signature(self._function).parameters
        if "case" not in parameters or "case" in self._arguments:
            return ()
        return fields_read(self._function, "case")

    async def execute(self, call: Call) -> RawExecution:
        try:
            payload = _payload(await self._answer(call))
            _check_encodable(payload)
        except TargetFailure:
            raise
        except BaseException as error:
            # The user's function is the system under test: all that it raises, exits included, fails the target.
            if is_interruption(error):
                raise
            raise TargetFailure(TARGET_CRASH, error_text(error)) from error
        self._check_size(payload.get("output"), call)
        return RawExecution(format="python", payload=payload)

    def _check_size(self, output: Any, call: Call) -> None:
        """Raise TargetFailure for a text above the limit; its beginning is kept as a file."""
        if not isinstance(output, str) or len(output) <= self._max_bytes:
            return
        call.folder.mkdir(parents=True, exist_ok=True)
        path = call.folder / "output"
        path.write_text(output[: self._max_bytes], "utf-8", "replace")
        problem = f"the answer exceeds the limit of {self._max_bytes / 1e6:g} MB (max_output_mb); the rest was cut"
        raise TargetFailure(OUTPUT_LIMIT, problem, raw=RawExecution(format="python", files={"output": path}))

    async def close(self) -> None:
        return None

    async def _answer(self, call: Call) -> Any:
        positional, named = _bound_arguments(self._function, call, self._arguments)
        if inspect.iscoroutinefunction(self._function):
            return await in_own_task(self._function(*positional, **named))
        answer = await in_thread(self._function, *positional, **named)
        return await in_own_task(answer) if inspect.isawaitable(answer) else answer


def _bound_arguments(
    function: Callable[..., Any], call: Call, arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and keyword arguments of a call."""
    plan = call.plan
    prompt = prompt_text(plan.case)
    available: dict[str, Any] = {
        "prompt": prompt,
        "messages": [{"role": message.role, "content": message.content} for message in plan.case.input],
        "case": replace(plan.case, evaluators=(), threshold=None, expected_fail=False),
        "suite": plan.suite,
        "repetition": plan.repetition,
        "workspace": call.workspace,
    }
    unbound = [item for item in inspect.signature(function).parameters.values() if item.name not in arguments]
    keywords = {item.name: available[item.name] for item in unbound if item.name in available and item.kind in _BY_NAME}
    if not keywords and unbound and unbound[0].kind in _BY_POSITION:
        return [prompt], dict(arguments)
    if not keywords and unbound and unbound[0].kind in _BY_NAME:
        keywords = {unbound[0].name: prompt}
    return [], {**keywords, **arguments}


def _check_encodable(payload: Mapping[str, Any]) -> None:
    """Raise what the answer raises when it is stored, for example by its `__str__`."""
    if not isinstance(payload.get("output"), str) or len(payload) > 1:
        to_json(payload)


def _payload(answer: Any) -> Mapping[str, Any]:
    if answer is None:
        raise TargetFailure(OUTPUT_MISSING, "the function returned nothing")
    if isinstance(answer, Mapping):
        unknown = [key for key in answer if key not in _ANSWER_KEYS]
        if "output" in answer and not unknown:
            return dict(answer)
        if "output" in answer:
            raise TargetFailure(TARGET_CRASH, f"returned unknown keys {unknown}; there are: {', '.join(_ANSWER_KEYS)}")
    return {"output": answer}
