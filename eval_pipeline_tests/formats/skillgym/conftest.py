"""Python suites in a folder, and sweeps of them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = "from eval_pipeline import Case, classify, command, commands, explain, output, skills, soft\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a module into the test's folder."""

    def written(source: str, name: str = "cases.py", head: str = HEAD) -> Path:
        path = tmp_path / name
        path.write_text(head + textwrap.dedent(source), encoding="utf-8")
        return path

    return written
