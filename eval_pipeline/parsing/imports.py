"""The files that a program of the user imports: found in its text, nothing is executed.

Python (`.py`): `import` and `from … import` anywhere in the file, relative ones, packages with their `__init__.py`, and
`importlib.import_module("name")` with a name that is written out. JavaScript and TypeScript: `import`, `export … from`
and `require` of a relative path. Shell: `.` and `source` of a path. Only files below the given folders count, so
installed packages do not. Names that are computed, and files that a program opens as data, are not found.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.file_search import is_file, search_roots
from eval_pipeline.parsing.python_syntax import module_syntax

MOST_FILES = 2_000
"""A program that imports more of its project than this is identified by the first ones."""
_JAVASCRIPT = frozenset({".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"})
_SHELL = frozenset({".sh", ".bash"})
_JAVASCRIPT_IMPORT = re.compile(r"""(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*['"](\.{1,2}/[^'"]+)['"]""")
_SHELL_IMPORT = re.compile(r"""^\s*(?:\.|source)\s+["']?(?:\$\{?\w+\}?/|\./)?([\w./-]+)""", re.MULTILINE)
_OURS = __name__.partition(".")[0]


def imported_files(file: Path, roots: Sequence[Path]) -> list[Path]:
    """Return the files below `roots` that a program imports, directly or through others, sorted; not itself.

    Names are looked for beside the importing file, beside the program, and in `roots`, in this order. A file that
    cannot be read or parsed imports nothing.
    """
    file = file.absolute()
    folders = tuple(dict.fromkeys((file.parent, *(root.absolute() for root in roots))))
    known = _IMPORTED.get((file, folders))
    if known is not None and all(_written(path) == written for path, written in known.items()):
        return sorted(known.keys() - {file})
    files = _find(file, folders)
    if len(_IMPORTED) >= MOST_FILES:
        _IMPORTED.clear()
    _IMPORTED[file, folders] = {path: _written(path) for path in files}
    return sorted(files - {file})


_IMPORTED: dict[tuple[Path, tuple[Path, ...]], dict[Path, tuple[int, int] | None]] = {}
"""What programs import, with the time and size of each file: looked for again when one of them changes."""


def import_roots(folder: Path) -> tuple[Path, ...]:
    """Return the folders below which a suite's programs may import: its search roots, looked up once."""
    return _import_roots(folder, Path.cwd())


@lru_cache(maxsize=1_000)
def _import_roots(folder: Path, current: Path) -> tuple[Path, ...]:
    return search_roots(folder).roots


def _written(path: Path) -> tuple[int, int] | None:
    try:
        written = os.stat(path)  # noqa: PTH116 — called for every case: half the time of `path.stat`
    except OSError:
        return None
    return written.st_mtime_ns, written.st_size


def _find(file: Path, folders: tuple[Path, ...]) -> set[Path]:
    files: dict[Path, None] = {file: None}
    waiting = [file]
    while waiting and len(files) < MOST_FILES:
        new = [path for path in _imports(waiting.pop(), folders) if path not in files]
        files.update(dict.fromkeys(new))
        waiting += new
    return set(files)


def import_fingerprints(files: Iterable[Path], roots: Sequence[Path]) -> dict[str, str]:
    """Return the fingerprints of everything that programs import below `roots`, by path from the nearest root."""
    imported = sorted({path for file in files for path in imported_files(file, roots)})
    return {_shown(path, roots): cached_fingerprint(path) for path in imported}


def cached_fingerprint(path: Path) -> str:
    """Return the fingerprint of a file; it is read again when its time or size changes. Raises OSError."""
    written = path.stat()
    return _fingerprint(path, written.st_mtime_ns, written.st_size)


@lru_cache(maxsize=10_000)
def _fingerprint(path: Path, written_ns: int, size: int) -> str:
    return file_fingerprint(path)


def _shown(path: Path, roots: Sequence[Path]) -> str:
    below = [path.relative_to(root.absolute()) for root in roots if path.is_relative_to(root.absolute())]
    return min((shown.as_posix() for shown in below), key=len, default=path.name)


def _imports(file: Path, folders: tuple[Path, ...]) -> Iterator[Path]:
    try:
        written = file.stat()
        names = _imported_names(file, written.st_mtime_ns, written.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return
    for level, name in names:
        find = _FINDERS[_kind(file)]
        yield from find(file, level, name, folders)


@lru_cache(maxsize=10_000)
def _imported_names(file: Path, written_ns: int, size: int) -> tuple[tuple[int, str], ...]:
    """What a file imports: level (0: absolute, else the dots of a relative import) and name. Raises SyntaxError."""
    kind = _kind(file)
    if kind == "python":
        return module_syntax(file.read_bytes()).imported
    pattern = {"javascript": _JAVASCRIPT_IMPORT, "shell": _SHELL_IMPORT}.get(kind)
    text = file.read_text(encoding="utf-8", errors="replace") if pattern is not None else ""
    return tuple((1, name) for name in dict.fromkeys(pattern.findall(text))) if pattern is not None else ()


def _kind(file: Path) -> str:
    if file.suffix in _JAVASCRIPT:
        return "javascript"
    return "shell" if file.suffix in _SHELL else "python" if file.suffix == ".py" else "other"


def _python_files(file: Path, level: int, name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    """The files of a module and of the packages that it is in; those of the first folder that has it."""
    parts = [part for part in name.split(".") if part]
    if not level and parts[:1] == [_OURS]:
        return  # evaluators have versions; a checkout of ours that is the current folder is no program of the user
    if level:
        yield from _module_files(file.parents[min(level, len(file.parents)) - 1], parts)
        return
    for folder in (file.parent, *folders):
        files = list(_module_files(folder, parts))
        if files and (folder == folders[0] or parts[0] not in sys.stdlib_module_names):
            yield from files
            return


def _module_files(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    for part in parts:
        module = folder / f"{part}.py"
        folder = folder / part
        if is_file(package := folder / "__init__.py"):
            yield package
        elif is_file(module):
            yield module
            return
        elif not os.path.isdir(folder):  # noqa: PTH112 — `Path.is_dir` raises for a name that is too long
            return


def _javascript_files(file: Path, level: int, name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    target = file.parent / name
    stem = target.with_suffix("") if target.suffix in _JAVASCRIPT else target  # `./x.js` may be written as `x.ts`
    suffixes = sorted(_JAVASCRIPT)
    beside = [Path(f"{stem}{suffix}") for suffix in suffixes]
    inside = [target / f"index{suffix}" for suffix in suffixes]
    yield from (path.resolve() for path in (target, *beside, *inside) if is_file(path))


def _shell_files(file: Path, level: int, name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    yield from (path for folder in (file.parent, *folders) if is_file(path := folder / name))


def _no_files(file: Path, level: int, name: str, folders: tuple[Path, ...]) -> Iterator[Path]:
    yield from ()


_FINDERS = {"python": _python_files, "javascript": _javascript_files, "shell": _shell_files, "other": _no_files}
