"""The workspace of a case, as a suite declares it. Values only; no folder is created here.

`workspace_reading.py` reads them from a suite's YAML, `executions/workspaces` makes such folders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

from eval_pipeline.fingerprints import fingerprint

Isolation = Literal["shared", "per_case"]
Changes = Literal["case", "all"]
Mode = Literal["temp", "pooled", "static"]
History = Literal["none", "past", "all"]
HISTORIES: tuple[History, ...] = ("none", "past", "all")
Reset = Literal["none", "fast", "strict"]
PREPARING_HOOKS = ("before_all", "before_each")
HOOKS = (*PREPARING_HOOKS, "after_each", "after_all")
WORKSPACE_PATH = "{{workspace_path}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A command of the suite's author that prepares or cleans up a workspace.

    `command` is a list of arguments, empty for a hook that only resets; `scripts` are the SHA-256 of the suite's files
    that it names. `cwd` is None for the suite's folder, and may begin with `{{workspace_path}}`. `timeout_s` is None
    for the default of its kind (60 s before, 30 s after). `reset` restores the repositories first: `fast` keeps
    ignored files, `strict` does not. `env` are further variables, with the placeholders of a command. A `bootstrap`
    that fails has a failure class of its own.
    """

    command: tuple[str, ...] = ()
    cwd: Path | None = None
    timeout_s: float | None = None
    reset: Reset | None = None
    scripts: Mapping[str, str] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    bootstrap: bool = False

    @property
    def resets(self) -> bool:
        return self.reset not in (None, "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A git repository in the workspace, at `path` below it, from `url` (or a local path), at `ref`.

    `ancestor` goes that many commits back from `ref`. `resolve` is whether `ref` is looked up in the remote or in
    the local clone. `depth`, `filter` and `sparse` are git's own. `history` is what a target sees of other commits:
    none, those before its own (neither later ones, nor tags, other branches, the address), or all.
    """

    path: str
    url: str
    local: bool = False
    ref: str | None = None
    resolve: Literal["remote", "local"] = "remote"
    ancestor: int = 0
    depth: int | None = None
    filter: str | None = None
    sparse: tuple[str, ...] = ()
    history: History = "past"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceFile:
    """A file copied into a workspace: its path there, its source, its SHA-256."""

    path: str
    origin: Path
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a machine must have to carry out a case: commands on its PATH, modules that its `python3` can import."""

    commands: tuple[str, ...] = ()
    python_modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSpec:
    """The workspace of a case.

    `template` is a folder to copy; `content` maps its files to their SHA-256; `files` are copied afterwards.
    `isolation` is one workspace for all cases of a suite × runner, or one for each. `mode` is a temporary folder, a
    pooled one that later sweeps reuse, or the folder `path` itself. `folder` is the suite's, where hooks run;
    `hooks_enabled` False disables every hook. `own_setup` marks a case with its own before_all hook, which receives
    the case's metadata. `changes` are those that a shared workspace shows of a case: its own, or all since the first
    case (see `adds_up`). `runner_hooks` are those of the runner that works in it: inside of its own, `before_all`
    after and `after_all` before them. `given` names the fields present in the file: those of a case override its
    suite's. `requirements` are checked first and are no part of fingerprints: they change no file.
    """

    folder: Path
    template: Path | None = None
    content: Mapping[str, str] = field(default_factory=dict)
    files: tuple[WorkspaceFile, ...] = ()
    isolation: Isolation = "shared"
    mode: Mode = "temp"
    path: Path | None = None
    repositories: tuple[Repository, ...] = ()
    hooks: Mapping[str, Hook] = field(default_factory=dict)
    hooks_enabled: bool = True
    own_setup: bool = False
    requirements: Requirements = Requirements()
    changes: Changes = "case"
    runner_hooks: Mapping[str, Hook] = field(default_factory=dict)
    given: frozenset[str] = field(default=frozenset(), compare=False)
    _known: dict[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def hook(self, name: str) -> Hook | None:
        """Return the hook of this name, if it exists and hooks are enabled."""
        return self.hooks.get(name) if self.hooks_enabled else None

    def for_runner(self, hooks: Mapping[str, Hook]) -> WorkspaceSpec:
        """Return the workspace with the hooks of the runner that works in it."""
        return replace(self, runner_hooks=hooks)

    @property
    def tells_of_case(self) -> bool:
        """Whether a hook that prepares it receives the case's id, question and metadata, and may depend on them."""
        of_one = self.isolation == "per_case" or self.own_setup
        names = ("before_all", "before_each") if of_one else ("before_each",)
        return any(self._has_command(name) for name in names)

    @property
    def adds_up(self) -> bool:
        """Whether a case shows all changes since the first one. A case that a command of its own `before_each` prepares
        begins anew, unless the suite chose all changes."""
        return self.changes == "all" and ("changes" in self.given or not self._has_command("before_each"))

    def _has_command(self, hook: str) -> bool:
        """Return whether a hook of this name, of the suite or of the runner, has a command."""
        hooks = (self.hook(hook), self.runner_hooks.get(hook))
        return any(each.command for each in hooks if each is not None)

    def fingerprint_fields(self) -> object:
        """The fields for fingerprints: everything that determines the files a target sees."""
        return self._once("visible", self._fingerprint)

    @property
    def setup_key(self) -> str:
        """Return a key that is equal for cases with the same workspace and preparation, which can share one."""
        return self._once("setup", self._setup_key)

    def _once(self, name: str, find: Callable[[], str]) -> str:
        """Cached: the cases of a suite share one spec, and a template may have many files."""
        if name not in self._known:
            self._known[name] = find()
        return self._known[name]

    def _fingerprint(self) -> str:
        after = self.hook("after_each")
        before = [hook for name in ("before_all", "before_each") if (hook := self.hook(name)) is not None]
        return fingerprint(
            [
                dict(self.content) if self.template else None,
                [[file.path, file.sha256] for file in self.files],
                self.isolation,
                self._shown(str(self.path)) if self.path else None,
                [self._repository_fields(item) for item in self.repositories],
                [self._hook_fields(hook) for hook in before],
                after.reset if after is not None else None,
                *([self.changes] if "changes" in self.given else []),
                *(["begins anew"] if self.changes == "all" and not self.adds_up else []),
                *([self._of_runner("before_all", "before_each")] if self.runner_hooks else []),
            ]
        )

    def _repository_fields(self, item: Repository) -> dict[str, Any]:
        """Return the fields of a repository; the usual history is no part of identities, which are older."""
        values = {each.name: getattr(item, each.name) for each in fields(item)}
        if item.local:
            values["url"] = self._shown(item.url)
        return {name: value for name, value in values.items() if (name, value) != ("history", "past")}

    def _setup_key(self) -> str:
        around = [self.hook("before_all"), self.hook("after_all")]
        places = [str(self.folder), str(self.template), str(self.path)]
        made_of = [dict(self.content), self.files, self.isolation, self.mode, self.repositories]
        of_runner = [self._of_runner("before_all", "after_all")] if self.runner_hooks else []
        return fingerprint([places, made_of, around, *of_runner])

    def _of_runner(self, *names: str) -> list[object]:
        hooks = [hook for name in names if (hook := self.runner_hooks.get(name)) is not None]
        return [[hook.command, dict(hook.scripts), *self._cwd_of(hook)] for hook in hooks]

    def _hook_fields(self, hook: Hook) -> list[object]:
        """Return the fields of a hook; those of files below the suite's folder do not depend on where that is."""
        words = list(hook.command)
        if hook.bootstrap:
            words = [self._shown(word) if word.startswith(f"{self.folder}{os.sep}") else word for word in words]
        fields_: list[object] = [words, dict(hook.scripts), hook.reset, *self._cwd_of(hook)]
        return [*fields_, dict(hook.env)] if hook.env else fields_

    def _cwd_of(self, hook: Hook) -> list[str]:
        """Return the folder of a hook; None for the suite's folder."""
        if hook.cwd is None:
            return []
        cwd = str(hook.cwd)
        return [cwd if cwd.startswith(WORKSPACE_PATH) else self._shown(cwd)]

    def _shown(self, path: str) -> str:
        """Return a path that does not depend on the location of the suite's folder."""
        return os.path.relpath(path, self.folder)


def merged(suite: WorkspaceSpec, case: WorkspaceSpec) -> WorkspaceSpec:
    """Return the suite's workspace overridden by the fields of the case; hooks are merged field by field."""
    taken = {name: getattr(case, name) for name in case.given - {"hooks"}}
    if "template" in taken:
        taken["content"] = case.content
    if "mode" in taken and "path" not in taken and case.mode != "static":
        taken["path"] = None
    hooks = {**suite.hooks, **{name: _merged_hook(suite.hooks.get(name), hook) for name, hook in case.hooks.items()}}
    own_setup = "before_all" in case.hooks
    spec = replace(suite, **taken, hooks=hooks, given=suite.given | case.given, own_setup=own_setup)
    return with_usual_mode(spec)


def _merged_hook(suite: Hook | None, case: Hook) -> Hook:
    if suite is None:
        return case
    written = {item.name: value for item in fields(Hook) if (value := getattr(case, item.name)) not in (None, (), {})}
    if case.command:
        written["scripts"] = case.scripts
    return replace(suite, **written)


def with_usual_mode(spec: WorkspaceSpec) -> WorkspaceSpec:
    """Return the spec with the default mode where none is written: a pool for repositories that all cases share."""
    pooled = spec.repositories and spec.isolation == "shared"
    usual: Mode = "static" if spec.path is not None else "pooled" if pooled else "temp"
    return spec if "mode" in spec.given or spec.mode == usual else replace(spec, mode=usual)
