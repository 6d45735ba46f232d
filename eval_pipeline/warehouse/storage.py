"""Storage of files beside the tables: raw artifacts, journals, cached grader replies, workspaces and locks.

Other rooms get paths from a `Storage` and never join them themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from filelock import BaseFileLock, FileLock


class Storage(Protocol):
    """Folders for files of one project, and locks between its processes. Folders are created with their first file."""

    @property
    def artifacts(self) -> Path:
        """Raw output of executions; rows store file paths relative to this folder."""
        ...

    @property
    def grading(self) -> Path:
        """Files that graders write while they work."""
        ...

    @property
    def journals(self) -> Path:
        """Journals of running and of killed sweeps."""
        ...

    @property
    def grader_replies(self) -> Path:
        """Replies of grader models, by the content of the request."""
        ...

    @property
    def workspaces(self) -> Path:
        """Workspaces of executions."""
        ...

    @property
    def conversations(self) -> Path:
        """Conversations that are held, a file for each."""
        ...

    @property
    def progress(self) -> Path:
        """File with the progress of the sweep that is under way."""
        ...

    @property
    def slots(self) -> Sequence[Storage]:
        """The storage as each process has it that is under way in the same folder, or was."""
        ...

    def slot(self, number: int) -> Storage:
        """Return the storage as one of several processes in the same folder has it: 0 for the first."""
        ...

    def lock(self, name: str) -> BaseFileLock:
        """Return the lock of this name: one process holds it at a time, a killed one releases it."""
        ...


@dataclass(frozen=True, slots=True)
class LocalStorage:
    """Storage in a folder of this machine."""

    folder: Path
    number: int = 0
    """Which of the processes that work in the folder at the same time this is."""

    @property
    def artifacts(self) -> Path:
        return self.folder / "artifacts"

    @property
    def grading(self) -> Path:
        return self.artifacts / "grading"

    @property
    def journals(self) -> Path:
        return self.folder / "journals"

    @property
    def grader_replies(self) -> Path:
        return self.folder / "grader_replies"

    @property
    def workspaces(self) -> Path:
        return self.folder / "workspaces"

    @property
    def conversations(self) -> Path:
        return self.folder / "conversations"

    @property
    def progress(self) -> Path:
        return self.folder / f"progress{self._suffix}.json"

    @property
    def slots(self) -> Sequence[LocalStorage]:
        numbers = (path.stem.rpartition("-")[2] for path in self.folder.glob("sweep-*.lock"))
        return [self.slot(number) for number in sorted({0, *map(int, filter(str.isdecimal, numbers))})]

    def slot(self, number: int) -> LocalStorage:
        return replace(self, number=number)

    def lock(self, name: str) -> BaseFileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / f"{name}{self._suffix}.lock")

    @property
    def _suffix(self) -> str:
        return f"-{self.number}" if self.number else ""
