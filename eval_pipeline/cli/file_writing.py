"""Atomic writing of the files of a command."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileText:
    """A file to write: its path, its text in parts, and a label for messages."""

    path: Path
    text: Iterable[str]
    what: str = ""


def write_files(files: Iterable[FileText]) -> None:
    """Write each file under a temporary name and rename it, so that no reader sees a partial file."""
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        partial = file.path.with_name(f".{file.path.name}.{os.getpid()}")
        try:
            with partial.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(file.text)
            partial.replace(file.path)
        finally:
            partial.unlink(missing_ok=True)
