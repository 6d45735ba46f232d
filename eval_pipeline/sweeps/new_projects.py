"""Kinds of small projects that run at once: what `eval-pipeline init` writes.

A kind returns the texts of its files. Ours are the folders in `project_templates`; a format of another system registers
a kind that points at a folder of that system, by the entry-point group `eval_pipeline.project_kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from eval_pipeline.plugins import Registry

_PYTHON = ".py.txt"
"""The suffix of a Python template: it is a user's program, not a module of this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectKind:
    """A kind of project.

    `summary` is shown where a user chooses. `files` returns texts by relative path for a project folder and the folder
    to import from; it raises InputError when nothing can be imported. `next_steps` are commands with their purpose.
    `imports` is whether it reads a folder that exists.
    """

    summary: str
    files: Callable[[Path, Path], Mapping[str, str]]
    next_steps: tuple[tuple[str, str], ...]
    imports: bool = False


PROJECT_KINDS: Registry[ProjectKind] = Registry(
    "kind of project", folder=None, entry_point_group="eval_pipeline.project_kinds"
)


def template_files(name: str) -> dict[str, str]:
    """Return the texts of a template by relative path."""
    root = files("eval_pipeline.sweeps") / "project_templates" / name
    return dict(sorted(_texts(root, "")))


def _texts(folder: Traversable, prefix: str) -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{prefix}{entry.name}/")
        else:
            name = entry.name.removesuffix(_PYTHON) + ".py" if entry.name.endswith(_PYTHON) else entry.name
            yield f"{prefix}{name}", entry.read_text(encoding="utf-8")


def _from_template(name: str, summary: str, *next_steps: tuple[str, str]) -> ProjectKind:
    return ProjectKind(summary=summary, files=lambda folder, source: template_files(name), next_steps=next_steps)


RUN = ("eval-pipeline run", "carry out the suites and show the leaderboard")

PROJECT_KINDS.register("chat")(
    _from_template(
        "chat",
        "a chat model behind an API; canned answers until there is a key",
        RUN,
        ("eval-pipeline run --runner model", "ask the model; put OPENAI_API_KEY=… into .env first"),
        ("eval-pipeline compare canned model", "compare the two case by case"),
    )
)
PROJECT_KINDS.register("program")(
    _from_template(
        "program",
        "a program on this machine, in two versions",
        RUN,
        ("eval-pipeline compare rules-v1 rules-v2", "compare the versions case by case"),
        ("eval-pipeline sql", "the tables and views that questions can be asked of"),
    )
)
PROJECT_KINDS.register("agent")(
    _from_template(
        "agent",
        "a coding agent in a workspace; a script rehearses it until there is one",
        RUN,
        ("eval-pipeline run --runner claude", "the same with Claude Code, which runs commands on this machine"),
        ("eval-pipeline export --format html --output report.html", "every case as a page"),
    )
)
