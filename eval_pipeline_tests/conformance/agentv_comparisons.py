"""AgentV's rows about comparing runs and trends: its result files on disk, and what `compare` and `trend` report."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.public_verbs import command, new_folder
from eval_pipeline_tests.conformance.recorded_facts import Row

Json = Mapping[str, Any]
_MIDDLE = 0.5
_DIGITS = 3
_CASES = 12
"""Cases that change alike, where a row is about a mean alone: one case would show nothing."""
_NAMES = {"testId": "case_id", "score1": "score_baseline", "score2": "score_candidate", "delta": "delta",
          "outcome": "outcome"}  # fmt: skip


def write_index(folder: Path, rows: Sequence[Json]) -> Path:
    """Write AgentV's `index.jsonl` into a new run folder."""
    folder.mkdir(parents=True)
    (folder / "index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return folder


def _index(rows: Sequence[Json], target: str = "target") -> list[Json]:
    return [{"test_id": row["testId"], "score": row["score"], "suite": "suite", "target": target} for row in rows]


def _compare(rows: Sequence[Sequence[Json]], *options: object) -> Any:
    """Return what `compare --json` prints of one run folder, or of several."""
    folder = new_folder()
    runs = [write_index(folder / f"run-{number}", side) for number, side in enumerate(rows)]
    result = command("compare", *runs, "--json", *options)
    assert result.code in (0, 1, 3), result.err
    return result.json


def _as_agentv(pair: Json, cases: Sequence[Json] | None = None) -> dict[str, Any]:
    """A comparison in AgentV's shape, without its count of rows."""
    summary = pair["summary"]
    shape: dict[str, Any] = {
        "unmatched": {"file1": summary["only_baseline"], "file2": summary["only_candidate"]},
        "summary": {
            "matched": summary["paired"],
            **{name: summary[name] for name in ("wins", "losses", "ties")},
            "meanDelta": round(summary["mean_delta"] or 0.0, _DIGITS),
        },
    }
    if cases is not None:
        shape["matched"] = [{theirs: case[ours] for theirs, ours in _NAMES.items()} for case in cases]
    return shape


def _without_total(expected: Json, *, cases: bool) -> dict[str, Any]:
    shape = {"unmatched": expected["unmatched"], "summary": {**expected["summary"]}}
    del shape["summary"]["total"]
    if cases:
        shape["matched"] = sorted(expected["matched"], key=lambda case: str(case["testId"]))
    return shape


def _two(first: Sequence[Json], second: Sequence[Json], threshold: float = 0.1) -> Observation:
    result = _compare([_index(first), _index(second)], "--threshold", threshold)
    return Observation(values=_as_agentv(result, result["matched"]))


def _check_two(row: Row, seen: Observation) -> None:
    assert seen.values == _without_total(row.data["result"], cases=True)


def _several(sides: Json, threshold: float = 0.1) -> Observation:
    """One run folder with several targets, compared with each other."""
    rows = [line for name, side in sides["__map"] for line in _index(side, name)]
    result = _compare([rows], "--threshold", threshold)
    if "matrix" not in result:
        pairs = [(result["baseline"], result["candidate"], _as_agentv(result))]
        return Observation(values={"pairs": pairs, "names": [result["baseline"], result["candidate"]]})
    pairs = [(pair["baseline"], pair["candidate"], _as_agentv(pair)) for pair in result["pairwise"]]
    lines = [{"testId": line["case_id"], "scores": line["scores"]} for line in result["matrix"]]
    return Observation(values={"pairs": pairs, "names": result["sides"], "matrix": lines})


def _check_several(row: Row, seen: Observation) -> None:
    expected = row.data["result"]
    pairs = [(pair["baseline"], pair["candidate"], _without_total(pair, cases=False)) for pair in expected["pairwise"]]

    assert seen.values["names"] == expected["targets"]
    assert seen.values["pairs"] == pairs
    if "matrix" in seen.values:  # of two sides each case is printed instead, as for two files
        assert seen.values["matrix"] == sorted(expected["matrix"], key=lambda line: str(line["testId"]))


def _outcome(delta: float, threshold: float = 0.1) -> Observation:
    """One case that changes by the delta, from the end of the scale that has room for it."""
    before = 0.0 if delta >= 0 else 1.0
    moved = [_index([{"testId": "t", "score": score}]) for score in (before, before + delta)]
    (case,) = _compare(moved, "--threshold", threshold)["matched"]
    return Observation(values={"outcome": case["outcome"]})


def _exit_code(mean_delta: float) -> Observation:
    before = 0.0 if mean_delta >= 0 else 1.0
    moved = [_index(_alike("t", score)) for score in (before, before + mean_delta)]
    return Observation(values={"code": _compare(moved)["exit_code"]})


def _alike(name: str, score: float) -> list[Json]:
    return [{"testId": f"{name}-{number}", "score": score} for number in range(_CASES)]


def _matrix_exit_code(matrix: Json, baseline: str | None = None) -> Observation:
    """One run folder with all targets; each pair has cases that only its two targets have."""
    rows: list[Json] = []
    for number, pair in enumerate(matrix["pairwise"]):
        delta = pair["summary"]["meanDelta"]
        first, second = (_alike(f"pair-{number}", _MIDDLE + change) for change in (-delta / 2, delta / 2))
        rows += [*_index(first, pair["baseline"]), *_index(second, pair["candidate"])]
    named = {str(row["target"]) for row in rows}
    alone = (
        _index([{"testId": f"of-{name}", "score": _MIDDLE}], name) for name in matrix["targets"] if name not in named
    )
    rows += [line for lines in alone for line in lines]
    options = ["--baseline", baseline] if baseline is not None else []
    return Observation(values={"code": _compare([rows], *options)["exit_code"]})


# Trends


def _trend(runs: Sequence[Path], *options: object) -> Observation:
    result = command("trend", *runs, "--json", *options)
    assert result.code in (0, 1), result.err
    return Observation(values={**result.json, "code": result.code})


def _run(name: str, mean: float, tests: int = 1, **fields: Any) -> Path:
    rows = [
        {"test_id": f"t{number}", "score": mean, "suite": "suite", "target": "target", **fields}
        for number in range(tests)
    ]
    return write_index(new_folder() / name, rows)


def _analyzed(options: Json, row: Row) -> Observation:
    """The tests of the runs are gone: each run is recorded as its mean over so many tests."""
    fields = {"suite": options.get("suite") or "suite", "target": options.get("target") or "target"}
    runs = [
        _run(Path(run["path"]).parent.name, run["meanScore"], run["matchedTestCount"], **fields)
        for run in row.data["result"]["runs"]
    ]
    chosen = [text for name, option in _OPTIONS.items() if options.get(name) for text in (option, options[name])]
    flags = [flag for name, flag in _FLAGS.items() if options[name]]
    return _trend(runs, "--slope-threshold", options["slopeThreshold"], *chosen, *flags)


_OPTIONS = {"suite": "--suite", "target": "--runner"}
_FLAGS = {"allowMissingTests": "--allow-missing", "failOnDegrading": "--fail-on-degrading"}


def _check_trend(row: Row, seen: Observation) -> None:
    expected, values = row.data["result"], seen.values
    theirs, ours = expected["summary"], values["summary"]

    assert ours["direction"] == theirs["direction"]
    if {run["matchedTestCount"] for run in expected["runs"]} == {theirs["matchedTestCount"]}:  # rows, and ids of tests
        assert ours["matched_test_count"] == theirs["matchedTestCount"]
    assert (ours["slope"], ours["intercept"]) == pytest.approx((theirs["slope"], theirs["intercept"]), abs=5e-4)
    assert ours["r_squared"] is None or ours["r_squared"] == pytest.approx(theirs["rSquared"], abs=5e-4)
    assert [run["mean_score"] for run in values["runs"]] == pytest.approx(
        [run["meanScore"] for run in expected["runs"]]
    )
    assert values["regression"]["triggered"] == expected["regression"]["triggered"]
    assert values["code"] == int(expected["regression"]["triggered"])


def _sloped(slope: float, *options: object) -> Observation:
    """Two runs, the second better or worse by the slope."""
    before = 0.0 if slope >= 0 else 1.0
    return _trend(
        [
            _run("2026-03-01T10-00-00-000Z", before, _CASES),
            _run("2026-03-02T10-00-00-000Z", before + slope, _CASES),
        ],
        *options,
    )


def _direction(slope: float, threshold: float = 0.01) -> Observation:
    return Observation(
        values={"direction": _sloped(slope, "--slope-threshold", threshold).values["summary"]["direction"]}
    )


_SLOPES = {"degrading": -0.1, "improving": 0.1, "stable": 0.0}


def _trend_exit_code(direction: str, fail_on_degrading: bool = False) -> Observation:
    seen = _sloped(_SLOPES[direction], *(["--fail-on-degrading"] if fail_on_degrading else []))
    return Observation(values={"code": seen.values["code"]})


def _check_value(row: Row, seen: Observation) -> None:
    assert list(seen.values.values()) == [row.data["result"]]


_OBSERVERS: Mapping[str, Callable[..., Observation]] = {
    "compareResults": _two,
    "compareMatrix": _several,
    "classifyOutcome": _outcome,
    "determineExitCode": _exit_code,
    "determineMatrixExitCode": _matrix_exit_code,
    "classifyTrendDirection": _direction,
    "determineTrendExitCode": _trend_exit_code,
}
_CHECKS: Mapping[str, Callable[[Row, Observation], None]] = {
    "compareResults": _check_two,
    "compareMatrix": _check_several,
    "analyzeTrend": _check_trend,
}
KINDS = frozenset({*_OBSERVERS, "analyzeTrend"})


def observe(row: Row) -> Observations:
    """Return what the command reports of a row's result files."""
    if row.kind == "analyzeTrend":
        return {AS_WRITTEN: _analyzed(row.data["args"][0], row)}
    return {AS_WRITTEN: _OBSERVERS[row.kind](*row.data["args"])}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what AgentV reports."""
    _CHECKS.get(row.kind, _check_value)(row, seen)
