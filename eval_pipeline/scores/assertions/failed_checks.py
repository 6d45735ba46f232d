"""Failed checks of a Python suite: collected, classified, and with the line of the user's file.

A failed check raises `CheckFailed`. Inside `soft` it is kept until the case's check ends; inside `classify` it gets a
failure class; inside `explain` a question.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

LONGEST_FAILURE = 4_000
"""Of the message of one failed check, in characters."""
_OURS = __name__.partition(".")[0]
_LIBRARIES = ("<frozen ", *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))


class ClassTag(NamedTuple):
    """A failure class that a suite gives: an id and, if it differs from the id in words, a label."""

    id: str
    label: str | None = None


class UserLine(NamedTuple):
    """A line of a user's file."""

    path: str
    line: int


class Question(NamedTuple):
    """What the agent can be asked about a failed check, and where the check is."""

    text: str
    source: UserLine | None


class CheckFailed(AssertionError):
    """A check over a session report failed. `questions` are for `explain`, `failure_class` comes from `classify`."""

    def __init__(self, message: str, questions: tuple[Question, ...] = ()) -> None:
        super().__init__(message)
        self.questions = questions
        self.failure_class: ClassTag | None = None
        self.source = user_line()


class SoftFailures(CheckFailed):
    """The failed checks of a case, collected; `failures` in order."""

    def __init__(self, failures: list[AssertionError]) -> None:
        number = len(failures)
        texts = [cut(message_of(failure) or "assertion failed", LONGEST_FAILURE) for failure in failures]
        lines = [f"{place}. {text}" for place, text in enumerate(texts, start=1)]
        noun = "failure" if number == 1 else "failures"
        title = f"{number} assertion {noun} collected during case execution:"
        super().__init__("\n".join([title, *lines]), tuple(asked for one in failures for asked in questions_of(one)))
        self.failures = failures
        self.source = source_of(failures[0])
        classes = [class_of(failure) for failure in failures]
        self.failure_class = classes[-1] or next((tag for tag in classes if tag is not None), None)


@dataclass(slots=True)
class _Collector:
    failures: list[AssertionError] = field(default_factory=list)


_COLLECTING: ContextVar[_Collector | None] = ContextVar("collecting", default=None)
_CLASSES: ContextVar[tuple[ClassTag, ...]] = ContextVar("classes", default=())
_QUESTIONS: ContextVar[tuple[str, ...]] = ContextVar("questions", default=())


@contextmanager
def collecting() -> Iterator[None]:
    """Collect the soft failures of a case; afterwards raise them as one, with an assertion that ended the case last."""
    collector = _Collector()
    token = _COLLECTING.set(collector)
    try:
        yield
    except AssertionError as error:
        if not collector.failures:
            raise
        raise SoftFailures([*collector.failures, error]) from error
    finally:
        _COLLECTING.reset(token)
    if collector.failures:
        raise SoftFailures(collector.failures)


def keep_soft(error: AssertionError) -> None:
    """Keep a soft failure for the end of the case; outside a case raise it at once."""
    collector = _COLLECTING.get()
    classes = _CLASSES.get()
    if classes and class_of(error) is None:
        _attach(error, classes[0])  # the outermost class wins
    if collector is None:
        raise error
    collector.failures.append(error)


def message_of(error: BaseException) -> str:
    """Return the message of an exception, whose `__str__` may itself raise."""
    try:
        return str(error)
    except Exception as second:  # noqa: BLE001 — the boundary to the user's exception
        return f"{type(error).__name__}, whose message cannot be read ({type(second).__name__})"


