"""The code location that runs belong to: one that is named, that of the project's `workspace.yaml`, else our own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

MODULE = "eval_pipeline.orchestration.definitions"
LOCATION = "eval_pipeline"
LOCATION_VARIABLE = "EVAL_PIPELINE_LOCATION"
WORKSPACE_FILE = "workspace.yaml"


def workspace_file(root: Path) -> Path:
    """Return the workspace file of a project's folder where it serves our definitions, else the one shipped with us."""
    return root / WORKSPACE_FILE if _served_as(root) is not None else Path(__file__).parent / WORKSPACE_FILE


def location_name(root: Path) -> str:
    """Return the name of the code location that serves a project.

    The variable `EVAL_PIPELINE_LOCATION` names it; else it is the one of the project's workspace file, else `LOCATION`.
    """
    return os.environ.get(LOCATION_VARIABLE) or _served_as(root) or LOCATION


def _served_as(root: Path) -> str | None:
    """The name under which a folder's workspace file serves our definitions, None where it does not."""
    try:
        content = yaml.safe_load((root / WORKSPACE_FILE).read_text(encoding="utf-8"))
        entries = content["load_from"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
        return None
    return next(filter(None, map(_our_name, entries if isinstance(entries, list) else ())), None)


def _our_name(entry: Any) -> str | None:
    target = entry.get("python_module") if isinstance(entry, dict) else None
    if target == MODULE:
        return MODULE
    if isinstance(target, dict) and target.get("module_name") == MODULE:
        return str(target.get("location_name") or MODULE)
    return None
