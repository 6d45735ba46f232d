"""A workspace section of a suite's YAML → WorkspaceSpec.

Source of the meaning: AgentV's workspace section. Every problem is an InputError of the field it stands in; what is
odd and stops nothing is a notice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from eval_pipeline.errors import InputError, did_you_mean
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import Diagnostics
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.file_search import SearchRoots
from eval_pipeline.parsing.interpolation import interpolate, unset_names
from eval_pipeline.parsing.source import FieldPath, Source, show_path
from eval_pipeline.parsing.tables import FieldTable
from eval_pipeline.parsing.yaml_text import read_yaml
from eval_pipeline.suites.fields import CHECKOUT, CLONE, HOOK, REPOSITORY, WORKSPACE
from eval_pipeline.suites.fields import HOOKS as HOOKS_TABLE
from eval_pipeline.suites.workspace import (
    HOOKS,
    WORKSPACE_PATH,
    Hook,
    Repository,
    WorkspaceFile,
    WorkspaceSpec,
    merged,
    with_usual_mode,
)

_CURES = {
    "static_path": "write 'path' instead (mode: static)",
    "static": "write 'mode: static' with a 'path' instead",
    "pool": "write 'mode: pooled' instead",
}
_ISOLATIONS = {"shared": "shared", "per_test": "per_case", "per_case": "per_case"}
_MODES = ("pooled", "temp", "static")
_RESETS = ("none", "fast", "strict")
_LONGEST_PATH = 4_000
_LONGEST_NAME = 255


@dataclass(slots=True, kw_only=True)
class WorkspaceLoading:
    """What reading the workspaces of one suite shares: where it may name folders, the environment that `${{ NAME }}`
    is filled in from, who is told what is odd, and what was read already."""

    roots: SearchRoots
    environment: Mapping[str, str] = field(default_factory=dict)
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    _contents: dict[Path, Mapping[str, str]] = field(default_factory=dict)
    _hashes: dict[str, str | None] = field(default_factory=dict)
    _documents: dict[Path, tuple[Any, Source]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The suite's folder."""
        return self.roots.folder.absolute()

    def content_of(self, folder: Path) -> Mapping[str, str]:
        """The files of a template by their fingerprints; read once per folder. Raises OSError."""
        if folder not in self._contents:
            self._contents[folder] = dict(_content(folder))
        return self._contents[folder]

    def hash_of(self, name: str, folder: str) -> str | None:
        """The fingerprint of a file of the suite's, named from a folder; None for what is no such file."""
        path = os.path.normpath(name if name.startswith("/") else f"{folder}/{name}")
        if path not in self._hashes:
            self._hashes[path] = _file_hash(Path(path)) if os.path.isfile(path) and self.roots.holds(path) else None  # noqa: PTH113 — per case, and never raises
        return self._hashes[path]

    def document(self, path: Path) -> tuple[Any, Source]:
        """A workspace file and where its errors stand; read once. Raises InputError, OSError."""
        if path not in self._documents:
            text = path.read_text(encoding="utf-8-sig")
            raw, lines = read_yaml(text, show_path(path))
            source = Source(path, show_path(path), lines.of)
            for name in unset_names(text, self.environment):
                self.diagnostics.add(f"{name} is not set in the environment; it became an empty text", source.place(()))
            self._documents[path] = interpolate(raw, self.environment), source
        return self._documents[path]


def read_workspace(raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading) -> WorkspaceSpec:
    """The workspace that a suite asks for: `raw` is a mapping, or the name of a YAML file holding one.

    `path` is where it stands in `source`. Relative paths begin at the file they are written in, or at the suite's
    folder. Raises InputError at the field that cannot be used.
    """
    return _checked(_read(raw, path, source, loading), path, source, loading)


def read_case_workspace(
    raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading, suite: WorkspaceSpec | None = None
) -> WorkspaceSpec:
    """The workspace that a case asks for, over its suite's (see `read_workspace` and `merged`)."""
    own = _read(raw, path, source, loading)
    spec = merged(suite, own) if suite is not None else replace(own, own_setup="before_all" in own.hooks)
    return _checked(spec, path, source, loading, remarks=bool(own.given & {"hooks", "repositories", "isolation"}))


def _read(raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading) -> WorkspaceSpec:
    if isinstance(raw, str):
        raw, source = _external(raw, path, source, loading)
        path = ()
    return _spec(_Part(raw, FieldCursor(source, path), loading))


