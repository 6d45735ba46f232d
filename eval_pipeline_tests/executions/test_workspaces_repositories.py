"""Git repositories in workspaces: which commit is checked out, what a reset undoes, what is said when git fails."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.workspaces.git import GitFailure, error_tail, git, without_password
from eval_pipeline.executions.workspaces.manager import Workspaces
from eval_pipeline.executions.workspaces.repositories import check_out
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.suites.workspace import History, Hook, Repository, Reset
from eval_pipeline_tests.executions.sample_workspaces import (
    SampleWorkspaces,
    a_repository,
    a_shell,
    cloned,
    failure_of,
    files_in,
    in_sweep,
    one_case,
    plan_for,
    run_git,
    worked,
)


@pytest.fixture
def samples(tmp_path: Path) -> SampleWorkspaces:
    return SampleWorkspaces(tmp_path)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository with three commits on `main`, a tag `v1` on the first, and a branch `side`."""
    origin = a_repository(tmp_path / "origin", {"number": "1\n", "src/a.py": "a\n", "docs/b.md": "b\n"})
    run_git(origin, "tag", "v1")
    for number in ("2", "3"):
        (origin / "number").write_text(f"{number}\n")
        run_git(origin, "commit", "-q", "-a", "-m", number)
    run_git(origin, "checkout", "-q", "-b", "side", "v1")
    (origin / "number").write_text("side\n")
    run_git(origin, "commit", "-q", "-a", "-m", "side")
    run_git(origin, "checkout", "-q", "main")
    return origin


def checked_out(repository: Repository, folder: Path) -> Path:
    asyncio.run(check_out(repository, folder))
    return folder


def number_in(folder: Path) -> str:
    return (folder / "number").read_text().strip()


@pytest.mark.parametrize(
    ("fields", "number", "branch"),
    [
        pytest.param({}, "3", "main", id="no ref: the default branch"),
        pytest.param({"ref": "main"}, "3", "main", id="a branch"),
        pytest.param({"ref": "side"}, "side", "side", id="another branch"),
        pytest.param({"ref": "v1"}, "1", "HEAD", id="a tag"),
        pytest.param({"ref": "main", "ancestor": 1}, "2", "HEAD", id="an ancestor"),
        pytest.param({"ancestor": 2}, "1", "HEAD", id="an ancestor of the default branch"),
        pytest.param({"depth": 1}, "3", "main", id="shallow"),
        pytest.param({"depth": 1, "ref": "side"}, "side", "HEAD", id="shallow, a branch that is not the default"),
        pytest.param({"depth": 1, "ref": "v1"}, "1", "HEAD", id="shallow, a tag"),
        pytest.param({"depth": 1, "ref": "main", "ancestor": 2}, "1", "HEAD", id="shallow, beyond its depth"),
        pytest.param({"ref": "main", "resolve": "local"}, "3", "main", id="looked up in the clone"),
    ],
)
def test_the_commit_that_is_checked_out(
    origin: Path, tmp_path: Path, fields: dict[str, Any], number: str, branch: str
) -> None:
    folder = checked_out(cloned(origin, **fields), tmp_path / "clone")

    assert number_in(folder) == number
    assert run_git(folder, "rev-parse", "--abbrev-ref", "HEAD").strip() == branch


def test_a_commit_by_its_name_that_a_shallow_clone_does_not_have(origin: Path, tmp_path: Path) -> None:
    commit = run_git(origin, "rev-parse", "v1").strip()

    folder = checked_out(cloned(origin, ref=commit, depth=1), tmp_path / "clone")

    assert number_in(folder) == "1"


@pytest.mark.parametrize(
    ("sparse", "files"),
    [
        pytest.param(("src",), ["number", "src/a.py"], id="a folder"),
        pytest.param(("/docs/*.md",), ["docs/b.md"], id="a pattern"),
    ],
)
def test_a_sparse_checkout(origin: Path, tmp_path: Path, sparse: tuple[str, ...], files: list[str]) -> None:
    assert files_in(checked_out(cloned(origin, sparse=sparse), tmp_path / "clone")) == files


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"ref": "nope"}, "no 'nope' in it", id="unknown ref"),
        pytest.param({"ancestor": 9}, "does not have 9 ancestors", id="too far back"),
        pytest.param({"url": "/no/such/repository"}, "repository '/no/such/repository': no such folder", id="missing"),
    ],
)
def test_a_repository_that_cannot_be_had_is_named_with_gits_last_words(
    samples: SampleWorkspaces, origin: Path, fields: dict[str, Any], message: str
) -> None:
    repository = Repository(**{"path": "repo", "url": str(origin), "local": True, **fields})

    failure = failure_of(samples.workspaces(), plan_for(samples.spec(repositories=(repository,))))

    assert failure.failure is WORKSPACE
    assert message in str(failure)
    assert repository.url in str(failure)


def test_a_folder_that_is_no_repository_is_said_by_git(samples: SampleWorkspaces) -> None:
    (samples.folder / "plain").mkdir()

    failure = failure_of(samples.workspaces(), plan_for(samples.spec(repositories=(cloned(samples.folder / "plain"),))))

    assert "does not appear to be a git repository" in str(failure) or "does not exist" in str(failure)


