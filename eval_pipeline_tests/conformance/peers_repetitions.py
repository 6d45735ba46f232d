"""Peers' rows about repetitions, means and agreement: a sweep of recorded answers and scripted graders.

Every row is a suite of the same sweep. Its repetitions are what `leaderboard --repetitions` reduces, its scores what
`export` summarizes, its ratings what the view `grader_agreement` compares.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from eval_pipeline import open_results
from eval_pipeline.statistics.clusters import case_sums, rate_interval
from eval_pipeline.statistics.repetitions import pass_at_k
from eval_pipeline_tests.conformance.differences.model import AS_WRITTEN, Observation, Observations
from eval_pipeline_tests.conformance.peers_commands import SCALE, near
from eval_pipeline_tests.conformance.public_verbs import ProjectOnDisk, Sweep, command, once
from eval_pipeline_tests.conformance.recorded_facts import Row, rows_of
from eval_pipeline_tests.local_server import Received, Reply, chat_reply, serve

GIVEN = {"type": "python", "name": "given", "value": "float(output)"}
_ALPHA = "krippendorffs_alpha"
_COLUMNS = {"interval": _ALPHA, "nominal": f"{_ALPHA}_passed", "ordinal": f"{_ALPHA}_ordinal"}
_NO_NUMBER = "no number"


def observe(row: Row) -> Observations:
    """Return what commands and views report of a row's suite."""
    return {AS_WRITTEN: Observation(values=_OBSERVERS[row.kind](row, _sweep()))}


def check(row: Row, seen: Observation) -> None:
    """Assert that it is what the peer reports."""
    expected = row.data["expect"]
    if row.kind == "sample_level_ci":
        _check_interval(row, seen)
    elif row.kind == "pass_at_k" and isinstance(expected, str):
        assert expected.partition(" ")[2] in seen.values["error"]
    elif expected == "NaN":
        assert seen.values["value"] is None
    else:
        assert seen.values["value"] == near(row, expected)


def _check_interval(row: Row, seen: Observation) -> None:
    expected, values = row.data["expect"], seen.values

    if expected is None:
        assert (values["lower"], values["upper"]) == (None, None)
        return
    assert {name: values[name] for name in expected if name in values} == near(
        row, {name: value for name, value in expected.items() if name in values}
    )


def is_mismatched(row: Row) -> bool:
    """Return whether repetitions of a row have different values: a peer refuses to reduce them."""
    return row.kind == "epoch_reducer" and "mismatched" in str(row.data["expect"])


def is_no_rating(row: Row) -> bool:
    """Return whether a row's ratings are texts of a scale of numbers."""
    return row.kind == "krippendorff_alpha" and "non-numeric" in str(row.data["expect"])


def is_unknown_level(row: Row) -> bool:
    """Return whether a row names a level of measurement that has no alpha."""
    return row.kind == "krippendorff_alpha" and "unsupported level" in str(row.data["expect"])


# One sweep for all rows


@once
def _sweep() -> Sweep:
    project = ProjectOnDisk()
    rows = [row for row in rows_of("peers") if row.kind in _OBSERVERS and _storable(row)]
    replies = {_name(row): list(_ratings(row)) for row in rows if row.kind == "krippendorff_alpha"}

    def answer(request: Received) -> Reply:
        _, grader, *_ = request.path.split("/")
        suite, unit = re.findall(r"(st-\d+) unit (\d+)", json.dumps(request.json))[-1]
        ratings = replies[suite][int(unit)]
        value = ratings[int(grader)] if int(grader) < len(ratings) else None
        return chat_reply(_NO_NUMBER if value is None or isinstance(value, str) else json.dumps({"score": value}))

    with serve(answer) as server:
        for grader in range(max(len(unit) for units in replies.values() for unit in units)):
            project.add_model(f"grader-{grader}", f"{server.url}/{grader}/v1")
        for row in rows:
            _add(project, row)
        return project.run()


