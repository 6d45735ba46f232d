from __future__ import annotations

from collections.abc import Iterator

import pytest

from eval_pipeline_tests.cli.conftest import plain_environment  # noqa: F401
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.orchestration.browser import Browser, find_chromium, open_browser
from eval_pipeline_tests.pages.sample_page import Served, make_page_project, served_page


@pytest.fixture(scope="session")
def page_project(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    """The project with hostile texts and two sweeps; nobody changes it."""
    return make_page_project(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def served(page_project: CliProject) -> Iterator[Served]:
    with served_page(page_project.root / "data") as page:
        yield page


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium on this machine: the page is looked at in it")
    with open_browser(program, tmp_path_factory.mktemp("browser")) as opened:
        yield opened
