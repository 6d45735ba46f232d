"""Live conversations through a whole sweep: each turn is sent with the target's own answers, judged by itself and as a
whole, and one report shows it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, contains, make_project

TARGET = """
import pathlib


def answer(messages, case):
    said = [f"{message['role']}: {message['content']}" for message in messages]
    with pathlib.Path(__file__).with_name("heard.log").open("a") as log:
        log.write(" | ".join(said) + "\\n")
    if "crash" in said[-1]:
        raise RuntimeError("told to crash")
    return {"output": f"answer {len(said)}", "cost_usd": 0.5}
"""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    made = make_project(tmp_path / "project")
    (made.root / "target.py").write_text(TARGET)
    made.write_runners({"name": "echo", "adapter": "python", "function": "target:answer"})
    return made


def talk(*turns: Any, **fields: Any) -> dict[str, Any]:
    """A conversation; a turn is a text or a mapping."""
    lines = [turn if isinstance(turn, dict) else {"input": turn} for turn in turns]
    return {"id": "talk", "mode": "conversation", "input": "be brief", "turns": lines, **fields}


def heard(folder: ProjectFolder) -> list[str]:
    return (folder.root / "heard.log").read_text().splitlines()


def scores(folder: ProjectFolder) -> list[tuple[Any, ...]]:
    return folder.ask("SELECT evaluator, value FROM current_scores ORDER BY 1")


def test_every_turn_is_sent_with_what_the_target_answered_before(folder: ProjectFolder) -> None:
    folder.write_suite(talk("one", "two"))

    folder.sweep_once()

    assert heard(folder) == [
        "user: be brief | user: one",
        "user: be brief | user: one | assistant: answer 2 | user: two",
    ]


def test_turns_are_judged_by_themselves_and_the_conversation_as_a_whole(folder: ProjectFolder) -> None:
    first = {"input": "one", "assertions": [contains("answer 2")]}
    second = {"input": "two", "assertions": [contains("answer 2")]}
    folder.write_suite(talk(first, second, assertions=[contains("answer 4")]))

    counts = folder.sweep()

    assert scores(folder) == [("conversation", 1.0), ("turn-1", 1.0), ("turn-2", 0.0)]
    assert counts.failed == 1


def test_one_report_shows_the_whole_conversation(folder: ProjectFolder) -> None:
    folder.write_suite(talk("one", "two"))

    folder.sweep_once()

    assert folder.ask("SELECT text FROM session_events ORDER BY position") == [
        ("one",), ("answer 2",), ("two",), ("answer 4",),
    ]  # fmt: skip
    assert folder.ask("SELECT final_output, cost_usd, normalizer FROM session_reports") == [
        ("answer 4", 1.0, "conversation/8")
    ]


def test_turns_of_identical_text_are_scored_by_their_place_and_scored_anew_without_the_target(
    folder: ProjectFolder,
) -> None:
    def suite(*expected: str) -> None:
        limit = {"type": "latency", "threshold": 60_000}
        turns = ({"input": "again", "assertions": [contains(text), limit]} for text in expected)
        folder.write_suite(talk(*turns))

    suite("answer 2", "answer 4")
    folder.sweep_once()
    first = scores(folder)
    suite("answer 4", "answer 4")
    counts = folder.sweep()

    assert first == [("turn-1", 1.0), ("turn-2", 1.0)]
    assert scores(folder) == [("turn-1", 0.5), ("turn-2", 1.0)]
    assert (counts.rescored, len(heard(folder))) == (1, 2)
    assert folder.ask("SELECT turn, text FROM session_events ORDER BY position") == [
        (1, "again"), (1, "answer 2"), (2, "again"), (2, "answer 4"),
    ]  # fmt: skip


def test_only_the_latest_exchanges_are_sent_where_a_window_is_asked_for(folder: ProjectFolder) -> None:
    folder.write_suite(talk("one", "two", "three", window_size=1))

    folder.sweep_once()

    assert heard(folder)[-1] == "user: be brief | user: two | assistant: answer 4 | user: three"


def test_a_failed_turn_ends_the_conversation_where_the_case_says_so(folder: ProjectFolder) -> None:
    wrong = {"input": "one", "assertions": [contains("nowhere")]}
    right = {"input": "two", "assertions": [contains("answer")]}
    folder.write_suite(talk(wrong, right, on_turn_failure="stop"))

    folder.sweep_once()

    assert len(heard(folder)) == 1
    assert scores(folder) == [("turn-1", 0.0), ("turn-2", 0.0)]


def test_a_turn_that_breaks_makes_the_case_an_error_and_keeps_what_was_said(folder: ProjectFolder) -> None:
    folder.write_suite(talk("one", "crash"))

    counts = folder.sweep()

    assert counts.errored == 1
    assert folder.ask("SELECT failure_class, final_output FROM session_reports") == [("target-crash", "answer 2")]


def test_an_edited_turn_is_executed_anew_and_an_edited_evaluator_is_not(folder: ProjectFolder) -> None:
    folder.write_suite(talk({"input": "one", "assertions": [contains("answer")]}))
    folder.sweep_once()
    folder.write_suite(talk({"input": "one", "assertions": [contains("nowhere")]}))
    assert (folder.sweep().rescored, len(heard(folder))) == (1, 1)

    folder.write_suite(talk({"input": "another", "assertions": [contains("nowhere")]}))

    assert (folder.sweep().executed, len(heard(folder))) == (1, 2)
