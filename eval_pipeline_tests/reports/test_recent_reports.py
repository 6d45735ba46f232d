"""A report that was just read is passed on once, while the files that it was read from are as they were."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from eval_pipeline.executions.model import RawExecution
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.reports.recent_reports import recall, remember

REPORT = SessionReport(execution_id="", final_output="four")


@pytest.fixture
def raw(tmp_path: Path) -> RawExecution:
    (tmp_path / "stdout").write_text("printed")
    return RawExecution(format="codex", files={"stdout": tmp_path / "stdout"}, exit_code=1)


def test_a_report_is_passed_on_once(raw: RawExecution) -> None:
    remember(raw, REPORT)

    assert recall(raw) is REPORT
    assert recall(raw) is None


def test_a_report_of_a_file_that_was_written_since_is_not_passed_on(raw: RawExecution) -> None:
    remember(raw, REPORT)
    before = raw.files["stdout"].stat()
    raw.files["stdout"].write_text("***inte")
    os.utime(raw.files["stdout"], ns=(before.st_atime_ns, before.st_mtime_ns))

    assert recall(raw) is None


def test_a_report_of_a_file_that_is_gone_is_not_passed_on(raw: RawExecution) -> None:
    remember(raw, REPORT)
    raw.files["stdout"].unlink()

    assert recall(raw) is None


def test_a_session_without_files_is_read_again() -> None:
    raw = RawExecution(format="codex", payload={"output": "four"})
    remember(raw, REPORT)

    assert recall(raw) is None


def test_few_reports_are_held(tmp_path: Path) -> None:
    sessions = []
    for number in range(9):
        (tmp_path / str(number)).write_text("printed")
        sessions.append(RawExecution(format="codex", files={"stdout": tmp_path / str(number)}))
        remember(sessions[-1], REPORT)

    assert [recall(each) is REPORT for each in sessions] == [False, *[True] * 8]
