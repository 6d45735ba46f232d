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
    DIFFERENCES,
    RULES,
    RecordedDifference,
    difference_of,
    read_run,
)
from eval_pipeline_tests.conformance.row_outcomes import Record

_CASE = Case(id="recorded", input=())


@pytest.mark.parametrize("recording", recording_params())
def test_the_report_of_a_recorded_run_holds_what_was_served(recording: Recording, record_property: Record) -> None:
    run = read_run(recording)
    difference = difference_of(run)

    report = _report(recording, CLIS[run.cli])

    for rule in difference.rules if difference is not None else RULES:
        rule(run, report)
    if difference is not None:
        record_property("difference", difference.reason)
        difference.check(run, report)


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.check.__name__)
def test_a_difference_concerns_a_run_that_breaks_a_rule(difference: RecordedDifference) -> None:
    recordings = [param.values[0] for param in recording_params() if isinstance(param.values[0], Recording)]
    concerned = [(each, read_run(each)) for each in recordings if difference_of(read_run(each)) is difference]

    assert concerned or not recordings
    for recording, run in concerned:
        report = _report(recording, CLIS[run.cli])
        broken = []
        for rule in RULES:
            try:
                rule(run, report)
            except AssertionError:
                broken.append(rule)
        assert broken, recording.id


def _report(recording: Recording, format_: str) -> SessionReport:
    printed = {"stdout": recording.text("stdout.jsonl") or "", "stderr": recording.text("stderr.txt") or ""}
    raw = RawExecution(format=format_, payload=printed)
    material = RawSession(execution_id=recording.id, raw=raw, case=_CASE, cwd=Path(WORKSPACE))
    return NORMALIZERS.get(format_)().normalize(material)
