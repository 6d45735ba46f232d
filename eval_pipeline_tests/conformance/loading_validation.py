"""AgentV's rows about what validation finds in a suite file, and where."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from eval_pipeline.errors import InputError
from eval_pipeline.parsing.diagnostics import Diagnostic
from eval_pipeline_tests.conformance.loading_rows import (
    differs,
    in_a_folder,
    load_text,
)
from eval_pipeline_tests.conformance.recorded_facts import Row


@dataclass(frozen=True, slots=True)
class _Found:
    severity: str
    location: str
    case: str | None = field(default=None)


@in_a_folder
def _validation(row: Row, folder: Path) -> None:
    """Everything AgentV finds, we find at the same place, as severely or more so; and no error besides."""
    actual = _findings(row, folder)
    issues = [(issue["severity"], issue.get("location")) for issue in row.data["issues_observed"]]

    for severity, location in issues:
        assert any(_same(one, severity, location) for one in actual), (severity, location, actual)
    for one in actual:
        known = any(_same(one, "error", location) for _, location in issues)
        assert known or one.severity == "warning" or _NO_JUDGE.fullmatch(one.location), one


@in_a_folder
def _validation_and_nothing_to_judge_by(row: Row, folder: Path) -> None:
    issues = [(issue["severity"], issue.get("location")) for issue in row.data["issues_observed"]]

    actual = _findings(row, folder)

    for severity, location in issues:
        assert any(_same(one, severity, location) for one in actual), (severity, location, actual)
    assert any(one.severity == "error" and _NO_JUDGE.fullmatch(one.location) for one in actual)


_NO_JUDGE = re.compile(r"tests\[\d+\]")  # where we say that nothing evaluates a test


def _findings(row: Row, folder: Path) -> list[_Found]:
    text = row.data["file"]
    _write_what_is_named(row, folder)
    loaded = load_text(text, folder)
    return [*(_found_error(error) for error in loaded.errors), *map(_found_warning, loaded.warnings)]


def _found_error(error: InputError) -> _Found:
    location = error.place.field or ""
    of_case = re.match(r"case '([^']*)'", location)
    return _Found("error", location, of_case[1] if of_case else None)


def _found_warning(warning: str) -> _Found:
    assert isinstance(warning, Diagnostic)
    return _Found("warning", warning.place.field or "")


def _same(found: _Found, severity: str, location: str | None) -> bool:
    if severity == "error" and found.severity != "error":
        return False
    if location is None:
        return True
    if found.case is not None:
        return ".assertions" in location or ".evaluators" in location
    if "repos[path=" in location:
        return "workspace.repos[" in found.location
    return found.location == location


def _write_what_is_named(row: Row, folder: Path) -> None:
    """The files that a row's suite takes its tests from; their text is not in the row."""
    for match in re.finditer(r"^tests:\s*[\"']?(\S+?\.(?:ya?ml|jsonl))[\"']?\s*$", row.data["file"], re.MULTILINE):
        test = {"id": "test-1", "criteria": "as recorded", "input": "as recorded"}
        lines = json.dumps(test) + "\n" if match[1].endswith("l") and "json" in match[1] else json.dumps([test])
        (folder / match[1]).write_text(lines, "utf-8")


def unknown_content(row: Row) -> bool:
    """Whether what a row says depends on a file whose text is not in it."""
    if row.kind != "validation":
        return False
    named = re.search(r"^\s*workspace:\s*\S+\.ya?ml", row.data["file"], re.MULTILINE)
    return named is not None and any("repos[" in str(issue.get("location")) for issue in row.data["issues_observed"])


def _nothing_to_judge_by(row: Row) -> bool:
    if row.kind != "validation":
        return False
    tests = [test for test in _tests(row.data["file"]) if "input:" in test]
    return any(not re.search(r"^\s+(- )?(criteria|expected|assert|rubrics|evaluators)", test, re.MULTILINE)
               for test in tests) and "\nassert" not in "\n" + row.data["file"]  # fmt: skip


def _tests(text: str) -> Iterator[str]:
    """The texts of the tests in a suite that AgentV's own tests wrote: each begins with an id in a list."""
    _, _, tests = text.partition("tests:\n")
    return (f"    {one}" for one in re.split(r"^  - ", tests, flags=re.MULTILINE) if one.strip())


def _warned_of_an_assertion(row: Row) -> bool:
    issues = row.data.get("issues_observed") or ()
    return any(_of_assertions(issue.get("location")) for issue in issues)


def _of_assertions(location: str | None) -> bool:
    return location is not None and (".assertions" in location or location == "tests")


@in_a_folder
def _refused_there(row: Row, folder: Path) -> None:
    actual = [one for one in _findings(row, folder) if one.severity == "error"]

    for issue in row.data["issues_observed"]:
        if _of_assertions(issue.get("location")):
            assert any(_same(one, "error", issue["location"]) for one in actual), (issue, actual)


CHECKS: Mapping[str, Callable[[Row], None]] = {"validation": _validation}
DIFFERENCES = (
    differs(
        "assertion refused",
        _warned_of_an_assertion,
        "AgentV warns of an assertion or a file of tests that it then leaves out; for us it is an error",
        _refused_there,
    ),
    differs(
        "nothing to judge by",
        _nothing_to_judge_by,
        "AgentV's validation passes a test that its run then skips; we say so at once",
        _validation_and_nothing_to_judge_by,
    ),
)
