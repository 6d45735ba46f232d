"""Connexity's recorded facts about stored cases and sets, through the command `cases` and through loading."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from eval_pipeline.suites.load import load_suite
from eval_pipeline_tests.cli.sample_project import CliProject
from eval_pipeline_tests.conformance.connexity_judging import assert_value
from eval_pipeline_tests.conformance.differences.connexity_row_model import (
    content_changes,
    counted_otherwise,
    set_states,
)
from eval_pipeline_tests.conformance.row_outcomes import Record

JsonMap = Mapping[str, Any]
_LATER = {"persona_context": "p"}
VERSION = "the version of a set is the hash of its content: it changes with its name, and not where nothing changed"
_OPTIONS = {"tag": "--tag", "status": "--status", "difficulty": "--difficulty", "search": "--search",
            "sort_by": "--sort-by", "sort_order": "--order", "agent_id": "--agent", "limit": "--limit",
            "skip": "--skip"}  # fmt: skip
_STORED = (
    {
        "name": "CaseSensitivity Check Alpha",
        "id": "a",
        "tags": ["T", "alpha", "beta"],
        "difficulty": "normal",
        "status": "active",
        "agent_id": "A1",
    },
    {
        "name": "beta case",
        "id": "b",
        "description": "about a xylophone",
        "tags": ["beta", "gamma"],
        "difficulty": "hard",
        "status": "draft",
    },
    {"name": "Zulu", "id": "z", "status": "archived"},
)


def _project(folder: Path, cases: Sequence[JsonMap]) -> CliProject:
    (folder / "eval-pipeline.yaml").write_text("suites: [suites]\n")
    (folder / "suites").mkdir()
    (folder / "suites/cases.json").write_text(json.dumps([{**_LATER, **case} for case in cases]))
    return CliProject(folder)


def check_list(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about listing cases."""
    given, expected = data["input"], data["expected"]
    if "tags" in expected:
        project = _project(folder, [{"name": f"case {at}", **case} for at, case in enumerate(given["cases"])])
        assert project("cases", "list", "--tags-only", "--json").document == expected
        return
    filters = given.get("filter", {})
    options = [word for name, value in {**given, **filters}.items() if name in _OPTIONS
               for word in (_OPTIONS[name], str(value))]  # fmt: skip
    answer = _project(folder, _STORED)("cases", "list", *options, "--json")
    if "falls_back_to" in expected:
        record("difference", "an order that does not exist is an error that names those there are")
        assert (answer.code, expected["falls_back_to"] in answer.err) == (2, True)
        return
    if expected.get("http") == 422:
        assert answer.code == 2
        return
    cases = answer.document["cases"]
    assert cases or expected.get("count") == 0
    assert_value(len(cases), expected.get("count", len(cases)))
    assert all(expected.get("all_items_have_tag", case["tags"]) in (*case["tags"], case["tags"]) for case in cases)
    assert all(
        (case[name] if name in case else _stored(case["id"])[name]) == value
        for case in cases
        for name, value in expected.get("all_items", {}).items()
    )
    if "names" in expected:
        ordered = sorted((case["name"] for case in cases), reverse=expected["names"] == "descending")
        assert [case["name"] for case in cases] == ordered


def _stored(case_id: str) -> JsonMap:
    return next(case for case in _STORED if case["id"] == case_id)


def check_import(data: JsonMap, folder: Path) -> None:
    """Check a row about importing cases."""
    given, expected = data["input"], data["expected"]
    existing = {"name": "existing", **given["existing"]} if "existing" in given else {"name": "n", "id": "other"}
    project = _project(folder, [existing])
    (folder / "new.json").write_text(json.dumps(_items(given["items"])))
    conflict = str(given.get("on_conflict", "skip")).split(" ")[0]
    answer = project(
        "cases", "import", "new.json", "--into", "suites/cases.json", "--on-conflict", conflict, "--json"
    )  # fmt: skip
    if expected.get("http") in (400, 422):
        assert answer.code == 2
        return
    stored = {case["id"]: case for case in json.loads((folder / "suites/cases.json").read_text())}
    for name, value in expected.items():
        if not name.startswith("stored") and name != "http":
            assert_value(answer.document[name], value)
    if "stored_name" in expected:
        assert stored[existing["id"]]["name"] == expected["stored_name"]
    for name, value in expected.get("stored", {}).items():
        held = stored[existing["id"]][name]
        assert value["$contains"] in held if isinstance(value, Mapping) and "$contains" in value else held == value


def _items(items: Any) -> list[Any]:
    """Return the items of a row; one that only has their number has cases of that number."""
    if isinstance(items, list):
        return items
    number = re.search(r"\d+", str(items))
    assert number is not None
    return [{"name": f"case {at}"} for at in range(int(number[0]))]


def check_export(data: JsonMap, folder: Path) -> None:
    """Check a row about exporting cases."""
    expected = data["expected"]
    filters = {**data["input"], **data["input"].get("filter", {})}
    options = [word for name, value in filters.items() if name in _OPTIONS for word in (_OPTIONS[name], str(value))]
    answer = _project(folder, _STORED)("cases", "export", *options)
    document = json.loads((folder / expected.get("content_disposition_filename", "test-cases-export.json")).read_text())
    assert answer.code == 0
    assert list(document) == expected.get("keys", list(document))
    assert document["count"] == len(document["test_cases"])
    assert options or document["count"] == len(_STORED)


def check_version(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about the version of a set: ours is its revision, which changes as often as the version is raised."""
    given, changed = data["input"], content_changes(data["input"])
    revisions = [_revision(*state, folder) for state in set_states(given)]
    changes = [before != after for before, after in pairwise(revisions)]
    assert changes == changed
    if counted_otherwise(data):
        record("difference", VERSION)
        return
    assert given.get("start_version", 1) + sum(changes) == data["expected"]["version"]


def _revision(members: Sequence[Any], more: JsonMap, folder: Path) -> str:
    cases = [{**_LATER, "id": name, "name": name} for name in ("s1", "s2", "s3", "unknown")]
    links = [{"test_case_id": each["case"] if isinstance(each, Mapping) else each} for each in members]
    document = {"test_cases": cases, "members": links, **more}
    (folder / "set.json").write_text(json.dumps(document))
    return load_suite(folder / "set.json").revision


def check_deletion(data: JsonMap, folder: Path, record: Record) -> None:
    """Check a row about a deleted set: its cases are archived, and listed where archived ones are asked for."""
    if not data["input"].get("soft"):
        assert _project(folder, [{"name": "a"}])("cases", "list", "--in", "gone.json").code == 2
        return
    cases = [{**_LATER, "id": "a", "name": "a"}]
    document = {"name": "set", "members": None, "deleted_at": "2026-01-01T00:00:00Z", "test_cases": cases}
    (folder / "set.json").write_text(json.dumps(document))
    suite = load_suite(folder / "set.json")
    record("difference", "a deleted set is a file whose cases are archived: --status archived has them")
    assert (suite.errors, suite.warnings) == ((), ())
    assert [case.status for case in suite.cases] == ["archived"]


def check_conversion(path: Path, folder: Path) -> None:
    """Check that an example file is written in every generation, and then reads without a warning."""
    project = CliProject(folder)
    for generation in ("connexity-1", "connexity-2", "connexity-3"):
        answer = project("convert", str(path), "--to", generation, "-o", f"{generation}.json", "--force")
        suite = load_suite(folder / f"{generation}.json")
        assert (answer.code, len(suite.cases), suite.errors, suite.warnings) == (0, 1, (), ())
