"""The schedule that compacts a shared warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from eval_pipeline.orchestration.build import build_definitions
from eval_pipeline_tests.team.conftest import machine
from eval_pipeline_tests.team.sweeping import CountedProject


def test_a_shared_warehouse_has_a_schedule_that_compacts_it(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = CountedProject(tmp_path, url, suites=1, runners=1, cases=1).machine("one")
    monkeypatch.chdir(root)
    machine(url, tmp_path / "reader").write("sweeps", [])

    definitions = build_definitions(root)
    schedule = definitions.resolve_schedule_def("compact_warehouse")

    assert (schedule.job_name, schedule.default_status.value) == ("compact_warehouse", "STOPPED")
    assert definitions.resolve_job_def("compact_warehouse").execute_in_process().success