def _storable(row: Row) -> bool:
    """Return whether the row is about answers that there can be."""
    given = row.data["input"]
    without_cases = row.kind == "sample_level_ci" and not given["problems_n_c"]
    return not (without_cases or is_unknown_level(row) or (row.kind == "pass_at_k" and given["c"] > given["n"]))


def _name(row: Row) -> str:
    return str(row.data["id"])


def _add(project: ProjectOnDisk, row: Row) -> None:
    name = _name(row)
    if row.kind == "krippendorff_alpha":
        units = list(_ratings(row))
        graders = [f"grader-{number}" for number in range(max(map(len, units)))]
        grader = {"type": "llm-grader", "name": "panel", "graders": graders, "prompt": "{{ input }} {{ output }}"}
        tests = [{"id": f"u{n}", "input": f"{name} unit {n}", "assertions": [grader]} for n in range(len(units))]
        project.add_suite(name, {"tests": tests}, [{"case": test["id"], "output": "an answer"} for test in tests])
        return
    parts = _parts(row)
    if parts:
        _add_of_parts(project, row, parts)
        return
    cases = list(_repetitions(row))
    tests = [{"id": f"c{n}", "input": "a question", "assertions": [GIVEN]} for n in range(len(cases))]
    most = max(map(len, cases), default=1)
    answers = [
        {"case": f"c{number}", "repetition": repetition, "output": text}
        for number, texts in enumerate(cases)
        for repetition, text in enumerate([*texts, *[_NO_NUMBER] * (most - len(texts))], start=1)
    ]
    repeated = {"execution": {"trials": {"count": most, "strategy": "mean"}}} if most > 1 else {}
    project.add_suite(name, {**repeated, "tests": tests}, answers)


def _parts(row: Row) -> list[Any]:
    """The names (or places) of the values of a repetition that has several."""
    values = row.data["input"].get("values", ()) if row.kind == "epoch_reducer" else ()
    found = max((value for value in values if isinstance(value, (list, dict))), key=len, default=())
    return list(found) if isinstance(found, dict) else list(range(len(found)))


def _add_of_parts(project: ProjectOnDisk, row: Row, parts: Sequence[Any]) -> None:
    """Each value of a repetition is the score of an evaluator of its own."""
    values = row.data["input"]["values"]
    evaluators = [
        {"type": "python", "name": f"part {part}", "value": f"__import__('json').loads(output)[{part!r}] / {SCALE}"}
        for part in parts
    ]
    answers = [
        {"case": "c", "repetition": number, "output": _NO_NUMBER if value == "NaN" else json.dumps(value)}
        for number, value in enumerate(values, start=1)
    ]
    repeated = {"execution": {"trials": {"count": len(values), "strategy": "mean"}}}
    tests = [{"id": "c", "input": "a question", "assertions": evaluators}]
    project.add_suite(_name(row), {**repeated, "tests": tests}, answers)


def _ratings(row: Row) -> Iterator[Sequence[float | str]]:
    """The ratings of each unit in [0, 1]; alpha does not depend on the scale. Zero and one stay pass and fail."""
    units = [unit if isinstance(unit, list) else [unit] for unit in row.data["input"]["units"]]
    nominal = row.data["input"]["level"] == "nominal"
    scale = 1.0 if nominal else SCALE
    return ([value if isinstance(value, str) else min(1.0, value / scale) for value in unit] for unit in units)


def _repetitions(row: Row) -> Iterator[Sequence[str]]:
    """What the runner answers in each repetition of each case: a score as a text."""
    given = row.data["input"]
    if row.kind == "epoch_reducer":
        yield [_NO_NUMBER if value == "NaN" else str(value / SCALE) for value in given["values"]]
    elif row.kind in ("mean", "variance"):
        yield from ([str(value / SCALE)] for value in given["values"])
    else:
        counts = [[given["n"], given["c"]]] if "n" in given else given.get("problems_n_c", given.get("problems"))
        yield from (["1"] * passed + ["0"] * (count - passed) for count, passed in counts)


# What commands report


