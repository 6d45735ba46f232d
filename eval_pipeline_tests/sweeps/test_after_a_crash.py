"""What a crash or a broken surrounding leaves, and how the next sweep mends it. Faults are planted at named points."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from eval_pipeline.warehouse.journal import PairKey
from eval_pipeline.warehouse.journal_lines import write_line
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_runner_entry, a_test

# The journal.


def full_after(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the disk be full after so many executions."""
    written: list[bytes] = []

    def write(file: Any, line: bytes) -> None:
        if len(written) == lines:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(line)
        write_line(file, line)

    monkeypatch.setattr("eval_pipeline.warehouse.journal.write_line", write)


def test_a_full_disk_ends_the_sweep_before_it_pays_for_more_answers(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_suite(*(a_test(f"t{number:02}") for number in range(20)))
    folder.write_suite(*(a_test(f"u{number:02}") for number in range(20)), name="more")
    folder.write_runners(a_runner_entry(concurrency=1))
    pairs = [PairKey("sums", "echo"), PairKey("more", "echo")]
    with monkeypatch.context() as patch:
        full_after(5, patch)
        _, outcomes = folder.sweep_cells(pairs)
    calls = folder.take_calls()

    _, again = folder.sweep_cells(pairs)

    assert all(outcome.error is not None and "No space left on device" in outcome.error for outcome in outcomes)
    assert len(outcomes) == 2
    assert len(calls) == 6
    assert [outcome.error for outcome in again] == [None, None]
    assert len(folder.take_calls()) == 35


def test_a_bad_line_in_a_journal_costs_one_execution_and_blocks_nothing(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_runners(a_runner_entry(concurrency=1))
    folder.write_suite(a_test("a"), a_test("b"), a_test("c"))
    with monkeypatch.context() as patch:
        full_after(2, patch)
        folder.sweep_cells([PairKey("sums", "echo")])
    (path,) = (folder.data / "journals").rglob("target_executions.jsonl")
    path.write_bytes(b"\x00\x00" + path.read_bytes()[2:])
    folder.take_calls()

    counts = folder.sweep()

    assert folder.take_calls() == ["echo/a", "echo/c"]
    assert (counts.passed, counts.planned) == (3, 3)
    assert path.with_suffix(".unreadable").read_bytes().startswith(b"\x00\x00")
