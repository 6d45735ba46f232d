"""Unified diff → changed files with their numbers of lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ChangedFile:
    """One file of a diff: its path, whether it is new or deleted, lines added and removed."""

    path: str
    created: bool = False
    deleted: bool = False
    added: int = 0
    removed: int = 0


def changed_files(diff: str) -> list[ChangedFile]:
    """Return the files of a unified diff (`git diff`, `diff -u`), in order; none for other text."""
    files: list[ChangedFile] = []
    old, left_old, left_new = "", 0, 0
    for line in diff.splitlines():
        if left_old > 0 or left_new > 0:
            left_old -= line[:1] in (" ", "-", "")
            left_new -= line[:1] in (" ", "+", "")
            files[-1].added += line.startswith("+")
            files[-1].removed += line.startswith("-")
        elif line.startswith("--- "):
            old = line[4:]
        elif line.startswith("+++ "):
            files.append(_file(old, line[4:]))
        elif line.startswith("@@ ") and files:
            left_old, left_new = _sizes(line)
    return files


def _file(old: str, new: str) -> ChangedFile:
    gone = new.startswith("/dev/null")
    path = (old if gone else new).split("\t")[0]
    return ChangedFile(path.removeprefix("a/" if gone else "b/"), created=old.startswith("/dev/null"), deleted=gone)


def _sizes(line: str) -> tuple[int, int]:
    """Return the numbers of old and new lines of a hunk: `@@ -1,3 +1,4 @@`."""
    ranges = [part[1:].split(",") for part in line.split("@@")[1].split()]
    sizes = [int(part[1]) if len(part) > 1 else 1 for part in ranges if part[0].isdigit()]
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (0, 0)
