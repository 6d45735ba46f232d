"""JUnit XML: what CI systems show."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.scores.model import Finding, Status
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported


def parsed(*records: ResultRow) -> ET.Element:
    return ET.fromstring(exported("junit", *records)[""])


def the_case(record: ResultRow) -> ET.Element:
    actual = parsed(record).find("testsuite/testcase")
    assert actual is not None
    return actual


def test_every_suite_and_runner_is_a_testsuite_with_its_counts() -> None:
    root = parsed(
        a_record("a"),
        a_record("b", status=Status.FAILED),
        a_record("c", status=Status.ERROR),
        a_record("d", status=Status.EXPECTED_FAILED),
        a_record("a", runner="other"),
    )

    names = ("name", "tests", "failures", "errors", "skipped", "time")
    assert [[suite.get(name) for name in names] for suite in root] == [
        ["maths · solver", "4", "1", "1", "1", "4.000"],
        ["maths · other", "1", "0", "0", "0", "1.000"],
    ]
    assert [root.get(name) for name in names] == ["current", "5", "1", "1", "1", "5.000"]
    assert root[0].get("timestamp") == "2026-03-01T12:00:00"


def test_an_unknown_duration_is_left_out_and_not_counted_as_0() -> None:
    root = parsed(
        a_record("a", report=a_report(duration_ms=None)), a_record("a", runner="x"), a_record("b", "x", report=None)
    )

    assert [suite.get("time") for suite in root] == [None, "1.000"]
    assert root.get("time") == "1.000"
    assert [case.get("time") for case in root.iter("testcase")] == [None, "1.000", None]


def test_a_run_without_any_known_duration_has_no_time() -> None:
    assert parsed(a_record(report=None)).get("time") is None


@pytest.mark.parametrize(
    ("status", "element"),
    [
        (Status.PASSED, None),
        (Status.FAILED, "failure"),
        (Status.UNEXPECTED_PASSED, "failure"),
        (Status.ERROR, "error"),
        (Status.EXPECTED_FAILED, "skipped"),
    ],
)
def test_failures_and_errors_are_kept_apart(status: Status, element: str | None) -> None:
    case = the_case(a_record(status=status))

    actual = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
    assert actual == ([element] if element is not None else [])


def test_a_score_below_the_usual_mark_fails_when_the_case_says_so_and_passes_when_it_does_not() -> None:
    strict = a_record(status=Status.FAILED, verdict=a_verdict(Status.FAILED, 0.69))
    mild = a_record(verdict=a_verdict(Status.PASSED, 0.3, threshold=0.2))

    assert the_case(strict).find("failure") is not None
    assert the_case(mild).find("failure") is None


def test_a_failure_says_its_class_and_every_finding() -> None:
    findings = (Finding("holds a", True), Finding("holds b", False))

    failure = the_case(a_record(status=Status.FAILED, scores=(a_score(value=0.5, findings=findings),))).find("failure")

    assert failure is not None
    assert (failure.get("type"), failure.get("message")) == ("assertion", "it is failed")
    assert failure.text == "it is failed\nholds b"


def test_a_case_has_its_measures_and_reasons() -> None:
    case = the_case(a_record(tags=("a", "b"), scores=(a_score("polite", 0.5), a_score("lost", None))))

    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert (case.get("classname"), case.get("name"), case.get("time")) == ("maths.solver", "sum", "1.000")
    assert {name: properties[name] for name in ("status", "score", "model", "tags", "input_tokens", "cost_usd")} == {
        "status": "passed", "score": "1.0", "model": "gpt-5", "tags": "a,b", "input_tokens": "110", "cost_usd": "0.002"
    }  # fmt: skip
    assert case.findtext("system-out") == "polite: 0.5: polite was looked at\nlost: not scored: lost was looked at"


def test_what_was_not_measured_is_not_there() -> None:
    case = the_case(a_record(report=None, status=Status.ERROR, scores=()))

    assert case.get("time") is None
    assert "input_tokens" not in {one.get("name") for one in case.iter("property")}


def test_later_repetitions_have_names_of_their_own() -> None:
    names = [case.get("name") for case in parsed(a_record(), a_record(repetition=2)).iter("testcase")]

    assert names == ["sum", "sum #2"]


@pytest.mark.parametrize(
    "text",
    ["<b>&\"'", "]]>", "\x00\x1b[31mred\x07", "\ud800", "\ufffe\uffff", "a\tb\nc\rd", "😀"],
    ids=["markup", "cdata-end", "control", "surrogate", "no-characters", "white-space", "astral"],
)
def test_odd_characters_leave_it_valid(text: str) -> None:
    record = a_record(
        f"case{text}", runner=f"r{text}", status=Status.FAILED,
        verdict=a_verdict(Status.FAILED, reason=f"said {text}"), tags=(text,), scores=(a_score(reason=text),),
        report=a_report(final_output=text, model=text),
    )  # fmt: skip

    case = the_case(record)

    assert str(case.get("name")).startswith("case")


def test_nothing_is_an_empty_document() -> None:
    root = parsed()

    assert (root.tag, root.get("tests"), len(root)) == ("testsuites", "0", 0)
