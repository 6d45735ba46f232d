"""What a suite sets of a grader (`model`, `temperature`, `max_steps`) → settings of the grader's runner.

A setting has an effect, or it is refused: a score must not seem to come from a model that did not give it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eval_pipeline.errors import InputError, SourceLocation
from eval_pipeline.executions.adapters import ADAPTERS, MODEL, settings_of
from eval_pipeline.executions.model import Runner

_OURS = {"max_steps": "max_turns"}
_LACKS = {
    "model": "does not choose a model by this setting",
    "temperature": "has no temperature",
    "max_steps": "has no steps to limit",
}
_CURES = {
    "grader": "leave it out, or name a grader that has it as 'target'",
    "simulator": "leave it out, or name a simulator that has it",
}


@dataclass(frozen=True, slots=True)
class AcceptedSettings:
    """The settings that a grader's runner takes, under its names, and the problems of the others by their own."""

    used: Mapping[str, Any]
    refused: Mapping[str, str]

    def check(self) -> None:
        """Raise InputError for the first setting that the grader does not have."""
        for name, problem in self.refused.items():
            raise InputError(problem, SourceLocation(field=name))


def accepted_settings(grader: Runner, settings: Mapping[str, Any], role: str = "grader") -> AcceptedSettings:
    """Return what a grader (or a simulator) takes of these settings. Those that only an evaluator's own code sets are
    never refused."""
    used: dict[str, Any] = {}
    refused: dict[str, str] = {}
    names = settings_of(ADAPTERS.get(grader.adapter)).names
    for name, value in settings.items():
        key = _OURS.get(name, name)
        if name not in _LACKS:
            used |= {name: value} if name in names else {}
        elif (problem := _problem(grader, name, key, value, role)) is not None:
            refused[name] = problem
        else:
            used[key] = value
    return AcceptedSettings(used, refused)


def _problem(grader: Runner, name: str, key: str, value: Any, role: str) -> str | None:
    table, cure = settings_of(ADAPTERS.get(grader.adapter)), _CURES[role]
    if key not in table.names or table[key] is MODEL:
        return f"{role} '{grader.name}' (adapter '{grader.adapter}') {_LACKS[name]}; {cure}"
    if grader.unset:
        return None
    try:
        ADAPTERS.get(grader.adapter)(replace(grader, settings={**grader.settings, key: value}))
    except InputError as error:
        if error.place.field == key:
            return f"{role} '{grader.name}': {error.problem}; {cure}"
    return None
