"""Files that a command writes: whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileText:
    """A file to be written: where, its text in pieces, and what to call it."""

    path: Path
    text: Iterable[str]
    what: str = ""


def write_files(files: Iterable[FileText]) -> None:
    """Writes each file beside its place and then moves it there, so that nobody ever reads half of one."""
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = file.path.with_name(f".{file.path.name}.{os.getpid()}")
        try:
            with unfinished.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(file.text)
            unfinished.replace(file.path)
        finally:
            unfinished.unlink(missing_ok=True)
