"""Token snapshots: what is allowed, when a baseline is taken, and when it is not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline import InputError, Suite
from eval_pipeline.sweeps.project import Project
from eval_pipeline.sweeps.snapshots import (
    BaselineFile,
    Snapshot,
    SnapshotSettings,
    compare,
    lower_bound,
    read_settings,
    settings_problems,
)
from eval_pipeline.warehouse.token_usages import Answer

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def take(
    folder: Path, *values: float | None, tolerance: Any = None, update: bool = False, status: str = "passed",
    model: str = "m", metric: str = "totalTokens",
) -> Snapshot:  # fmt: skip
    suite = Suite(name="s", path=folder / "s.py", format="x", revision="r", cases=())
    settings = read_settings({"metric": metric, "tolerance": tolerance or {"absolute": 10}}, suite)
    assert settings is not None
    baselines = BaselineFile(settings.file)
    answers = [Answer("c", number, status, model, value) for number, value in enumerate(values, start=1)]
    (snapshot,) = compare(settings, answers, baselines, "s", "r", update=update, now=NOW)
    baselines.write()
    return snapshot


def baseline(folder: Path) -> Any:
    file = folder / "s.snapshots.json"
    return json.loads(file.read_text())["entries"]["c::r"]["value"] if file.exists() else None


@pytest.mark.parametrize(
    ("base", "value", "tolerance", "passed"),
    [
        (100, 110, {"absolute": 10}, True),
        (100, 110.01, {"absolute": 10}, False),
        (100, 115, {"percent": 15}, True),
        (100, 115.1, {"percent": 15}, False),
        (100, 112, {"absolute": 50, "percent": 10}, False),
        (0, 5, {"percent": 10}, False),
        (0, 5, {"absolute": 10}, True),
        (100, 1, {"absolute": 0}, True),
    ],
)
def test_equality_passes_and_either_bound_alone_fails(
    tmp_path: Path, base: float, value: float, tolerance: dict[str, float], passed: bool
) -> None:
    take(tmp_path, base, tolerance=tolerance)

    snapshot = take(tmp_path, value, tolerance=tolerance)

    assert snapshot.passed is passed
    assert baseline(tmp_path) == base


def test_a_baseline_is_taken_once_and_anew_on_request(tmp_path: Path) -> None:
    kinds = [take(tmp_path, value).kind for value in (100, 105)]
    updated = take(tmp_path, 300, update=True)

    assert kinds == ["created", "compared"]
    assert (updated.kind, baseline(tmp_path)) == ("updated", 300)


@pytest.mark.parametrize("changed", [{"status": "failed"}, {"model": "another"}, {"metric": "outputTokens"}])
def test_a_failing_case_another_model_or_metric_is_not_compared_and_changes_nothing(
    tmp_path: Path, changed: dict[str, str]
) -> None:
    take(tmp_path, 100)

    snapshot = take(tmp_path, 900, **changed)  # type: ignore[arg-type]

    assert (snapshot.kind, snapshot.passed, baseline(tmp_path)) == ("not compared", None, 100)


def test_a_failing_case_gets_no_baseline_even_on_request(tmp_path: Path) -> None:
    take(tmp_path, 100, status="failed", update=True)

    assert baseline(tmp_path) is None


def test_an_answer_without_the_metric_fails_and_is_never_zero(tmp_path: Path) -> None:
    snapshot = take(tmp_path, 100, None)

    assert (snapshot.passed, snapshot.kind, baseline(tmp_path)) == (False, "unmeasured", None)
    assert "requires the provider's token metric totalTokens" in snapshot.reason


def test_with_repetitions_an_excess_counts_when_it_leaves_the_noise(tmp_path: Path) -> None:
    take(tmp_path, 100)

    noisy, clear = take(tmp_path, 90, 200, 100), take(tmp_path, 199, 200, 201)

    assert (noisy.passed, clear.passed) == (True, False)
    assert lower_bound([100, 100]) == 100 and "Snapshot mismatch for totalTokens" in clear.reason


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no file of snapshots"),
        ('{"version": 2, "entries": {}}', "expected version 1 with entries, got version 2"),
        ('{"version": 1, "entries": {"c::r": {"value": "x"}}}', "entries.c::r.value: expected a number, got 'x'"),
    ],
)
def test_a_file_that_is_no_baseline_is_an_error_with_its_path(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "s.snapshots.json").write_text(text)

    with pytest.raises(InputError, match=r"s.snapshots.json") as raised:
        take(tmp_path, 100)

    assert problem in str(raised.value)
    suite = Suite(name="s", path=tmp_path / "s.py", format="x", revision="r", cases=())
    settings = {"tolerance": {"absolute": 1}}
    project = Project(root=tmp_path, suites=(), runners=None, data=tmp_path / "data", snapshots=settings)
    assert [str(error) for error in settings_problems([suite], project)] == [str(raised.value)]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ({"metric": "tokens", "tolerance": {"absolute": 1}}, "snapshots.metric: expected one of total_tokens"),
        ({"tolerance": {}}, "snapshots.tolerance: expected a mapping with absolute, percent or both"),
        ({"tolerance": {"absolute": -1}}, "snapshots.tolerance.absolute: expected a number of at least 0, got -1"),
        ({"tolerence": {}}, "snapshots.tolerence: unknown field.*tolerance"),
    ],
)
def test_wrong_settings_are_refused_with_their_field(tmp_path: Path, raw: Any, problem: str) -> None:
    suite = Suite(name="s", path=tmp_path / "s.py", format="x", revision="r", cases=())

    with pytest.raises(InputError, match=problem):
        read_settings(raw, suite)


def test_a_file_in_a_folder_that_is_not_there_yet_is_written(tmp_path: Path) -> None:
    file = tmp_path / "baselines" / "s.json"
    answers = [Answer("c", 1, "passed", "m", 100)]
    settings = SnapshotSettings(file=file, absolute=10)

    baselines = BaselineFile(file)
    list(compare(settings, answers, baselines, "s", "r", update=False, now=NOW))
    baselines.write()

    assert json.loads(file.read_text())["entries"]["c::r"]["value"] == 100


@pytest.mark.parametrize("path", ["../../s.json", "/etc/s.json"])
def test_a_file_outside_of_the_project_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "project" / "suites").mkdir(parents=True)
    (tmp_path / "project" / "eval-pipeline.yaml").touch()
    suite = Suite(name="s", path=tmp_path / "project" / "suites" / "s.py", format="x", revision="r", cases=())

    with pytest.raises(InputError, match=r"snapshots.path: '.*' lies outside"):
        read_settings({"path": path, "tolerance": {"absolute": 1}}, suite)
