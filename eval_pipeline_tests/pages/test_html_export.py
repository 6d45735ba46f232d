"""The page that needs nothing else: its data, and what it is made of."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.leaderboards.result_rows import ResultRow
from eval_pipeline.reports.model import MessageEvent, ToolCallEvent, ToolResultEvent, TurnStart
from eval_pipeline.scores.model import Status
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.exports.sample_rows import a_record, a_report, a_score, a_verdict, exported
from eval_pipeline_tests.orchestration.browser import Browser, See
from eval_pipeline_tests.pages.sample_page import EVIL

FORGED = f"</script>{EVIL}<!--<script>"


class _Read(HTMLParser):
    """The tags of a page, its data by id, and its scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data: dict[str, Any] = {}
        self.parts: list[str] = []
        self.policy = ""
        self._name: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        given = dict(attrs)
        self._name = given.get("id") if tag == "script" else None
        if given.get("http-equiv") == "content-security-policy":
            self.policy = given["content"] or ""

    def handle_data(self, data: str) -> None:
        if self._name is not None:
            self.data[self._name] = json.loads(data)
            self._name = None
        elif self.tags and self.tags[-1] in ("script", "style") and data.strip():
            self.parts.append(data)


def page(*records: ResultRow) -> _Read:
    return _Read(exported("html", *records)[""].decode())


def test_plans_hold_question_answer_and_reasons() -> None:
    shown = page(a_record(scores=(a_score("polite", 0.5),)))

    (plan,) = shown.data["plans-0"]
    assert (plan["suite"], plan["runner"], plan["output"], plan["reason"]) == ("maths", "solver", "4", "it is passed")
    assert plan["input"][0]["content"] == "What is 2 + 2?"
    assert (plan["scores"][0]["value"], plan["scores"][0]["reason"]) == (0.5, "polite was looked at")
    assert shown.data["documents"]["places"] == {"maths": {"sum": [[0, 0]]}}


def test_plans_are_found_in_their_batches() -> None:
    shown = page(*(a_record(f"c{number}", runner) for runner in ("a", "b") for number in range(70)))

    places = shown.data["documents"]["places"]["maths"]
    assert len(shown.data["plans-0"]) == 100
    for case, entries in places.items():
        assert [shown.data[f"plans-{batch}"][place]["case_id"] for batch, place in entries] == [case, case]


def test_rates_stand_beside_what_could_not_be_graded() -> None:
    shown = page(a_record("a"), a_record("b", status=Status.FAILED), a_record("c", status=Status.ERROR))

    grid = shown.data["documents"]["grids"]["maths"]
    assert grid["summaries"]["solver"] == "1 of 2 graded plans passed: 50.0 % (95 %: 2.6–97.4); 1 could not be graded"
    assert grid["runners"][0]["marks"] == ["p", "f", "x"]
    assert grid["runners"][0]["scores"] == [1.0, 0.0, None]


def test_the_interval_of_repetitions_goes_by_cases_and_retries_are_named() -> None:
    shown = page(*(a_record(case, repetition=n) for case in "abc" for n in (1, 2, 3)), a_record("d", retry_of="first"))

    summary = shown.data["documents"]["grids"]["maths"]["summaries"]["solver"]
    assert "10 of 10 graded plans passed: 100.0 % (95 %: 51.0–100.0)" in summary
    assert "1 tried again because they failed" in summary


def test_a_conversation_is_there_turn_by_turn() -> None:
    events = (
        MessageEvent(role="user", text="<script>alert(1)</script>"),
        ToolCallEvent(tool="find<b>", call_id="1", arguments={"id": "<i>"}),
        ToolResultEvent(tool="find<b>", call_id="1", output="</li>", is_error=False),
        MessageEvent(role="assistant", text="Found & done"),
    )
    turns = (TurnStart(position=0, messages=1), TurnStart(position=3, messages=0))

    shown = page(a_record(report=a_report(events=events, turn_starts=turns, ended_by="agent")))

    (plan,) = shown.data["plans-0"]
    first, second = plan["turns"]
    assert first["messages"][0]["text"] == "<script>alert(1)</script>"
    assert [event["kind"] for event in first["events"]] == ["tool_call", "tool_result"]
    assert second["events"][0]["text"] == "Found & done"
    assert plan["ended_by"] == "agent"


