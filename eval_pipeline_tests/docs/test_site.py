"""The documentation builds as a site without warnings, and a reader's browser loads nothing from the network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from eval_pipeline_tests.console_blocks import ROOT

pytest.importorskip("mkdocs", reason="comes with the extra 'docs'")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as CI builds it."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return folder


def test_pages_load_nothing_from_the_network(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?https?:|<link[^>]+rel=\"?(?:stylesheet|preconnect)\"?[^>]+https?:"
    )

    assert [page.name for page in site.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_generated_tables_are_on_the_pages(site: Path) -> None:
    page = (site / "reference" / "evaluators.html").read_text(encoding="utf-8")

    assert "<code>llm-grader</code>" in page
    assert "generated:" not in page
