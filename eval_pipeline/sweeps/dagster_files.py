"""The files by which Dagster serves a project: the home of its runs with `dagster.yaml`, and `workspace.yaml`.

They are read and written here without Dagster, which takes a second to import.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

from eval_pipeline.parsing.private_files import private_files
from eval_pipeline.sweeps.harmless_names import by_harmless_name

MODULE = "eval_pipeline.orchestration.definitions"
LOCATION = "eval_pipeline"
LOCATION_VARIABLE = "EVAL_PIPELINE_LOCATION"
WORKSPACE_FILE = "workspace.yaml"
SHIPPED = Path(__file__).parent / "project_templates" / "dagster"
"""The files that a new project gets."""
CONFIG = """\
# Dagster's own settings for this project (docs.dagster.io, "dagster.yaml"); written once, yours to change.
telemetry:
  enabled: false
nux:  # the invitation to Dagster's community
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
run_monitoring:
  enabled: true
  start_timeout_seconds: 1800  # Dagster stores an event for each asset of each pair before a run starts
code_servers:
  local_startup_timeout: 600  # seconds until the code location answers: Dagster's own 180 are short on a busy machine
retention:
  schedule:
    purge_after_days: 90
  sensor:
    purge_after_days:
      skipped: 7
      failure: 30
      success: 90
"""
_OF_THIRD = CONFIG.replace(CONFIG[CONFIG.index("code_servers") : CONFIG.index("retention")], "")
_OF_SECOND = _OF_THIRD.replace(next(line for line in _OF_THIRD.splitlines(True) if "start_timeout" in line), "")
_OF_FIRST = _OF_SECOND.replace("nux:  # the invitation to Dagster's community\n  enabled: false\n", "")
_WRITTEN_BEFORE = (_OF_FIRST, _OF_SECOND, _OF_THIRD)
"""What earlier versions wrote; whatever else a file has is the user's."""
SETTINGS_FILE = "dagster.yaml"


def dagster_home(data: Path, root: Path | None = None) -> Path:
    """Return the folder of the instance of a data folder.

    `DAGSTER_HOME` when set; the project's folder when its own `dagster.yaml` keeps the runs of this data folder, so
    that a plain `dagster dev` and the commands have the same settings; else `dagster/` in the data folder.
    """
    named = os.environ.get("DAGSTER_HOME")
    if named:
        return Path(named).expanduser().absolute()
    if root is not None and by_harmless_name(root) == root and configures(root, data):
        return root
    return by_harmless_name(runs_folder(data))


def runs_folder(data: Path) -> Path:
    """Return where Dagster's runs of a data folder are kept, unless `DAGSTER_HOME` names another folder."""
    return data.absolute() / "dagster"


def configures(root: Path, data: Path) -> bool:
    """Return whether `dagster.yaml` in a folder keeps Dagster's runs where the commands do for this data folder."""
    try:
        settings = yaml.safe_load((root / SETTINGS_FILE).read_text(encoding="utf-8"))
        storage = settings["storage"]["sqlite"]["base_dir"]
        return Path(root, storage).resolve() == runs_folder(data).resolve()
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
        return False


def is_on_a_server(home: Path) -> bool:
    """Return whether an instance's settings name another storage than SQLite's files."""
    try:
        settings = yaml.safe_load((home / SETTINGS_FILE).read_text(encoding="utf-8"))
        return bool(settings["storage"]) and "sqlite" not in settings["storage"]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError):
        return False


def describe_home(folder: Path, data: Path) -> str:
    """Return where a plain `dagster dev` in a folder keeps its runs, and how to see those of the commands."""
    named = os.environ.get("DAGSTER_HOME")
    if named and not configures(Path(named), data):
        return f"Dagster's runs are kept in {named} (DAGSTER_HOME)"
    if configures(Path(named or folder), data):
        return f"Dagster's runs, also those of eval-pipeline, are kept in {runs_folder(data)} ({SETTINGS_FILE})"
    return (
        "Dagster's runs are kept in a temporary folder, and those of eval-pipeline are not shown; to see them, start "
        f"`eval-pipeline dev`, or `dagster dev` with DAGSTER_HOME={runs_folder(data)}"
    )


@private_files()
def prepare_home(data: Path, root: Path | None = None) -> Path:
    """Return the instance's folder, with settings when it has none yet; settings of a user stay as they are."""
    home = dagster_home(data, root)
    home.resolve().mkdir(parents=True, exist_ok=True)
    settings = home / SETTINGS_FILE
    if not settings.exists() or settings.read_text("utf-8") in _WRITTEN_BEFORE:
        settings.write_text(CONFIG, encoding="utf-8")
    return home


def workspace_file(root: Path) -> Path:
    """Return the workspace file of a project's folder where it serves our definitions, else that of a new project."""
    return (root if _served_as(root) is not None else SHIPPED) / WORKSPACE_FILE


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
