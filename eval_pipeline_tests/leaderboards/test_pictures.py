"""Pictures of a board: an SVG drawn by hand, and a PNG for `--plot`."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

from eval_pipeline.leaderboards.board_svg import board_svg
from eval_pipeline.leaderboards.plots import plot_board
from eval_pipeline_tests.leaderboards.sample_verdicts import board, many, verdict

SVG = "{http://www.w3.org/2000/svg}"


def dots(drawing: ElementTree.Element) -> list[float]:
    """Where the dots are from left to right: their path goes from one to the next."""
    (path,) = (each.get("d", "") for each in drawing.iter(f"{SVG}path") if each.get("stroke-linecap") == "round")
    return [float(place) for place in re.findall(r"M([\d.]+) ", path)]


def per_suite(*rows: dict[str, Any]) -> pl.DataFrame:
    return board(*rows).filter(scope="suite")


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([*many("a", 2, 1), *many("b", 1, 2)], id="one-suite"),
        pytest.param([verdict("a", "c1", suite=f"s{number}") for number in range(9)], id="many-suites"),
        pytest.param([verdict(f"r{number}", "c1") for number in range(90)], id="many-runners"),
        pytest.param(many("broken", 0, errored=1), id="nothing-known"),
        pytest.param([], id="nothing-at-all"),
        pytest.param(many("a_b.c-d" * 20, 1), id="a-long-name"),
    ],
)
def test_every_board_has_a_picture(rows: list[dict[str, object]]) -> None:
    assert plot_board(board(*rows)).startswith(b"\x89PNG")
    assert ElementTree.fromstring(board_svg(board(*rows))).tag == f"{SVG}svg"


def test_a_drawing_shows_each_suite_with_its_runners_best_first() -> None:
    drawing = ElementTree.fromstring(board_svg(per_suite(*many("a<b", 1, 1), *many("best", 2))))

    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert texts[:3] == ["s", "1–2  best · 100.0 %", "1–2  a<b · 50.0 %"]
    assert dots(drawing) == sorted(dots(drawing), reverse=True)


def test_a_runner_that_is_not_ranked_is_last_and_gray_and_without_a_pass_rate_it_has_no_dot() -> None:
    rows = [*many("best", 1, 1), *many("few", 1, errored=1), *many("none", 0, errored=2)]
    drawing = ElementTree.fromstring(board_svg(per_suite(*rows)))

    texts = [text.text for text in drawing.iter(f"{SVG}text")]
    assert texts[1:4] == ["1  best · 50.0 %", "–  few · 100.0 %", "–  none · no rate"]
    drawn = [(path.get("stroke"), len(path.get("d", "").split("M")) - 1) for path in drawing.iter(f"{SVG}path")]
    assert [each for each in drawn if each[0] in ("#2f6f9f", "#aaaaaa")] == [("#2f6f9f", 1), ("#aaaaaa", 1)]


def test_a_drawing_of_a_hundred_suites_and_twenty_runners_is_small() -> None:
    rows = [
        verdict(f"runner-{runner:03}", "c1", suite=f"suite-{suite:03}") for suite in range(100) for runner in range(20)
    ]

    standings = per_suite(*rows)
    begun = time.process_time()
    drawings = board_svg(standings), plot_board(standings)

    assert time.process_time() - begun < 3.0  # an axis for each suite took more than 100 s
    assert max(map(len, drawings)) < 200_000


def test_a_drawing_needs_no_plotting_library() -> None:
    source = (
        "import sys; from eval_pipeline.leaderboards.board_svg import board_svg; print('matplotlib' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", source], text=True) == "False\n"
