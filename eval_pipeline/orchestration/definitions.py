"""What `workspace.yaml` loads: the definitions of the project found from where Dagster was started."""

from __future__ import annotations

from pathlib import Path

from eval_pipeline.orchestration.build import build_definitions

defs = build_definitions(Path.cwd())
