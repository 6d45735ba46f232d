"""Fixtures of all rooms, and the markers that a file or folder gives its tests (explained in pyproject.toml)."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SLOW_FILES: frozenset[str] = frozenset()
"""Files whose tests take seconds each, below the folder of the tests."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        place = item.path.relative_to(TESTS)
        if place.parts[0] == "conformance":
            item.add_marker(pytest.mark.conformance)
        if place.as_posix() in SLOW_FILES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Makes an empty folder the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
