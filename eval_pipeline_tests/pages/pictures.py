"""Takes the pictures of the documentation: `python -m eval_pipeline_tests.pages.pictures DATA_FOLDER`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from eval_pipeline_tests.orchestration.browser import See, Window, find_chromium, open_browser
from eval_pipeline_tests.pages.sample_page import served_page

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PICTURES = {
    "page-board.png": ("#board", "What changed", Window(1280, 900)),
    "page-case.png": (
        "#case?suite=unit-conversion&case=flour&diff=assistant-v2",
        "History",
        Window(1280, 900, dark=True),
    ),
}


def take(data: Path) -> None:
    """Take each picture of the results in a data folder."""
    program = find_chromium()
    assert program is not None, "no chromium on this machine"
    with (
        tempfile.TemporaryDirectory() as folder,
        open_browser(program, Path(folder)) as browser,
        served_page(data) as page,
    ):
        for name, (place, expected, window) in PICTURES.items():
            drawn = "new Promise(done => setTimeout(done, 500))"
            browser.look(f"{page.url}/{place}", See(expected), drawn, window=window, picture=IMAGES / name)


if __name__ == "__main__":
    take(Path(sys.argv[1]))
