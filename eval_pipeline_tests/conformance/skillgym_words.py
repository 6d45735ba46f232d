"""skillgym's rows about names and numbers that people see, and about reporters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from eval_pipeline.executions.workspaces.folders import safe_name
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.sweeps.progress import duration
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import command
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_offered

FORMATS, IDS, REPORTERS = "oracle_format", "oracle_runner_ids", "load_reporter"
_OFFERED = {
    None: ("run", "--quiet", "progress"),
    "standard": ("run", "--quiet", "progress"),
    "json": ("run", "--json"),
    "github-actions": ("run", "--report", "github"),
    "html": ("export", "html"),
}
"""Reporters of skillgym: the command that has it, and words of its help."""


def is_word(row: Row) -> bool:
    return row.family == "skillgym" and row.file in _OBSERVERS


def observe(row: Row) -> Observations:
    """Return the text, the folder or the help."""
    return {AS_WRITTEN: Observation(values=_OBSERVERS[row.file](row.data))}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the row holds."""
    if row.file == REPORTERS:
        assert all(word in seen.values["help"] for word in seen.values["words"])
    else:
        expected = {"text": row.data.get("text"), "folder": row.data.get("pathKey")}
        assert all(expected[name] == value for name, value in seen.values.items())


def _format(data: Mapping[str, Any]) -> dict[str, Any]:
    if data["fn"] == "duration":
        return {"text": duration(data["ms"] / 1000)}
    if data["value"] is None:
        not_offered("a text for an unknown count: it is left out")
    if data["value"] != int(data["value"]):
        not_offered("parts of tokens: they are whole")
    return {"text": counted(data["value"], "token").split()[0]}


def _folder(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"folder": safe_name(data["id"])}


@cache
def _help(verb: str) -> str:
    return command(verb, "--help").out


def _reporter(data: Mapping[str, Any]) -> dict[str, Any]:
    if data["spec"] not in _OFFERED:
        not_offered("reporters by the path of a module; exports are entry points")
    verb, *words = _OFFERED[data["spec"]]
    return {"help": _help(verb), "words": words}


_OBSERVERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    FORMATS: _format, IDS: _folder, REPORTERS: _reporter,
}  # fmt: skip
