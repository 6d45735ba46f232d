"""What a sweep left behind of a suite, as an observation: its errors, or the verdict and scores of a case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from eval_pipeline import InputError
from eval_pipeline_tests.conformance.differences.model import Observation, Problem
from eval_pipeline_tests.conformance.public_verbs import SuiteOutcome

Json = Mapping[str, Any]
STATUSES = {"passed": "ok", "failed": "quality_failure", "error": "execution_error"}


def seen_of(outcome: SuiteOutcome, case_id: str | None = None) -> Observation:
    """Return the errors that refused a suite, or the verdict and scores of one of its cases (the only one)."""
    if outcome.errors:
        return Observation(problems=tuple(_problem(error) for error in outcome.errors))
    case = outcome.case if case_id is None else outcome.cases[case_id]
    verdict = case.verdict
    values = {
        "status": STATUSES[verdict["status"]],
        "score": verdict["score"],
        "failure_class": verdict["failure_class"],
        "reason": verdict["reason"],
        "scores": [_score(score) for score in case.scores],
        "members": [{"name": member["member"], "value": member["value"]} for member in case.members],
    }
    return Observation(values=values)


def _problem(error: InputError) -> Problem:
    return Problem(error.place.field or "", error.problem)


def _score(score: Json) -> dict[str, Any]:
    return {
        "name": score["evaluator"],
        "type": score["type"],
        "value": score["value"],
        "weight": score["weight"],
        "minimum": score["minimum"],
        "passes": score["passes"],
        "reason": score["reason"],
        "findings": [finding["passed"] for finding in json.loads(score["findings"] or "[]")],
        "details": json.loads(score["details"] or "{}"),
    }
