"""Calls of users' functions in worker processes: what is called, what comes back, and what is raised instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from eval_pipeline.errors import error_text
from eval_pipeline.executions.replies import text_of
from eval_pipeline.failures import DEFAULT_OUTPUT_MB
from eval_pipeline.parsing.user_modules import FunctionReference


class FunctionError(Exception):
    """A function in a worker raised: `kind` is `assertion`, `exception`, `exit`, `not-callable` or `failure` (a
    TargetFailure); `text` is the type and message of the exception."""

    def __init__(self, kind: str, text: str, details: Any = None) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.details = details


class WorkerDied(Exception):
    """The process of a function ended while it was called."""


class TooMuchReturned(Exception):
    """A function returned more than it may; `beginning` is the start of it."""

    def __init__(self, beginning: bytes) -> None:
        super().__init__("the function returned more than it may")
        self.beginning = beginning


class BlockedByAnother(TimeoutError):
    """A call reached its time limit while another one blocked the event loop of its worker."""


class FunctionCall(NamedTuple):
    """A call of a function. `as_score`: what is no score is returned as its text, not as JSON. `most_bytes` is the most
    that it may return."""

    reference: FunctionReference | None
    positional: Sequence[Any] = ()
    keywords: Mapping[str, Any] = MappingProxyType({})
    as_score: bool = False
    most_bytes: int = int(DEFAULT_OUTPUT_MB * 1_000_000)


class OutcomeFields(NamedTuple):
    """The fields of an Outcome that a function returned, as JSON: nobody has checked them."""

    fields: list[Any]


class ForeignValue:
    """A value that only the worker has; its text is that of the value."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def resolve(future: Future[Any], kind: str, rest: Sequence[Any], body: bytearray) -> None:
    """Set what a call returns or raises, by its reply."""
    try:
        if kind == "error":
            future.set_exception(FunctionError(str(rest[0]), *orjson.loads(body)))
        elif kind == "cut":
            future.set_exception(TooMuchReturned(bytes(body)))
        else:
            future.set_result(_READERS[kind](body))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        future.set_exception(WorkerDied(f"the process of the function sent what cannot be read: {error_text(error)}"))


_READERS: Mapping[str, Callable[[bytearray], Any]] = {
    "text": text_of,
    "value": orjson.loads,
    "outcome": lambda body: OutcomeFields(orjson.loads(body)),
    "foreign": lambda body: ForeignValue(text_of(body)),
}