def _checked(
    spec: WorkspaceSpec, path: FieldPath, source: Source, loading: WorkspaceLoading, *, remarks: bool = True
) -> WorkspaceSpec:
    """The spec as it will be used, when what was written makes sense together."""
    problem = _contradiction(spec)
    if problem is not None:
        raise source.error(path, problem)
    for remark in _remarks(spec) if remarks else ():
        loading.diagnostics.add(remark, lambda: source.place((*path, "hooks")))
    return spec


def _contradiction(spec: WorkspaceSpec) -> str | None:
    if spec.mode == "static" and spec.path is None:
        return "mode 'static' needs a 'path': the folder to work in"
    if spec.mode != "static" and spec.path is not None:
        return f"'path' is for mode 'static', and the mode is '{spec.mode}'; leave one of them out"
    if spec.mode == "static" and spec.isolation == "per_case":
        return "mode 'static' is one folder for all cases: it cannot have isolation 'per_test'"
    return None


def _remarks(spec: WorkspaceSpec) -> Iterator[str]:
    if not any(hook.resets for hook in spec.hooks.values()):
        return
    if spec.isolation == "per_case":
        yield "'reset' has no effect with isolation 'per_test': every case has a fresh workspace"
    elif not spec.repositories:
        yield "'reset' without 'repos' puts the workspace's own files back to how before_all left them"


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapping of the workspace section, and where it stands."""

    raw: Any
    cursor: FieldCursor
    loading: WorkspaceLoading

    def __post_init__(self) -> None:
        if not isinstance(self.raw, Mapping):
            raise self.cursor.error(f"expected a mapping, got {fields.kind(self.raw)}")

    def error(self, key: str, problem: str) -> InputError:
        return self.cursor.error(problem, key)

    def notice(self, key: str, problem: str) -> None:
        self.loading.diagnostics.add(problem, lambda: self.cursor.place(key))

    def notice_unknown(self, table: FieldTable) -> None:
        for key in self.raw:
            if key not in table.names:
                self.notice(str(key), f"unknown workspace field '{key}', ignored{did_you_mean(str(key), table.names)}")

    def has(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def part(self, key: str) -> _Part:
        return _Part(self.raw[key] if self.has(key) else {}, self.cursor.at(key), self.loading)

    def text(self, key: str) -> str | None:
        """A text with something in it that can be an argument or a path; None when it is not there."""
        value = fields.text(self.raw, key, self.cursor)
        if value is None or (value.strip() and _is_sayable(value) and len(value) < _LONGEST_PATH):
            return value
        empty = " (empty: is the variable in it set?)" if value == "" else ""
        raise self.error(key, f"expected a text, got {fields.kind(value)}{empty}")

    def needed_text(self, key: str, what: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.error(key, f"expected {what}")
        return value

    def argument(self, key: str) -> str | None:
        """A text that becomes an argument of git's, and must not be taken for an option."""
        value = self.text(key)
        if value is not None and value.startswith("-"):
            raise self.error(key, f"'{value}' must not begin with '-'")
        return value

    def location(self, key: str) -> Path | None:
        """A path as written: from the file it stands in, or from the suite's folder when it is only there."""
        text = self.text(key)
        if text is None:
            return None
        if any(len(os.fsencode(step)) > _LONGEST_NAME for step in text.split("/")):
            raise self.error(key, "is too long for a path")
        bases = (self.here, self.loading.folder)
        own, suite = (Path(os.path.normpath(base / os.path.expanduser(text))) for base in bases)  # noqa: PTH111 — Path.expanduser raises for an unknown user
        return suite if suite != own and suite.exists() and not own.exists() else own

    @property
    def here(self) -> Path:
        """The folder of the file this stands in."""
        return self.cursor.source.path.absolute().parent

    def checked_inside(self, key: str, path: Path) -> Path:
        if not self.loading.roots.holds(path):
            listed = ", ".join(show_path(root) for root in self.loading.roots.roots)
            raise self.error(key, f"'{show_path(path)}' lies outside of the suite's folder and search roots ({listed})")
        return path


def _external(name: str, path: FieldPath, source: Source, loading: WorkspaceLoading) -> tuple[Any, Source]:
    """The mapping in a YAML file that the suite names in place of one, and where its errors stand."""
    cursor = FieldCursor(source, path[:-1])
    key: Any = path[-1] if path else "workspace"
    holder = _Part({key: name.removeprefix("file://")}, cursor, loading)
    file = holder.location(key)
    assert file is not None
    shown = show_path(file)
    if file.is_dir():
        raise holder.error(key, f"'{shown}' is a folder; to begin as its copy, write 'template: {name}' below it")
    holder.checked_inside(key, file)
    try:
        return loading.document(file)
    except UnicodeDecodeError:
        raise holder.error(key, f"workspace file '{shown}' is not UTF-8 text") from None
    except OSError as error:
        raise holder.error(key, f"workspace file '{shown}' cannot be read: {error.strerror}") from None


