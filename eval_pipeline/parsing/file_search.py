"""Search of files that a suite names: below its search roots, never outside of them.

The roots: the suite's folder, the folders above it up to the git repository's root (without one, up to the
project's folder), the current folder. Neither the home folder, nor a temporary one, nor the file system's root is one
because of what lies in it (`top_folder`).
"""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import takewhile
from pathlib import Path

from eval_pipeline.parsing.compatibility import known_systems
from eval_pipeline.parsing.source import show_path

_MAGIC = frozenset("*?[")


class NotFound(Exception):
    """A file that a suite names does not exist; the message lists the searched paths."""


@dataclass(frozen=True, slots=True)
class SearchRoots:
    """The folders below which a suite may name files; `folder` is the suite's, where relative names begin."""

    folder: Path
    roots: tuple[Path, ...]
    real: tuple[str, ...] = field(repr=False)

    def file(self, name: str) -> Path:
        """The first file of this name along the roots, absolute. Raises NotFound."""
        return self._first(name, os.path.isfile, "file")

    def file_or_folder(self, name: str) -> Path:
        """The first file or folder of this name along the roots, absolute. Raises NotFound."""
        return self._first(name, os.path.exists, "file or folder")

    def matches(self, pattern: str) -> list[Path]:
        """Return the files and folders of a glob pattern, sorted. Raises NotFound for one outside of the roots."""
        parts = Path(pattern).parts
        magic = next((index for index, part in enumerate(parts) if not _MAGIC.isdisjoint(part)), len(parts))
        start = os.path.normpath(self.folder.joinpath(*parts[:magic]))
        if ".." in parts[magic:] or "\0" in pattern or not self.holds(start):
            raise NotFound(f"'{pattern}' lies outside of {_listed(self.roots)}")
        below = str(Path(*parts[magic:])) if parts[magic:] else ""
        names = glob.iglob(below, root_dir=start, recursive=True)  # noqa: PTH207 — `start` is literal
        return sorted(path for name in names if self.holds(path := Path(start, name)))

    def holds(self, path: str | Path) -> bool:
        """Return whether a path is below a root, with symbolic links resolved."""
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            return False
        return any(real == root or real.startswith(root.rstrip(os.sep) + os.sep) for root in self.real)

    def _first(self, name: str, is_there: Callable[[str], bool], kind: str) -> Path:
        outside: str | None = None
        tried = list(dict.fromkeys(self._candidates(name)))
        for path in tried:
            if is_there(path):
                if self.holds(path):
                    return Path(path)
                outside = path
        if outside is not None:
            raise NotFound(f"'{name}' lies outside of {_listed(self.roots)}")
        raise NotFound(f"no {kind} '{name}'; looked at: {', '.join(show_path(Path(path)) for path in tried)}")

    def _candidates(self, name: str) -> Iterator[str]:
        """Yield candidate paths; absolute names also below each root, since some authors write `/evals/x.md`."""
        if "\0" in name or len(name) > _LONGEST:
            return
        if os.path.isabs(name):  # noqa: PTH117
            yield os.path.normpath(name)
        plain = name.lstrip("/\\")
        for root in self.roots if plain else ():
            yield os.path.normpath(root / plain)


_LONGEST = 4_000
_PROJECT_FILE = "eval-pipeline.yaml"


def search_roots(folder: Path) -> SearchRoots:
    """Return the search roots of a suite in `folder`: the folder, those above it up to `top_folder`, the current one.

    The current folder is left out where it holds more than a project: the home folder, a temporary one, the root.
    """
    folder = folder.absolute()
    top, current = top_folder(folder), Path.cwd()
    above = [parent for parent in folder.parents if top is not None and parent.is_relative_to(top)]
    roots = tuple(dict.fromkeys((folder, *above, *([] if _is_shared(current) else [current]))))
    return SearchRoots(folder, roots, tuple(os.path.realpath(root) for root in roots))


def top_folder(folder: Path) -> Path | None:
    """Return the nearest folder, from `folder` upward, that a git repository or a worktree begins in, else the nearest
    one with a project file or mark; None without any.

    The search ends below the home folder, temporary folders and the file system's root: a mark in one of them
    (`~/.git` of someone's settings, `~/.agentv`) must not make everything of a user readable to a suite.
    """
    folder = folder.absolute()
    folders = list(takewhile(lambda parent: not _is_shared(parent), (folder, *folder.parents)))
    repository = next((parent for parent in folders if is_repository(parent)), None)
    return repository or next((parent for parent in folders if _has_mark(parent)), None)


def is_repository(folder: Path) -> bool:
    """Return whether a git repository or a worktree begins in a folder: its `.git` holds, or refers to, a `HEAD`."""
    git = folder / ".git"
    try:
        if git.is_file():
            prefix, _, name = git.read_text(encoding="utf-8").partition(":")
            git = folder / name.strip() if prefix == "gitdir" else git
        return (git / "HEAD").is_file()
    except (OSError, ValueError):
        return False


def _is_shared(folder: Path) -> bool:
    """Whether a folder holds more than one project: the home folder, a temporary one, the file system's root."""
    real = os.path.realpath(folder)
    return real in (_home(), os.sep) or real in _temporary_folders()


def _home() -> str:
    return os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 — unlike `Path.home`, never an error


def _temporary_folders() -> frozenset[str]:
    return frozenset(os.path.realpath(name) for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"))


@cache
def _project_marks() -> tuple[str, ...]:
    """Return the names that mark the top of a project: our project file, and those of other systems."""
    return (_PROJECT_FILE, *(mark for system in known_systems() for mark in system.project_marks))


def _has_mark(folder: Path) -> bool:
    return any((folder / mark).exists() for mark in _project_marks())


def is_file(path: str | Path) -> bool:
    """Return whether there is such a file. A name that no file can have, such as one too long, is none."""
    return os.path.isfile(path)  # noqa: PTH113 — `Path.is_file` raises for such a name


def is_pattern(name: str) -> bool:
    """Whether a name has a wildcard in it."""
    return not _MAGIC.isdisjoint(name)


def _listed(roots: tuple[Path, ...]) -> str:
    return f"the suite's folder and its search roots ({', '.join(show_path(root) for root in roots)})"
