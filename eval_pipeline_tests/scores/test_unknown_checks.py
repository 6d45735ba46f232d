"""Checks of a grading program that neither passed nor failed."""

from __future__ import annotations

import pytest

from eval_pipeline.scores.programs.reply import protocol_outcome


@pytest.mark.parametrize(
    ("checks", "value"),
    [
        ([{"text": "a", "passed": True}, {"text": "b"}], 1.0),
        ([{"text": "a", "passed": False}, {"text": "b"}], 0.0),
        ([{"text": "a"}], None),
    ],
)
def test_a_check_without_a_result_is_no_zero(checks: list[dict[str, object]], value: float | None) -> None:
    assert protocol_outcome({"assertions": checks}).value == value
