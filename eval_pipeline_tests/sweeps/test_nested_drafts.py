"""What a model drafts may be nested deeper than Python can follow: that is wrong like anything else."""

from __future__ import annotations

import json

import pytest

from eval_pipeline.errors import InputError
from eval_pipeline.formats.connexity.editing import CASE_FORMAT
from eval_pipeline.suites.case_formats import DraftBrief
from eval_pipeline.sweeps.drafting import answered_items, write_drafts


@pytest.mark.parametrize("answer", ["[" * 100_000, '[{"name":' + "[" * 100_000 + "]" * 100_000 + "}]"])
def test_an_answer_that_is_nested_too_deeply_is_no_answer(answer: str) -> None:
    with pytest.raises(InputError, match="not JSON"):
        answered_items(answer)


def test_a_case_that_is_nested_deeply_stops_no_other() -> None:
    nested = json.loads("[" * 600 + "]" * 600)
    plain = {
        "persona": {"type": "a", "description": "b", "instructions": "c"},
        "initial_message": "Hi", "expected_outcomes": {"done": True}, "expected_tool_calls": [],
    }  # fmt: skip
    cases = [{"name": "Deep", **plain, "user_context": {"a": nested}}, {"name": "Plain", **plain}]

    drafts = write_drafts(lambda _: json.dumps(cases), CASE_FORMAT, DraftBrief(count=2))

    assert "Plain" in [case["name"] for case in drafts.cases]
