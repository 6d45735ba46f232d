"""Python that stands in a suite: an expression, or several lines that are the body of a function."""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import re
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

Check = Callable[[str, dict[str, Any]], Any]
_AT_HAND = {"json": json, "math": math, "re": re}


@lru_cache(maxsize=500)
def compiled(code: str) -> Check:
    """Code as a function of `output` and `context`. Raises ValueError for what is no Python."""
    code = textwrap.dedent(code).strip()
    try:
        expression = compile(code, "<value>", "eval")
    except SyntaxError:
        return _body(code)
    return lambda output, context: eval(expression, {**_AT_HAND, "output": output, "context": context})


def _body(code: str) -> Check:
    lines = textwrap.indent(code, "    ")
    names: dict[str, Any] = dict(_AT_HAND)
    try:
        exec(compile(f"def check(output, context):\n{lines}\n", "<value>", "exec"), names)
    except SyntaxError as error:
        line = "" if error.lineno is None else f"line {max(1, error.lineno - 1)}: "
        raise ValueError(f"value: not valid Python: {line}{error.msg}") from None
    check: Check = names["check"]
    return check


def awaited(found: Any) -> Any:
    """What a function returned, waited for when it is a promise of it.

    The wait happens in a thread of its own: evaluators are called from a running event loop.
    """
    if not inspect.isawaitable(found):
        return found

    async def wait() -> Any:
        return await found

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, wait()).result()
