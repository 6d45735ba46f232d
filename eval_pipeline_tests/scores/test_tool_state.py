"""The state of a case as its tools left it, compared with a document or with what reference calls leave behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.reports.model import ToolResultEvent, TurnStart
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.simulation import ToolMock
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

INITIAL = {"seats": {"1": "free", "2": "free"}, "paid": 0}
LEFT = {"seats": {"1": "taken", "2": "free"}, "paid": 9.0}


def scored(config: dict[str, Any], left: Any = LEFT, folder: Path = Path(), **case: Any) -> Score:
    """The score of a session whose last tool left this state."""
    events = (ToolResultEvent(tool="t", state={"paid": 1}), ToolResultEvent(tool="t", state=left), ToolResultEvent())
    report = a_report("done", events=events if left is not None else ())
    spec = an_evaluator("tool-state", **config)
    return score(spec, report, case=a_case(state=INITIAL, **case), folder=folder)


@pytest.mark.parametrize(
    ("config", "value", "reason"),
    [
        ({"expected": {"paid": 9}}, 1.0, "the state is as expected"),
        ({"expected": {"seats": {"1": "taken"}}}, 1.0, "the state is as expected"),
        ({"expected": {"seats": {"1": "taken"}}, "match": "whole"}, 1 / 3, "seats.2 is 'free'; it is not expected"),
        ({"expected": LEFT, "match": "whole"}, 1.0, "the state is as expected"),
        ({"expected": {"seats": {"2": "taken"}, "paid": 9}}, 0.5, "seats.2 is 'free'; expected 'taken'"),
        ({"expected": {"sent": True}}, 0.0, "sent is missing; expected True"),
        ({"expected": {"paid": True}}, 0.0, "paid is 9.0; expected True"),
        ({"expected": {}}, 1.0, "the state is as expected"),
    ],
)
def test_a_state_is_compared_in_part_or_as_a_whole(config: dict[str, Any], value: float, reason: str) -> None:
    found = scored(config)

    assert found.value == pytest.approx(value)
    assert reason in found.reason


def test_without_a_change_the_state_is_the_initial_one() -> None:
    assert scored({"expected": INITIAL, "match": "whole"}, left=None).value == 1.0


def test_what_the_simulator_did_last_counts() -> None:
    start = TurnStart(position=1, messages=0, speech={"state": {"paid": 2}})
    report = replace(a_report("done", events=(ToolResultEvent(state={"paid": 1}),)), turn_starts=(start,))

    found = score(an_evaluator("tool-state", expected={"paid": 2}), report, case=a_case(state=INITIAL))

    assert found.value == 1.0


FUNCTIONS = """
def pay(amount, state):
    if amount < 0:
        raise ValueError("less than nothing")
    return {"result": {}, "state": {**state, "paid": state["paid"] + amount}}
"""


@pytest.mark.parametrize(
    ("amount", "value", "reason"),
    [(9, 1.0, "as expected"), (8, 2 / 3, "paid is 9.0; expected 8"), (-1, None, "less than nothing")],
)
def test_reference_calls_are_carried_out_by_mocks_and_functions(
    amount: int, value: float | None, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "till.py").write_text(FUNCTIONS)
    mock = ToolMock(tool="take", response={}, state={"seats": {"{{ seat }}": "taken"}})
    calls = [{"tool": "take", "arguments": {"seat": 1}}, {"tool": "pay", "arguments": {"amount": amount}}]

    found = scored({"calls": calls, "tools": {"pay": "till:pay"}, "match": "whole"}, folder=tmp_path, mocks=(mock,))

    assert found.value == (pytest.approx(value) if value is not None else None)
    assert reason in found.reason
