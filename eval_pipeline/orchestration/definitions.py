"""What `workspace.yaml` loads: the definitions of the project of the folder that Dagster is started in."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.build import build_definitions

defs = dg.Definitions.merge(build_definitions(Path.cwd()), dg.Definitions(executor=dg.in_process_executor))
