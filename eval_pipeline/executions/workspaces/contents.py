"""The content of workspaces that is outside of a suite's files: local repositories, and folders of the user that
targets work in (mode `static`).

A target changes a static folder, which must not make its own answers stale. Therefore a sweep records how it left the
folder: as long as nobody else changes it, it counts as it was before the sweep. After a killed sweep, changes of
the target and of the user cannot be told apart; then all of them count as the target's.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from eval_pipeline.executions.workspaces.git import rev_parse
from eval_pipeline.fingerprints import file_fingerprint, fingerprint
from eval_pipeline.suites.workspace import Repository, WorkspaceSpec

_Files = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class WorkspaceContents:
    """The content of workspaces as a sweep finds it, each looked at once. `records` is a folder of the data folder."""

    records: Path
    _known: dict[int, tuple[WorkspaceSpec, object]] = field(default_factory=dict)
    _folders: dict[Path, str] = field(default_factory=dict)
    _commits: dict[Repository, str | None] = field(default_factory=dict)
    _begun: set[Path] = field(default_factory=set)

    def of(self, spec: WorkspaceSpec) -> object:
        """Return the content of a workspace beside what its spec has; None when there is none."""
        known = self._known.get(id(spec))
        if known is None or known[0] is not spec:
            known = self._known[id(spec)] = (spec, self._content(spec))
        return known[1]

    def begin(self, spec: WorkspaceSpec) -> None:
        """Record that targets begin to work in the folder of a static workspace."""
        folder = spec.path
        if spec.mode == "static" and folder is not None and folder not in self._begun:
            self._begun.add(folder)
            self._write(folder, {**self._record(folder), "content": self._folder(folder), "under_way": True})

    def end(self) -> None:
        """Record how targets left the static folders that they worked in."""
        while self._begun:
            folder = self._begun.pop()
            record = self._record(folder)
            files = _scanned(folder, record.get("files") or {})
            self._write(folder, {**record, "files": files, "left": _digest(files), "under_way": False})

    def _content(self, spec: WorkspaceSpec) -> object:
        commits = [[item.path, self._commit(item)] for item in spec.repositories if item.local]
        folder = self._folder(spec.path) if spec.mode == "static" and spec.path is not None else None
        return [commits, folder] if commits or folder is not None else None

    def _folder(self, folder: Path) -> str:
        if folder not in self._folders:
            self._folders[folder] = self._content_of_folder(folder)
        return self._folders[folder]

    def _content_of_folder(self, folder: Path) -> str:
        record = self._record(folder)
        if record.get("under_way"):
            return str(record["content"])
        content = _digest(_scanned(folder, record.get("files") or {}))
        return str(record["content"]) if content == record.get("left") else content

    def _commit(self, repository: Repository) -> str | None:
        if repository not in self._commits:
            self._commits[repository] = _commit_of(repository)
        return self._commits[repository]

    def _record(self, folder: Path) -> dict[str, Any]:
        try:
            record = orjson.loads(self._file(folder).read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        return record if isinstance(record, dict) else {}

    def _write(self, folder: Path, record: dict[str, Any]) -> None:
        file = self._file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_suffix(".tmp")
        scratch.write_bytes(orjson.dumps(record))
        scratch.replace(file)

    def _file(self, folder: Path) -> Path:
        return self.records / f"{fingerprint(str(folder))[:24]}.json"


def _scanned(folder: Path, known: _Files) -> _Files:
    """Return size, time and fingerprint of each file below a folder; one with the known size and time is not read.

    Of a git repository the commit counts, not its own files.
    """
    files: _Files = {}
    for path, shown in _files_below(folder):
        try:
            written = path.lstat()
            entry = known.get(shown)
            if entry is not None and entry[:2] == [written.st_size, written.st_mtime_ns]:
                files[shown] = entry
            else:
                content = str(path.readlink()) if path.is_symlink() else file_fingerprint(path)
                files[shown] = [written.st_size, written.st_mtime_ns, content]
        except OSError:
            continue  # gone meanwhile, or not readable for a target either
    return files


def _files_below(folder: Path) -> Iterator[tuple[Path, str]]:
    for parent, folders, names in os.walk(folder):
        top = Path(parent)
        if ".git" in folders:
            folders.remove(".git")
            names.append(".git/HEAD")
        linked = [name for name in folders if (top / name).is_symlink()]
        for name in (*names, *linked):
            path = top / name
            if path.is_symlink() or path.is_file():
                yield path, path.relative_to(folder).as_posix()


def _digest(files: _Files) -> str:
    digest = hashlib.sha256()
    for shown in sorted(files):
        digest.update(f"{shown}\0{files[shown][2]}\n".encode(errors="surrogatepass"))
    return digest.hexdigest()


def _commit_of(repository: Repository) -> str | None:
    """The commit that a clone of a local repository gets; None when there is none."""
    names = ["HEAD"] if repository.ref is None else [f"refs/heads/{repository.ref}", repository.ref]
    for name in names if repository.resolve != "local" else reversed(names):
        commit = rev_parse(repository.url, f"{name}~{repository.ancestor}" if repository.ancestor else name)
        if commit is not None:
            return commit
    return None
