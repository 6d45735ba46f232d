"""skillgym's workspaces → ours: `none` is none or a static folder, `shared` one folder for all cases, `isolated` one
for each; `bootstrap` is a hook before all cases, or before each.

Names of fields are read in snake case and in camel case. The `cwd` of the page's `shared` is a static folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation, did_you_mean
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.workspace import WORKSPACE_PATH, Hook, WorkspaceSpec

MODES = ("none", "shared", "isolated")
BOOTSTRAP_LIMIT_S = 120.0
_ALLOWED = {
    "none": ("mode", "cwd"),
    "shared": ("mode", "cwd", "template_dir", "bootstrap"),
    "isolated": ("mode", "template_dir", "bootstrap"),
}
_BOOTSTRAP = ("command", "args", "timeout_ms", "env")
_ENVIRONMENT = {
    "SKILLGYM_WORKSPACE": WORKSPACE_PATH,
    "SKILLGYM_OUTPUT_DIR": "{{output_dir}}",
    "SKILLGYM_ARTIFACT_DIR": "{{artifact_dir}}",
}
_OF_CASE = {"SKILLGYM_CASE_ID": "{{test_id}}", "SKILLGYM_RUNNER_ID": "{{runner_id}}"}
"""Variables of the bootstrap of an isolated workspace; a shared one is prepared for no case."""
_PATH_LIKE = re.compile(r"^\.{1,2}($|[/\\])")


def snake_case(value: Any) -> Any:
    """Return a mapping with its keys in snake case."""
    if not isinstance(value, Mapping):
        return value
    return {re.sub(r"(?<=[a-z])([A-Z])", r"_\1", str(name)).lower(): item for name, item in value.items()}


def read_workspace(raw: Any, file: Path, field: str = "workspace") -> WorkspaceSpec | None:
    """Return the workspace of a suite; None for the folder that runners work in anyway. Raises InputError."""
    if raw is None:
        return None
    reader = _Reader(file, field)
    fields = snake_case(raw)
    if not isinstance(fields, Mapping):
        raise reader.error("expected a mapping", None)
    mode = fields.get("mode")
    if mode not in MODES:
        raise reader.error(f"expected one of {', '.join(MODES)}, got {mode!r}", "mode")
    reader.check_names(fields, _ALLOWED[mode], f"mode {mode!r}")
    return reader.spec(mode, fields)


class _Reader:
    """Reads a workspace, with the place of what is wrong."""

    def __init__(self, file: Path, field: str) -> None:
        self._file = file
        self._field = field

    def error(self, problem: str, name: str | None) -> InputError:
        field = f"{self._field}.{name}" if name else self._field
        return InputError(problem, SourceLocation(show_path(self._file), field=field))

    def check_names(self, fields: Mapping[str, Any], known: tuple[str, ...], where: str, prefix: str = "") -> None:
        for name in fields:
            if name not in known:
                hint = did_you_mean(name, known)
                raise self.error(f"is no field of {where}; there are: {', '.join(known)}{hint}", prefix + name)

    def spec(self, mode: str, fields: Mapping[str, Any]) -> WorkspaceSpec | None:
        folder = self._file.parent.absolute()
        cwd = self._path(fields.get("cwd"), "cwd")
        if mode == "none" and cwd is None:
            return None
        hooks = {}
        if fields.get("bootstrap") is not None:
            hooks["before_each" if mode == "isolated" else "before_all"] = self._bootstrap(
                fields["bootstrap"], _OF_CASE if mode == "isolated" else {}
            )
        if cwd is not None:
            if fields.get("template_dir") is not None:
                raise self.error("is the folder to work in itself: it takes no template_dir", "cwd")
            given = frozenset({"mode", "path"})
            return WorkspaceSpec(folder=folder, mode="static", path=cwd, hooks=hooks, given=given)
        template = self._path(fields.get("template_dir"), "template_dir")
        if template is not None and not template.is_dir():
            raise self.error(f"no folder '{show_path(template)}'", "template_dir")
        return WorkspaceSpec(
            folder=folder,
            template=template,
            content={} if template is None else self._content(template),
            isolation="per_case" if mode == "isolated" else "shared",
            hooks=hooks,
            given=frozenset({"isolation"}),
        )

    def _path(self, value: Any, name: str) -> Path | None:
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.error(f"expected a text that is not empty, got {value!r}", name)
        return Path(os.path.normpath(self._file.parent.absolute() / value))

    def _content(self, template: Path) -> dict[str, str]:
        try:
            files = sorted(path for path in template.rglob("*") if path.is_file() and not path.is_symlink())
            return {path.relative_to(template).as_posix(): file_fingerprint(path) for path in files}
        except OSError as error:
            raise self.error(f"'{error.filename}' cannot be read: {error.strerror}", "template_dir") from None

    def _bootstrap(self, raw: Any, of_case: Mapping[str, str]) -> Hook:
        fields = snake_case(raw)
        if not isinstance(fields, Mapping):
            raise self.error("expected a mapping", "bootstrap")
        self.check_names(fields, _BOOTSTRAP, "a bootstrap", "bootstrap.")
        command, arguments, limit = fields.get("command"), fields.get("args", []), fields.get("timeout_ms")
        if not isinstance(command, str) or not command.strip():
            raise self.error("expected a text that is not empty", "bootstrap.command")
        if not isinstance(arguments, (list, tuple)) or not all(isinstance(word, str) for word in arguments):
            raise self.error("expected a list of texts", "bootstrap.args")
        if limit is not None and (type(limit) is not int or limit < 1):
            raise self.error(f"expected a whole number of at least 1, got {limit!r}", "bootstrap.timeout_ms")
        environment = fields.get("env") or {}
        if not isinstance(environment, Mapping) or not all(isinstance(value, str) for value in environment.values()):
            raise self.error("expected a mapping of texts", "bootstrap.env")
        words = tuple(self._word(word) for word in (command, *arguments))
        scripts = {word: file_fingerprint(Path(word)) for word in words if Path(word).is_file() and word != command}
        return Hook(
            command=words,
            cwd=Path(WORKSPACE_PATH),
            timeout_s=BOOTSTRAP_LIMIT_S if limit is None else limit / 1000,
            scripts={os.path.relpath(word, self._file.parent): sha for word, sha in scripts.items()},
            env={**_ENVIRONMENT, **of_case, **environment},
            bootstrap=True,
        )

    def _word(self, word: str) -> str:
        """Return a word of a command; one that is written like a path is one of the suite's folder."""
        return os.path.normpath(self._file.parent.absolute() / word) if _PATH_LIKE.match(word) else word
