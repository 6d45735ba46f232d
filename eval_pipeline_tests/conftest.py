"""Fixtures of the suites' tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