def cut(text: str, most: int) -> str:
    """Return the first `most` characters of a text and how many more there are; a shorter one whole."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def class_of(error: BaseException) -> ClassTag | None:
    """Return the class that `classify` gave to an exception."""
    tag = getattr(error, "failure_class", None)
    return tag if isinstance(tag, ClassTag) else None


def questions_of(error: BaseException) -> tuple[Question, ...]:
    """Return the questions about an exception."""
    questions = getattr(error, "questions", ())
    return questions if isinstance(questions, tuple) else ()


def source_of(error: BaseException) -> UserLine | None:
    """Return the line of the user's file that an exception comes from: of the check, else the innermost of its
    traceback."""
    if isinstance(error, CheckFailed) and error.source is not None:
        return error.source
    return traceback_line(error.__traceback__)


def traceback_line(traceback: TracebackType | None) -> UserLine | None:
    """Return the innermost line of a traceback that is neither ours nor of a library; without any, the innermost that
    is not ours."""
    line = of_library = None
    while traceback is not None:
        frame = traceback.tb_frame
        if not _is_ours(frame):
            of_library = UserLine(frame.f_code.co_filename, traceback.tb_lineno)
            line = line if _is_library(frame) else of_library
        traceback = traceback.tb_next
    return line or of_library


def _is_library(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)


def user_line() -> UserLine | None:
    """Return the line of the nearest caller that is not ours; frames are ours by their module, not by their path."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return None if frame is None else UserLine(frame.f_code.co_filename, frame.f_lineno)


def _is_ours(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    library = module in ("contextlib", "importlib._bootstrap") or module.startswith("asyncio")
    return library or module.partition(".")[0] == _OURS


def as_tag(value: Any, label: str | None = None) -> ClassTag:
    """Return a class from an id, a mapping with `id` and `label`, or an object with both. Raises TypeError."""
    if isinstance(value, Mapping):
        unknown = set(value) - {"id", "label"}
        if unknown:
            raise TypeError(f"unknown field '{min(map(str, unknown))}' of a failure class; there are: id, label")
        value, label = value.get("id"), value.get("label", label)
    elif not isinstance(value, str):
        value, label = getattr(value, "id", None), getattr(value, "label", label)
    if not isinstance(value, str) or not value.strip():
        raise TypeError("expected a failure class: a text, or a mapping with id and label")
    if label is not None and not isinstance(label, str):
        raise TypeError(f"label of a failure class: expected a text, got {label!r}")
    return ClassTag(value.strip(), label)


def _attach(error: Exception, tag: ClassTag) -> None:
    """Give an exception a class; called from the inside out, so that the outer class wins."""
    error.failure_class = tag  # type: ignore[attr-defined]


class Classifying:
    """Gives failures inside it a class: as a context manager, sync or async, or around a callback."""

    def __init__(self, tag: ClassTag) -> None:
        self._tag = tag
        self._token: Any = None

    def __enter__(self) -> Self:
        self._token = _CLASSES.set((*_CLASSES.get(), self._tag))
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _CLASSES.reset(self._token)
        if isinstance(error, Exception):
            _attach(error, self._tag)


def classify(class_: Any, label_or_callback: str | Callable[[], Any] | None = None, *, label: str | None = None) -> Any:
    """Give failures a class: `with classify("wrong-alias", "Wrong alias"):`, or `classify(class, callback)`.

    With a callback, return what it returns; one that returns an awaitable is classified when it is awaited. The outer
    of two classes wins.
    """
    callback = label_or_callback if callable(label_or_callback) else None
    words = label_or_callback if isinstance(label_or_callback, str) else label
    tag = as_tag(class_, words)
    if callback is None:
        return Classifying(tag)
    with Classifying(tag):
        value = callback()
    return _awaited(tag, value) if hasattr(value, "__await__") else value


async def _awaited(tag: ClassTag, value: Any) -> Any:
    with Classifying(tag):
        return await value


@contextmanager
def explain(question: str) -> Iterator[None]:
    """Ask the agent this about any failed check inside, also a plain `assert`, when `eval-pipeline explain` runs."""
    token = _QUESTIONS.set((*_QUESTIONS.get(), question))
    try:
        yield
    except AssertionError as error:
        if not questions_of(error) or question not in [asked.text for asked in questions_of(error)]:
            error.questions = (Question(question, source_of(error)),)  # type: ignore[attr-defined]
        raise
    finally:
        _QUESTIONS.reset(token)


def surrounding_question() -> str | None:
    """Return the question of the innermost `explain`."""
    return next(reversed(_QUESTIONS.get()), None)
