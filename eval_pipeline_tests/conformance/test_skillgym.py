"""skillgym's recorded facts: what its adapters read out of sessions is compared; its suites are not read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.suites.model import Case
from eval_pipeline_tests.conformance.recorded_facts import Row, params_of
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered
from eval_pipeline_tests.conformance.skillgym_checks import is_check

_SESSIONS = {
    "opencode-normalize": ("opencode", "session", "raw.session.export.json"),
    "cursor-agent-normalize": ("cursor-agent", "stdout", "raw.session.jsonl"),
}


@pytest.mark.parametrize("row", params_of("skillgym", lambda row: not is_check(row)))
def test_we_answer_as_skillgym_does(row: Row, record_property: Record) -> None:
    if row.kind not in _SESSIONS:
        not_offered("suites of skillgym are not read")
    folder = Path(row.data["path"])
    theirs = json.loads(_read(folder / "expected.json"))["full_report_as_produced"]
    request = json.loads(_read(folder / "input.json"))["run_input"]

    report = _report(folder, row.kind, request["cwd"])

    assert list(report.file_reads) == theirs["files"]["observedReads"]
    assert [skill.skill for skill in report.skills] == [skill["skill"] for skill in theirs["detectedSkills"]]
    assert list(report.commands) == [event["command"] for event in theirs["events"] if event["type"] == "command"]
    assert [call.tool for call in report.tool_calls] == [
        event["tool"] for event in theirs["events"] if event["type"] == "toolCall"
    ]
    assert (report.final_output or "") == theirs["finalOutput"]
    if _compare_usage(report, theirs["usage"]):
        record_property("difference", "output tokens include reasoning")


def _report(folder: Path, kind: str, cwd: str) -> SessionReport:
    format_, role, name = _SESSIONS[kind]
    raw = RawExecution(format=format_, payload={role: _read(folder / name)})
    case = Case(id="recorded", input=())
    return NORMALIZERS.get(format_)().normalize(RawSession(execution_id="recorded", raw=raw, case=case, cwd=Path(cwd)))


def _read(path: Path) -> str:
    """A file of a row with its machine path put in."""
    return path.read_text("utf-8").replace("<tmp>", "/recorded").replace("$TMP", "/recorded")


def _compare_usage(report: SessionReport, theirs: dict[str, Any]) -> bool:
    """Compare tokens; whether the output differs by the reasoning that skillgym counts apart."""
    ours, reasoning = report.usage, theirs.get("reasoningTokens", 0)
    assert (ours.input_tokens, ours.cached_input_tokens) == (theirs.get("inputTokens"), theirs.get("cacheTokens"))
    assert ours.output_tokens == (theirs["outputTokens"] + reasoning if "outputTokens" in theirs else None)
    return bool(reasoning)
