"""Asset checks: is a suite valid, was everything graded, is the pass rate high enough. All of them only warn: a bad
model never turns the graph red."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import ValidatedSuite

SUITES = dg.AssetKey("suites")
SCORES = dg.AssetKey("evaluator_scores")
VALID, COVERAGE, PASS_RATE = "suite_is_valid", "coverage", "pass_rate"


def suite_checks(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    """The checks of `suites`, evaluated per partition: one result for a whole run would hide which."""
    described = {VALID: "Every case can be loaded."}
    return [_spec(name, SUITES, text, partitions) for name, text in described.items()]


def pair_checks(partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    """The checks of `evaluator_scores`, evaluated per partition."""
    described = {COVERAGE: "Graded plans over planned plans.", PASS_RATE: "Passed plans over graded plans."}
    return [_spec(name, SCORES, text, partitions) for name, text in described.items()]


def _spec(name: str, asset: dg.AssetKey, text: str, partitions: dg.PartitionsDefinition[str]) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset=asset, description=text, partitions_def=partitions)


def suite_check(ready: ValidatedSuite) -> dg.AssetCheckEvaluation:
    """Whether every case of a suite can be loaded."""
    return dg.AssetCheckEvaluation(
        asset_key=SUITES,
        check_name=VALID,
        passed=not ready.errors,
        partition=ready.suite.name,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"invalid_cases": len(ready.errors), "cases": len(ready.suite.cases)},
    )


def checks_of_pair(outcome: PairOutcome, key: str, defaults: Defaults) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks of one pair: coverage against its minimum, pass rate against the project's (if it names one)."""
    yield _evaluation(COVERAGE, key, outcome.counts.coverage, defaults.min_coverage)
    yield _evaluation(PASS_RATE, key, outcome.counts.pass_rate, defaults.min_pass_rate)


def _evaluation(name: str, key: str, value: float | None, least: float | None) -> dg.AssetCheckEvaluation:
    """A missing value passes only where no minimum is set."""
    metadata: dict[str, Any] = {"least": least} if least is not None else {}
    if value is not None:
        metadata["value"] = value
    return dg.AssetCheckEvaluation(
        asset_key=SCORES,
        check_name=name,
        passed=least is None or (value is not None and value >= least),
        partition=key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
    )
