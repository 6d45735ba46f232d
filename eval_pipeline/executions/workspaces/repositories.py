"""Git repositories in a workspace: cloned at a commit, updated, and reset.

A complete clone lies beside the data; the workspace gets from it what the `history` of the repository allows, without
any trace of where it comes from.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from eval_pipeline.executions.threads import in_thread
from eval_pipeline.executions.workspaces.beneath import write_file
from eval_pipeline.executions.workspaces.git import GitFailure, git, without_password
from eval_pipeline.suites.workspace import Repository

_PATTERN = frozenset("*?[!")
_SETTINGS = ("config", "config.worktree", "shallow", "info/attributes", "info/exclude", "info/grafts",
             "info/sparse-checkout", "objects/info/alternates")  # fmt: skip
_REMOVED = ("index", "index.lock", "HEAD.lock", "config.lock")


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A repository at the requested commit; `branch` None: detached.

    `settings` are the files in `.git` that change what git does, by name; one that is not there must not be.
    """

    folder: Path
    commit: str
    branch: str | None
    settings: Mapping[str, str]


async def check_out(repository: Repository, folder: Path, source: Path | None = None) -> CheckedOut:
    """Clone a repository into a missing or empty folder. Raises GitFailure naming the repository.

    `source` is a missing folder for the complete clone; without one, the folder itself is complete.
    """
    try:
        if source is None or repository.history == "all":
            await _clone(repository, folder)
            return await _at_commit(repository, folder)
        await _clone(replace(repository, filter=None, sparse=()), source)
        await git("config", "uploadpack.allowAnySHA1InWant", "true", cwd=source)
        await _initialize(repository, folder)
        return await _from_source(repository, folder, source)
    except (GitFailure, OSError) as error:
        raise GitFailure(f"repository '{without_password(repository.url)}': {error}") from error


async def existing_checkout(folder: Path) -> CheckedOut | None:
    """Describe an existing repository. Returns None for a folder that is not one. Raises GitFailure."""
    if not (folder / ".git").is_dir():
        return None
    commit = await _commit(folder, "HEAD")
    if commit is None:
        return None
    try:
        branch = (await git("symbolic-ref", "--quiet", "--short", "HEAD", cwd=folder)).decode().strip()
    except GitFailure:
        branch = None
    return CheckedOut(folder, commit, branch, _settings(folder))


async def update_checkout(
    repository: Repository, folder: Path, settings: Mapping[str, str], source: Path
) -> CheckedOut:
    """Update an earlier clone to the commit that the suite requests now. Raises GitFailure naming the repository."""
    complete = folder if repository.history == "all" else source
    try:
        await _tidy(folder, settings, "HEAD")
        await git("reset", "--quiet", "--hard", cwd=folder)
        if repository.ref is None or not await _is_commit_name(complete, repository.ref):
            await git("fetch", "--quiet", "--tags", "--force", *_depth(repository), "origin", cwd=complete)
        if complete == folder:
            return await _at_commit(repository, folder)
        return await _from_source(repository, folder, source)
    except (GitFailure, OSError) as error:
        raise GitFailure(f"repository '{without_password(repository.url)}': {error}") from error


async def reset(at: CheckedOut, *, ignored: bool, keep: tuple[Path, ...] = ()) -> None:
    """Reset a repository to its commit and remove untracked files; ignored files are removed only if `ignored`.

    `keep` are nested repositories of the workspace. Raises GitFailure.
    """
    inside = [other.relative_to(at.folder).as_posix() for other in keep if other.is_relative_to(at.folder)]
    excluded = [word for name in inside if name != "." for word in ("--exclude", f"/{name}")]
    await _tidy(at.folder, at.settings, at.commit)
    to = ("-B", at.branch) if at.branch is not None else ("--detach",)
    await git("checkout", "--quiet", "--force", *to, at.commit, cwd=at.folder)
    await git("reset", "--quiet", "--hard", at.commit, cwd=at.folder)
    await git("clean", "--quiet", "-ff", "-d", *(("-x",) if ignored else ()), *excluded, cwd=at.folder)


def _settings(folder: Path) -> dict[str, str]:
    """Return the files in `.git` that change what git does."""
    files = {name: folder / ".git" / name for name in _SETTINGS}
    return {name: path.read_text(encoding="utf-8") for name, path in files.items() if path.is_file()}


async def _tidy(folder: Path, settings: Mapping[str, str], commit: str) -> None:
    """Undo what a checkout does not: changed settings, replaced objects, marks in the index, locks of a killed git.

    The index is made anew from a commit, since a file whose size and time are forged counts as unchanged in an old one.
    """
    await in_thread(_restore_settings, folder, settings)
    replaced = (await git("for-each-ref", "--format=delete %(refname)", "refs/replace", cwd=folder)).strip()
    if replaced:
        await git("update-ref", "--stdin", stdin=replaced + b"\n", cwd=folder)
    await git("read-tree", commit, cwd=folder)
    with contextlib.suppress(GitFailure):  # so it ends for a file that differs, which the reset replaces
        await git("update-index", "-q", "--refresh", cwd=folder)


