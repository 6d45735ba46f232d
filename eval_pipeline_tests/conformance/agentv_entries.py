"""AgentV's rows about what a test's assertions become, and about what validation finds in a suite file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from eval_pipeline import EvaluatorSpec
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations, Problem
from eval_pipeline_tests.conformance.recorded_facts import Row
from eval_pipeline_tests.conformance.row_outcomes import not_recorded
from eval_pipeline_tests.conformance.suite_files import TMP, SuiteFile, write_suite, write_test

Json = Mapping[str, Any]
DEFAULT_GRADER = EvaluatorSpec(type="llm-grader", name="llm-grader")
COMMON = frozenset({"type", "name", "weight", "required", "min_score", "negate"})
KINDS = frozenset({"parsing", "validation"})


def observe(row: Row) -> Observations:
    """Return what is reported of a row's file, and what its test evaluates by."""
    if row.kind == "validation":
        _skip_unknown_content(row)
        return {AS_WRITTEN: Observation(problems=_validated(row).problems())}
    file = _parsed(row)
    suite = file.suite()
    values = {}
    if suite is not None and suite.cases:
        specs = [spec for spec in suite.cases[0].evaluators if spec != DEFAULT_GRADER]
        values["evaluators"] = json.loads(json.dumps(list(map(as_parsed, specs))).replace(str(file.folder), TMP))
    return {AS_WRITTEN: Observation(problems=file.problems(), values=values)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV reports."""
    if row.kind == "validation":
        _check_findings(row, seen)
        return
    observed = [essentials(entry) for entry in row.data["parsed_observed"] or ()]

    assert not seen.errors, seen.errors
    assert len(seen.values["evaluators"]) == len(observed)
    for ours, theirs in zip(seen.values["evaluators"], observed, strict=True):
        assert ours == {key: theirs.get(key) for key in ours}  # what AgentV adds are its defaults


# Parsing


def _parsed(row: Row) -> SuiteFile:
    names = re.findall(r'"(?:file://)?([\w./-]+\.(?:md|ts))"', json.dumps(row.data["raw_test"]))
    execution = dict(row.data["suite_execution"] or {})
    top = {"assertions": execution.pop("assertions")} if "assertions" in execution else {}
    targets = re.findall(r'"target": "([^"]+)"', json.dumps(row.data["raw_test"]))
    runners = json.dumps({"runners": [{"name": name, "adapter": "mock"} for name in targets]})
    files = {**dict.fromkeys(names, "Grade {{output}}"), **({"runners.yaml": runners} if targets else {})}
    return write_test(row.data["raw_test"], files, **top, **({"execution": execution} if execution else {}))


def as_parsed(spec: EvaluatorSpec) -> dict[str, Any]:
    """Return one of our evaluators by what decides about its score."""
    config = dict(spec.config)
    argv = config.pop("command", config.pop("script", None))
    parsed: dict[str, Any] = {"name": spec.name, "type": spec.type, "weight": spec.weight, "minimum": spec.minimum}
    if spec.type == "code-grader":
        known = {key: config.pop(key) for key in ("cwd",) if key in config}
        config.pop("target", None)
        return parsed | known | {"command": _argv(argv)} | ({"config": config} if config else {})
    if spec.type in ("rubrics", "llm-grader"):
        return parsed | {"type": "llm-grader"} | _grading(config)
    return parsed | _members(config)


def essentials(observed: Json) -> dict[str, Any]:
    """Return the same of what AgentV parsed."""
    config = {key: value for key, value in observed.items() if key not in COMMON and "resolved" not in key}
    required = observed.get("required")
    by_number = required if isinstance(required, (int, float)) and not isinstance(required, bool) else 0.8
    parsed = {key: observed[key] for key in ("name", "type")}
    parsed |= {"weight": float(observed.get("weight", 1))}
    parsed |= {"minimum": observed.get("min_score", by_number) if required else None}
    config |= config.pop("config", {}) if observed["type"] != "code-grader" else {}
    config.pop("prompt_path", None)
    return parsed | (_grading(config) if observed["type"] == "llm-grader" else _members(config))


def _grading(config: dict[str, Any]) -> dict[str, Any]:
    listed = config.pop("rubrics", config.pop("criteria", None))
    if "prompt" in config:
        config["prompt"] = str(config["prompt"]).removeprefix("file://")
    criteria = [_criterion(raw, number) for number, raw in enumerate(listed or (), start=1)]
    return config | ({"rubrics": criteria} if criteria else {})


def _criterion(raw: Any, number: int) -> dict[str, Any]:
    """A criterion by its id, text, weight and the bands of its scores."""
    criterion: Json = {"outcome": raw} if isinstance(raw, str) else raw
    bands = criterion.get("score_ranges") or ()
    lows = sorted(map(int, bands) if isinstance(bands, Mapping) else (band["score_range"][0] for band in bands))
    return {
        "id": criterion.get("id", f"rubric-{number}"),
        "outcome": criterion.get("outcome"),
        "weight": criterion.get("weight", 1),
        "bands": lows,
    }


def _members(config: dict[str, Any]) -> dict[str, Any]:
    if "evaluators" in config:
        config["assertions"] = config.pop("evaluators")
    return config


def _argv(argv: Any) -> list[str]:
    return ["sh", "-lc", argv] if isinstance(argv, str) else list(argv)


# Validation


def _validated(row: Row) -> SuiteFile:
    """The row's file; the files that it takes its tests from are not in the row."""
    files = {}
    for match in re.finditer(r"^tests:\s*[\"']?(\S+?\.(?:ya?ml|jsonl))[\"']?\s*$", row.data["file"], re.MULTILINE):
        test = {"id": "test-1", "criteria": "as recorded", "input": "as recorded"}
        files[match[1]] = json.dumps(test) + "\n" if match[1].endswith(".jsonl") else json.dumps([test])
    return write_suite(row.data["file"], "row.eval.yaml", files)


def _skip_unknown_content(row: Row) -> None:
    named = re.search(r"^\s*workspace:\s*\S+\.ya?ml", row.data["file"], re.MULTILINE)
    if named is not None and any("repos[" in str(issue.get("location")) for issue in row.data["issues_observed"]):
        not_recorded("the text of the workspace file that it is about")


def _check_findings(row: Row, seen: Observation) -> None:
    """Everything that AgentV finds is found at its place, as severely; and no error besides."""
    issues = [(issue["severity"], issue.get("location")) for issue in row.data["issues_observed"]]

    for severity, location in issues:
        severities = [problem.severity for problem in seen.problems if is_at(problem, location)]
        assert severity in severities, seen.problems
    assert len(seen.errors) == sum(severity == "error" for severity, _ in issues), seen.errors


def is_at(problem: Problem, location: str | None) -> bool:
    """Return whether a problem is at AgentV's location, which names a repository by its path."""
    if location is not None and "repos[path=" in location:
        return re.search(r"(^|\.)workspace\.repos\[\d+\]\.", problem.field) is not None
    return location is None or problem.field == location
