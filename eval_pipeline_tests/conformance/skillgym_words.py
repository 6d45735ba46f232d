"""skillgym's rows about names and numbers that people see, and about reporters."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from eval_pipeline.executions.workspaces.folders import safe_name
from eval_pipeline.leaderboards.show import amount
from eval_pipeline.sweeps.progress import duration
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.sweeps.sample_project import ProjectFolder, a_test, contains, make_project

FORMATS, IDS, REPORTERS = "oracle_format", "oracle_runner_ids", "load_reporter"
_OFFERED: Mapping[str | None, tuple[str, ...]] = {
    None: ("run",),
    "standard": ("run",),
    "json": ("run", "--json"),
    "github-actions": ("run", "--report", "github"),
    "html": ("export", "--format", "html"),
}
"""Reporters of skillgym: the command that has it. The module of another is asked for as it is there, and refused."""


def is_word(row: Row) -> bool:
    return row.family == "skillgym" and row.file in _OBSERVERS


def observe(row: Row) -> Observations:
    """Return the text, the folder or the help."""
    return {AS_WRITTEN: Observation(values=_OBSERVERS[row.file](row.data))}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the row holds."""
    if row.file == REPORTERS:
        _SHOWN[row.data["spec"]](seen.values)
    else:
        expected = {"text": row.data.get("text"), "folder": row.data.get("pathKey")}
        assert all(expected[name] == value for name, value in seen.values.items())


def _check_standard(values: Mapping[str, Any]) -> None:
    """Each finished case, then a board and the end."""
    assert "pass rate" in values["out"] and "sums/bad" in values["err"] and "exit 1" in values["err"]


def _check_json(values: Mapping[str, Any]) -> None:
    """One document at the end, nothing before it."""
    document = json.loads(values["out"])
    assert (document["exit_code"], [each["failed"] for each in document["pairs"]]) == (1, [1])


def _check_github(values: Mapping[str, Any]) -> None:
    """An annotation for each failure once the run is over, none for a case that passed."""
    annotations = [line for line in values["out"].splitlines() if line.startswith("::")]
    assert [line.split(",")[0] for line in annotations] == ["::error title=bad > echo"]


def _check_html(values: Mapping[str, Any]) -> None:
    """A page that has the cases, written once the run is over."""
    assert values["out"].lower().startswith("<!doctype html>") and "bad" in values["out"]


_SHOWN: Mapping[str | None, Callable[[Mapping[str, Any]], None]] = {
    None: _check_standard, "standard": _check_standard, "json": _check_json, "github-actions": _check_github,
    "html": _check_html,
}  # fmt: skip


def _format(data: Mapping[str, Any]) -> dict[str, Any]:
    if data["fn"] == "duration":
        return {"text": duration(data["ms"] / 1000)}
    return {"text": amount(data["value"])}


def _folder(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"folder": safe_name(data["id"])}


@cache
def _project() -> ProjectFolder:
    """A project with a case that passes and one that fails."""
    folder = make_project(new_folder())
    folder.write_suite(a_test("good"), a_test("bad", contains("no such word")))
    return folder


@cache
def _command(*words: str) -> dict[str, Any]:
    ended = command(words[0], "--project", _project().root, *words[1:])
    return {"code": ended.code, "out": ended.out, "err": ended.err}


def _reporter(data: Mapping[str, Any]) -> dict[str, Any]:
    if data["spec"] == "html":
        _command("run")  # what is exported
    return _command(*_OFFERED.get(data["spec"], ("run", "--report", str(data["spec"]))))


_OBSERVERS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    FORMATS: _format, IDS: _folder, REPORTERS: _reporter,
}  # fmt: skip
