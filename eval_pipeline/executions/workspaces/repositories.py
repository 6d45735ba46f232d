"""Git repositories in a workspace: cloned at a commit, brought up to date, and put back to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.executions.workspaces.git import GitFailure, git, without_password
from eval_pipeline.suites.workspace import Repository

_PATTERN = frozenset("*?[!")


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A repository at the commit its suite asked for; `branch` None: on no branch. `config` is git's own of it."""

    folder: Path
    commit: str
    branch: str | None
    config: str


async def check_out(repository: Repository, folder: Path) -> CheckedOut:
    """Clones a repository into a folder that is missing or empty. Raises GitFailure naming the repository."""
    try:
        await _clone(repository, folder)
        return await _at_commit(repository, folder)
    except (GitFailure, OSError) as error:
        raise GitFailure(f"repository '{without_password(repository.url)}': {error}") from error


async def as_it_is(folder: Path) -> CheckedOut | None:
    """A repository that somebody else made; None for a folder that is none. Raises GitFailure."""
    if not (folder / ".git").is_dir():
        return None
    commit = await _commit(folder, "HEAD")
    if commit is None:
        return None
    try:
        branch = (await git("symbolic-ref", "--quiet", "--short", "HEAD", cwd=folder)).decode().strip()
    except GitFailure:
        branch = None
    return CheckedOut(folder, commit, branch, (folder / ".git" / "config").read_text(encoding="utf-8"))


async def bring_up_to_date(repository: Repository, folder: Path, config: str) -> CheckedOut:
    """An earlier clone at the commit that the suite asks for now. Raises GitFailure naming the repository."""
    try:
        _tidy(folder, config)
        await git("reset", "--quiet", "--hard", cwd=folder)
        if repository.ref is None or not await _is_commit_name(folder, repository.ref):
            await git("fetch", "--quiet", "--tags", "--force", *_depth(repository), "origin", cwd=folder)
        return await _at_commit(repository, folder)
    except (GitFailure, OSError) as error:
        raise GitFailure(f"repository '{without_password(repository.url)}': {error}") from error


async def reset(at: CheckedOut, *, ignored: bool, keep: tuple[Path, ...] = ()) -> None:
    """Puts a repository back: its commit, no untracked files; those that git ignores stay unless `ignored`.

    `keep` are other repositories of the workspace that lie inside it. Raises GitFailure.
    """
    inside = [other.relative_to(at.folder).as_posix() for other in keep if other.is_relative_to(at.folder)]
    excluded = [word for name in inside if name != "." for word in ("--exclude", f"/{name}")]
    _tidy(at.folder, at.config)
    to = ("-B", at.branch) if at.branch is not None else ("--detach",)
    await git("checkout", "--quiet", "--force", *to, at.commit, cwd=at.folder)
    await git("reset", "--quiet", "--hard", at.commit, cwd=at.folder)
    await git("clean", "--quiet", "-ff", "-d", *(("-x",) if ignored else ()), *excluded, cwd=at.folder)


def _tidy(folder: Path, config: str) -> None:
    """What a target may leave in a clone and no checkout undoes: git's settings, and locks of a git that was killed."""
    try:
        for lock in ("index.lock", "HEAD.lock", "config.lock"):
            (folder / ".git" / lock).unlink(missing_ok=True)
        (folder / ".git" / "config").write_text(config, encoding="utf-8")
    except OSError as error:
        raise GitFailure(f"'{folder.name}' is no git repository any more: {error.strerror}") from error


async def _clone(repository: Repository, folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    url = repository.url
    if repository.local and not Path(url).exists():
        raise GitFailure("no such folder")
    if repository.local and (repository.depth or repository.filter):
        url = Path(url).as_uri()  # git leaves both out of account for a plain path
    partial = ("--filter", repository.filter) if repository.filter else ()
    options = ("--quiet", "--no-checkout", *_depth(repository), *partial)
    await git("clone", *options, "--", url, folder, cwd=folder.parent)
    if repository.sparse:
        cone = "--no-cone" if any(not _PATTERN.isdisjoint(path) for path in repository.sparse) else "--cone"
        await git("sparse-checkout", "set", cone, *repository.sparse, cwd=folder)


def _depth(repository: Repository) -> tuple[str, ...]:
    return ("--depth", str(max(repository.depth, repository.ancestor + 1))) if repository.depth else ()


async def _at_commit(repository: Repository, folder: Path) -> CheckedOut:
    branch, commit = await _wanted(repository, folder)
    if repository.ancestor:
        branch, commit = None, await _ancestor(folder, commit, repository.ancestor)
    to = ("-B", branch) if branch is not None else ("--detach",)
    await git("checkout", "--quiet", "--force", *to, commit, cwd=folder)
    config = (folder / ".git" / "config").read_text(encoding="utf-8")
    return CheckedOut(folder, commit, branch, config)


async def _wanted(repository: Repository, folder: Path) -> tuple[str | None, str]:
    """The branch (None: a tag or a commit) and the commit that a repository's `ref` stands for."""
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
    found = at_name or await _fetched(repository, folder, ref)
    return None, found


async def _fetched(repository: Repository, folder: Path, ref: str) -> str:
    """The commit of a ref that the clone does not have: one beyond its depth, or on no branch."""
    try:
        await git("fetch", "--quiet", *_depth(repository), "origin", ref, cwd=folder)
    except GitFailure as error:
        raise GitFailure(f"no '{ref}' in it ({error})") from error
    commit = await _commit(folder, "FETCH_HEAD")
    if commit is None:
        raise GitFailure(f"'{ref}' is no commit")
    return commit


async def _ancestor(folder: Path, commit: str, back: int) -> str:
    found = await _commit(folder, f"{commit}~{back}")
    if found is None and (folder / ".git" / "shallow").exists():
        await git("fetch", "--quiet", "--deepen", str(back), "origin", cwd=folder)
        found = await _commit(folder, f"{commit}~{back}")
    if found is None:
        raise GitFailure(f"{commit[:12]} does not have {back} ancestors")
    return found


async def _commit(folder: Path, name: str) -> str | None:
    try:
        printed = await git("rev-parse", "--quiet", "--verify", "--end-of-options", f"{name}^{{commit}}", cwd=folder)
    except GitFailure:
        return None
    return printed.decode().strip().splitlines()[-1]


async def _is_commit_name(folder: Path, ref: str) -> bool:
    """Whether a ref is the full name of a commit the clone has: then there is nothing to fetch."""
    return await _commit(folder, ref) == ref
