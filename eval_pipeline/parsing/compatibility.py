"""Names that users of another system expect outside of suite files: folders, variables and evaluators.

A format registers a `Compatibility` under the entry-point group `eval_pipeline.compatibility`. Code that
searches files, starts programs or reads recordings looks names up here and depends on no other system.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from eval_pipeline.plugins import Registry

WORKSPACE_VARIABLE = "EVAL_PIPELINE_WORKSPACE"
GRADER_URL_VARIABLE = "EVAL_PIPELINE_GRADER_URL"
GRADER_TOKEN_VARIABLE = "EVAL_PIPELINE_GRADER_TOKEN"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Another system's names for parts of ours.

    `project_marks` are files or folders that mark the top of a project. `variables` maps a variable of ours to the
    names under which programs also find its value. `recording_schemas` are the values of `schema_version` in recorded
    rows that the replay adapter reads. `evaluator_names` maps older names of evaluators to today's.
    `command_words` maps commands and options of its command line to those here.
    """

    title: str
    project_marks: tuple[str, ...] = ()
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recording_schemas: tuple[str, ...] = ()
    evaluator_names: Mapping[str, str] = field(default_factory=dict)
    command_words: Mapping[str, str] = field(default_factory=dict)


COMPATIBILITY: Registry[Compatibility] = Registry(
    "compatibility", folder=None, entry_point_group="eval_pipeline.compatibility"
)


def known_systems() -> Iterable[Compatibility]:
    """Return every registered system, sorted by name."""
    return (system for _, system in COMPATIBILITY)


def program_variables(values: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables for a user's program: `values` under our names and those of registered systems."""
    others = {
        other: values[name]
        for system in known_systems()
        for name in system.variables.keys() & values.keys()
        for other in system.variables[name]
    }
    return {**values, **others}


@cache
def _older_names() -> Mapping[str, str]:
    return {older: name for system in known_systems() for older, name in system.evaluator_names.items()}


def todays_evaluator_name(name: str) -> str:
    """Return the current name of an evaluator, which a registered system may know by an older one."""
    return _older_names().get(name, name)


def same_command_here(word: str) -> str:
    """Return what does the same here as a command or option of a registered system, as the end of a message."""
    same = ((system.title, system.command_words[word]) for system in known_systems() if word in system.command_words)
    return next((f" In place of {title}'s '{word}': {here}." for title, here in same), "")
