"""The notebooks of the examples: their code runs from top to bottom in one namespace, without a kernel."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.cli.sample_project import Answer, CliProject

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples/notebooks").glob("*.ipynb"))


@pytest.fixture(scope="module")
def folder(swept_examples: tuple[CliProject, Answer], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of notebooks beside examples that have been run once."""
    root = tmp_path_factory.mktemp("repository") / "root"
    shutil.copytree(swept_examples[0].root, root)
    return root / "examples/notebooks"


def cells(notebook: Path) -> list[dict[str, Any]]:
    return [each for each in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if each["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_all_cells_of_a_notebook_run(
    notebook: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    namespace: dict[str, Any] = {"__name__": "__main__"}

    for number, cell in enumerate(cells(notebook)):
        exec(compile("".join(cell["source"]), f"{notebook.name}, cell {number}", "exec"), namespace)

    printed = capsys.readouterr().out
    assert {outcome.pair.runner.name: outcome.counts.passed for outcome in namespace["sweep"].outcomes} == {
        "assistant-v1": 12,
        "assistant-v2": 20,
    }
    assert "cases up, 0 down" in printed
    assert "assistant-v2" in printed


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_what_it_printed(notebook: Path) -> None:
    assert [(each["outputs"], each["execution_count"]) for each in cells(notebook)] == [([], None)] * len(
        cells(notebook)
    )
