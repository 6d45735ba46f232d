"""The page of ratings: what `compare --ratings` prints of all runners, in the server and in an exported page."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.orchestration.browser import Browser, See
from eval_pipeline_tests.pages.sample_page import Served, served_page

SAYS = "RIGHT = {'a': 'onetwofour', 'b': 'threefour', 'c': 'twothree'}\n" + "".join(
    f"def {name}(prompt):\n    return 'yes' if prompt in RIGHT['{name}'] else 'no'\n" for name in "abc"
)
RUNNERS = "runners:\n" + "".join(
    f"  - {{name: runner-{name}, adapter: python, function: 'says:{name}', isolation: in-process}}\n" for name in "abc"
)
SUITE = "name: asked\nassertions: [{name: right, type: equals, value: 'yes'}]\ntests:\n" + "".join(
    f"  - {{id: {name}, input: {name}}}\n" for name in ("one", "two", "three", "four")
)


@pytest.fixture(scope="module")
def rated(tmp_path_factory: pytest.TempPathFactory) -> CliProject:
    project = CliProject(tmp_path_factory.mktemp("rated"))
    files = {
        "says.py": SAYS,
        "runners.yaml": RUNNERS,
        "suites/asked.yaml": SUITE,
        "eval-pipeline.yaml": "suites: [suites]",
    }
    for name, text in files.items():
        project.write(name, text)
    project("run", "--quiet")
    return project


def test_the_page_has_what_the_command_prints(rated: CliProject) -> None:
    printed = rated("compare", "runner-a", "runner-b", "runner-c", "--ratings", "--json").document

    with served_page(rated.root / "data") as page:
        shown = page.document("ratings", suite="asked")

    assert {each["runner"]: each["strength"] for each in shown["ratings"]} == pytest.approx(printed["ratings"])
    intervals = {each["runner"]: each["interval"] for each in shown["ratings"]}
    assert intervals == {name: pytest.approx(each) for name, each in printed["rating_intervals"].items()}
    counts = {each["runner"]: (each["wins"], each["losses"], each["ties"]) for each in shown["ratings"]}
    assert counts == {"runner-a": (4, 2, 2), "runner-b": (2, 3, 3), "runner-c": (2, 3, 3)}
    assert (shown["suites"], shown["problem"]) == (["asked"], None)


def test_a_suite_of_one_runner_has_no_ratings(served: Served) -> None:
    shown = served.document("ratings", suite="sums")

    assert (shown["ratings"], shown["problem"]) == ([], "there are no two runners with results of these cases")


@pytest.mark.slow
@pytest.mark.browser
def test_an_exported_page_shows_ratings(rated: CliProject, browser: Browser, tmp_path: Path) -> None:
    rated("export", "--format", "html", "--output", str(tmp_path / "page.html"))

    seen = browser.look(f"file://{tmp_path}/page.html#ratings", See("How likely the one in the row wins a case"))

    assert seen.problems == []
    assert "runner-a" in seen.text