def _restore_settings(folder: Path, settings: Mapping[str, str]) -> None:
    try:
        write_file(folder, ".git/config", settings["config"].encode())
        for name in {*_SETTINGS, *_REMOVED} - {"config"}:
            if name in settings:
                write_file(folder, f".git/{name}", settings[name].encode())
            else:
                (folder / ".git" / name).unlink(missing_ok=True)
    except OSError as error:
        raise GitFailure(f"'{folder.name}' is no longer a git repository: {error.strerror or error}") from error


async def _clone(repository: Repository, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    url = repository.url
    if repository.local and not Path(url).exists():
        raise GitFailure("no such folder")
    if repository.local and (repository.depth or repository.filter):
        url = Path(url).as_uri()  # git ignores both for a plain path
    partial = ("--filter", repository.filter) if repository.filter else ()
    options = ("--quiet", "--no-checkout", *_depth(repository), *partial)
    await git("clone", *options, "--", url, folder, cwd=folder.parent)
    await _set_sparse(repository, folder)


async def _set_sparse(repository: Repository, folder: Path) -> None:
    if repository.sparse:
        cone = "--no-cone" if any(not _PATTERN.isdisjoint(path) for path in repository.sparse) else "--cone"
        await git("sparse-checkout", "set", cone, *repository.sparse, cwd=folder)


async def _initialize(repository: Repository, folder: Path) -> None:
    """Make a repository without commits in a missing or empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise GitFailure(f"folder '{repository.path}' of the workspace is not empty")
    await git("init", "--quiet", "--initial-branch", "main", cwd=folder)
    await _set_sparse(repository, folder)


async def _from_source(repository: Repository, folder: Path, source: Path) -> CheckedOut:
    """Check out in a folder what is requested, with the commits that its history has, and nothing else."""
    branch, commit = await _resolve(repository, source)
    depth = ("--depth", "1") if repository.history == "none" else _depth(repository)
    wanted = ("--no-tags", "--no-write-fetch-head", "--update-shallow", *depth, source.as_uri(), commit)
    await git("fetch", "--quiet", *wanted, cwd=folder)
    checked_out = await _check_out_commit(folder, branch, commit)
    await in_thread(shutil.rmtree, folder / ".git" / "logs", ignore_errors=True)
    return checked_out


def _depth(repository: Repository) -> tuple[str, ...]:
    return ("--depth", str(max(repository.depth, repository.ancestor + 1))) if repository.depth else ()


async def _at_commit(repository: Repository, folder: Path) -> CheckedOut:
    return await _check_out_commit(folder, *await _resolve(repository, folder))


async def _resolve(repository: Repository, folder: Path) -> tuple[str | None, str]:
    """Return the requested branch (None: a tag or a commit) and commit, looked up in a complete clone."""
    branch, commit = await _resolve_ref(repository, folder)
    if repository.ancestor:
        return None, await _ancestor(folder, commit, repository.ancestor)
    return branch, commit


async def _check_out_commit(folder: Path, branch: str | None, commit: str) -> CheckedOut:
    to = ("-B", branch) if branch is not None else ("--detach",)
    await git("checkout", "--quiet", "--force", *to, commit, cwd=folder)
    return CheckedOut(folder, commit, branch, _settings(folder))


async def _resolve_ref(repository: Repository, folder: Path) -> tuple[str | None, str]:
    """Resolve a repository's `ref` to its branch (None: a tag or a commit) and commit."""
    ref = repository.ref
    if ref is None:
        head = (await git("symbolic-ref", "--short", "refs/remotes/origin/HEAD", cwd=folder)).decode().strip()
        commit = await _commit(folder, head)
        if commit is None:
            raise GitFailure("it has no commit yet")
        return head.removeprefix("origin/"), commit
    at_branch, at_name = await _commit(folder, f"refs/remotes/origin/{ref}"), await _commit(folder, ref)
    if repository.resolve == "local" and at_name is not None:
        return (ref if at_name == at_branch else None), at_name
    if at_branch is not None:
        return ref, at_branch
    return None, at_name or await _fetch_ref(repository, folder, ref)


async def _fetch_ref(repository: Repository, folder: Path, ref: str) -> str:
    """Fetch a ref that the clone lacks (beyond its depth, or on no branch) and return its commit."""
    try:
        await git("fetch", "--quiet", *_depth(repository), "origin", ref, cwd=folder)
    except GitFailure as error:
        raise GitFailure(f"no '{ref}' in it ({error})") from error
    commit = await _commit(folder, "FETCH_HEAD")
    if commit is None:
        raise GitFailure(f"'{ref}' is not a commit")
    return commit


async def _ancestor(folder: Path, commit: str, back: int) -> str:
    ancestor = await _commit(folder, f"{commit}~{back}")
    if ancestor is None and (folder / ".git" / "shallow").exists():
        await git("fetch", "--quiet", "--deepen", str(back), "origin", cwd=folder)
        ancestor = await _commit(folder, f"{commit}~{back}")
    if ancestor is None:
        raise GitFailure(f"{commit[:12]} does not have {back} ancestors")
    return ancestor


async def _commit(folder: Path, name: str) -> str | None:
    try:
        output = await git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}", cwd=folder)
    except GitFailure:
        return None
    return output.decode().strip().splitlines()[-1]


async def _is_commit_name(folder: Path, ref: str) -> bool:
    """Return whether a ref is the full hash of a commit in the clone, so that no fetch is needed."""
    return await _commit(folder, ref) == ref
