"""What `workspace.yaml` loads: the definitions of the project of the folder that Dagster is started in."""

from __future__ import annotations

import sys
from pathlib import Path

import dagster as dg

from eval_pipeline.orchestration.build import build_definitions, session_of
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.dagster_files import describe_home

_session = session_of(Path.cwd())
if sys.argv[1:3] == ["api", "grpc"]:  # the server of this location, started by `dagster dev`; not each run's process
    print(
        escape_controls(f"eval-pipeline: {describe_home(Path.cwd(), _session.project.data)}"),
        file=sys.stderr,
        flush=True,
    )
defs = dg.Definitions.merge(build_definitions(_session), dg.Definitions(executor=dg.in_process_executor))
