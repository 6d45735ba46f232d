"""skillgym's rows about its configuration, the options of a run, token snapshots and expected failures.

A configuration is read from a file, as `convert` does. A snapshot is compared with a baseline file. An expected failure
is a verdict on a score or on a session that did not complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from eval_pipeline.errors import InputError
from eval_pipeline.formats.skillgym.configuration import CONFIGURATION, find_config, read_config, run_options
from eval_pipeline.reports.model import SessionReport
from eval_pipeline.scores.decide import decide
from eval_pipeline.scores.model import Score
from eval_pipeline.suites.model import Case, Suite
from eval_pipeline.sweeps.snapshots import BaselineFile, compare, read_settings
from eval_pipeline.warehouse.token_usages import Answer
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations, Problem
from eval_pipeline_tests.conformance.public_verbs import new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of

CONFIG, ORACLE, OPTIONS = "config", "oracle_config", "oracle_run_options"
SNAPSHOTS, EXPECTED = "oracle_snapshot_tolerance", "expected_failure"
FILES = (CONFIG, ORACLE, OPTIONS, SNAPSHOTS, EXPECTED)
_MESSAGE = re.compile(
    r"(?:Invalid config(?: at (?P<at>.*?))?: (?P<text>.*)|Unknown config key: (?P<key>.*))", re.DOTALL
)
_ORIGINS = {"runner": "target", "assertion": "quality"}


def is_setting(row: Row) -> bool:
    return row.family == "skillgym" and row.file in FILES


def observe(row: Row) -> Observations:
    """Return what becomes of the row's values: an error with its field, or the values as read."""
    return {AS_WRITTEN: _OBSERVERS[row.file](row)}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the row holds."""
    _CHECKS[row.file](row, seen)


def _read(config: Any) -> Observation:
    file = new_folder() / "skillgym.config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    try:
        return Observation(values={"parsed": read_config(file)})
    except InputError as error:
        return Observation(problems=(Problem(error.place.field or "", error.problem),))


def _options(cli: Mapping[str, Any], run: Mapping[str, Any]) -> Observation:
    try:
        return Observation(values={"parsed": run_options(cli, run)})
    except InputError as error:
        return Observation(problems=(Problem(error.place.field or "", error.problem),))


def _config(row: Row) -> Observation:
    data, arguments = row.data, row.data["args"]
    if row.kind == "parseConfig":
        return _read(arguments[0])
    if row.kind == "resolveRunOptions":
        return _options(arguments[0], arguments[1].get("run", {}))
    if row.kind == "resolveReporterOptions":
        return Observation(values={"notes": _notes(arguments[1]["config"])})
    if "error" not in data:
        return _file(row)
    folder = new_folder() / "bench"
    folder.mkdir()
    for name in re.findall(r"skillgym\.config\.(?:cjs|mjs)", data["error"]["message"]):
        (folder / name).write_text("")
    try:
        find_config(folder)
    except InputError as error:
        return Observation(problems=(Problem("", error.problem),))
    return Observation(values={"parsed": None})


def _notes(config: Mapping[str, Any]) -> list[str]:
    """Return what `convert` reports about a configuration."""
    file = new_folder() / "skillgym.config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    _, notes = CONFIGURATION.convert(file)
    return list(notes)


def _file(row: Row) -> Observation:
    """Write the configuration, which a row of the same test holds, as the module that the row names; and read it.
    Without such a row, what theirs reads is what the module exports."""
    source, found = row.data["source"], row.data["result"]
    written = [each.data["args"][0] for each in rows_of("skillgym")
               if each.file == CONFIG and each.kind == "parseConfig" and each.data["source"] == source]  # fmt: skip
    path = Path(row.data["args"][0].get("configPath") or found["filePath"])
    config = written[-1] if written else _beside(found["config"], str(Path(found["filePath"]).parent))
    file = new_folder() / path.name
    head = "module.exports =" if file.suffix == ".cjs" else "export default"
    file.write_text(f"{head} {json.dumps(config)};\n", encoding="utf-8")
    return Observation(values={"parsed": read_config(file)})


def _beside(value: Any, folder: str) -> Any:
    """Return a configuration with paths from the folder of its file, which ours begin at."""
    if isinstance(value, Mapping):
        return {name: _beside(item, folder) for name, item in value.items()}
    return value.replace(f"{folder}/", "./") if isinstance(value, str) else value


def _check_config(row: Row, seen: Observation) -> None:
    if "error" in row.data:
        _check_error(row.data["error"]["message"], seen)
        return
    if row.kind == "loadConfig":
        found = row.data["result"]
        assert seen.values["parsed"] == _beside(found["config"], str(Path(found["filePath"]).parent))
        return
    expected = dict(row.data["result"])
    if row.kind == "resolveRunOptions" and not ({"cwd"} & set(row.data["args"][0])):
        expected.pop("cwd", None)
    assert seen.values["parsed"] == expected


def _check_error(message: str, seen: Observation) -> None:
    """Assert that the error is at the field of theirs, and expects the same."""
    (error,) = seen.errors
    named = _MESSAGE.fullmatch(message)
    if named is None:
        assert "config" in error.text
        return
    assert error.field == (named["at"] or named["key"] or "")
    assert named["key"] is None or error.text.startswith("unknown key")
    if named["text"] is not None:
        assert error.text == named["text"]


def _oracle(row: Row) -> Observation:
    return _read(row.data["config"])


def _check_oracle(row: Row, seen: Observation) -> None:
    if row.data["ok"]:
        assert seen.values["parsed"] == row.data["parsed"]
    else:
        _check_error(row.data["error"], seen)


def _run_options(row: Row) -> Observation:
    return _options(row.data["cli"], row.data["run"])


def _check_options(row: Row, seen: Observation) -> None:
    if row.data["ok"]:
        assert seen.values["parsed"] == row.data["resolved"]
    else:
        _check_error(row.data["error"], seen)


def _snapshot(row: Row) -> Observation:
    data = row.data
    suite = Suite(name="s", path=new_folder() / "s.py", format="x", revision="r", cases=())
    settings = read_settings({"tolerance": data["tolerance"]}, suite)
    assert settings is not None
    baselines = BaselineFile(settings.file)
    for value in (data["baseline"], data["actual"]):
        answers = [Answer("c", 1, "passed", "m", value)]
        (taken,) = compare(settings, answers, baselines, "s", "r", update=False, now=datetime.now(UTC))
        baselines.write()
    return Observation(values={"ok": taken.passed, "message": taken.reason})


def _check_snapshot(row: Row, seen: Observation) -> None:
    assert seen.values["ok"] is row.data["ok"]
    if not row.data["ok"]:
        for part in ("Snapshot mismatch for totalTokens", "c / r", "--update-snapshots"):
            assert part in seen.values["message"]


def _expected(row: Row) -> Observation:
    raw = row.data["raw"]
    case = Case(id="c", input=(), expected_fail=row.data["expectedFail"])
    runner = raw["failureOrigin"] not in (None, "assertion")
    report = SessionReport(execution_id="e", failure_class="target-crash" if runner else None)
    score = Score(execution_id="e", spec_key="k", evaluator="check", type="python-check",
                  value=1.0 if raw["passed"] else 0.0, reason="x")  # fmt: skip
    verdict = decide(case, report, [] if runner else [score])
    return Observation(
        values={
            "passed": verdict.status.as_expected, "status": verdict.status.value,
            "origin": verdict.failure_origin, "class": verdict.failure_class, "label": verdict.failure_label,
        }
    )  # fmt: skip


def _check_expected(row: Row, seen: Observation) -> None:
    classified, values = row.data["classified"], seen.values
    assert values["passed"] is classified["passed"]
    assert values["status"] == classified["status"]
    if classified["failureOrigin"] is not None:
        assert values["origin"] == _ORIGINS[classified["failureOrigin"]]
        assert {"id": values["class"], "label": values["label"]} == classified["failureClass"]


_OBSERVERS = {CONFIG: _config, ORACLE: _oracle, OPTIONS: _run_options, SNAPSHOTS: _snapshot, EXPECTED: _expected}
_CHECKS = {
    CONFIG: _check_config,
    ORACLE: _check_oracle,
    OPTIONS: _check_options,
    SNAPSHOTS: _check_snapshot,
    EXPECTED: _check_expected,
}
