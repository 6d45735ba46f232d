"""AgentV's rows about what a test's assertions become."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eval_pipeline.formats.agentv.compatibility import AGENTV
from eval_pipeline.parsing.fields import camel_case
from eval_pipeline.plugins import canonical_name
from eval_pipeline.scores.evaluate import EVALUATORS
from eval_pipeline.suites.model import EvaluatorSpec
from eval_pipeline_tests.conformance.loading_rows import (
    TMP,
    Loaded,
    differs,
    in_a_folder,
    load_test,
)
from eval_pipeline_tests.conformance.recorded_facts import Row

DEFAULT_GRADER = EvaluatorSpec(type="llm-grader", name="llm-grader")


@in_a_folder
def _parsed(row: Row, folder: Path) -> None:
    loaded = _loaded_row(row, folder)
    observed = row.data["parsed_observed"] or []

    specs = [spec for spec in loaded.case.evaluators if spec != DEFAULT_GRADER]

    parsed = json.loads(json.dumps([_as_parsed(spec) for spec in specs]).replace(str(folder), TMP))
    assert len(parsed) == len(observed)
    for ours, theirs in zip(parsed, map(_essentials, observed), strict=True):
        assert ours == {key: theirs.get(key) for key in ours}  # what AgentV adds are its defaults


@in_a_folder
def _never_silently_less(row: Row, folder: Path) -> None:
    """Either the test is refused with a place, or everything that was asked is there."""
    loaded = _loaded_row(row, folder)

    if loaded.errors:
        assert all(error.place.field for error in loaded.errors)
        return
    listed = [item for item in _asked(row) if not isinstance(item, str)]
    kept = [spec for spec in loaded.case.evaluators if spec.type != "rubrics" or "rubrics" in str(listed)]
    for item, spec in zip(listed, kept, strict=False):
        assert {key for key in item if key not in _COMMON} <= {*spec.config, *map(camel_case, spec.config)}


def _loaded_row(row: Row, folder: Path) -> Loaded:
    for name in re.findall(r'"(?:file://)?([\w./-]+\.md)"', json.dumps(row.data["raw_test"])):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("Grade {{output}}", "utf-8")
    execution = dict(row.data["suite_execution"] or {})
    top = {"assertions": execution.pop("assertions")} if "assertions" in execution else {}
    return load_test(row.data["raw_test"], folder, **top, **({"execution": execution} if execution else {}))


def _asked(row: Row) -> list[Any]:
    """The entries that a row's test asks for, then those of its suite."""
    test, suite = row.data["raw_test"], row.data["suite_execution"] or {}
    own = _first_listed(test, test.get("execution") or {})
    skips = (test.get("execution") or {}).get("skip_defaults") is True
    rubric = [{"type": "llm-grader", "name": "rubric", "rubrics": test["rubrics"]}] if test.get("rubrics") else []
    return [*rubric, *own, *([] if skips else _first_listed(suite, suite))]


def _first_listed(holder: Mapping[str, Any], execution: Mapping[str, Any]) -> list[Any]:
    candidates = (
        holder.get("assertions"), holder.get("assert"), execution.get("evaluators"), holder.get("evaluators")
    )  # fmt: skip
    return next((listed for listed in candidates if isinstance(listed, list)), [])


def _types(row: Row) -> list[str]:
    written = [canonical_name(str(item.get("type"))) for item in _asked(row) if isinstance(item, Mapping)]
    return [AGENTV.evaluator_names.get(type_, type_) for type_ in written]


@in_a_folder
def _refused_type(row: Row, folder: Path) -> None:
    errors = _loaded_row(row, folder).errors

    assert any("no evaluator '" in str(error) for error in errors), errors


def _as_parsed(spec: EvaluatorSpec) -> dict[str, Any]:
    """One of our evaluators by what decides about its score."""
    config = dict(spec.config)
    command = config.pop("command", config.pop("script", None))
    parsed: dict[str, Any] = {"name": spec.name, "type": spec.type, "weight": spec.weight, "minimum": spec.minimum}
    if spec.type == "code-grader":
        known = {key: config.pop(key) for key in ("cwd",) if key in config}
        config.pop("target", None)
        return parsed | known | {"command": _argv(command)} | ({"config": config} if config else {})
    if spec.type in ("rubrics", "llm-grader"):
        return parsed | {"type": "llm-grader"} | _grading(config)
    return parsed | _members(config)