def _spec(part: _Part) -> WorkspaceSpec:
    for key, cure in _CURES.items():
        if key in part.raw:
            raise part.error(key, f"'{key}' is no longer a field: {cure}")
    part.notice_unknown(WORKSPACE)
    template, hooks = _template(part), part.part("hooks")
    isolation = fields.choice(part.raw, "isolation", part.cursor, _ISOLATIONS)
    said: dict[str, Any] = {
        "template": template,
        "files": _files(part) if part.has("files") else None,
        "isolation": _ISOLATIONS[isolation] if isolation is not None else None,
        "mode": fields.choice(part.raw, "mode", part.cursor, _MODES),
        "path": _static_path(part),
        "repositories": _repositories(part) if part.has("repos") else None,
        "hooks": _hooks(hooks) or None,
        "hooks_enabled": fields.flag(hooks.raw, "enabled", hooks.cursor),
    }
    given = {name: value for name, value in said.items() if value is not None}
    content = part.loading.content_of(template) if template is not None else {}
    return with_usual_mode(WorkspaceSpec(folder=part.loading.folder, content=content, **given, given=frozenset(given)))


def _template(part: _Part) -> Path | None:
    folder = part.location("template")
    if folder is None:
        return None
    if folder.suffix == ".code-workspace" and folder.is_file():
        folder = folder.parent
    part.checked_inside("template", folder)
    if not folder.is_dir():
        raise part.error("template", f"no folder '{show_path(folder)}'")
    try:
        part.loading.content_of(folder)
    except OSError as error:
        raise part.error("template", f"'{error.filename}' cannot be read: {error.strerror}") from None
    return folder


def _files(part: _Part) -> tuple[WorkspaceFile, ...]:
    """Files of the suite's: at the same place in the workspace, or, from above, at its top."""
    names = fields.texts(part.raw, "files", part.cursor)
    return tuple(
        _file(_Part({index: name}, part.cursor.at("files"), part.loading), index) for index, name in enumerate(names)
    )


def _file(part: _Part, index: Any) -> WorkspaceFile:
    origin = part.location(index)
    assert origin is not None
    part.checked_inside(index, origin)
    try:
        sha256 = file_fingerprint(origin)
    except OSError as error:
        raise part.error(index, f"file '{show_path(origin)}' cannot be read: {error.strerror}") from None
    place = PurePosixPath(os.path.normpath(part.raw[index]))
    below = not place.is_absolute() and ".." not in place.parts and not part.raw[index].startswith("~")
    return WorkspaceFile(path=str(place) if below else origin.name, origin=origin, sha256=sha256)


def _static_path(part: _Part) -> Path | None:
    folder = part.location("path")
    if folder is None:
        return None
    part.checked_inside("path", folder)
    if folder.exists() and not folder.is_dir():
        raise part.error("path", f"'{show_path(folder)}' is not a folder")
    return folder


def _repositories(part: _Part) -> tuple[Repository, ...]:
    value = part.raw["repos"]
    if not isinstance(value, list):
        raise part.error("repos", f"expected a list of repositories, got {fields.kind(value)}")
    found: dict[str, Repository] = {}
    for index, raw in enumerate(value):
        item = _Part(raw, part.cursor.at("repos", index), part.loading)
        repository = _repository(item)
        if repository.path in found:
            raise item.error("path", f"'{repository.path}' is taken by a repository above")
        found[repository.path] = repository
    return tuple(found.values())


def _repository(part: _Part) -> Repository:
    part.notice_unknown(REPOSITORY)
    checkout, clone = part.part("checkout"), part.part("clone")
    checkout.notice_unknown(CHECKOUT)
    clone.notice_unknown(CLONE)
    url, local = _origin(part.part("source"))
    depth, ancestor = fields.count(clone.raw, "depth", clone.cursor), _ancestor(checkout)
    resolve = fields.choice(checkout.raw, "resolve", checkout.cursor, ("remote", "local"))
    if local and resolve is not None:
        checkout.notice("resolve", "has no effect on a local repository")
    if depth is not None and depth < ancestor + 1:
        clone.notice("depth", f"does not reach back to ancestor {ancestor}: as many commits as needed are fetched")
    return Repository(
        path=_path_below(part),
        url=url,
        local=local,
        ref=checkout.argument("ref"),
        resolve="local" if resolve == "local" else "remote",
        ancestor=ancestor,
        depth=depth,
        filter=clone.argument("filter"),
        sparse=_sparse(clone),
    )