def _reliability(sweep: Sweep, suite: str, *options: object) -> Mapping[str, Any]:
    (line,) = _reliabilities(sweep, suite, *options) or [{}]
    return line


def _reliabilities(sweep: Sweep, suite: str, *options: object) -> list[Mapping[str, Any]]:
    return [line for line in _all_reliabilities(sweep.root, options) if line["suite"] == suite]


@cache
def _all_reliabilities(root: Path, options: tuple[object, ...]) -> list[Mapping[str, Any]]:
    """What the command reports of all suites: most rows ask for the same."""
    result = command("leaderboard", "--project", root, "--repetitions", "--json", *options)
    assert result.code == 0, result.err
    lines: list[Mapping[str, Any]] = result.json
    return lines


def _reduced(row: Row, sweep: Sweep) -> dict[str, Any]:
    given, args = row.data["input"], row.data["input"]["args"]
    mark = args.get("value", 1.0) / SCALE
    reducer = "mean" if is_mismatched(row) else given["reducer"]  # these rows are about every reducer
    options = ["--reducer", reducer, "--mark", mark, *(["--k", args["k"]] if "k" in args else [])]
    scale = 1.0 if given["reducer"] in ("at_least", "pass_at", "pass_k") else SCALE
    parts = _parts(row)
    if not parts:
        return {"value": _scaled(_reliability(sweep, _name(row), *options)["score"], scale)}
    lines = _reliabilities(sweep, _name(row), "--by-evaluator", *options)
    scores = {line["evaluator"]: _scaled(line["score"], scale) for line in lines}
    of_parts = {part: scores[f"part {part}"] for part in parts}
    return {"value": of_parts if isinstance(row.data["expect"], dict) else list(of_parts.values())}


def _scaled(score: float | None, scale: float) -> float | None:
    return None if score is None else score * scale


def _pass_at(row: Row, sweep: Sweep) -> dict[str, Any]:
    given = row.data["input"]
    if row.kind == "pass_at_k" and given["c"] > given["n"]:  # no command is given such counts
        try:
            return {"value": pass_at_k(given["n"], given["c"], given["k"])}
        except ValueError as error:
            return {"error": str(error)}
    return {"value": _reliability(sweep, _name(row), "--k", row.data["input"]["k"])["pass_at_k"]}


def _interval(row: Row, sweep: Sweep) -> dict[str, Any]:
    if not row.data["input"]["problems_n_c"]:  # no suite is without cases
        low, high = rate_interval(case_sums([], [])) or (None, None)
        return {"mean": None, "lower": low, "upper": high}
    line = _reliability(sweep, _name(row))
    return {"mean": line["pass_rate"], "lower": line["low"], "upper": line["high"]}


def _mean(row: Row, sweep: Sweep) -> dict[str, Any]:
    return {"value": json.loads(sweep.export("json", _name(row)))["stats"]["mean_score"] * SCALE}


def _variance(row: Row, sweep: Sweep) -> dict[str, Any]:
    deviation = json.loads(sweep.export("json", _name(row)))["stats"]["standard_deviation"]
    return {"value": None if deviation is None else (deviation * SCALE) ** 2}


def _alpha(row: Row, sweep: Sweep) -> dict[str, Any]:
    level = row.data["input"]["level"]
    if is_unknown_level(row):
        query = f"SELECT {_ALPHA}_{level} FROM grader_agreement"
        result = command("sql", query, "--data", sweep.root / "data")
        return {"code": result.code, "error": result.err}
    column = _COLUMNS[level]
    with open_results(sweep.root / "data") as connection:
        query = f"SELECT {column} FROM grader_agreement WHERE suite = ?"
        (value,) = connection.execute(query, [_name(row)]).fetchone() or (None,)
    return {"value": value}


_OBSERVERS = {
    "epoch_reducer": _reduced,
    "pass_at_k": _pass_at,
    "aggregate_pass_at_k": _pass_at,
    "sample_level_ci": _interval,
    "mean": _mean,
    "variance": _variance,
    "krippendorff_alpha": _alpha,
}
KINDS = frozenset(_OBSERVERS)
