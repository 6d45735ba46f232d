"""A folder as users of AgentV have it: targets, eval files and programs; the command line runs in it."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

from eval_pipeline_tests.builders import make_repository
from eval_pipeline_tests.cli.sample_project import CliProject

ECHO = "    provider: cli\n    command: cat {PROMPT_FILE} > {OUTPUT_FILE}\n"
"""The settings of a target that repeats its prompt."""


def an_agentv_project(root: Path, files: dict[str, str] | None = None) -> CliProject:
    """A repository with these files; without others, a target `default` that repeats its prompt."""
    make_repository(root)
    project = CliProject(root)
    given = {".agentv/targets.yaml": f"targets:\n  - name: default\n{ECHO}"} | (files or {})
    for name, text in given.items():
        project.write(name, dedent(text))
    return project


def index_rows(project: CliProject) -> list[dict[str, Any]]:
    """The rows of `index.jsonl` in an exported run folder."""
    exported = project("export", "--format", "agentv", "--output", "out")
    assert exported.code == 0, exported.text
    return [json.loads(line) for line in (project.root / "out" / "index.jsonl").read_text().splitlines()]