@pytest.mark.parametrize("text", [EVIL, FORGED, "\u2028</SCRIPT >"])
def test_nothing_that_is_said_becomes_part_of_the_page(text: str) -> None:
    odd = a_record(
        text, runner=text, suite=text, error=text, verdict=a_verdict(reason=text), report=a_report(final_output=text),
        scores=(a_score(text, reason=text),), input=[{"role": "user", "content": text}],
    )  # fmt: skip

    actual, plain = page(odd), page(a_record(error="x"))

    assert actual.tags == plain.tags
    assert actual.data["plans-0"][0]["output"] == text


def test_the_policy_allows_its_own_script_and_style_only() -> None:
    shown = page(a_record())
    hashes = {base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in shown.parts}

    assert set(re.findall("'sha256-([^']+)'", shown.policy)) == hashes
    assert len(hashes) == 3
    assert "default-src 'none'" in shown.policy
    assert "unsafe" not in shown.policy


def test_nothing_is_a_page_all_the_same() -> None:
    assert page().data["documents"]["grids"] == {}


@pytest.mark.slow
@pytest.mark.browser
def test_an_exported_page_shows_the_same_without_a_server(
    page_project: CliProject, browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "results.html"
    assert page_project("export", "--format", "html", "--output", str(file)).code == 0

    board = browser.look(f"{file.as_uri()}#board", See("passed before, fails now"))
    suite = browser.look(f"{file.as_uri()}#suite?suite=greetings&show=differ", See("2 of 3 cases"), See("go away"))
    found = browser.look(f"{file.as_uri()}#suite?suite=greetings&text=GO+AWAY", See("1 of 3 cases"))
    case = browser.look(f"{file.as_uri()}#case?suite=hostile&case=script", See("History over sweeps"), "document.title")
    compared = browser.look(f"{file.as_uri()}#compare", See("Cases with the largest change"))

    assert "graded plans passed" in suite.text
    assert EVIL in case.text
    assert case.values == ["script · eval-pipeline"]
    assert [seen.problems for seen in (board, suite, found, case, compared)] == [[]] * 5


@pytest.mark.slow
@pytest.mark.browser
def test_a_case_shows_turns_tool_calls_changed_files_and_what_a_grader_was_asked(
    browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "results.html"
    turns = (TurnStart(position=0, messages=0, duration_ms=450.0), TurnStart(position=3, messages=0))
    details = {"prompt": [{"role": "user", "content": "Is it polite?"}], "reply": "It is.", "grader": "referee"}
    record = a_record(
        report=a_report(
            turn_starts=turns, file_changes="--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n", retries_cost_usd=0.5
        ),
        scores=(a_score("polite", details=details),),
    )
    file.write_bytes(exported("html", record)[""])
    opened = "document.querySelectorAll('details').forEach(each => { each.open = true; })"
    drawn = "[document.querySelectorAll('.timeline .call').length, document.querySelectorAll('.filediff .more').length]"

    seen = browser.look(
        f"{file.as_uri()}#case?suite=maths&case=sum", See("polite"), opened, See("Is it polite?"), drawn
    )

    for text in ("2 turns", "450 ms", "calls Read", "Read returns", "It is.", "reply of the grader referee", "+new"):
        assert text in seen.text
    for text in ("$0.5020, $0.5000 of it beside the answer", "$0.0020 (reported)", "$0.5000 (failed attempts"):
        assert text in seen.text
    assert seen.values[-1] == [1, 1]
    assert seen.problems == []


def test_a_selected_suite_leaves_nothing_of_the_others(page_project: CliProject, tmp_path: Path) -> None:
    file = tmp_path / "results.html"
    assert page_project("export", "--format", "html", "--suite", "sums", "--output", str(file)).code == 0

    data = _Read(file.read_text()).data

    assert "greetings" not in json.dumps(data)
    assert [suite["suite"] for suite in data["documents"]["board"]["suites"]] == ["sums"]
