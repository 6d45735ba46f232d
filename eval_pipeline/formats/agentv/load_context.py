"""The state of reading one suite: its search roots, the files read so far, its diagnostics."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.fingerprints import require_regular_file
from eval_pipeline.formats.agentv.field_hints import hint
from eval_pipeline.formats.agentv.grader_versions import SYSTEM, GraderVersions
from eval_pipeline.formats.agentv.project_file import is_agentv_project, nearest_project_file, warnings_for_suite
from eval_pipeline.formats.agentv.variables import Interpolator
from eval_pipeline.formats.agentv.workspace_fields import WorkspaceLoading
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor, Interpolated
from eval_pipeline.parsing.file_search import NotFound, SearchRoots, search_roots
from eval_pipeline.parsing.interpolation import filled_in, is_placeholder, names_in, unset_names, with_texts_changed
from eval_pipeline.parsing.redaction import KNOWN
from eval_pipeline.parsing.source import Source
from eval_pipeline.plugins import canonical_name
from eval_pipeline.suites.evaluator_lists import EvaluatorReader
from eval_pipeline.suites.load import LoadOptions

MAX_ATTACHMENT_BYTES = 20_000_000
MEDIA_TYPES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".svg": "image/svg+xml", ".bmp": "image/bmp",
}  # fmt: skip
_SHARED_FIELDS = 4
_SHARED_MAPPINGS = 1_000
_SCALARS = frozenset({str, int, float, bool, type(None)})
_SCRIPT_FOLDERS = ("assertions", "graders", "judges")


@dataclass(slots=True)
class LoadContext:
    """One suite being read. `has_filled` is whether any placeholder or variable was replaced."""

    path: Path
    load_options: LoadOptions
    roots: SearchRoots
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    parts: dict[Path, None] = field(default_factory=dict)
    included: dict[Path, str] = field(default_factory=dict)
    workspaces: WorkspaceLoading = field(init=False)
    has_filled: bool = False
    variables: Interpolator = field(default_factory=Interpolator)
    evaluator_reader: EvaluatorReader | None = None
    grader_versions: GraderVersions = field(default_factory=GraderVersions)
    _unset: set[tuple[str, str]] = field(default_factory=set)
    _attachments: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    _scripts: dict[str, Path | None] = field(default_factory=dict)
    _mappings: dict[tuple[Any, ...], Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workspaces = WorkspaceLoading(
            roots=self.roots,
            environment=self.load_options.environment,
            secret_rules=self.load_options.secret_rules,
            diagnostics=self.diagnostics,
        )

    def fill(self, value: Any, text: str, source: Source) -> Any:
        """Return a document with placeholders replaced; `text` is that of its file."""
        if "{{" not in text:
            return value
        self.warn_of_unset(text, source)
        return self.filled(value)

    def warn_of_unset(self, text: str, source: Source, first_line: int = 1) -> None:
        """Warn of placeholders without a value in a text that begins at this line, once for each name and file."""
        for name, line in unset_names(text, self.load_options.environment).items():
            if (source.shown, name) in self._unset:
                continue
            self._unset.add((source.shown, name))
            problem = f"{name} is not set in the environment; ${{{{ {name} }}}} became an empty text"
            self.diagnostics.add(problem, SourceLocation(source.shown or None, first_line + line - 1))

    def filled(self, value: Any) -> Any:
        """Return a value with placeholders replaced."""
        return with_texts_changed(value, self._filled)

    def _filled(self, text: str) -> str:
        if "{{" not in text:
            return text
        new = filled_in(text, self.load_options.environment)
        if new == text:
            return text
        self.has_filled = True
        KNOWN.add_filled(names_in(text), self.load_options.environment, self.load_options.secret_rules)
        return Interpolated(new) if is_placeholder(text) else new

    def warn_of_unknown(self, key: str, known: Collection[str], cursor: FieldCursor, what: str) -> None:
        """Warn of a field that is not read."""
        self.diagnostics.add(
            lambda: f"unknown {what}, ignored{hint(key, known)}",
            lambda: cursor.place(key),
            kind=f"{what} {key[:80]}",
        )

    def shared(self, mapping: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the mapping, or an equal one of an earlier case: large suites repeat a few small mappings."""
        if len(mapping) > _SHARED_FIELDS or not all(type(value) in _SCALARS for value in mapping.values()):
            return mapping
        key = tuple((name, type(value), value) for name, value in mapping.items())
        if len(self._mappings) < _SHARED_MAPPINGS:
            return self._mappings.setdefault(key, mapping)
        return self._mappings.get(key, mapping)

    def find(self, name: str, cursor: FieldCursor, *steps: str | int) -> Path:
        """The file that a suite names. Raises InputError."""
        try:
            return self.roots.file(name)
        except NotFound as error:
            raise cursor.error(str(error), *steps) from None

    def read(self, path: Path, cursor: FieldCursor, *steps: str | int) -> bytes:
        """The bytes of a file that a suite names. Raises InputError."""
        try:
            require_regular_file(path)
            return path.read_bytes()
        except OSError as error:
            raise cursor.error(f"'{path.name}' cannot be read: {error.strerror}", *steps) from None

    def attachment(self, kind: str, name: str, cursor: FieldCursor) -> dict[str, Any]:
        """Return the content part of a file or image; each file is read once per suite."""
        part = self._attachments.get((kind, name))
        if part is None:
            path = self.find(name, cursor)
            make = _image_part if kind == "image" else _file_part
            part = self._attachments[kind, name] = make(name, path, self._bounded(path, cursor), cursor)
        return part

    def _bounded(self, path: Path, cursor: FieldCursor) -> bytes:
        content = self.read(path, cursor)
        if len(content) > MAX_ATTACHMENT_BYTES:
            raise cursor.error(
                f"'{path.name}' has {len(content):,} bytes; at most {MAX_ATTACHMENT_BYTES:,} are attached"
            )
        return content

    def script_command(self, type_: str) -> list[str] | None:
        """Return the command of the author's own assertion of this type; None without a script in the folders above.

        The command does not depend on the suite's location: the script's path is relative to the suite's folder, where
        programs run, and interpreters have plain names. A type of a registered evaluator has no command, and no type
        has one when the registered types are unknown.
        """
        known = self.load_options.evaluators
        if not known or type_ in known:
            return None
        if type_ not in self._scripts:
            self._scripts[type_] = next(self._own_scripts(type_), None)
        path = self._scripts[type_]
        return [*_RUNNERS[path.suffix], self.from_suite(path)] if path is not None else None

    def from_suite(self, path: Path) -> str:
        """Return a path relative to the suite's folder; the path itself where `..` passes a symbolic link."""
        name = os.path.relpath(path, self.roots.folder)
        return name if os.path.realpath(self.roots.folder / name) == os.path.realpath(path) else str(path)

    def _own_scripts(self, type_: str) -> Iterator[Path]:
        for root in self.roots.roots:
            for folder in _SCRIPT_FOLDERS:
                files = sorted((root / ".agentv" / folder).glob("*"))
                yield from (file for file in files if canonical_name(file.stem) == type_ and file.suffix in _RUNNERS)


