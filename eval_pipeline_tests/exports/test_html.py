"""The page that needs nothing else."""

from __future__ import annotations

from html.parser import HTMLParser

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported

EVIL = "<script>alert(1)</script>\" onmouseover='x' &amp;"


class _Read(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def page(*records: ResultRow) -> _Read:
    return _Read(exported("html", *records)[""].decode())


def test_cells_open_to_question_answer_and_reasons() -> None:
    shown = page(a_record(scores=(a_score("polite", 0.5),)))

    for text in ("maths · solver", "What is 2 + 2?", "4", "polite", "0.500", "polite was looked at", "it is passed"):
        assert text in shown.text
    assert shown.tags.count("details") == 1


def test_rates_stand_beside_what_could_not_be_graded() -> None:
    shown = page(a_record("a"), a_record("b", status=Status.FAILED), a_record("c", status=Status.ERROR))

    assert "1 of 2 graded plans passed: 50.0 % (95 %: 2.6–97.4); 1 could not be graded" in shown.text


def test_the_interval_of_repetitions_goes_by_cases_and_retries_are_named() -> None:
    shown = page(*(a_record(case, repetition=n) for case in "abc" for n in (1, 2, 3)), a_record("d", retry_of="first"))

    assert "10 of 10 graded plans passed: 100.0 % (95 %: 51.0–100.0)" in shown.text
    assert "1 tried again because they failed" in shown.text


def test_nothing_that_is_said_becomes_part_of_the_page() -> None:
    odd = a_record(
        EVIL, runner=EVIL, suite=EVIL, error=EVIL, verdict=a_verdict(reason=EVIL), report=a_report(final_output=EVIL),
        scores=(a_score(EVIL, reason=EVIL),), input=[{"role": "user", "content": EVIL}],
    )  # fmt: skip

    actual, plain = page(odd), page(a_record(error="x"))

    assert actual.tags == plain.tags
    assert actual.attributes == plain.attributes
    assert actual.text.count(EVIL) == 9


def test_nothing_is_a_page_all_the_same() -> None:
    assert page().tags == ["html", "meta", "title", "style", "h1"]
