"""One recorded session has the same tool durations in every place that reports them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.agents.agent_cli import AGENTS
from eval_pipeline.agents.session_import import Session, read_session
from eval_pipeline.formats.agentv.results import result_json
from eval_pipeline.formats.agentv.transcripts import transcript_line
from eval_pipeline.scores.model import Subject
from eval_pipeline.scores.programs.payload import grading_payload
from eval_pipeline_tests.agents.recorded_sessions import log_of, printed
from eval_pipeline_tests.builders import a_case, an_evaluator
from eval_pipeline_tests.exports.sample_rows import a_record, spans
from eval_pipeline_tests.scores.single_scores import score

RECORDED = {
    "claude": ("files", [("Read", 81.0), ("Bash", 155.0), ("Write", 251.0), ("Edit", 1088.0)]),
    "codex": (
        "patch",
        [("exec_command", 0.00586), ("exec_command", 0.006965), ("apply_patch", 9.0), ("apply_patch", 7.0)],
    ),
    "copilot": ("files", [("view", 4.0), ("bash", 50.0), ("create", 10.0), ("edit", 5.0)]),
}
Durations = list[tuple[str, float]]


@pytest.fixture(params=RECORDED)
def agent(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def session(agent: str, tmp_path: Path) -> Session:
    path = tmp_path / "log.jsonl"
    path.write_text(printed(agent, RECORDED[agent][0], "session.jsonl"), "utf-8")
    return read_session(AGENTS.get(agent), log_of(agent, path))


@pytest.fixture
def durations(agent: str) -> Durations:
    return RECORDED[agent][1]


def of_messages(messages: list[dict[str, Any]]) -> Durations:
    calls = (call for message in messages for call in message.get("tool_calls", ()))
    return [(call["tool"], call["duration_ms"]) for call in calls]


def by_tool(durations: Durations) -> dict[str, list[float]]:
    return {tool: [ms for name, ms in durations if name == tool] for tool, _ in durations}


def test_the_report_has_them(session: Session, durations: Durations) -> None:
    assert [(use.tool, use.duration_ms) for use in session.report.tool_uses] == durations


def test_the_transcript_has_them(session: Session, durations: Durations) -> None:
    assert of_messages(transcript_line(session)["output"]) == durations


def test_a_grading_program_is_given_them(session: Session, durations: Durations, tmp_path: Path) -> None:
    payload = grading_payload(Subject(a_case(), session.report, tmp_path), None, "messages", tmp_path)

    assert of_messages(payload["output"]) == durations
    assert payload["trace"]["tool_durations"] == by_tool(durations)


def test_the_trace_export_has_them(session: Session, durations: Durations) -> None:
    report = session.report
    began, ended = (datetime.fromisoformat(text or "").astimezone(UTC) for text in (report.started_at, report.ended_at))

    all_spans = spans(a_record(report=report, started_at=began, finished_at=ended))

    tools = [span for span in all_spans if span["name"].startswith("execute_tool ")]
    assert [span["name"].removeprefix("execute_tool ") for span in tools] == [tool for tool, _ in durations]
    assert [elapsed_ms(span) for span in tools] == pytest.approx([ms for _, ms in durations], abs=0.001)


def elapsed_ms(span: dict[str, Any]) -> float:
    return (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) / 1e6


def test_results_in_the_words_of_agentv_have_them(session: Session, durations: Durations) -> None:
    result = result_json(a_record(report=session.report))

    assert of_messages(result["output"]) == durations
    assert result["trace"]["tool_durations"] == by_tool(durations)


def test_tool_trajectory_has_them(session: Session, durations: Durations) -> None:
    expected = [{"tool": tool, "args": "any", "max_duration_ms": 1e9} for tool, _ in durations]

    scored = score(an_evaluator("tool-trajectory", mode="exact", expected=expected), session.report)

    texts = (finding.text for finding in scored.findings)
    shown = [match.groups() for text in texts if (match := re.search(r"\((\w+)\): duration (\S+) ms", text))]
    near: list[Any] = [(tool, pytest.approx(ms, abs=0.05)) for tool, ms in durations]
    assert [(tool, float(ms)) for tool, ms in shown] == near
    assert "0" not in [ms for _, ms in shown]
