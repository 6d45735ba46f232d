"""Typed reads of a workspace section's mapping, and shared state of reading one suite's workspaces."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.formats.agentv.field_hints import hint
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.file_search import SearchRoots
from eval_pipeline.parsing.interpolation import interpolate, names_in, unset_names
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.parsing.secret_names import NO_RULES, SecretRules
from eval_pipeline.parsing.source import Source, show_path
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.parsing.yaml_text import read_yaml

LONGEST_PATH = 4_000
_LONGEST_NAME = 255


@dataclass(slots=True, kw_only=True)
class WorkspaceLoading:
    """Shared state of reading one suite's workspaces: search roots, the environment for `${{ NAME }}` and which of it
    is secret, diagnostics, and a cache of files. `pooled` is whether a workspace without a mode may be of the pool."""

    roots: SearchRoots
    environment: Mapping[str, str] = field(default_factory=dict)
    secret_rules: SecretRules = NO_RULES
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    pooled: bool = True
    _contents: dict[Path, Mapping[str, str]] = field(default_factory=dict)
    _hashes: dict[str, str | None] = field(default_factory=dict)
    _documents: dict[Path, tuple[Any, Source]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The suite's folder."""
        return self.roots.folder.absolute()

    def content_of(self, folder: Path) -> Mapping[str, str]:
        """Return the fingerprints of a template's files; read once per folder. Raises OSError."""
        if folder not in self._contents:
            self._contents[folder] = dict(_content(folder))
        return self._contents[folder]

    def hash_of(self, name: str, folder: str) -> str | None:
        """Return the fingerprint of a suite's file, relative to a folder; None without such a file."""
        path = os.path.normpath(name if name.startswith("/") else f"{folder}/{name}")
        if path not in self._hashes:
            self._hashes[path] = _file_hash(Path(path)) if os.path.isfile(path) and self.roots.holds(path) else None  # noqa: PTH113 — per case, and never raises
        return self._hashes[path]

    def document(self, path: Path) -> tuple[Any, Source]:
        """Return a workspace file and the source for its errors; read once. Raises InputError, OSError."""
        if path not in self._documents:
            text = path.read_text(encoding="utf-8-sig")
            raw, lines = read_yaml(text, show_path(path))
            source = Source(path, show_path(path), lines.of)
            for name in unset_names(text, self.environment):
                self.diagnostics.add(f"{name} is not set in the environment; it became an empty text", source.place(()))
            KNOWN.add_filled(names_in(text), self.environment, self.secret_rules)
            self._documents[path] = interpolate(raw, self.environment), source
        return self._documents[path]


@dataclass(frozen=True, slots=True)
class WorkspaceFields:
    """A mapping of the workspace section, and its location."""

    raw: Any
    cursor: FieldCursor
    loading: WorkspaceLoading

    def __post_init__(self) -> None:
        if not isinstance(self.raw, Mapping):
            raise self.cursor.error(f"expected a mapping, got {fields.kind(self.raw)}")

    def error(self, key: str, problem: str) -> InputError:
        return self.cursor.error(problem, key)

    def warn(self, key: str, problem: str) -> None:
        self.loading.diagnostics.add(problem, lambda: self.cursor.place(key))

    def warn_of_unknown(self, table: FieldTable) -> None:
        for key in self.raw:
            if key not in table.names:
                self.warn(str(key), f"unknown workspace field '{key}', ignored{hint(str(key), table.names)}")

    def has(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def part(self, key: str) -> WorkspaceFields:
        return WorkspaceFields(self.raw[key] if self.has(key) else {}, self.cursor.at(key), self.loading)

    def text(self, key: str) -> str | None:
        """Return a non-empty text that can be an argument or a path; None when absent."""
        value = fields.text(self.raw, key, self.cursor)
        if value is None or (value.strip() and is_argument_text(value) and len(value) < LONGEST_PATH):
            return value
        empty = " (empty: is the variable in it set?)" if value == "" else ""
        raise self.error(key, f"expected a text, got {fields.kind(value)}{empty}")

    def needed_text(self, key: str, what: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.error(key, f"expected {what}")
        return value

    def argument(self, key: str) -> str | None:
        """Return a text to pass to git; a leading dash is an error, since git would read an option."""
        value = self.text(key)
        if value is not None and value.startswith("-"):
            raise self.error(key, f"'{value}' must not begin with '-'")
        return value

    def location(self, key: str) -> Path | None:
        """Return a path relative to its file, or to the suite's folder when it exists only there."""
        text = self.text(key)
        if text is None:
            return None
        if any(len(os.fsencode(step)) > _LONGEST_NAME for step in text.split("/")):
            raise self.error(key, "is too long for a path")
        bases = (self.here, self.loading.folder)
        beside, suite = (Path(os.path.normpath(base / os.path.expanduser(text))) for base in bases)  # noqa: PTH111 — Path.expanduser raises for an unknown user
        return suite if suite != beside and suite.exists() and not beside.exists() else beside

    @property
    def here(self) -> Path:
        """The folder of the file that contains the mapping."""
        return self.cursor.source.path.absolute().parent

    def checked_inside(self, key: str, path: Path) -> Path:
        if not self.loading.roots.holds(path):
            listed = ", ".join(show_path(root) for root in self.loading.roots.roots)
            raise self.error(key, f"'{show_path(path)}' lies outside of the suite's folder and search roots ({listed})")
        return path


def is_argument_text(text: str) -> bool:
    """Return whether a text can be an argument or a path: without NUL and lone surrogates, which JSON allows."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text))


def _content(folder: Path) -> Iterator[tuple[str, str]]:
    """Return the files below a folder, without `.git`: SHA-256 (`x:` before it for programs), or a link's target."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        above = Path(parent).relative_to(folder).as_posix()
        for name in sorted([*names, *links]):
            path, shown = f"{parent}/{name}", name if above == "." else f"{above}/{name}"
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                yield shown, f"link:{Path(path).readlink()}"
            elif stat.S_ISREG(mode):
                yield shown, ("x:" if mode & 0o100 else "") + _digest(path)


def _digest(path: str) -> str:
    """Return the SHA-256 of a regular file; without a buffer between, because templates have many small files."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 — per file of a template
        return hashlib.file_digest(file, "sha256").hexdigest()


def _file_hash(path: Path) -> str | None:
    try:
        return file_fingerprint(path)
    except OSError:
        return None
