"""What a row about evaluators pins of a score, and what it records of a test's evaluators."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from eval_pipeline_tests.conformance.agentv_tests import PASS_MARK, recorded_scores
from eval_pipeline_tests.conformance.recorded_facts import Row

Json = Mapping[str, Any]


def verdict_of(score: Json) -> str:
    """Return AgentV's word for a score: its evaluator's decision, else by the constant mark of 0.8."""
    if score["value"] is None:
        return "skip"
    passes = score["passes"]
    return "pass" if (score["value"] >= PASS_MARK - 1e-9 if passes is None else passes) else "fail"


def agrees(value: float | None, data: Json) -> bool:
    """Return whether a number is what a row pins: a value with its tolerance, or bounds."""
    bounds = data.get("score_bounds")
    if value is None:
        return False
    if bounds:
        return all(_BOUNDS[bound["op"]](value, bound["args"][0]) for bound in bounds)
    match = re.search(r"\+-([\d.e-]+)", str(data.get("match")))
    return abs(value - float(data["score"])) <= (float(match[1]) if match is not None else 1e-9)


_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "toBeGreaterThanOrEqual": operator.ge,
    "toBeGreaterThan": operator.gt,
    "toBeLessThan": operator.lt,
    "toBeLessThanOrEqual": operator.le,
}


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)


def recorded_values(row: Row) -> list[tuple[str, float | None]]:
    """Return names and values of a test's evaluators; None for one that AgentV skipped."""
    scores = recorded_scores(row)
    return [(score["name"], None if score["verdict"] == "skip" else rounded(score["score"])) for score in scores]
