"""The data files that a Python module reads: those below its folder that its texts name, found without running it.

`"expected.json"` names a file, `"expected"` every file of a folder: so `HERE / "expected" / f"{name}.json"` is found,
too. Paths that lead out of the module's folder are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.parsing.imports import cached_fingerprint, imported_files
from eval_pipeline.parsing.python_syntax import quoted_texts

MOST_FILES = 500
"""Of a module; others do not count."""
_CODE = frozenset({".py", ".pyc"})
_SKIPPED = frozenset({"node_modules", "__pycache__"})
_WRITTEN_BY_US = "warehouse.duckdb"
"""A folder with this file is the data folder of a project, which every run changes."""


def data_files(file: Path, roots: Sequence[Path]) -> list[Path]:
    """Return the data files of a module and of the modules below its folder that it imports, sorted."""
    folder = file.absolute().parent
    modules = (file.absolute(), *(path for path in imported_files(file, roots) if path.is_relative_to(folder)))
    found = dict.fromkeys(path for module in modules for path in _named_by(module))
    return sorted(list(found)[:MOST_FILES])


def data_fingerprints(file: Path, roots: Sequence[Path]) -> dict[str, str]:
    """Return the fingerprints of the data files of a module, by path from its folder."""
    folder = file.absolute().parent
    return {path.relative_to(folder).as_posix(): cached_fingerprint(path) for path in data_files(file, roots)}


def _named_by(module: Path) -> Iterator[Path]:
    folder = module.parent
    try:
        texts = quoted_texts(module.read_bytes())
        listed = {path.name for path in folder.iterdir()}
    except OSError:
        return
    for text in sorted(texts):
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if parts and parts[0] in listed and ".." not in parts and not text.startswith("/"):
            yield from _files_at(folder.joinpath(*parts))


def _files_at(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder and of those in it; what cannot be read is no data."""
    if path.name.startswith(".") or path.name in _SKIPPED or path.is_symlink() or not os.access(path, os.R_OK):
        return
    if is_file(path):
        yield from [path] if path.suffix not in _CODE else []
    elif path.is_dir() and not (path / _WRITTEN_BY_US).exists():
        for inside in sorted(path.iterdir()):
            yield from _files_at(inside)