def _ancestor(part: _Part) -> int:
    return 0 if str(part.raw.get("ancestor")) == "0" else fields.count(part.raw, "ancestor", part.cursor) or 0


def _sparse(part: _Part) -> tuple[str, ...]:
    paths = fields.texts(part.raw, "sparse", part.cursor)
    if any(not path.strip() or path.startswith("-") or "\n" in path or not _is_sayable(path) for path in paths):
        raise part.error("sparse", "expected a list of folders or patterns of the repository")
    return paths


def _origin(part: _Part) -> tuple[str, bool]:
    kind = fields.choice(part.raw, "type", part.cursor, ("git", "local"))
    if kind is None:
        raise part.error("type", "expected one of git, local; got nothing")
    if kind == "git":
        url = part.needed_text("url", "the URL of a git repository")
        if url.startswith("-") or "::" in url.partition("/")[0]:
            raise part.error("url", f"'{url}' is no URL of a git repository")
        return url, False
    part.needed_text("path", "the path of a git repository")
    return str(part.location("path")), True


def _path_below(part: _Part) -> str:
    text = part.needed_text("path", "the place of the repository in the workspace, such as ./repo")
    path = PurePosixPath(os.path.normpath(text))
    if path.is_absolute() or ".." in path.parts or ".git" in path.parts:
        raise part.error("path", f"'{text}' is not a path below the workspace")
    return str(path)


def _hooks(part: _Part) -> dict[str, Hook]:
    part.notice_unknown(HOOKS_TABLE)
    return {name: _hook(part.part(name)) for name in HOOKS if part.has(name)}


def _hook(part: _Part) -> Hook:
    part.notice_unknown(HOOK)
    key = next((key for key in ("command", "script") if part.has(key)), None)
    command = _command(part, key) if key is not None else ()
    cwd = _hook_folder(part, command)
    timeout_ms = fields.positive(part.raw, "timeout_ms", part.cursor)
    reset = fields.choice(part.raw, "reset", part.cursor, _RESETS)
    return Hook(
        command=command,
        cwd=cwd,
        timeout_s=timeout_ms / 1000 if timeout_ms is not None else None,
        reset=reset,  # type: ignore[arg-type]
        scripts=_scripts(command, cwd or part.loading.folder, part.loading),
    )


def _command(part: _Part, key: str) -> tuple[str, ...]:
    """A program with its arguments: a list, or a text split on white space (no shell reads it)."""
    value = part.raw[key]
    if isinstance(value, str):
        words: list[Any] = re.sub(r"\{\{\s*(\w+)\s*\}\}", r"{{\1}}", value).split()
    else:
        words = value if isinstance(value, list) else []
    if not words or not all(_is_argument(word) for word in words):
        raise part.error(key, f"expected a program with its arguments (a list or a text), got {fields.kind(value)}")
    return tuple(str(word) for word in words)


def _is_argument(value: Any) -> bool:
    return _is_sayable(value) if isinstance(value, str) else fields.is_number(value)


def _is_sayable(text: str) -> bool:
    """Whether a text can be an argument or a path: no NUL, no half characters (JSON may hold such)."""
    return "\0" not in text and (text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text))


def _hook_folder(part: _Part, command: tuple[str, ...]) -> Path | None:
    """Where a hook runs; a command of a workspace file runs beside that file."""
    text = part.text("cwd")
    if text is not None:
        return Path(text) if text.startswith(WORKSPACE_PATH) else part.location("cwd")
    of_workspace_file = part.cursor.path[:1] == ("hooks",)
    return part.here if command and of_workspace_file and part.here != part.loading.folder else None


def _scripts(command: tuple[str, ...], folder: Path, loading: WorkspaceLoading) -> dict[str, str]:
    """The files of the suite that a command names: editing one makes what it prepares new."""
    words = [word for word in command if "{{" not in word and len(word) < _LONGEST_PATH]
    hashes = {word: loading.hash_of(word, str(folder)) for word in words}
    return {word: hash_ for word, hash_ in hashes.items() if hash_ is not None}


def _content(folder: Path) -> Iterator[tuple[str, str]]:
    """The files below a folder, without `.git`: SHA-256 (`x:` before that of a program), or where a link leads."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in sorted([*names, *links]):
            path = Path(parent) / name
            shown = path.relative_to(folder).as_posix()
            if path.is_symlink():
                yield shown, f"link:{path.readlink()}"
            elif path.is_file():
                yield shown, ("x:" if path.stat().st_mode & 0o100 else "") + file_fingerprint(path)


def _file_hash(path: Path) -> str | None:
    try:
        return file_fingerprint(path)
    except OSError:
        return None
