"""The skills that a session has: exactly the folders of `skills`, in its home; those of its workspace are not there
while it works, and again at the end."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eval_pipeline.agents.agent_cli import AgentCli
from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.model import TargetFailure
from eval_pipeline.executions.session_folders import session_folder
from eval_pipeline.failures import WORKSPACE
from eval_pipeline.fingerprints import file_fingerprint
from eval_pipeline.parsing.source import show_path

SKILL = "SKILL.md"
_NOT_SEARCHED = frozenset({".git", "node_modules", ".venv"})


@dataclass(frozen=True, slots=True)
class SessionSkills:
    """The folders of skills, by the names that they have in a session."""

    folders: dict[str, Path]

    @classmethod
    def read(cls, given: Sequence[str] | None, folder: Path, *, isolated: bool) -> SessionSkills | None:
        """Return the skills of a runner's settings; None where a session has whatever is there. Raises InputError."""
        if given is None:
            return None
        place = SourceLocation(field="skills")
        if not isolated:
            raise InputError("a session in the user's own home has the user's skills, too: leave out `home`", place)
        folders: dict[str, Path] = {}
        for name in given:
            path = Path(os.path.normpath(folder / name))
            if not (path / SKILL).is_file():
                raise InputError(f"no skill in '{show_path(path)}': it has no {SKILL}", place)
            if path.name in folders:
                raise InputError(f"two skills are named '{path.name}'", place)
            folders[path.name] = path
        return cls(folders)

    def content(self) -> dict[str, str]:
        """Return the fingerprints of the files of the skills."""
        return {
            f"skills/{name}/{path.relative_to(folder).as_posix()}": file_fingerprint(path)
            for name, folder in self.folders.items()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    @contextmanager
    def within(self, cli: AgentCli, environment: dict[str, str], workspace: Path | None, cwd: Path) -> Iterator[None]:
        """Let a session have these skills and no others. Raises TargetFailure, OSError."""
        home = cli.skills_in(Path(environment["HOME"]), environment)
        for name, folder in self.folders.items():
            shutil.copytree(folder, home / name)
        if workspace is None:
            _require_none(cwd)
            yield
            return
        with session_folder() as aside, _moved(workspace, aside):
            yield


def _require_none(cwd: Path) -> None:
    """Raise TargetFailure for a folder of the user with skills: nothing is moved away there."""
    found = next(workspace_skills(cwd), None)
    if found is not None:
        problem = f"the skill {show_path(cwd / found)} would be there, too: give the case a workspace"
        raise TargetFailure(WORKSPACE, problem, closes_runner=True)


@contextmanager
def _moved(workspace: Path, aside: Path) -> Iterator[None]:
    """Keep the skills of a workspace elsewhere; at the end they are back where nothing else is."""
    moved = list(workspace_skills(workspace))
    for number, skill in enumerate(moved):
        shutil.move(workspace / skill, aside / str(number))
    try:
        yield
    finally:
        for number, skill in enumerate(moved):
            if not os.path.lexists(workspace / skill):
                (workspace / skill).parent.mkdir(parents=True, exist_ok=True)
                shutil.move(aside / str(number), workspace / skill)


def workspace_skills(workspace: Path) -> Iterator[Path]:
    """Yield the folders of skills where agents look for them: below a folder whose name begins with a dot."""
    for folder, names, files in os.walk(workspace):
        names[:] = sorted(set(names) - _NOT_SEARCHED)
        inside = Path(folder).relative_to(workspace)
        if SKILL in files and any(part.startswith(".") for part in inside.parts):
            names.clear()
            yield inside
