"""What a user's module prints, with the module's name before each line: a sweep calls the checks of many."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import PurePath
from typing import Any


@contextmanager
def labelled_output(file: str, case_id: str | None = None) -> Iterator[None]:
    """Print to standard error what is printed inside, each line after the name of the module and of the case."""
    label = PurePath(file).name + (f" ({case_id})" if case_id else "")
    output = _Labelled(sys.stderr, f"{label}: ")
    with redirect_stdout(output), redirect_stderr(output):
        try:
            yield
        finally:
            output.end_line()


class _Labelled(io.TextIOBase):
    """A stream that writes a label before each line."""

    encoding = "utf-8"

    def __init__(self, target: Any, label: str) -> None:
        self._target = target
        self._label = label
        self._in_line = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        descriptor: int = self._target.fileno()
        return descriptor

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            self._target.write(line if self._in_line else self._label + line)
            self._in_line = not line.endswith("\n")
        return len(text)

    def flush(self) -> None:
        self._target.flush()

    def end_line(self) -> None:
        """End a line that was begun."""
        if self._in_line:
            self.write("\n")