def test_repositories_lie_beside_the_template_and_inside_each_other(samples: SampleWorkspaces, origin: Path) -> None:
    inner = cloned(origin, "outer/inner", ref="v1")
    spec = samples.spec(
        isolation="per_case", template=samples.template(top="t"), repositories=(inner, cloned(origin, "outer"))
    )
    seen: list[str] = []

    one_case(samples.workspaces(), plan_for(spec), lambda folder: seen.extend(files_in(folder)))

    assert seen == [
        "outer/docs/b.md", "outer/inner/docs/b.md", "outer/inner/number", "outer/inner/src/a.py", "outer/number",
        "outer/src/a.py", "top",
    ]  # fmt: skip


def test_a_repository_may_be_the_workspace_itself(samples: SampleWorkspaces, origin: Path) -> None:
    spec = samples.spec(repositories=(cloned(origin, "."),))

    trace = one_case(samples.workspaces(), plan_for(spec), lambda folder: (folder / "number").write_text("4\n"))

    assert "-3\n+4\n" in (trace.changes or "")


def test_changes_name_files_from_the_workspace_on(samples: SampleWorkspaces, origin: Path) -> None:
    spec = samples.spec(repositories=(cloned(origin),))

    trace = one_case(
        samples.workspaces(), plan_for(spec), lambda folder: (folder / "repo" / "number").write_text("4\n")
    )

    assert "--- a/repo/number\n+++ b/repo/number\n" in (trace.changes or "")


def disturb(folder: Path) -> None:
    """Everything a target may do to a repository."""
    repository = folder / "repo"
    (repository / ".gitignore").write_text("*.log\n")
    (repository / "number").write_text("changed\n")
    run_git(repository, "checkout", "-q", "-b", "mine")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "mine")
    (repository / "src" / "a.py").unlink()
    (repository / "untracked").touch()
    (repository / ".git" / "index.lock").touch()
    (repository / ".git" / "config").write_text("[core]\nbare = true\n")
    a_repository(repository / "made", {"x": "x"})


@pytest.mark.parametrize("kind", ["fast", "strict"])
def test_a_reset_puts_a_repository_back_to_its_commit(samples: SampleWorkspaces, origin: Path, kind: Reset) -> None:
    spec = samples.spec(repositories=(cloned(origin),), hooks={"after_each": Hook(reset=kind)})
    seen: list[tuple[list[str], str, str]] = []

    def look(folder: Path) -> None:
        repository = folder / "repo"
        branch = run_git(repository, "status", "--short", "--branch").strip()
        seen.append((files_in(repository), number_in(repository), branch))

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1"), disturb),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2"), look),
    )

    assert seen == [(["docs/b.md", "number", "src/a.py"], "3", "## main")]


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        pytest.param("fast", ["repo/.gitignore", "repo/x.log"], id="fast"),
        pytest.param("strict", ["repo/.gitignore"], id="strict"),
    ],
)
def test_only_a_strict_reset_removes_what_git_ignores(samples: SampleWorkspaces, kind: Reset, left: list[str]) -> None:
    origin = a_repository(samples.folder / "ignoring", {".gitignore": "*.log\n"})
    spec = samples.spec(repositories=(cloned(origin),), hooks={"before_each": Hook(reset=kind)})
    seen: list[str] = []

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1"), lambda at: (at / "repo" / "x.log").touch()),
        lambda workspaces: worked(workspaces, plan_for(spec, "c2"), lambda at: seen.extend(files_in(at))),
    )

    assert seen == left


def test_a_reset_leaves_a_repository_inside_another_alone(samples: SampleWorkspaces, origin: Path) -> None:
    repositories = (cloned(origin, "repo"), cloned(origin, "repo/inner"))
    spec = samples.spec(repositories=repositories, hooks={"after_each": Hook(reset="strict")})
    seen: list[bool] = []

    in_sweep(
        samples.workspaces(),
        lambda workspaces: worked(workspaces, plan_for(spec, "c1")),
        lambda workspaces: worked(
            workspaces, plan_for(spec, "c2"), lambda at: seen.append((at / "repo" / "inner" / "number").exists())
        ),
    )

    assert seen == [True]


def test_many_cases_are_served_by_one_clone(samples: SampleWorkspaces, origin: Path) -> None:
    spec = samples.spec(isolation="per_case", repositories=(cloned(origin),))
    seen: list[str] = []

    async def step(workspaces: Workspaces) -> None:
        await worked(workspaces, plan_for(spec, f"c{len(seen)}"), lambda at: seen.append(number_in(at / "repo")))
        (origin / "number").write_text("later\n")
        run_git(origin, "commit", "-q", "-a", "--allow-empty", "-m", "later")

    in_sweep(samples.workspaces(), step, step)

    assert seen == ["3", "3"]


