"""The version of an installed program, found without running it: agents update themselves, and their answers change.

A package's own version (npm's `package.json`, the entry point of an installed Python package), else a fingerprint of
the program file. Interpreters and shells are passed over: the script that they run identifies them, and an update of
the system is no reason to execute everything anew. Not found: what a shim or a wrapper starts (`npx`, `asdf`, a
container), and the files that a program reads at home.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import orjson

WHOLE_BYTES = 2**20
SAMPLE_BYTES = 2**16
_INTERPRETER = re.compile(
    r"(python|pypy|node|nodejs|bun|deno|ruby|perl|php|java|dotnet|lua|tclsh|rscript|julia|"
    r"sh|bash|zsh|dash|ksh|fish|pwsh|tsx|ts-node|npx|bunx|pnpm|yarn|npm|uv|uvx|pipx|poetry|docker|podman)[\d.]*"
)
_WRAPPERS = frozenset({"env", "exec", "nice", "nohup", "sudo", "time", "timeout", "stdbuf", "command", "xvfb-run"})
_BUILTINS = frozenset(
    {"cd", "echo", "printf", "export", "set", "test", "[", "true", "false", "exit", "read", "if", "then", "else", "fi"}
)
_MOST_APART = 5
_VERY_CLOSE = 0.8
"""Programs are many: one that is only a little alike is by chance."""
_SEPARATOR = re.compile(r"[;&|()<>\n]+")
_OPTION = re.compile(r"-.*|\w+=.*|[\d.]+[smhd]?")


def program_versions(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the installed programs that a command starts, by the name that it starts them by.

    Args:
        words: The words of a command, shell operators among them.
        folder: The working directory, where a name with a slash begins.
        environment: Its `PATH` is searched.
    """
    versions = {}
    for name in dict.fromkeys(_started(words)):
        program = installed(name, folder, environment)
        version = program_version(program) if program is not None else None
        if version is not None:
            versions[f"program {name}"] = version
    return versions


def installed(name: str, folder: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the file of a program: a name with a slash begins in `folder`, another one is searched in `PATH`."""
    if "/" in name:
        return folder / name if (folder / name).exists() else None
    program = shutil.which(name, path=environment.get("PATH"))
    return Path(program) if program is not None else None


def absence_of(name: str, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return that a program is not on `PATH`, with the one that has nearly its name; None where it is there."""
    if installed(name, folder, environment) is not None:
        return None
    near = difflib.get_close_matches(name, _alike(name, environment), n=1, cutoff=_VERY_CLOSE)
    return f"there is no program '{name}' on PATH" + (f"; did you mean '{near[0]}'?" if near else "")


def _alike(name: str, environment: Mapping[str, str]) -> set[str]:
    """Return the names on `PATH` that begin as a name does, or are about as long: comparing thousands takes long."""
    names: set[str] = set()
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        with suppress(OSError):
            names.update(os.listdir(folder or "."))  # noqa: PTH208 — thousands of names, and no paths
    return {other for other in names if other[:1] == name[:1] and abs(len(other) - len(name)) <= _MOST_APART}


def program_version(program: Path) -> str | None:
    """Return the version of a program file; None for an interpreter, and for a file that cannot be read."""
    try:
        real = program.resolve(strict=True)
        written = real.stat()
        if not real.is_file() or _is_interpreter(program.name) or _is_interpreter(real.name):
            return None
        return _version(program.name, real, written.st_mtime_ns, written.st_size)
    except (OSError, RuntimeError):
        return None


@lru_cache(maxsize=1_000)
def _version(name: str, real: Path, written_ns: int, size: int) -> str:
    return _npm_version(real) or _python_version(name, real) or _fingerprint(real, size)


def _started(words: Sequence[str]) -> Iterator[str]:
    """The words at which a program's name is expected: the first, and those after an operator of the shell."""
    expected = True
    for word in words:
        if _SEPARATOR.fullmatch(word):
            expected = True
        elif expected and word not in _WRAPPERS and not _OPTION.fullmatch(word):
            expected = False
            if word not in _BUILTINS and "{" not in word:
                yield word


def _is_interpreter(name: str) -> bool:
    return _INTERPRETER.fullmatch(name.lower().removesuffix(".exe")) is not None


def _npm_version(real: Path) -> str | None:
    """The name and version in the `package.json` of the package that a program belongs to."""
    if "node_modules" not in real.parts:
        return None
    for folder in real.parents:
        if folder.name == "node_modules":
            return None
        try:
            package = orjson.loads((folder / "package.json").read_bytes())
            return f"{package['name']}@{package['version']}"
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
            continue
    return None


def _python_version(name: str, real: Path) -> str | None:
    """The name and version of the Python package that installed a script with an entry point: the script never
    changes."""
    with real.open("rb") as file:
        first = file.readline(512)
    if not (first.startswith(b"#!") and b"python" in first):
        return None
    entry = re.compile(rf"^{re.escape(name)}\s*=", re.MULTILINE)
    for entries in real.parent.parent.glob("lib/python*/site-packages/*.dist-info/entry_points.txt"):
        if entry.search(entries.read_text(encoding="utf-8", errors="replace")):
            return entries.parent.name.removesuffix(".dist-info")
    return None


def _fingerprint(real: Path, size: int) -> str:
    """A hash of the file; of a large one, of its size, begin, middle and end."""
    digest = hashlib.sha256(b"%d" % size)
    with real.open("rb") as file:
        if size <= WHOLE_BYTES:
            digest.update(file.read())
        else:
            for start in (0, size // 2, size - SAMPLE_BYTES):
                file.seek(start, os.SEEK_SET)
                digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()[:32]
