"""`turn` and `conversation`: live conversations scored turn by turn and as a whole."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.reports.model import MessageEvent, SessionReport, ToolCallEvent, TurnStart, Usage
from eval_pipeline.scores.evaluate import EvaluatorSet, bind, build, evaluate_with
from eval_pipeline.scores.model import Score, Subject
from eval_pipeline.suites.load import load_suite
from eval_pipeline.suites.model import Case, Conversation, Message
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.fake_grader import MembersDesk, graded


def user(text: str) -> MessageEvent:
    return MessageEvent(role="user", text=text)


def says(text: str) -> MessageEvent:
    return MessageEvent(role="assistant", text=text, phase="final")


TALK = a_case(
    input=(Message(role="system", content="Be kind"),),
    criteria="of the whole",
    conversation=Conversation(
        turns=(
            (Message(role="user", content="Hi"),),
            (Message(role="user", content="A list:"), Message(role="user", content="a, b")),
            (Message(role="user", content="Hi"),),
        )
    ),
)
SESSION = SessionReport(
    execution_id="e1",
    final_output="Bye",
    events=(
        user("Hi"), says("Hello"),
        user("A list:"), user("a, b"), ToolCallEvent(tool="count"), says("two"),
        user("Hi"), MessageEvent(role="user", text="(reminder)", injected=True), says("Bye"),
    ),
    usage=Usage(output_tokens=30),
    duration_ms=900.0,
    model_calls=4,
)  # fmt: skip
CUT = replace(SESSION, events=SESSION.events[:2], final_output="Hello")


def turn(number: int, *assertions: Any, report: SessionReport = SESSION, case: Case = TALK, **config: Any) -> Score:
    """The score of a turn by raw assertions."""
    return graded(an_evaluator("turn", turn=number, assertions=list(assertions), **config), report, case=case)


def contains(value: str, **fields: Any) -> dict[str, Any]:
    return {"type": "contains", "value": value, **fields}


@pytest.mark.parametrize(("number", "answer"), [(1, "Hello"), (2, "two"), (3, "Bye")])
def test_a_turn_is_scored_by_what_the_target_said_in_it(number: int, answer: str) -> None:
    assert turn(number, {"type": "equals", "value": answer}).value == 1.0


def test_a_turn_is_the_weighted_mean_of_its_evaluators_each_a_row() -> None:
    score = turn(1, contains("Hello", weight=3), contains("Bye"))

    assert score.value == 0.75
    assert [(item.name, item.value, item.weight) for item in score.members] == [
        ("contains-Hello", 1.0, 3.0),
        ("contains-Bye", 0.0, 1.0),
    ]


def test_a_turns_tool_calls_are_its_own_and_what_is_measured_of_the_whole_is_not_known_of_it() -> None:
    none = {"type": "tool-trajectory", "mode": "exact", "expected": []}
    item = {"type": "tool-trajectory", "mode": "exact", "expected": [{"tool": "count"}]}

    assert [turn(number, calls).value for number, calls in ((1, none), (2, item), (3, none))] == [1.0, 1.0, 1.0]
    assert turn(2, {"type": "latency", "threshold": 1}).value is None
    assert turn(2, {"type": "token-usage", "max_output": 1}).value is None


def test_what_is_measured_of_a_turn_is_scored_in_it() -> None:
    starts = (
        TurnStart(position=0, messages=1, duration_ms=100.0, usage=Usage(output_tokens=10, cost_usd=0.1)),
        TurnStart(position=2, messages=2, duration_ms=500.0, usage=Usage(output_tokens=15, cost_usd=0.2)),
        TurnStart(position=6, messages=1),
    )
    measured = replace(SESSION, turn_starts=starts)
    limits = ({"type": "latency", "threshold": 200}, {"type": "token-usage", "max_output": 12})

    for limit in (*limits, {"type": "cost", "budget": 0.15}):
        assert [turn(number, limit, report=measured).value for number in (1, 2, 3)] == [1.0, 0.0, None]


def test_the_only_turn_that_was_played_is_the_whole_session() -> None:
    assert turn(1, {"type": "latency", "threshold": 1000}, report=CUT).value == 1.0


def test_a_turn_is_judged_in_the_light_of_what_was_said_before_and_of_its_own_expectations(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    keep = f"import sys; open({str(kept)!r}, 'w').write(sys.stdin.read()); print('{{\"score\": 1}}')"
    program = {"type": "code-grader", "name": "keep", "command": [sys.executable, "-c", keep]}

    turn(2, program, criteria="counts", expected_output=[{"role": "assistant", "content": "2"}])

    answers = json.loads(kept.read_text())
    assert [(item["role"], item["content"]) for item in answers["input"]] == [
        ("system", "Be kind"), ("user", "Hi"), ("assistant", "Hello"), ("user", "A list:"), ("user", "a, b"),
    ]  # fmt: skip
    assert (answers["criteria"], answers["expected_output"]) == ("counts", [{"role": "assistant", "content": "2"}])
    assert answers["output"] == [{"role": "assistant", "content": "", "tool_calls": [{"tool": "count"}]},
                               {"role": "assistant", "content": "two"}]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "assertions", "report", "value", "message"),
    [
        (1, [], SESSION, 1.0, "nothing to check"),
        (2, [contains("Hello")], CUT, 0.0, "ended before turn 2"),
        (2, [], CUT, 0.0, "ended before turn 2"),
        (4, [], SESSION, None, "there is no turn 4"),
        (1, [contains("Hello"), {"type": "cost", "budget": 1}], SESSION, None, "cost has no score"),
        (1, [contains("Hello"), {"type": "cost", "budget": 1, "weight": 0}], SESSION, 1.0, "mean of 2"),
        (1, [contains("Bye", required=True), contains("Hello", weight=9)], SESSION, 0.0, "required contains-Bye"),
        (1, [contains("Bye", required=True), {"type": "cost", "budget": 1}], SESSION, 0.0, "required contains-Bye"),
    ],
    ids=[
        "nothing to check", "never played", "nothing, never played", "no such turn", "one open",
        "one open that does not count", "gate", "gate, open",
    ],
)  # fmt: skip
def test_a_turn_that_is_not_a_plain_mean(
    number: int, assertions: list[Any], report: SessionReport, value: float | None, message: str
) -> None:
    score = turn(number, *assertions, report=report)

    assert score.value == value
    assert message in score.reason


def test_a_turn_that_was_answered_with_nothing_said_the_empty_text() -> None:
    starts = (TurnStart(position=0, messages=1), TurnStart(position=1, messages=2), TurnStart(position=5, messages=1))
    silent = replace(SESSION, events=(user("Hi"), *SESSION.events[2:]), turn_starts=starts)

    assert turn(1, {"type": "equals", "value": ""}, report=silent).value == 1.0


def test_a_case_without_turns_cannot_be_scored_by_turn() -> None:
    assert turn(1, contains("x"), case=a_case()).value is None


def test_a_conversation_is_scored_on_the_whole_session() -> None:
    score = graded(
        an_evaluator("conversation", assertions=[contains("Bye"), {"type": "latency", "threshold": 1}]),
        SESSION,
        case=TALK,
    )

    assert score.value == 0.5
    assert len(score.members) == 2


def test_the_output_of_a_whole_conversation_is_its_transcript() -> None:
    transcript = (
        "system: Be kind\n\nuser: Hi\n\nassistant: Hello\n\nuser: A list:\n\nuser: a, b\n\nassistant: two\n\n"
        "user: Hi\n\nassistant: Bye"
    )

    score = graded(an_evaluator("conversation", assertions=[contains(transcript)]), SESSION, case=TALK)

    assert score.value == 1.0


def test_the_transcript_of_a_session_without_the_last_answer_ends_with_its_output() -> None:
    report = replace(SESSION, events=SESSION.events[:3], final_output="three")

    score = graded(an_evaluator("conversation", assertions=[contains("assistant: three")]), report, case=TALK)

    assert score.value == 1.0


@pytest.mark.parametrize(
    ("aggregation", "whole", "report", "value", "message"),
    [
        ("min", [], SESSION, 0.0, "turn-2"),
        ("max", [], SESSION, 1.0, "turn-1"),
        ("min", [{"type": "is-json"}], SESSION, 0.0, "turn-2"),
        ("max", [contains("Bye")], CUT, 1.0, "turn-1"),
        ("min", [{"type": "cost", "budget": 1}], SESSION, None, "conversation: cost has no score"),
    ],
)
def test_the_worst_or_best_of_the_turns_and_the_whole(
    aggregation: str, whole: list[Any], report: SessionReport, value: float | None, message: str
) -> None:
    turns = [{"turn": 1, "assertions": [contains("Hello")]}, {"turn": 2, "assertions": [contains("three")]}]
    spec = an_evaluator("conversation", aggregation=aggregation, turns=turns, assertions=whole)

    score = graded(spec, report, case=TALK)

    assert score.value == value
    assert message in score.reason
    assert [item.name for item in score.members] == ["turn-1", "turn-2", *(["conversation"] if whole else [])]


def test_a_suite_of_turns_is_scored_as_its_loader_hands_it_over(tmp_path: Path) -> None:
    suite_file = tmp_path / "talk.eval.yaml"
    suite_file.write_text(
        "tests:\n- id: talk\n  mode: conversation\n  input: Be kind\n  turns:\n"
        "  - {input: Hi, assertions: [{type: contains, value: Hello}]}\n  - input: Bye\n"
        "  assertions: [{type: contains, value: bye}]\n"
    )
    suite = load_suite(suite_file)
    case = suite.cases[0]
    report = SessionReport(
        execution_id="e1", final_output="bye", events=(user("Hi"), says("Hello"), user("Bye"), says("bye"))
    )

    scores = asyncio.run(evaluate_with(MembersDesk(), Subject(case, report), EvaluatorSet(suite).of(case)))

    assert [(item.evaluator, item.value) for item in scores] == [
        ("turn-1", 1.0),
        ("turn-2", 1.0),
        ("conversation", 1.0),
    ]


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("turn", {"assertions": []}, "turn turn: required"),
        ("turn", {"turn": 0, "assertions": []}, "at least 1"),
        ("turn", {"turn": 1, "assertions": [{"type": "contains"}]}, "member 'contains'"),
        ("conversation", {}, "needs assertions"),
        ("conversation", {"turns": [{"turn": 1, "assertions": []}], "assertions": []}, "needs assertions"),
        ("conversation", {"aggregation": "mean", "assertions": []}, "one of 'min' or 'max'"),
        ("conversation", {"aggregation": "min", "turns": ["x"]}, "turns: expected mappings"),
        ("conversation", {"aggregation": "min", "turns": [{"turn": 1}]}, "turns: turn assertions: required"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(kind: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        build(an_evaluator(kind, **config))

    assert message in str(raised.value)


def test_the_files_and_graders_of_turns_are_part_of_what_a_conversations_scores_depend_on(tmp_path: Path) -> None:
    script = tmp_path / "grade.py"
    program = {"type": "code-grader", "name": "p", "command": ["python3", "grade.py"], "target": True}
    turns = [{"turn": 1, "assertions": [program]}]
    spec = an_evaluator("conversation", aggregation="min", turns=turns, assertions=[])
    keys = []
    for text in ("print(1)", "print(2)"):
        script.write_text(text)
        keys.append(bind(spec, TALK, tmp_path).key)

    assert keys[0] != keys[1]
    assert build(spec).graders == (None,)  # type: ignore[union-attr]
