"""Nothing is written outside of a workspace, whatever links a template, a repository or a target puts into it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from eval_pipeline.executions.workspaces.beneath import LinkInTheWay, copy_folder
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.suites.workspace import Hook, WorkspaceFile, WorkspaceSpec
from eval_pipeline_tests.executions.sample_workspaces import (
    SampleWorkspaces,
    a_repository,
    a_shell,
    cloned,
    failure_of,
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
def home(tmp_path: Path) -> Path:
    """A folder that no suite may write to."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".bashrc").write_text("mine\n")
    return home


def content_of(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def a_file(samples: SampleWorkspaces, path: str) -> WorkspaceFile:
    origin = samples.folder / "file-of-the-suite"
    origin.write_text("theirs\n")
    return WorkspaceFile(path=path, origin=origin, sha256="0" * 64)


def linking_template(samples: SampleWorkspaces, name: str, target: Path) -> Path:
    template = samples.template(a="a")
    (template / name).symlink_to(target)
    return template


@pytest.mark.parametrize("path", ["out/.bashrc", "out/new/.profile"])
def test_a_file_is_not_written_through_a_link_of_the_template(samples: SampleWorkspaces, home: Path, path: str) -> None:
    spec = samples.spec(template=linking_template(samples, "out", home), files=(a_file(samples, path),))

    failure = failure_of(samples.workspaces(), plan_for(spec))

    assert content_of(home) == {".bashrc": "mine\n"}
    assert failure.failure == WORKSPACE
    assert str(failure) == f"'out' in the workspace is a link (to {home}); nothing is written through it"


def test_a_file_replaces_a_link_of_its_own_name(samples: SampleWorkspaces, home: Path) -> None:
    template = linking_template(samples, "rc", home / ".bashrc")
    seen: list[str] = []

    spec = samples.spec(template=template, files=(a_file(samples, "rc"),))
    one_case(samples.workspaces(), plan_for(spec), lambda folder: seen.append((folder / "rc").read_text()))

    assert content_of(home) == {".bashrc": "mine\n"}
    assert seen == ["theirs\n"]


@pytest.mark.parametrize("mode", ["temp", "pooled"])
@pytest.mark.parametrize("path", ["out", "out/repo"])
def test_a_repository_is_not_cloned_through_a_link(
    samples: SampleWorkspaces, tmp_path: Path, path: str, mode: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    origin = a_repository(tmp_path / "origin", {"number": "1\n"})
    template = linking_template(samples, "out", empty)

    failure = failure_of(
        samples.workspaces(),
        plan_for(samples.spec(template=template, mode=mode, repositories=(cloned(origin, path),))),
    )

    assert list(empty.iterdir()) == []
    assert "'out' in the workspace is a link" in str(failure)


def a_linking_repository(tmp_path: Path, target: Path) -> Path:
    """A repository with a link that leads out of it."""
    origin = a_repository(tmp_path / "linking", {"number": "1\n"})
    (origin / "out").symlink_to(target)
    run_git(origin, "add", "-A")
    run_git(origin, "commit", "-q", "-m", "a link")
    return origin


def test_a_repository_inside_another_is_not_cloned_through_a_link_of_the_outer_one(
    samples: SampleWorkspaces, tmp_path: Path, home: Path
) -> None:
    outer, inner = a_linking_repository(tmp_path, home), a_repository(tmp_path / "inner", {"number": "2\n"})

    spec = samples.spec(repositories=(cloned(outer), cloned(inner, "repo/out/inner")))
    failure = failure_of(samples.workspaces(), plan_for(spec))

    assert content_of(home) == {".bashrc": "mine\n"}
    assert "'repo/out' in the workspace is a link" in str(failure)


def test_the_template_of_a_reused_slot_is_not_written_through_a_link_of_a_repository(
    samples: SampleWorkspaces, tmp_path: Path, home: Path
) -> None:
    """The first sweep clones over nothing; the second copies the template over the clone."""
    template = samples.template(top="t")
    spec = samples.spec(mode="pooled", template=template, repositories=(cloned(a_linking_repository(tmp_path, home)),))
    one_case(samples.workspaces(), plan_for(spec))
    evil = template / "repo" / "out"
    evil.mkdir(parents=True)
    (evil / ".bashrc").write_text("theirs\n")

    failure_of(samples.workspaces(sweep_id="sweep-2"), plan_for(spec))

    assert content_of(home) == {".bashrc": "mine\n"}


@pytest.mark.parametrize(
    "work",
    [
        pytest.param("rm repo/.git/config; ln -s ../../../outside/.bashrc repo/.git/config", id="its configuration"),
        pytest.param("mv repo/.git ../git-of-theirs; ln -s ../../git-of-theirs repo/.git", id="its .git"),
        pytest.param("mv repo away; ln -s HOME repo", id="the repository itself"),
    ],
)
def test_a_reset_writes_and_deletes_nothing_through_a_link_of_a_target(
    samples: SampleWorkspaces, tmp_path: Path, home: Path, work: str
) -> None:
    theirs = a_repository(tmp_path / "theirs", {"number": "1\n"})
    run_git(home, "init", "-q")
    before = content_of(home)
    spec = samples.spec(
        isolation="shared", mode="temp", repositories=(cloned(theirs),), hooks={"after_each": reset_after()}
    )
    line = work.replace("HOME", str(home)).replace("../../../outside/.bashrc", str(home / ".bashrc"))

    def attack(folder: Path) -> None:
        assert os.system(f"cd '{folder}' && {line}") == 0

    in_sweep(samples.workspaces(), lambda opened: worked(opened, plan_for(spec), attack))

    assert content_of(home) == before


def reset_after() -> Hook:
    return replace(a_shell("true"), reset="strict")


def test_a_static_workspace_is_the_folder_that_is_named_and_no_other(
    samples: SampleWorkspaces, tmp_path: Path, home: Path
) -> None:
    """The folder itself may be a link of the user; links in it lead nowhere."""
    real, named = tmp_path / "real", tmp_path / "named"
    (real / "sub").mkdir(parents=True)
    named.symlink_to(real)
    (real / "out").symlink_to(home)
    origin = a_repository(tmp_path / "origin", {"number": "1\n"})

    def spec(path: str) -> WorkspaceSpec:
        return samples.spec(mode="static", path=named, repositories=(cloned(origin, path),))

    one_case(samples.workspaces(), plan_for(spec("repo")))
    failure = failure_of(samples.workspaces(sweep_id="sweep-2"), plan_for(spec("out/repo")))

    assert (real / "repo" / "number").read_text() == "1\n"
    assert content_of(home) == {".bashrc": "mine\n"}
    assert "'out' in the workspace is a link" in str(failure)


def test_a_clone_is_copied_with_its_links_and_the_git_files_of_its_submodules(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "below").mkdir(parents=True)
    (source / "below" / ".git").write_text("gitdir: ../.git/modules/below\n")
    (source / "run.sh").write_text("true\n")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("run.sh")
    os.mkfifo(source / "pipe")

    copy_folder(source, tmp_path / "new" / "copy")

    copy = tmp_path / "new" / "copy"
    assert sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*")) == [
        "below", "below/.git", "link", "run.sh",
    ]  # fmt: skip
    assert ((copy / "run.sh").stat().st_mode & 0o777, str((copy / "link").readlink())) == (0o755, "run.sh")


def test_a_clone_is_copied_through_no_link(tmp_path: Path, home: Path) -> None:
    (tmp_path / "source" / "below").mkdir(parents=True)
    (tmp_path / "source" / "below" / ".bashrc").write_text("theirs\n")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "below").symlink_to(home)

    with pytest.raises(LinkInTheWay, match="below"):
        copy_folder(tmp_path / "source", tmp_path / "copy")

    assert (home / ".bashrc").read_text() == "mine\n"
