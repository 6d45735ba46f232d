"""Takes the pictures of the documentation: `python -m eval_pipeline_tests.pages.pictures`.

They show the example project after two runs; before the second one, an assistant forgot how many grams are an ounce.
Needs Chromium. Look at what it wrote before you commit it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from eval_pipeline_tests.orchestration.browser import See, Window, find_chromium, open_browser
from eval_pipeline_tests.pages.sample_page import served_page

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
COMMAND = [sys.executable, "-m", "eval_pipeline_tests.benchmarks.command"]
FORGOTTEN = '("g", "oz"): 0.035274, '
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


def carry_out_examples(folder: Path) -> Path:
    """Carry out the example project twice, with an edit between; return the data folder."""
    data, project = folder / "data", folder / "examples"
    shutil.copytree(ROOT / "examples", project)
    command = [*COMMAND, "run", "--project", str(project), "--data", str(data), "--quiet"]
    subprocess.run(command, cwd=ROOT, check=False)  # its exit code is that of a gate
    assistant = project / "programs" / "assistant_v1.py"
    text = assistant.read_text()
    assert FORGOTTEN in text
    assistant.write_text(text.replace(FORGOTTEN, ""))
    subprocess.run(command, cwd=ROOT, check=False)
    return data


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        take(carry_out_examples(Path(made)))
