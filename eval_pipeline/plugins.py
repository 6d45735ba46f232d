"""Registries of parts, and functions that users name: how code that is not ours comes in.

A registry imports its room's folder first (one file per part), then installed entry points; a registry without a
folder has entry points only, our own among them. A part may list further names under `aliases`, and a part of another
kind may bring parts of this one (`bundles`).

A part registers itself:

    @EVALUATORS.register("contains")
    class Contains: ...

Names are compared with `_` read as `-`. A name claimed twice is an error; an unknown name lists the known ones.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from eval_pipeline.errors import NOWHERE, EvalPipelineError, InputError, SourceLocation, UnknownName

Part = TypeVar("Part")


class PluginError(EvalPipelineError):
    """An installed plug-in cannot be loaded, or two parts claim one name."""


class Registry(Generic[Part]):
    """The parts of one kind, by name."""

    def __init__(
        self, kind: str, *, folder: str | None, entry_point_group: str, bundles: Mapping[str, str] | None = None
    ) -> None:
        """`bundles`: attribute by entry-point group. A part of that group maps names to parts of this kind there, so
        that one entry point brings parts of several kinds."""
        self.kind = kind
        self._folder = folder
        self._group = entry_point_group
        self._bundles = bundles or {}
        self._parts: dict[str, Part] = {}
        self._loaded = False
        self._loading = False
        self._lock = threading.RLock()

    def register(self, *names: str) -> Callable[[Part], Part]:
        """Decorator that files a part under `names`."""

        def file(part: Part) -> Part:
            for name in map(canonical_name, names):
                if self._parts.get(name, part) is not part:
                    raise PluginError(f"two parts claim the {self.kind} '{name}': {self._parts[name]!r} and {part!r}")
                self._parts[name] = part
            return part

        return file

    def get(self, name: str, place: SourceLocation = NOWHERE) -> Part:
        """The part of this name; raises UnknownName, which says what there is."""
        part = self.find(name)
        if part is None:
            raise UnknownName(self.kind, name, self._parts, place)
        return part

    def find(self, name: str) -> Part | None:
        """The part of this name, or None."""
        self._load()
        return self._parts.get(canonical_name(name))

    def names(self) -> list[str]:
        """All names, sorted."""
        self._load()
        return sorted(self._parts)

    def __iter__(self) -> Iterator[tuple[str, Part]]:
        self._load()
        return iter(sorted(self._parts.items()))

    def _load(self) -> None:
        if self._loaded:
            return
        with self._lock:
            if self._loaded or self._loading:  # a part that asks while it is being imported sees what there is so far
                return
            self._loading = True
            try:
                self._import_parts()
                self._loaded = True
            finally:
                self._loading = False

    def _import_parts(self) -> None:
        if self._folder is not None:
            package = importlib.import_module(self._folder)
            for module in pkgutil.iter_modules(package.__path__):
                importlib.import_module(f"{self._folder}.{module.name}")
        for entry in entry_points(group=self._group):
            part: Part = self._load_entry(entry.name, entry.load)
            self.register(entry.name, *getattr(part, "aliases", ()))(part)
        for group, attribute in self._bundles.items():
            for entry in entry_points(group=group):
                for name, bundled in getattr(self._load_entry(entry.name, entry.load), attribute, {}).items():
                    self.register(name)(bundled)

    def _load_entry(self, name: str, load: Callable[[], Any]) -> Any:
        # The one boundary to other people's packages: whatever their import raises names the plug-in at fault.
        try:
            return load()
        except Exception as error:
            raise PluginError(f"the installed {self.kind} '{name}' cannot be loaded: {error}") from error


def canonical_name(name: str) -> str:
    """`is_json` and `is-json` are one name."""
    return name.strip().replace("_", "-")


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


def _module(name: str, folder: Path) -> Any:
    """A module file beside the user's file is loaded from there, anew when it changed; else an ordinary import."""
    file = folder.joinpath(*name.split(".")).with_suffix(".py")
    if not file.is_file():
        return importlib.import_module(name)
    written = file.stat()
    version = hashlib.sha256(f"{file}:{written.st_mtime_ns}:{written.st_size}".encode(errors="replace")).hexdigest()
    private = f"eval_pipeline_user_{version[:12]}_{name.replace('.', '_')}"
    if private in sys.modules:
        return sys.modules[private]
    spec = importlib.util.spec_from_file_location(private, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[private] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[private]
        raise
    return module
