from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject, make_cli_project
from eval_pipeline_tests.new_data import make_data


@pytest.fixture(scope="session", autouse=True)
def plain_environment() -> Iterator[None]:
    """A wide terminal, and nothing of the caller's own setting up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "200")
        for name in ("DAGSTER_HOME", "EVAL_PIPELINE_PROJECT", "EVAL_PIPELINE_DATA", "FORCE_COLOR"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture
def cli_project(tmp_path: Path) -> CliProject:
    """The small project, in a folder of this test's own, with empty databases."""
    make_data(tmp_path / "data")
    return make_cli_project(tmp_path)
