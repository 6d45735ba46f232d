"""A workspace section of a suite's YAML → WorkspaceSpec.

Source of the meaning: AgentV's workspace section. Every problem is an InputError of its field; a problem
without consequences is a warning.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.formats.agentv.workspace_fields import (
    LONGEST_PATH,
    WorkspaceFields,
    WorkspaceLoading,
    is_argument_text,
)
from eval_pipeline.formats.agentv.workspace_repositories import read_repositories
from eval_pipeline.parsing import fields
from eval_pipeline.parsing.diagnostics import first_of_each
from eval_pipeline.parsing.fields import FieldCursor
from eval_pipeline.parsing.source import FieldPath, Source, show_path
from eval_pipeline.suites.fields import HOOK, REQUIREMENTS, WORKSPACE
from eval_pipeline.suites.fields import HOOKS as HOOKS_TABLE
from eval_pipeline.suites.workspace import (
    HOOKS,
    WORKSPACE_PATH,
    Hook,
    Requirements,
    WorkspaceFile,
    WorkspaceSpec,
    merged,
    with_usual_mode,
)

_CURES = {
    "static_path": "'static_path' is no longer a field: write 'path' instead (mode: static)",
    "static": "'static' is no longer a field: write 'mode: static' with a 'path' instead",
    "pool": "'pool' is no longer a field: write 'mode: pooled' instead",
    "docker": "workspaces in containers are not supported; nothing is run on this machine instead",
}
_ISOLATIONS = {"shared": "shared", "per_test": "per_case", "per_case": "per_case"}
_CHANGES = {"all": "all", "case": "case"}
_MODES = ("pooled", "temp", "static")
_RESETS = ("none", "fast", "strict")


def read_workspace(raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading) -> WorkspaceSpec:
    """Return the workspace of a suite: `raw` is a mapping, or the name of a YAML file with one.

    `path` is its field path in `source`. Relative paths start at the file that has them, or at the suite's
    folder. Raises InputError at an invalid field.
    """
    return _checked(_read(raw, path, source, loading), path, source, loading)


def read_case_workspace(
    raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading, suite: WorkspaceSpec | None = None
) -> WorkspaceSpec:
    """The workspace of a case, over its suite's (see `read_workspace` and `merged`)."""
    case = _read(raw, path, source, loading)
    spec = merged(suite, case) if suite is not None else replace(case, own_setup="before_all" in case.hooks)
    return _checked(spec, path, source, loading, remarks=bool(case.given & {"hooks", "repositories", "isolation"}))


def _read(raw: Any, path: FieldPath, source: Source, loading: WorkspaceLoading) -> WorkspaceSpec:
    if isinstance(raw, str):
        raw, source = _external(raw, path, source, loading)
        path = ()
    return _spec(WorkspaceFields(raw, FieldCursor(source, path), loading))


def _checked(
    spec: WorkspaceSpec, path: FieldPath, source: Source, loading: WorkspaceLoading, *, remarks: bool = True
) -> WorkspaceSpec:
    """Return the spec after checking its fields against each other."""
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


def _external(name: str, path: FieldPath, source: Source, loading: WorkspaceLoading) -> tuple[Any, Source]:
    """Return the mapping in a named YAML file, and the source for its errors."""
    cursor = FieldCursor(source, path[:-1])
    key: Any = path[-1] if path else "workspace"
    holder = WorkspaceFields({key: name.removeprefix("file://")}, cursor, loading)
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


def read_runner_hooks(raw: Any, cursor: FieldCursor, loading: WorkspaceLoading) -> dict[str, Hook]:
    """Return the hooks of a target: a command that is a text is a shell line. Raises InputError."""
    part = WorkspaceFields(raw, cursor, loading)
    lines = {name: _as_shell_line(part.raw[name]) for name in HOOKS if part.has(name)}
    hooks = _hooks(WorkspaceFields({**part.raw, **lines}, cursor, loading))
    for name in (name for name, hook in hooks.items() if hook.reset is not None):
        part.part(name).warn("reset", "has no effect in a hook of a target; ignored")
    return {name: replace(hook, reset=None) for name, hook in hooks.items() if hook.command}


def _as_shell_line(hook: Any) -> Any:
    key = next((key for key in ("command", "script") if isinstance(hook, Mapping) and key in hook), None)
    return {**hook, key: ["sh", "-c", hook[key]]} if key is not None and isinstance(hook[key], str) else hook


def _spec(part: WorkspaceFields) -> WorkspaceSpec:
    for key, cure in _CURES.items():
        if key in part.raw:
            raise part.error(key, cure)
    part.warn_of_unknown(WORKSPACE)
    given = _given(part)
    usual = {"changes": "all"}
    content = part.loading.content_of(given["template"]) if "template" in given else {}
    spec = with_usual_mode(
        WorkspaceSpec(folder=part.loading.folder, content=content, **{**usual, **given}, given=frozenset(given))
    )
    if spec.mode == "pooled" and "mode" not in given and not part.loading.pooled:
        return replace(spec, mode="temp", given=spec.given | {"mode"})
    return spec


