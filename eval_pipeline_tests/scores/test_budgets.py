"""`latency`, `cost`, `token-usage`: a limit is kept up to and including itself; what was not measured is unknown."""

from __future__ import annotations

from typing import Any

import pytest

from eval_pipeline.reports.model import Usage
from eval_pipeline_tests.builders import an_evaluator
from eval_pipeline_tests.scores.single_scores import a_report, score

USED = Usage(input_tokens=150, cached_input_tokens=50, output_tokens=25, cost_usd=0.02)


@pytest.mark.parametrize(
    ("type_", "limits", "expected"),
    [
        pytest.param("latency", {"threshold": 1500}, 1, id="latency-at-the-limit"),
        pytest.param("latency", {"threshold": 1499.9}, 0, id="latency-above"),
        pytest.param("latency", {"threshold": 0}, 0, id="latency-of-nothing-allowed"),
        pytest.param("cost", {"budget": 0.02}, 1, id="cost-at-the-limit"),
        pytest.param("cost", {"budget": 0.019}, 0, id="cost-above"),
        pytest.param("token-usage", {"max_total": 175}, 1, id="total-at-the-limit-cache-included"),
        pytest.param("token-usage", {"max_total": 174}, 0, id="total-above"),
        pytest.param("token-usage", {"max_input": 100}, 1, id="input-without-what-came-from-the-cache"),
        pytest.param("token-usage", {"max_input": 99}, 0, id="input-above"),
        pytest.param("token-usage", {"max_output": 25}, 1, id="output-at-the-limit"),
        pytest.param("token-usage", {"max_output": 24}, 0, id="output-above"),
        pytest.param("token-usage", {"max_total": 999, "max_output": 1}, 0, id="one-of-two-limits-broken"),
        pytest.param("token-usage", {"max_total": 999, "max_input": 999, "max_output": 999}, 1, id="all-kept"),
    ],
)
def test_a_limit_is_kept_or_broken(type_: str, limits: dict[str, float], expected: int) -> None:
    result = score(an_evaluator(type_, **limits), a_report(duration_ms=1500.0, usage=USED))

    assert result.value == expected


@pytest.mark.parametrize(
    ("type_", "limits", "usage"),
    [
        pytest.param("latency", {"threshold": 10}, Usage(), id="latency"),
        pytest.param("cost", {"budget": 1}, Usage(input_tokens=1, output_tokens=1), id="cost"),
        pytest.param("token-usage", {"max_total": 9}, Usage(input_tokens=1), id="total-of-half-a-count"),
        pytest.param("token-usage", {"max_input": 9}, Usage(output_tokens=1), id="input"),
        pytest.param("token-usage", {"max_output": 9, "max_input": 9}, Usage(input_tokens=1), id="one-of-two"),
    ],
)
@pytest.mark.parametrize(("on_missing", "expected"), [("unscored", None), ("fail", 0.0)])
def test_what_was_not_measured_is_unknown_unless_missing_means_failing(
    type_: str, limits: dict[str, float], usage: Usage, on_missing: str, expected: float | None
) -> None:
    spec = an_evaluator(type_, **limits, on_missing=on_missing)

    result = score(spec, a_report(usage=usage))

    assert result.value == expected
    assert "not measured" in result.reason


def test_a_broken_limit_decides_although_another_count_is_missing() -> None:
    spec = an_evaluator("token-usage", max_input=1, max_output=1)

    result = score(spec, a_report(usage=Usage(input_tokens=2)))

    assert result.value == 0
    assert "exceeds" in result.reason


def test_nothing_measured_stays_unknown_when_negated() -> None:
    result = score(an_evaluator("latency", threshold=10), a_report(), negate=True)

    assert result.value is None


def test_each_token_limit_is_a_finding_of_its_own() -> None:
    spec = an_evaluator("token-usage", max_total=174, max_output=25)

    result = score(spec, a_report(usage=USED))

    assert [(finding.text.split()[0], finding.passed) for finding in result.findings] == [
        ("total", False),
        ("output", True),
    ]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param({"duration_ms": 1500.0}, "duration 1500 ms exceeds 10 ms", id="measured"),
        pytest.param({"duration_ms": 77.123456}, "duration 77.1 ms exceeds 10 ms", id="rounded"),
        pytest.param({"duration_ms": 10.00004}, "duration 10.00004 ms exceeds 10 ms", id="near"),
        pytest.param({}, "duration was not measured", id="not-measured"),
    ],
)
def test_the_reason_names_amount_limit_and_unit(fields: dict[str, Any], message: str) -> None:
    result = score(an_evaluator("latency", threshold=10), a_report(**fields))

    assert result.reason == message