AGENTV_ARGUMENTS = {"on_error": "fail", "on_missing": "fail"}
"""Arguments of evaluators in AgentV's own projects: what broke or was not measured counts as 0, as it does there."""


def open_context(path: Path, load_options: LoadOptions) -> LoadContext:
    """A context to read the suite at `path`; the nearest `.agentv/config.yaml` applies to it.

    In a project of AgentV, evaluators have its defaults where the project file has none.
    """
    roots = search_roots(path.parent)
    if load_options.evaluators and is_agentv_project(roots.roots):
        load_options = replace(load_options, arguments={**AGENTV_ARGUMENTS, **load_options.arguments})
    context = LoadContext(path, load_options, roots)
    nearest = nearest_project_file(context.roots.roots, load_options.environment)
    of_project_file = nearest[1].settings.get("required_version") if nearest is not None else None
    context.grader_versions = GraderVersions(
        of_project=load_options.versions.get(SYSTEM), of_project_file=of_project_file
    )
    if nearest is not None:
        for warning in warnings_for_suite(*nearest, load_options.configurations):
            context.diagnostics.add(warning.problem, warning.place, kind=str(warning))
        context.workspaces.pooled = nearest[1].execution.get("pool_workspaces") is not False
    return context


def _file_part(name: str, path: Path, content: bytes, cursor: FieldCursor) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "file", "value": name, "resolved_path": str(path)}
    try:
        return {**part, "text": content.decode("utf-8-sig").replace("\r\n", "\n")}
    except UnicodeDecodeError:
        return {**part, "sha256": hashlib.sha256(content).hexdigest()}


def _image_part(name: str, path: Path, content: bytes, cursor: FieldCursor) -> dict[str, Any]:
    media_type = MEDIA_TYPES.get(path.suffix.lower())
    if media_type is None:
        raise cursor.error(f"'{name}' is no image; images end in {', '.join(MEDIA_TYPES)}")
    data = base64.b64encode(content).decode("ascii")
    source = f"data:{media_type};base64,{data}"
    return {"type": "image", "value": name, "media_type": media_type, "source": source, "resolved_path": str(path)}


_RUNNERS: Mapping[str, Sequence[str]] = {
    ".py": ("python3",),
    ".sh": ("sh",),
    **dict.fromkeys((".ts", ".mts", ".js", ".mjs", ".cjs"), ("bun", "run")),
}


def not_utf8(error: UnicodeDecodeError, cursor: FieldCursor, *steps: str | int) -> InputError:
    """Return the error of a file that is not UTF-8 text."""
    return cursor.error(f"not UTF-8 text: {error.reason} at byte {error.start}", *steps)
