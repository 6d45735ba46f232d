"""The page in a real browser: no problem is reported, hostile texts stay texts, keys and filters work."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.orchestration.browser import Browser, Click, See, Window
from eval_pipeline_tests.pages.sample_page import EVIL, Served

pytestmark = [pytest.mark.slow, pytest.mark.browser]
PHONE = Window(width=390, height=844)
DARK = Window(dark=True)
TOO_WIDE = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
PRESS = "document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{}', bubbles: true}}))"
PAGES = {
    "#board": "What changed",
    "#suite?suite=greetings": "3 of 3 cases",
    "#suite?suite=hostile": "3 of 3 cases",
    "#case?suite=greetings&case=ann&diff=parrot": "History over sweeps",
    "#case?suite=hostile&case=script": "History over sweeps",
    "#sweeps": "compare a with b",
    "#compare": "Cases with the largest change",
    "#ratings": "How likely the one in the row wins",
    "#agreement": "Graders and people",
}


@pytest.mark.parametrize("window", [Window(), DARK, PHONE], ids=["desktop", "dark", "phone"])
@pytest.mark.parametrize(("place", "expected"), PAGES.items())
def test_a_page_is_shown_without_a_problem(
    served: Served, browser: Browser, place: str, expected: str, window: Window, tmp_path: Path
) -> None:
    seen = browser.look(f"{served.url}/{place}", See(expected), TOO_WIDE, window=window, picture=tmp_path / "page.png")

    assert seen.problems == []
    assert seen.values == [False]


def test_hostile_texts_stay_texts(served: Served, browser: Browser) -> None:
    elements = "document.querySelectorAll('main img, main script, main b b').length"
    title = "document.title"

    seen = browser.look(f"{served.url}/#case?suite=hostile&case=script", See("History over sweeps"), elements, title)
    hidden = browser.look(f"{served.url}/#case?suite=hostile&case=hidden", See("History over sweeps"))

    assert EVIL in seen.text
    assert seen.values == [0, "script · eval-pipeline"]
    assert "right\\u202eto left" in hidden.text
    assert seen.problems == []


def test_the_board_shows_what_the_command_prints(served: Served, browser: Browser, page_project: CliProject) -> None:
    seen = browser.look(f"{served.url}/", See("What changed"))

    for row in page_project("leaderboard", "--json").document:
        assert row["runner"] in seen.text
        assert f"{100 * row['pass_rate']:.1f} %" in seen.text


def test_filters_are_part_of_the_address(served: Served, browser: Browser) -> None:
    cases = "[...document.querySelectorAll('.virtual a')].map(each => each.textContent).join()"
    start = f"{served.url}/#suite?suite=greetings"

    differ = browser.look(start, See("3 of 3"), Click("runners differ"), See("2 of 3"), "location.hash", cases)
    again = browser.look(f"{served.url}/{differ.values[0]}", See("2 of 3"), cases)
    tagged = browser.look(f"{start}&tag=b", See("1 of 3"), cases)
    found = browser.look(f"{start}&text=go+away", See("1 of 3"), cases)

    assert differ.values == ["#suite?suite=greetings&show=differ", "ann,nobody"]
    assert (again.values, tagged.values, found.values) == (["ann,nobody"], ["bob"], ["nobody"])


def test_runners_are_chosen_and_past_results_are_shown(served: Served, browser: Browser) -> None:
    heads = "[...document.querySelectorAll('.gridrow.head > div')].map(each => each.firstChild.textContent).join()"
    one = browser.look(f"{served.url}/#suite?suite=greetings", See("3 of 3"), Click("parrot"), See("3 of 3"), heads)
    first = served.document("sweeps")["sweeps"][-1]["sweep_id"]
    past = browser.look(f"{served.url}/#case?suite=greetings&case=ann&of=sweep:{first}", See("History over sweeps"))

    assert one.values == ["case,greeter"]
    assert f"as sweep:{first} left it" in past.text
    assert "hello Ann" in past.text
    assert one.problems == past.problems == []


def test_the_names_of_runners_and_cases_stay_in_sight(served: Served, browser: Browser) -> None:
    rows = "document.querySelector('.rows')"
    scroll = f"{rows}.style.maxHeight = '150px'; {rows}.scrollTo(500, 500)"
    offset = "document.querySelector('{1}').getBoundingClientRect().{0} - {2}.getBoundingClientRect().{0}"
    place = f"Math.abs({offset}) < 1"
    head, first = place.format("top", ".gridrow.head", rows), place.format("left", ".gridrow.head > div", rows)
    moved = f"{rows}.scrollTop > 0 && {rows}.scrollLeft > 0"

    seen = browser.look(
        f"{served.url}/#suite?suite=greetings", See("of 3 passed"), scroll, moved, head, first, window=PHONE
    )

    assert seen.values[1:] == [True, True, True]


def test_keys_walk_through_cases(served: Served, browser: Browser) -> None:
    seen = browser.look(
        f"{served.url}/#suite?suite=greetings", See("3 of 3"),
        PRESS.format("j"), PRESS.format("j"), PRESS.format("Enter"),
        See("greetings / bob"), PRESS.format("j"), See("greetings / nobody"), PRESS.format("u"), See("3 of 3"),
    )  # fmt: skip

    assert seen.problems == []


def test_sides_of_a_comparison_that_are_no_choice_are_shown_as_they_are(served: Served, browser: Browser) -> None:
    sides = "[...document.querySelectorAll('select')].map(side => side.value)"

    seen = browser.look(f"{served.url}/#compare?a=sweep:previous&b=sweep:latest", See("What became of"), sides)

    assert seen.values == [["sweep:previous", "sweep:latest"]]


def test_two_answers_are_compared_word_by_word(served: Served, browser: Browser) -> None:
    marked = (
        "[...document.querySelectorAll('[data-runner=greeter] .diff > *')].map(e => e.tagName + ':' + e.textContent)"
    )

    seen = browser.look(f"{served.url}/#case?suite=greetings&case=bob&diff=parrot", See("History"), marked)

    assert seen.values == [["SPAN:hello", "DEL:?", "SPAN: ", "DEL:Bob", "INS:Bob"]] or seen.values == [
        ["SPAN:hello", "DEL:?", "SPAN: Bob"]
    ]
