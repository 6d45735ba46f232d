"""The files of the page: HTML, CSS and JavaScript modules, as they are in `static/`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
START = "app.js"
"""The module that imports all others."""
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT = re.compile(r'^import [^"]*"\./([a-z_]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|const|class) )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file with its media type."""

    data: bytes
    media_type: str


@cache
def static_files() -> dict[str, StaticFile]:
    """Return all files by their names; licences are no part of the page."""
    return {
        path.name: StaticFile(path.read_bytes(), _TYPES[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in _TYPES
    }


def text_of(name: str) -> str:
    """Return a file as text."""
    return static_files()[name].data.decode()


def script() -> str:
    """Return all modules as one script, which needs no server: without their imports and exports, each after those
    that it imports. No two modules have a name of the same scope in common (tested)."""
    parts = [_EXPORT.sub("", _IMPORT.sub("", text_of(name))) for name in modules()]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "\n})();\n"


def modules() -> list[str]:
    """Return the names of all modules, each after those that it imports."""
    return list(dict.fromkeys(_with_imports(START)))


def _with_imports(name: str) -> Iterator[str]:
    for imported in _IMPORT.findall(text_of(name)):
        yield from _with_imports(imported)
    yield name
