"""Python code in a suite: an expression, or the body of a function."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Callable
from functools import lru_cache
from typing import Any

Check = Callable[[str, dict[str, Any]], Any]
_GLOBALS = {"json": json, "math": math, "re": re}


@lru_cache(maxsize=500)
def compile_check(code: str) -> Check:
    """Compile code to a function of `output` and `context`. Raises ValueError for invalid Python."""
    code = textwrap.dedent(code).strip()
    try:
        expression = compile(code, "<value>", "eval")
    except SyntaxError:
        return _body(code)
    return lambda output, context: eval(expression, {**_GLOBALS, "output": output, "context": context})


def run_check(code: str, output: str, context: dict[str, Any]) -> Any:
    """Return what code makes of an output and its context."""
    return compile_check(code)(output, context)


def _body(code: str) -> Check:
    lines = textwrap.indent(code, "    ")
    names: dict[str, Any] = dict(_GLOBALS)
    try:
        exec(compile(f"def check(output, context):\n{lines}\n", "<value>", "exec"), names)
    except SyntaxError as error:
        line = "" if error.lineno is None else f"line {max(1, error.lineno - 1)}: "
        raise ValueError(f"value: not valid Python: {line}{error.msg}") from None
    check: Check = names["check"]
    return check


def resolve_awaitable(result: Any) -> Any:
    """Return a function's result; an awaitable is awaited first.

    It runs in a separate thread, because evaluators are called from a running event loop.
    """
    if not hasattr(result, "__await__"):
        return result
    # asyncio takes 40 ms to import; a worker process that runs this module's code does not need it.
    import asyncio  # noqa: PLC0415
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415

    async def wait() -> Any:
        return await result

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