def test_a_hook_finds_the_repositories_checked_out(samples: SampleWorkspaces, origin: Path) -> None:
    spec = samples.spec(
        repositories=(cloned(origin),), hooks={"before_all": a_shell("cat $AGENTV_WORKSPACE_PATH/repo/number")}
    )

    assert one_case(samples.workspaces(), plan_for(spec)).hooks == {"before_all": "3\n"}


def test_a_static_workspace_gets_the_repositories_that_it_does_not_have(
    samples: SampleWorkspaces, origin: Path
) -> None:
    mine = a_repository(samples.folder / "static" / "mine", {"own": "own\n"})
    repositories = (cloned(origin, "mine"), cloned(origin, "other"))
    spec = samples.spec(
        mode="static", path=mine.parent, repositories=repositories, hooks={"after_each": Hook(reset="fast")}
    )

    one_case(samples.workspaces(), plan_for(spec), lambda folder: (folder / "mine" / "own").write_text("changed\n"))

    assert files_in(mine) == ["own"]
    assert (mine / "own").read_text() == "own\n"
    assert number_in(mine.parent / "other") == "3"


def test_git_is_ended_at_its_time_limit(tmp_path: Path) -> None:
    with pytest.raises(GitFailure, match=r"git -c did not end within 0\.2 s"):
        asyncio.run(git("-c", "alias.wait=!sleep 60", "wait", cwd=tmp_path, time_limit_s=0.2))


def test_what_the_caller_set_for_git_does_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/no/such")
    monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -i key")

    printed = asyncio.run(git("-c", "alias.env=!env", "env", cwd=tmp_path)).decode()

    assert "GIT_DIR=/no/such" not in printed
    assert "GIT_SSH_COMMAND=ssh -i key" in printed
    assert "GIT_TERMINAL_PROMPT=0" in printed


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            b"Cloning into 'x'...\nfatal: no access\n", "fatal: no access", id="without what it was about to do"
        ),
        pytest.param(b"Receiving: 1%\rReceiving: 100%\rfatal: cut\n", "fatal: cut", id="without progress"),
        pytest.param(b"hint: try\nfatal: a\nfatal: b\n", "fatal: a fatal: b", id="without hints"),
        pytest.param(b"", "", id="nothing"),
    ],
)
def test_the_last_words_of_git(message: bytes, words: str) -> None:
    assert error_tail(message) == words


def test_passwords_in_urls_are_not_repeated() -> None:
    assert without_password("fatal: https://me:secret@example.org/a.git and ssh://git@h/x") == (
        "fatal: https://example.org/a.git and ssh://h/x"
    )


OTHER_COMMITS = """git log --all --format=%s; git tag; git branch -a --format='%(refname)'; git reflog --all
git remote -v; git cat-file --batch-all-objects --batch-check='%(objecttype)' | grep -c commit; grep -rl ORIGIN .git"""


@pytest.mark.parametrize("mode", ["temp", "pooled", "per_case"])
@pytest.mark.parametrize(
    ("history", "seen"),
    [
        pytest.param("none", "2 refs/heads/main 1", id="none"),
        pytest.param("past", "2 commit-1 refs/heads/main 2", id="past"),
        pytest.param("all", None, id="all"),
    ],
)
def test_a_target_sees_of_a_repository_what_its_history_allows(
    samples: SampleWorkspaces, origin: Path, mode: str, history: History, seen: str | None
) -> None:
    commit = run_git(origin, "rev-parse", "main~1").strip()
    run_git(origin, "branch", "-f", "old", commit)
    repository = cloned(origin, ref=commit, history=history)
    how: dict[str, Any] = {"isolation": "per_case"} if mode == "per_case" else {"mode": mode}
    printed: list[str] = []

    def look(folder: Path) -> None:
        run_git(folder / "repo", "checkout", "-q", "-B", "main")
        run_git(folder / "repo", "reflog", "expire", "--expire=now", "--all")
        command = OTHER_COMMITS.replace("ORIGIN", str(samples.folder))
        done = subprocess.run(["sh", "-c", command], cwd=folder / "repo", capture_output=True, text=True)
        printed.append(" ".join(done.stdout.replace("commit 1", "commit-1").split()))

    for sweep in ("sweep-1", "sweep-2"):
        one_case(samples.workspaces(sweep_id=sweep), plan_for(samples.spec(repositories=(repository,), **how)), look)

    if seen is None:
        assert "v1" in printed[0]
        assert "3" in printed[0].split()
    else:
        assert printed == [seen, seen]


def test_a_pooled_clone_follows_a_branch_though_it_has_no_origin(samples: SampleWorkspaces, origin: Path) -> None:
    plan = plan_for(samples.spec(mode="pooled", repositories=(cloned(origin, ref="main"),)))
    numbers: list[str] = []

    def look(folder: Path) -> None:
        numbers.append(number_in(folder / "repo"))

    one_case(samples.workspaces(), plan, look)
    (origin / "number").write_text("4\n")
    run_git(origin, "commit", "-q", "-a", "-m", "4")
    one_case(samples.workspaces(sweep_id="2"), plan, look)

    assert numbers == ["3", "4"]
