"""`repos` of a workspace section → Repositories."""

from __future__ import annotations

import os
import re
from pathlib import PurePosixPath

from eval_pipeline.formats.agentv.field_hints import misspelling_of, rename
from eval_pipeline.formats.agentv.workspace_fields import WorkspaceFields, is_argument_text
from eval_pipeline.parsing import fields
from eval_pipeline.suites.fields import CHECKOUT, CLONE, REPOSITORY
from eval_pipeline.suites.workspace import HISTORIES, History, Repository

_GITHUB_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*/[A-Za-z0-9_.-]+")
_PATH = re.compile(r"[/~]|\.\.?(/|\Z)")
_BY_SOURCE = ("source", "checkout", "clone")
_OTHER_NAMES = ("url", "git", "repository", "name")
_BY_NAME = ("commit", "base_commit", "ancestor", "sparse")


def read_repositories(part: WorkspaceFields) -> tuple[Repository, ...]:
    """The repositories of a workspace. Raises InputError at an invalid field."""
    value = part.raw["repos"]
    if not isinstance(value, list):
        raise part.error("repos", f"expected a list of repositories, got {fields.kind(value)}")
    repositories: dict[str, Repository] = {}
    for index, raw in enumerate(value):
        item = WorkspaceFields(raw, part.cursor.at("repos", index), part.loading)
        repository = _repository(item)
        if repository.path in repositories:
            raise item.error("path", f"'{repository.path}' is taken by a repository above")
        repositories[repository.path] = repository
    return tuple(repositories.values())


def _repository(part: WorkspaceFields) -> Repository:
    part.warn_of_unknown(REPOSITORY)
    return _by_name(part) if part.has("repo") else _by_source(part)


def _by_name(part: WorkspaceFields) -> Repository:
    """Return a repository by its name on GitHub (`owner/name`) or its URL, at a commit."""
    for key in _BY_SOURCE:
        if part.has(key):
            raise part.error(key, f"'{key}' goes with 'source'; beside 'repo' write commit, ancestor and sparse")
    repo = part.needed_text("repo", "the name of a repository on GitHub, its URL, or a path").strip()
    commit, base = part.argument("commit"), part.argument("base_commit")
    if commit is not None and base is not None and commit != base:
        raise part.error("base_commit", f"'{base}' is another commit than 'commit: {commit}'; leave one of them out")
    on_github = _GITHUB_NAME.fullmatch(repo) and not _PATH.match(repo)
    url, local = (f"https://github.com/{repo}.git", False) if on_github else _place(part, "repo", repo)
    return Repository(
        path=_path_below(part),
        url=url,
        local=local,
        ref=commit or base,
        ancestor=_ancestor(part),
        sparse=_sparse(part),
        history=_history(part),
    )


def _by_source(part: WorkspaceFields) -> Repository:
    if not part.has("source"):
        key = next((key for key in part.raw if key in _OTHER_NAMES), None)
        cure = rename("repo", key) if key is not None else misspelling_of("repo", part.raw, REPOSITORY.names)
        raise part.error("repo", f"a repository needs 'repo': its name on GitHub, its URL, or a path{cure}")
    for key in _BY_NAME:
        if part.has(key):
            raise part.error(key, f"'{key}' goes with 'repo', not with 'source'")
    checkout, clone = part.part("checkout"), part.part("clone")
    checkout.warn_of_unknown(CHECKOUT)
    clone.warn_of_unknown(CLONE)
    url, local = _origin(part.part("source"))
    depth, ancestor = fields.count(clone.raw, "depth", clone.cursor), _ancestor(checkout)
    resolve = fields.choice(checkout.raw, "resolve", checkout.cursor, ("remote", "local"))
    if local and resolve is not None:
        checkout.warn("resolve", "has no effect on a local repository")
    if depth is not None and depth < ancestor + 1:
        clone.warn("depth", f"does not reach back to ancestor {ancestor}: as many commits as needed are fetched")
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
        history=_history(part),
    )


def _history(part: WorkspaceFields) -> History:
    chosen = fields.choice(part.raw, "history", part.cursor, HISTORIES)
    return next((name for name in HISTORIES if name == chosen), "past")


def _ancestor(part: WorkspaceFields) -> int:
    return 0 if str(part.raw.get("ancestor")) == "0" else fields.count(part.raw, "ancestor", part.cursor) or 0


def _sparse(part: WorkspaceFields) -> tuple[str, ...]:
    paths = fields.texts(part.raw, "sparse", part.cursor)
    if any(not path.strip() or path.startswith("-") or "\n" in path or not is_argument_text(path) for path in paths):
        raise part.error("sparse", "expected a list of folders or patterns of the repository")
    return paths


def _origin(part: WorkspaceFields) -> tuple[str, bool]:
    kind = fields.choice(part.raw, "type", part.cursor, ("git", "local"))
    if kind is None:
        raise part.error("type", "expected one of git, local; got nothing")
    if kind == "git":
        return _place(part, "url", part.needed_text("url", "the URL of a git repository"))
    part.needed_text("path", "the path of a git repository")
    return str(part.location("path")), True


def _place(part: WorkspaceFields, key: str, url: str) -> tuple[str, bool]:
    """Return a URL, or the path that is written in its place, and whether it is a path (relative to its file)."""
    if url.startswith("-") or "::" in url.partition("/")[0]:
        raise part.error(key, f"'{url}' is no URL of a git repository")
    return (str(part.location(key)), True) if _PATH.match(url) else (url, False)


def _path_below(part: WorkspaceFields) -> str:
    text = part.needed_text("path", "the place of the repository in the workspace, such as ./repo")
    path = PurePosixPath(os.path.normpath(text))
    if path.is_absolute() or ".." in path.parts or ".git" in path.parts:
        raise part.error("path", f"'{text}' is not a path below the workspace")
    return str(path)
