"""Every recorded run of an agent CLI, normalized from what it printed and held against what it was served."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.normalize import NORMALIZERS, RawSession
from eval_pipeline.suites.model import Case
from eval_pipeline_tests.conformance.recorded_facts import WORKSPACE, Recording, recording_params
from eval_pipeline_tests.conformance.recording_rules import (
    CLIS,
    OF_ANSWERS,
    RULES,
    an_answer_that_broke_off_is_none,
    difference_of,
    read_run,
)
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered, not_recorded

_CASE = Case(id="recorded", input=())


@pytest.mark.parametrize("recording", recording_params())
def test_the_report_of_a_recorded_run_holds_what_was_served(recording: Recording, record_property: Record) -> None:
    format_ = CLIS.get(recording.cli.split("-")[0])
    if format_ is None:
        not_offered(f"a normalizer for {recording.cli.split('-')[0]}")
    if recording.text("stdout.jsonl") is None:
        not_recorded("what the CLI printed")
    run = read_run(recording)
    if run.cli == "aider" and run.expected["script"] in ("shell", "files"):
        not_recorded("the answer: a CLI without tools ends before it")

    report = _report(recording, format_)

    difference = difference_of(run)
    for rule in RULES:
        if difference is None or rule not in OF_ANSWERS:
            rule(run, report)
    if difference is not None:
        record_property("difference", difference)
        an_answer_that_broke_off_is_none(run, report)


def _report(recording: Recording, format_: str) -> SessionReport:
    printed = {"stdout": recording.text("stdout.jsonl"), "stderr": recording.text("stderr.txt")}
    raw = RawExecution(format=format_, payload={role: text for role, text in printed.items() if text is not None})
    material = RawSession(execution_id=recording.id, raw=raw, case=_CASE, cwd=Path(WORKSPACE))
    return NORMALIZERS.get(format_)().normalize(material)
