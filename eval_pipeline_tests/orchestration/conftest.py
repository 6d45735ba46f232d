"""What every test of this room starts with: the small project of the sweeps' tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline_tests.new_data import make_data
from eval_pipeline_tests.orchestration.dev_servers import Ui, served_ui
from eval_pipeline_tests.sweeps.conftest import no_project_in_the_environment
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, make_project

__all__ = ["no_project_in_the_environment"]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    make_data(made.data)
    return made


@pytest.fixture(scope="package")
def ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ui]:
    """The UI of a project, for all tests of it; its daemons take a third of a core as long as it runs."""
    with served_ui(tmp_path_factory.mktemp("ui") / "project") as served:
        yield served