_READERS: Mapping[str, Callable[[WorkspaceFields], Any]] = {
    "template": lambda part: _template(part),
    "files": lambda part: _files(part) if part.has("files") else None,
    "isolation": lambda part: _ISOLATIONS.get(fields.choice(part.raw, "isolation", part.cursor, _ISOLATIONS) or ""),
    "changes": lambda part: fields.choice(part.raw, "file_changes", part.cursor, _CHANGES),
    "mode": lambda part: fields.choice(part.raw, "mode", part.cursor, _MODES),
    "path": lambda part: _static_path(part),
    "repositories": lambda part: read_repositories(part) if part.has("repos") else None,
    "hooks": lambda part: _hooks(part.part("hooks")) or None,
    "hooks_enabled": lambda part: fields.flag(part.part("hooks").raw, "enabled", part.part("hooks").cursor),
    "requirements": lambda part: _requirements(part.part("env")) if part.has("env") else None,
}


def _given(part: WorkspaceFields) -> dict[str, Any]:
    """Return the fields that are given. Raises InputError with all problems."""
    given: dict[str, Any] = {}
    errors: list[InputError] = []
    for name, read in _READERS.items():
        try:
            given[name] = read(part)
        except InputError as error:
            errors.append(error)
    if errors:
        raise first_of_each(errors)
    return {name: value for name, value in given.items() if value is not None}


def _requirements(part: WorkspaceFields) -> Requirements:
    part.warn_of_unknown(REQUIREMENTS)
    commands = fields.texts(part.raw, "required_commands", part.cursor)
    modules = fields.texts(part.raw, "required_python_modules", part.cursor)
    for module in modules:
        if not all(step.isidentifier() for step in module.split(".")):
            raise part.error("required_python_modules", f"'{module}' is not the name of a Python module")
    return Requirements(commands=commands, python_modules=modules)


def _template(part: WorkspaceFields) -> Path | None:
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


def _files(part: WorkspaceFields) -> tuple[WorkspaceFile, ...]:
    """Return the suite's files: at the same path in the workspace, or at its top for files above the suite."""
    names = fields.texts(part.raw, "files", part.cursor)
    return tuple(
        _file(WorkspaceFields({index: name}, part.cursor.at("files"), part.loading), index)
        for index, name in enumerate(names)
    )


def _file(part: WorkspaceFields, index: Any) -> WorkspaceFile:
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


def _static_path(part: WorkspaceFields) -> Path | None:
    folder = part.location("path")
    if folder is None:
        return None
    part.checked_inside("path", folder)
    if folder.exists() and not folder.is_dir():
        raise part.error("path", f"'{show_path(folder)}' is not a folder")
    return folder


def _hooks(part: WorkspaceFields) -> dict[str, Hook]:
    part.warn_of_unknown(HOOKS_TABLE)
    return {name: _hook(part.part(name)) for name in HOOKS if part.has(name)}


def _hook(part: WorkspaceFields) -> Hook:
    part.warn_of_unknown(HOOK)
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


def _command(part: WorkspaceFields, key: str) -> tuple[str, ...]:
    """Return a program with its arguments: a list, or a text split on white space (no shell is involved)."""
    value = part.raw[key]
    if isinstance(value, str):
        words: list[Any] = re.sub(r"\{\{\s*(\w+)\s*\}\}", r"{{\1}}", value).split()
    else:
        words = value if isinstance(value, list) else []
    if not words or not all(_is_argument(word) for word in words):
        raise part.error(key, f"expected a program with its arguments (a list or a text), got {fields.kind(value)}")
    return tuple(str(word) for word in words)


def _is_argument(value: Any) -> bool:
    return is_argument_text(value) if isinstance(value, str) else fields.is_number(value)


def _hook_folder(part: WorkspaceFields, command: tuple[str, ...]) -> Path | None:
    """Return the folder of a hook; a command in a workspace file runs in that file's folder."""
    text = part.text("cwd")
    if text is not None:
        return Path(text) if text.startswith(WORKSPACE_PATH) else part.location("cwd")
    of_workspace_file = part.cursor.path[:1] == ("hooks",)
    return part.here if command and of_workspace_file and part.here != part.loading.folder else None


def _scripts(command: tuple[str, ...], folder: Path, loading: WorkspaceLoading) -> dict[str, str]:
    """Return fingerprints of the suite's files that a command names: editing one invalidates prepared workspaces."""
    words = [word for word in command if "{{" not in word and len(word) < LONGEST_PATH]
    hashes = {word: loading.hash_of(word, str(folder)) for word in words}
    return {word: hash_ for word, hash_ in hashes.items() if hash_ is not None}
