"""Along which folders a suite's files are looked for."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from eval_pipeline.parsing.file_search import NotFound, search_roots, top_folder


@pytest.fixture
def evals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`top/project/evals`, with a file in each folder, and another folder to stand in."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    folder = tmp_path / "top" / "project" / "evals"
    folder.mkdir(parents=True)
    for parent in (folder, folder.parent, folder.parent.parent):
        (parent / f"{parent.name}.txt").touch()
    return folder


@pytest.mark.parametrize(
    ("mark", "present", "missing"),
    [
        pytest.param("top/.git/HEAD", ["evals", "project", "top"], [], id="up to the repository's root"),
        pytest.param("top/project/.agentv", ["evals", "project"], ["top"], id="else up to the project"),
        pytest.param("top/project/eval-pipeline.yaml", ["evals", "project"], ["top"], id="however it is marked"),
        pytest.param("elsewhere/x", ["evals"], ["project", "top"], id="else in the suite's folder only"),
    ],
)
def test_files_are_looked_for(tmp_path: Path, evals: Path, mark: str, present: list[str], missing: list[str]) -> None:
    (tmp_path / mark).parent.mkdir(exist_ok=True)
    (tmp_path / mark).touch()
    roots = search_roots(evals)

    assert [roots.file(f"{name}.txt").parent.name for name in present] == present
    for name in missing:
        with pytest.raises(NotFound, match=f"no file '{name}.txt'; looked at: "):
            roots.file(f"{name}.txt")


def make_worktree(folder: Path) -> None:
    """A worktree of a repository beside it."""
    git = folder.parent / "elsewhere" / ".git" / "worktrees" / "top"
    git.mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git").write_text(f"gitdir: {git}\n")


def test_a_worktree_is_a_repository(tmp_path: Path, evals: Path) -> None:
    make_worktree(tmp_path / "top")

    assert top_folder(evals) == tmp_path / "top"


@pytest.mark.parametrize("content", [None, "", "gitdir: /nowhere\n", "gitdir:\0\n", "\udcff"])
def test_a_stray_git_is_no_repository(tmp_path: Path, evals: Path, content: str | None) -> None:
    git = tmp_path / "top" / ".git"
    git.mkdir() if content is None else git.write_bytes(content.encode("utf-8", "surrogateescape"))

    assert top_folder(evals) is None


@pytest.mark.parametrize("mark", [".git/HEAD", ".agentv/targets.yaml", "eval-pipeline.yaml"])
@pytest.mark.parametrize("variable", ["HOME", "TMPDIR"])
def test_the_home_folder_and_a_temporary_one_are_no_roots(
    tmp_path: Path, evals: Path, monkeypatch: pytest.MonkeyPatch, variable: str, mark: str
) -> None:
    """Item 10: an empty `.git`, or `~/.agentv`, made everything of a user readable to suites."""
    top = tmp_path / "top"
    (top / mark).parent.mkdir(exist_ok=True)
    (top / mark).touch()
    monkeypatch.setenv(variable, str(top))
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.chdir(top)
    roots = search_roots(evals)

    assert roots.roots == (evals,)
    with pytest.raises(NotFound, match=r"no file 'top\.txt'"):
        roots.file("top.txt")


def test_a_project_below_the_home_folder_is_a_root(
    tmp_path: Path, evals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "top" / "project" / "eval-pipeline.yaml").touch()
    (tmp_path / "top" / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "top"))

    assert top_folder(evals) == tmp_path / "top" / "project"
