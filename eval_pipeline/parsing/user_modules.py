"""Functions of the user, named `module:callable`: their module is loaded from beside the file that names it.

A module is loaded anew when it changes. Modules beside it are found by `import`, and what it imports from its folder
is part of its identity (`module_imports`).
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.parsing.file_search import is_file
from eval_pipeline.parsing.imports import import_fingerprints, imported_files
from eval_pipeline.parsing.module_files import importing_from, run_module

_Version = tuple[Path, int, int]
_LOCK = threading.RLock()
_IMPORTED: dict[str, frozenset[_Version]] = {}
"""What each loaded module imported from its folder, by its private name."""
_SHARED: dict[str, _Version] = {}
"""The modules that were loaded from folders of users, by the name that they are imported by."""


class FunctionReference(NamedTuple):
    """Where another process finds a function: `private` names the module of a file, None for an installed module."""

    module: str
    attribute: str
    folder: str
    private: str | None = None
    file: str | None = None


def function_reference(name: str, folder: Path, field: str) -> FunctionReference | None:
    """Return the reference of `module:callable`; None where only this process has the module (a notebook's, one that
    was made at run time). Raises InputError."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(f"expected module:callable, got '{name}'", SourceLocation(field=field))
    file = _file_of(module, folder)
    if file.is_file():
        return FunctionReference(module, attribute, str(folder.absolute()), _private_name(file), str(file.absolute()))
    loaded = sys.modules.get(module)
    if module == "__main__" or (loaded is not None and loaded.__spec__ is None):
        return None
    return FunctionReference(module, attribute, str(folder.absolute()))


def module_versions(reference: FunctionReference) -> frozenset[tuple[Path, int, int]]:
    """Return the files of a function's module and of what it imports from its folder, with their times and sizes."""
    if reference.file is None:
        return frozenset()
    file = Path(reference.file)
    return file_versions([file, *imported_files(file, [Path(reference.folder)])])


def import_function(name: str, folder: Path, field: str) -> Callable[..., Any]:
    """The function that `module:callable` names, its module looked for in `folder` first. Raises InputError."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InputError(f"expected module:callable, got '{name}'", SourceLocation(field=field))
    try:
        value: Any = _module(module_name, folder)
        for part in attribute.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as error:
        # Importing runs the user's code; whatever it raises, an exit even, is an error of the named module.
        raise InputError(
            f"cannot import '{name}': {type(error).__name__}: {error}", SourceLocation(field=field)
        ) from error
    if not callable(value):
        raise InputError(f"'{name}' is not callable", SourceLocation(field=field))
    function: Callable[..., Any] = value
    return function


def module_imports(name: str, folder: Path, roots: Sequence[Path]) -> dict[str, str]:
    """Return the fingerprints of everything below `roots` that the module of a function imports, by path.

    A module whose imports changed since it was loaded is loaded anew on its next use. Empty for an installed module.
    """
    file = _file_of(name.partition(":")[0], folder)
    if not is_file(file):
        return {}
    private = _private_name(file)
    with _LOCK:
        if private in sys.modules and file_versions(imported_files(file, [folder])) != _IMPORTED.get(private):
            del sys.modules[private]
    return import_fingerprints([file], roots)


def _module(name: str, folder: Path) -> Any:
    """A module file beside the user's file is loaded from there, anew when it changed; else an ordinary import."""
    file = _file_of(name, folder)
    if not is_file(file):
        return importlib.import_module(name)
    private = _private_name(file)
    if private in sys.modules:
        return sys.modules[private]
    with _LOCK:
        return sys.modules[private] if private in sys.modules else _load(private, file, folder)


def _file_of(name: str, folder: Path) -> Path:
    return folder.joinpath(*name.split(".")).with_suffix(".py")


def _private_name(file: Path) -> str:
    written = file.stat()
    version = hashlib.sha256(f"{file}:{written.st_mtime_ns}:{written.st_size}".encode(errors="replace")).hexdigest()
    return f"eval_pipeline_user_{version[:12]}_{file.stem}"


def _load(private: str, file: Path, folder: Path) -> ModuleType:
    imported = imported_files(file, [folder])
    with _importable(folder, {_import_name(path, folder): path for path in imported}):
        module = run_module(private, str(file))
    _IMPORTED[private] = file_versions(imported)
    return module


@contextmanager
def _importable(folder: Path, modules: Mapping[str, Path]) -> Iterator[None]:
    """Let `import` find the modules of a folder first, as they are now.

    A module of this name that was loaded from another folder, or before an edit, is loaded anew. Afterwards the folder
    is the last place that is searched, for functions that import when they are called.
    """
    versions = {name: _version(path) for name, path in modules.items()}
    for name, version in versions.items():
        if name in _SHARED and _SHARED[name] != version:
            sys.modules.pop(name, None)
    try:
        with importing_from(str(folder)):
            yield
    finally:
        if modules and str(folder) not in sys.path:
            sys.path.append(str(folder))
        _SHARED.update((name, version) for name, version in versions.items() if name in sys.modules)


def _import_name(file: Path, folder: Path) -> str:
    """The name that a file of a folder is imported by."""
    top = folder.absolute()
    parts = file.relative_to(top).with_suffix("").parts if file.is_relative_to(top) else (file.stem,)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _version(path: Path) -> _Version:
    written = path.stat()
    return path, written.st_mtime_ns, written.st_size


def file_versions(files: Iterable[Path]) -> frozenset[_Version]:
    """Return files with their times and sizes."""
    return frozenset(map(_version, files))
