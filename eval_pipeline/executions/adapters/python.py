"""`python`: a function of the user, named `module:callable`, sync or async."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from eval_pipeline.errors import error_text
from eval_pipeline.executions import settings
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, Call
from eval_pipeline.executions.function_calls import (
    BlockedByAnother,
    FunctionCall,
    FunctionError,
    TooMuchReturned,
    WorkerDied,
)
from eval_pipeline.executions.function_facts import BY_NAME, BY_POSITION, FunctionFacts
from eval_pipeline.executions.model import RawExecution, Runner, TargetFailure
from eval_pipeline.executions.prompt import prompt_text
from eval_pipeline.executions.threads import in_own_task, in_thread, is_interruption
from eval_pipeline.executions.user_functions import UserFunction
from eval_pipeline.executions.workers import WorkerPool
from eval_pipeline.failures import OUTPUT_LIMIT, OUTPUT_MISSING, TARGET_CRASH, TIMEOUT, FailureClass, Origin
from eval_pipeline.fingerprints import file_fingerprint, to_json
from eval_pipeline.parsing.tables import MAPPING, TEXT, Field, FieldTable
from eval_pipeline.parsing.user_modules import module_imports
from eval_pipeline.suites.model import Message

_ANSWER_KEYS = ("output", "messages", "usage", "cost_usd", "latency_ms", "model", "metadata")


@ADAPTERS.register("python")
class Python:
    """Call a function once per case, in a worker process: one that exits, crashes or never returns costs one execution.

    Settings: `function` (`module:callable`; the runners file's folder is searched first) and `arguments` (keyword
    arguments of every call). The function receives what its parameters name: `prompt` (text), `messages` (list of role
    and content), `case` (the Case without its evaluators and threshold: a target does not know how it is scored; the
    fields that the function may read of it are part of a plan's identity), `suite`, `repetition`, `workspace` (a Path,
    or None); a first parameter of another name receives the prompt. It returns a text, or a mapping with `output` and
    optionally `messages`, `usage`, `cost_usd`, `latency_ms`. With `isolation: in-process` it is called in the process
    of the sweep.
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
        self._function = UserFunction(self._name, runner.folder, "function", runner.isolation or "process")
        self._pool = self._function.pool(shared=True, anew=True) if self._function.isolated else None
        self._facts = self._function.facts(self._pool)

    @property
    def keeps_time(self) -> bool:
        """Whether calls end by their time limit here: while one waits for a worker, its time does not run."""
        return self._pool is not None

    def content(self) -> Mapping[str, str]:
        file = self._facts.file
        return {self._name: file_fingerprint(Path(file))} if file else {}

    def dependencies(self) -> Mapping[str, str]:
        """Return fingerprints of the modules that the function's module imports from the runners file's folder."""
        return module_imports(self._name, self._folder, (self._folder,))

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of a case, beyond its input, that the function may read."""
        return () if "case" in self._arguments else self._facts.case_fields

    async def execute(self, call: Call) -> RawExecution:
        try:
            payload = _payload(await self._answer(call))
            text = b"" if self.keeps_time else _text_of(payload)  # a worker measures what it sends
        except TargetFailure:
            raise
        except FunctionError as error:
            raise _failure_of(error) from None
        except WorkerDied as error:
            raise TargetFailure(TARGET_CRASH, str(error)) from None
        except TooMuchReturned as error:
            raise self._too_large(error.beginning, call) from None
        except BaseException as error:
            # The user's function is the system under test: all that it raises, exits included, fails the target.
            if is_interruption(error):
                raise
            raise TargetFailure(TARGET_CRASH, error_text(error)) from error
        self._check_size(text, call)
        return RawExecution(format="python", payload=payload)

    def _check_size(self, text: str | bytes, call: Call) -> None:
        """Raise TargetFailure for an answer above the limit."""
        if len(text) > self._max_bytes:
            kept = text[: self._max_bytes]
            raise self._too_large(kept if isinstance(kept, bytes) else kept.encode("utf-8", "replace"), call)

    def _too_large(self, beginning: bytes, call: Call) -> TargetFailure:
        """Return the failure of an answer above the limit; its beginning is kept as a file."""
        call.folder.mkdir(parents=True, exist_ok=True)
        path = call.folder / "output"
        path.write_bytes(beginning)
        problem = f"the answer exceeds the limit of {self._max_bytes / 1e6:g} MB (max_output_mb); the rest was cut"
        return TargetFailure(OUTPUT_LIMIT, problem, raw=RawExecution(format="python", files={"output": path}))

    async def close(self) -> None:
        return None

    async def _answer(self, call: Call) -> Any:
        positional, named = _bound_arguments(self._facts, call, self._arguments)
        if self._pool is not None and self._function.reference is not None:
            request = FunctionCall(self._function.reference, positional, named, most_bytes=self._max_bytes)
            return await _called_in_worker(self._pool, request, call.timeout_s)
        function = self._function.here
        if inspect.iscoroutinefunction(function):
            return await in_own_task(function(*positional, **named))
        answer = await in_thread(function, *positional, **named)
        return await in_own_task(answer) if inspect.isawaitable(answer) else answer


async def _called_in_worker(pool: WorkerPool, call: FunctionCall, timeout_s: float) -> Any:
    try:
        return await pool.call(call, timeout_s)
    except BlockedByAnother:
        problem = f"no answer within {timeout_s:g} s: another call blocked the event loop"
        raise TargetFailure(TIMEOUT, problem, retryable=True) from None
    except TimeoutError:
        raise TargetFailure(TIMEOUT, f"no answer within {timeout_s:g} s") from None


def _bound_arguments(
    function: FunctionFacts, call: Call, arguments: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return the positional and keyword arguments of a call."""
    plan = call.plan
    prompt = prompt_text(plan.case)
    available: dict[str, Any] = {
        "prompt": prompt,
        "messages": [_given(message) for message in plan.case.input],
        "case": replace(plan.case, evaluators=(), threshold=None, expected_fail=False),
        "suite": plan.suite,
        "repetition": plan.repetition,
        "workspace": call.workspace,
    }
    unbound = [(name, kind) for name, kind in function.parameters if name not in arguments]
    keywords = {name: available[name] for name, kind in unbound if name in available and kind in BY_NAME}
    if not keywords and unbound and unbound[0][1] in BY_POSITION:
        return [prompt], dict(arguments)
    if not keywords and unbound and unbound[0][1] in BY_NAME:
        keywords = {unbound[0][0]: prompt}
    return [], {**keywords, **arguments}


def _given(message: Message) -> dict[str, Any]:
    calls = {"tool_calls": [dict(call) for call in message.tool_calls]} if message.tool_calls else {}
    return {"role": message.role, "content": message.content, **calls}


def _text_of(payload: Mapping[str, Any]) -> str | bytes:
    """Return the text of an answer, as JSON if there is more than it. Raises what the answer raises when it is stored,
    for example by its `__str__`."""
    output = payload.get("output")
    return output if isinstance(output, str) and len(payload) == 1 else to_json(payload)


def _failure_of(error: FunctionError) -> TargetFailure:
    """Return the failure of a function that raised in its worker."""
    if error.kind != "failure":
        return TargetFailure(TARGET_CRASH, error.text)
    fields = dict(error.details)
    id_, label, origin = fields.pop("class")
    return TargetFailure(FailureClass(id_, label, Origin(origin)), fields.pop("message"), **fields)


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
