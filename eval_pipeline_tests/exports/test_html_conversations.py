"""`export --format html` shows a conversation line by line, everything escaped."""

from __future__ import annotations

from typing import Any

from eval_pipeline.exports.html import _plan
from eval_pipeline.reports.model import MessageEvent, ToolCallEvent, ToolResultEvent, TurnStart
from eval_pipeline_tests.exports.sample_rows import a_record, a_report


def shown(**fields: Any) -> str:
    events = (
        MessageEvent(role="user", text="<script>alert(1)</script>"),
        ToolCallEvent(tool="find<b>", call_id="1", arguments={"id": "<i>"}),
        ToolResultEvent(tool="find<b>", call_id="1", output="</li>", is_error=False),
        MessageEvent(role="assistant", text="Found & done"),
    )
    return _plan(a_record(report=a_report(events=events, **fields)))


def test_a_conversation_is_shown_line_by_line_and_escaped() -> None:
    text = shown(turn_starts=(TurnStart(position=0, messages=1), TurnStart(position=3, messages=0)), ended_by="agent")

    assert "<li><b>user</b> &lt;script&gt;" in text
    assert "<b>calls find&lt;b&gt;</b>" in text
    assert "<li><b>assistant</b> Found &amp; done</li>" in text
    assert "ended by agent" in text
    assert "<script>" not in text


def test_a_single_turn_has_no_conversation() -> None:
    assert "conversation" not in shown()
