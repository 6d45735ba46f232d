"""Registries of parts, and functions that users name: how code from outside this package comes in.

A registry knows its parts by name and imports one when it is requested. Names come from three places:

- the modules of its room's folder: their text is searched for `REGISTRY.register("name")`, nothing is imported;
- installed entry points of its group, ours among them: the name of an entry point is the name of its part, and the
  part may list further names under `aliases`;
- `bundles`: entry points of another group whose parts map names to parts of this kind.

A part in a folder registers itself:

    @EVALUATORS.register("contains")
    class Contains: ...

Names are compared with `_` read as `-`. A name claimed twice is an error; an unknown name lists the known ones.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import pkgutil
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from eval_pipeline.errors import NOWHERE, EvalPipelineError, SourceLocation, UnknownName

Part = TypeVar("Part")
_REGISTRATION = re.compile(r"\b[A-Z][A-Z_]*\.register(\([^()]*?)\s*\)")


class PluginError(EvalPipelineError):
    """An installed plug-in cannot be loaded or lacks something, or two parts claim one name."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Where a part is imported from: the module, how errors call it, and the call that imports and registers it."""

    module: str
    shown: str
    load: Callable[[], object]


def names_in_group(group: str) -> list[str]:
    """Return the names of the installed entry points of a group, sorted; none of them is imported."""
    return sorted({entry.name for entry in entry_points(group=group)})


class Registry(Generic[Part]):
    """The parts of one kind, by name."""

    def __init__(
        self,
        kind: str,
        *,
        folder: str | None,
        entry_point_group: str,
        requires: tuple[str, ...] = (),
        bundles: Mapping[str, str] | None = None,
        listed_by: str | None = None,
    ) -> None:
        """Describe where parts come from; nothing is imported yet.

        Args:
            kind: what errors call a part, for example `evaluator`.
            folder: the package whose modules hold parts; None for entry points only.
            entry_point_group: the group of installed entry points.
            listed_by: the command that lists the parts.
            requires: attributes that every part has; a part without one is refused.
            bundles: attribute by entry-point group. A part of that group maps names to parts of this kind there, so
                that one entry point brings parts of several kinds.
        """
        self.kind = kind
        self.group = entry_point_group
        self._folder = folder
        self._requires = requires
        self._bundles = bundles or {}
        self._listed_by = listed_by
        self._parts: dict[str, Part] = {}
        self._lock = threading.RLock()
        self._index: dict[str, _Source] | None = None
        self._complete = False
        self._loading_all = False
        self._loading_entries = False

    def register(self, *names: str) -> Callable[[Part], Part]:
        """Decorator that registers a part under `names`. Raises PluginError when one is taken."""

        def add(part: Part) -> Part:
            for name in map(canonical_name, names):
                self._check(name, part)
                self._parts[name] = part
            return part

        return add

    def get(self, name: str, place: SourceLocation = NOWHERE) -> Part:
        """The part of this name. Raises UnknownName, which lists the known names."""
        part = self.find(name)
        if part is None:
            raise UnknownName(self.kind, name, self.names(), place, self._listed_by)
        return part

    def find(self, name: str) -> Part | None:
        """The part of this name, or None."""
        name = canonical_name(name)
        if name not in self._parts and not self._complete:
            self._load(name)
        return self._parts.get(name)

    def names(self) -> list[str]:
        """All names, sorted. Imports the installed parts, since these can bring further names, but no folder."""
        if not self._complete:
            with self._lock:
                self._load_entries()
        return sorted({*self._sources(), *self._parts})

    def __contains__(self, name: object) -> bool:
        """Whether a part has this name; imports nothing for a name that is declared."""
        return isinstance(name, str) and (canonical_name(name) in self._sources() or self.find(name) is not None)

    def __iter__(self) -> Iterator[tuple[str, Part]]:
        self._load_all()
        return iter(sorted(self._parts.items()))

    def _check(self, name: str, part: Part) -> None:
        if self._parts.get(name, part) is not part:
            raise self._taken(name, repr(self._parts[name]), repr(part))
        source = (self._index or {}).get(name)
        if source is not None and _defined_in(part, source.module) != _package(source.module):
            raise self._taken(name, source.shown, repr(part))
        missing = [attribute for attribute in self._requires if not hasattr(part, attribute)]
        if missing:
            raise PluginError(f"the {self.kind} '{name}' ({part!r}) has no {', '.join(missing)}")

    def _taken(self, name: str, first: str, second: str) -> PluginError:
        return PluginError(f"two parts claim the {self.kind} '{name}': {first} and {second}")

    def _load(self, name: str) -> None:
        """Imports the part of this name, or, when nothing declares it, everything that could bring it."""
        with self._lock:
            source = self._sources().get(name)
            if source is not None:
                source.load()
            for bundle in self._bundle_entries():
                if name not in self._parts and canonical_name(bundle[0].name) == name:
                    self._load_bundle(*bundle)
            if name not in self._parts:
                self._load_all()

    def _load_all(self) -> None:
        with self._lock:
            if self._complete or self._loading_all:
                return
            self._loading_all = True
            try:
                for module in self._modules():
                    importlib.import_module(module)
                self._load_entries()
                self._complete = True
            finally:
                self._loading_all = False

    def _load_entries(self) -> None:
        if self._loading_entries:  # a part that is being imported sees the parts so far
            return
        self._loading_entries = True
        try:
            for entry in _entries(self.group):
                self._load_entry(entry)
            for entry, attribute in self._bundle_entries():
                self._load_bundle(entry, attribute)
        finally:
            self._loading_entries = False

    def _load_entry(self, entry: EntryPoint) -> None:
        part = self._import(entry)
        self.register(entry.name, *getattr(part, "aliases", ()))(part)

    def _load_bundle(self, entry: EntryPoint, attribute: str) -> None:
        for name, part in getattr(self._import(entry), attribute, {}).items():
            self.register(name)(part)

    def _import(self, entry: EntryPoint) -> Any:
        # The one boundary to other people's packages: whatever their import raises names the plug-in at fault.
        try:
            return entry.load()
        except PluginError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise PluginError(
                f"the installed {self.kind} '{entry.name}' ({_shown(entry)}) cannot be loaded: {reason}"
            ) from error

    def _bundle_entries(self) -> list[tuple[EntryPoint, str]]:
        return [(entry, attribute) for group, attribute in self._bundles.items() for entry in _entries(group)]

    def _sources(self) -> Mapping[str, _Source]:
        """Where each declared name is imported from. Built once; imports only modules whose names it cannot read."""
        with self._lock:
            if self._index is None:
                self._index = index = self._declared()
                for name, part in list(self._parts.items()):
                    if name in index:
                        self._check(name, part)
            return self._index

    def _declared(self) -> dict[str, _Source]:
        index: dict[str, _Source] = {}
        for module in self._modules():
            names = _registered_names(module)
            if names is None:
                importlib.import_module(module)
            for name in names or ():
                self._declare(index, name, _Source(module, module, functools.partial(importlib.import_module, module)))
        for entry in _entries(self.group):
            load = functools.partial(self._load_entry, entry)
            self._declare(index, entry.name, _Source(entry.module, _shown(entry), load))
        return index

    def _declare(self, index: dict[str, _Source], name: str, source: _Source) -> None:
        known = index.setdefault(canonical_name(name), source)
        if known.module != source.module:
            raise self._taken(canonical_name(name), known.shown, source.shown)

    def _modules(self) -> list[str]:
        if self._folder is None:
            return []
        package = importlib.import_module(self._folder)
        return [f"{self._folder}.{module.name}" for module in pkgutil.iter_modules(package.__path__)]


