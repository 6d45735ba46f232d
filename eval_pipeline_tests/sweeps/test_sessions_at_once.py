"""How many sessions of an agent run at the same time where its runner sets nothing."""

from __future__ import annotations

import os
from typing import Any

import pytest

from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test

COUNTS = """#!/bin/sh
cat > /dev/null
mkdir -p "{folder}/busy/$$"
ls "{folder}/busy" | wc -l >> "{folder}/seen"
sleep 0.3
rmdir "{folder}/busy/$$"
echo '{{"type": "result", "subtype": "success", "is_error": false, "result": "2 apples"}}'
"""


def most_at_once(folder: ProjectFolder, **fields: Any) -> int:
    script = folder.root / "agent.sh"
    script.write_text(COUNTS.format(folder=folder.root), encoding="utf-8")
    script.chmod(0o755)
    folder.write_runners(
        {"name": "coder", "adapter": "agent", "agent": "claude-code", "executable": str(script), **fields}
    )
    folder.write_suite(*(a_test(name) for name in "abcdef"))

    assert folder.sweep(runner="coder").executed == 6
    return max(map(int, (folder.root / "seen").read_text(encoding="utf-8").split()))


def test_agents_run_two_sessions_for_each_processor(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)

    assert most_at_once(folder) == 2


def test_memory_limits_the_sessions_of_agents(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": (3 << 29) // 4096}
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)

    assert most_at_once(folder) == 1


def test_a_runners_own_concurrency_wins(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0}, raising=False)

    assert most_at_once(folder, concurrency=4) == 4