def _essentials(observed: Mapping[str, Any]) -> dict[str, Any]:
    """The same of what AgentV parsed."""
    config = {key: value for key, value in observed.items() if key not in _COMMON and "resolved" not in key}
    required = observed.get("required")
    gate = observed.get("min_score", required if _is_number(required) else 0.8) if required else None
    parsed = {key: observed[key] for key in ("name", "type")}
    parsed |= {"weight": float(observed.get("weight", 1)), "minimum": gate}
    config |= config.pop("config", {}) if observed["type"] != "code-grader" else {}
    config.pop("prompt_path", None)
    if observed["type"] == "llm-grader":
        return parsed | _grading(config)
    return parsed | _members(config)


def _grading(config: dict[str, Any]) -> dict[str, Any]:
    listed = config.pop("rubrics", config.pop("criteria", None))
    if "prompt" in config:
        config["prompt"] = str(config["prompt"]).removeprefix("file://")
    return config | ({"rubrics": [_criterion(one, n) for n, one in enumerate(listed, start=1)]} if listed else {})


def _criterion(raw: Any, number: int) -> dict[str, Any]:
    """A criterion by its id, text, weight and the bands of its scores."""
    one: Mapping[str, Any] = {"outcome": raw} if isinstance(raw, str) else raw
    bands = one.get("score_ranges") or ()
    lows = sorted(map(int, bands) if isinstance(bands, Mapping) else (band["score_range"][0] for band in bands))
    return {
        "id": one.get("id", f"rubric-{number}"),
        "outcome": one.get("outcome"),
        "weight": one.get("weight", 1),
        "bands": lows,
    }


def _members(config: dict[str, Any]) -> dict[str, Any]:
    if "evaluators" in config:
        config["assertions"] = config.pop("evaluators")
    return config


def _argv(command: Any) -> list[str]:
    return ["sh", "-lc", command] if isinstance(command, str) else list(command)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _left_out(row: Row) -> bool:
    """AgentV parsed fewer evaluators than are asked for, or less of one of them."""
    if row.kind != "parsing":
        return False
    asked = _asked(row)
    texts = [item for item in asked if isinstance(item, str) and item.strip()]
    entries = [item for item in asked if not isinstance(item, str)]
    observed = row.data["parsed_observed"] or []
    if len(observed) != len(entries) + bool(texts) or _no_list(row.data["raw_test"]):
        return True
    grouped = next((one for one in observed if one["name"] == "rubrics"), None) if texts else None
    parsed = [one for one in observed if one is not grouped]
    return any(_lessened(*pair) for pair in zip(entries, parsed, strict=False) if isinstance(pair[0], Mapping))


def _no_list(test: Mapping[str, Any]) -> bool:
    return any(not isinstance(test.get(key), list | None) for key in ("assertions", "assert", "evaluators"))


def _lessened(item: Mapping[str, Any], parsed: Mapping[str, Any]) -> bool:
    kept = {**parsed, **(parsed.get("config") or {})}
    for key, value in item.items():
        if key in ("criteria", "rubrics"):
            return len(kept.get("rubrics") or ()) < len(value)
        own = next((name for name in kept if name == key or camel_case(name) == key), None)
        if own is None and value is not False and key not in _RENAMED:
            return True
        if own is not None and isinstance(value, (list, dict)) and key in _REDUCED and len(kept[own]) < len(value):
            return True
    return False


_COMMON = frozenset({"type", "name", "weight", "required", "min_score", "negate"})
_RENAMED = frozenset({"type", "script", "criteria", "evaluators", "prompt"})
_REDUCED = frozenset({"minimums", "expected", "fields", "value"})


CHECKS: Mapping[str, Callable[[Row], None]] = {"parsing": _parsed}
DIFFERENCES = (
    differs(
        "left out",
        _left_out,
        "AgentV reads on without what it cannot use of an evaluator, or without the evaluator: less is measured than "
        "was asked. We refuse the test, or can use it all",
        _never_silently_less,
    ),
    differs(
        "unknown evaluator",
        lambda row: row.kind == "parsing" and any(EVALUATORS.find(type_) is None for type_ in _types(row)),
        "AgentV looks for an author's own script of that type when the test runs, and scores 0 without one",
        _refused_type,
    ),
)