@functools.lru_cache(1_000)
def canonical_name(name: str) -> str:
    """`is_json` and `is-json` are one name."""
    return name.strip().replace("_", "-")


@functools.cache
def _installed(path: tuple[str, ...]) -> Any:
    """All entry points of the packages on a search path; reading them takes milliseconds, so it is done once."""
    return entry_points()


def _entries(group: str) -> list[EntryPoint]:
    return list(_installed(tuple(sys.path)).select(group=group))


def _shown(entry: EntryPoint) -> str:
    distribution = entry.dist.name if entry.dist is not None else None
    return f"{entry.value} of the package {distribution}" if distribution else entry.value


def _defined_in(part: object, otherwise: str) -> str:
    """The package of a class or function; of a plain value, which does not know where it was made, `otherwise`'s."""
    return _package(getattr(part, "__module__", otherwise) if hasattr(part, "__qualname__") else otherwise)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _registered_names(module: str) -> list[str] | None:
    """The names that the text of a module registers; None when one of them is not written out as a string."""
    spec = importlib.util.find_spec(module)
    get_source = getattr(spec and spec.loader, "get_source", None)
    source: str | None = get_source(module) if get_source is not None else None
    if source is None:
        return None
    try:
        calls = [ast.literal_eval(f"{names.rstrip(' ,')},)") for names in _REGISTRATION.findall(source)]
    except (ValueError, SyntaxError):
        return None
    return [name for names in calls for name in names]
