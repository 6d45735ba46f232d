"""Along which folders a suite's files are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.parsing.file_search import NotFound, search_roots


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
    ("mark", "found", "missing"),
    [
        pytest.param("top/.git", ["evals", "project", "top"], [], id="up to the repository's root"),
        pytest.param("top/project/.agentv", ["evals", "project"], ["top"], id="else up to the project"),
        pytest.param("top/project/eval-pipeline.yaml", ["evals", "project"], ["top"], id="however it is marked"),
        pytest.param("elsewhere/x", ["evals"], ["project", "top"], id="else in the suite's folder only"),
    ],
)
def test_files_are_looked_for(tmp_path: Path, evals: Path, mark: str, found: list[str], missing: list[str]) -> None:
    (tmp_path / mark).touch()
    roots = search_roots(evals)

    assert [roots.file(f"{name}.txt").parent.name for name in found] == found
    for name in missing:
        with pytest.raises(NotFound, match=f"no file '{name}.txt'; looked at: "):
            roots.file(f"{name}.txt")
