"""What this process prints and logs, without the secrets that it knows.

`redacted_printing` covers `sys.stdout`, `sys.stderr` and log records; `redacted_descriptors` also what programs and
native code write to the descriptors below them, such as processes that inherit them. `pass_on` covers the output of a
process that has pipes of its own.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import IO, Any

from eval_pipeline.parsing.redaction import KNOWN, Redactor, redact_text

_CHUNK = 65_536
_WAIT_S, _HURRY_S = 2.0, 0.2


class RedactedStream:
    """A text stream that replaces secrets in what is written to it; everything else is the stream's own."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            return self._stream.write(text)  # the stream raises what callers expect of a text stream
        self._stream.write(redact_text(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stream)


@contextmanager
def redacted_printing() -> Iterator[None]:
    """Replace secrets in what is printed and logged inside."""
    redact_log_records()
    before = sys.stdout, sys.stderr
    ours: Any = [stream if isinstance(stream, RedactedStream) else RedactedStream(stream) for stream in before]
    sys.stdout, sys.stderr = ours
    try:
        yield
    finally:
        for name, stream, old in zip(("stdout", "stderr"), ours, before, strict=True):
            if getattr(sys, name) is stream:  # a caller may have replaced it meanwhile
                setattr(sys, name, old)


@contextmanager
def redacted_descriptors() -> Iterator[None]:
    """Replace secrets in everything that is written to the descriptors 1 and 2 inside, line by line.

    A terminal stays as it is: what is printed there is not stored, and programs draw on it.
    """
    with ExitStack() as closing:
        for descriptor in (1, 2):
            if not os.isatty(descriptor):
                closing.enter_context(_redacted_descriptor(descriptor))
        yield


class _Diversion:
    """A descriptor that leads into a pipe, whose lines a thread copies to where it led before."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._kept = os.dup(descriptor)
        reading, writing = os.pipe()
        os.dup2(writing, descriptor)
        os.close(writing)
        self._pump = threading.Thread(target=_pump, args=(reading, self._kept), name="output", daemon=True)
        self._pump.start()

    def end(self, wait_s: float) -> None:
        """Lead the descriptor back, and wait until everything is copied; a program that goes on may hold the pipe."""
        os.dup2(self._kept, self._descriptor)
        self._pump.join(wait_s)


_DIVERSIONS: list[_Diversion] = []


@contextmanager
def _redacted_descriptor(descriptor: int) -> Iterator[None]:
    _flush()
    diversion = _Diversion(descriptor)
    _DIVERSIONS.append(diversion)
    try:
        yield
    finally:
        _flush()
        if diversion in _DIVERSIONS:
            _DIVERSIONS.remove(diversion)
            diversion.end(_WAIT_S)


def restore_descriptors() -> None:
    """Lead descriptors back before this process ends at once, so that nothing that was printed is lost."""
    while _DIVERSIONS:
        _DIVERSIONS.pop().end(_HURRY_S)


def pass_on(stream: IO[bytes], descriptor: int) -> threading.Thread:
    """Copy the lines of a process's output, without secrets, to where a descriptor of this process leads when each is
    copied. Return the thread that copies until the last writer is gone."""

    def copy() -> None:
        with stream:
            _copy(stream.fileno(), lambda content: _write(descriptor, content))

    thread = threading.Thread(target=copy, name="worker output", daemon=True)
    thread.start()
    return thread


def _pump(reading: int, target: int) -> None:
    """Copy lines until the writing end is closed."""
    _copy(reading, lambda content: _write(target, content))
    os.close(reading)
    os.close(target)


def _copy(reading: int, write: Callable[[bytes], None]) -> None:
    """Write the lines that arrive, redacted. An unfinished line waits for its end, up to a limit."""
    rest = b""
    while chunk := os.read(reading, _CHUNK):
        redactor = KNOWN.redactor()
        rest = redactor.content(rest + chunk)
        end = _complete(rest, redactor)
        write(rest[:end])
        rest = rest[end:]
    write(rest)


def _complete(content: bytes, redactor: Redactor) -> int:
    """Return how much of redacted bytes can be written: whole lines, but for those that may begin a longer secret."""
    end = content.rfind(b"\n") + 1
    end -= redactor.lines_begun(content[:end])
    return end if end or len(content) <= _CHUNK else max(0, len(content) - redactor.longest)


def _write(descriptor: int, content: bytes) -> None:
    with suppress(OSError):  # a reader that went away must not stop the writers
        while content:
            content = content[os.write(descriptor, content) :]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


def redact_log_records() -> None:
    """Make every log record of this process, of whichever library, one without secrets."""
    make = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    def redacted_record(*args: Any, **fields: Any) -> logging.LogRecord:
        record = make(*args, **fields)
        if KNOWN.redactor():
            _redact_record(record)
        return record

    redacted_record.redacts = True  # type: ignore[attr-defined]
    logging.setLogRecordFactory(redacted_record)


def _redact_record(record: logging.LogRecord) -> None:
    with suppress(Exception):  # a record that cannot be formatted is its handler's problem
        text = record.getMessage()
        without = redact_text(text, cut=True)
        if without != text:
            record.msg, record.args = without, ()
    if record.exc_info and record.exc_info[0] is not None:
        text = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
        without = redact_text(text)
        if without != text:
            record.exc_text, record.exc_info = without, None
