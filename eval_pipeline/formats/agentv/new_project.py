"""The kind of project that refers to a folder of AgentV evals: one project file is written, nothing is copied."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.formats.agentv.project_file import nearest_project_file
from eval_pipeline.formats.agentv.targets import TARGETS
from eval_pipeline.parsing.interpolation import read_environment
from eval_pipeline.parsing.source import show_path
from eval_pipeline.suites.load import find_suite_files
from eval_pipeline.sweeps.new_projects import RUN, ProjectKind
from eval_pipeline.sweeps.project import PROJECT_FILE

_TEXT = """\
# yaml-language-server: $schema=schemas/project.json
# The folder's own targets, graders and scripts are used; nothing in it is changed.
suites: [{suites}]
runners: {runners}
data: data
"""


def project_files(folder: Path, source: Path) -> Mapping[str, str]:
    """Return the project file for a folder of AgentV evals. Raises InputError when it has no targets or no suites."""
    names = [name for name in TARGETS.file_names if (source / name).is_file()]
    if not names:
        raise InputError(f"no targets in {show_path(source)}: expected one of {', '.join(TARGETS.file_names)}")
    paths = list(_patterns(source)) or list(_suite_folders(source))
    if not paths:
        raise InputError(f"no eval files in the folders of {show_path(source)}")
    suites = ", ".join(_quoted(_relative(path, folder)) for path in paths)
    return {PROJECT_FILE: _TEXT.format(suites=suites, runners=_relative(source / names[0], folder))}


def _patterns(source: Path) -> Iterator[Path]:
    """Yield the `eval_patterns` of the folder's `.agentv/config.yaml` that match suites."""
    nearest = nearest_project_file([source], read_environment(source))
    for pattern in nearest[1].settings.get("eval_patterns", ()) if nearest is not None else ():
        with suppress(InputError):  # a pattern that matches nothing
            if find_suite_files([pattern], source):
                yield source / pattern


def _quoted(text: str) -> str:
    """Return a text as an entry of a YAML list; patterns may begin with `*`."""
    return json.dumps(text, ensure_ascii=False) if set(text) & set("*?[]{},&!#'\": ") else text


def _suite_folders(source: Path) -> Iterator[Path]:
    """Yield the subfolders of the source that have suites; without any, the source itself if it has suites."""
    below = [path for path in sorted(source.iterdir()) if path.is_dir() and not path.name.startswith(".")]
    folders = [path for path in below if find_suite_files([str(path)], source)]
    yield from folders or ([source] if find_suite_files([str(source)], source) else [])


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


AGENTV_FOLDER = ProjectKind(
    summary="a folder of AgentV evals, used where it is",
    files=project_files,
    next_steps=(
        ("eval-pipeline validate", "check every eval file and target without running anything"),
        RUN,
    ),
    imports=True,
)
