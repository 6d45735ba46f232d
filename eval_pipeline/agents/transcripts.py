"""The registry of transcript formats: an imported session → one line of a file that the replay adapter reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eval_pipeline.agents.session_import import Session
from eval_pipeline.plugins import Registry

TRANSCRIPTS: Registry[Callable[[Session], dict[str, Any]]] = Registry(
    "transcript format", folder=None, entry_point_group="eval_pipeline.transcripts"
)
REPLAYABLE = "replay"
"""The format that `eval-pipeline import` writes."""
