"""Asset checks: is a suite valid, was everything graded, is the pass rate high enough. All of them only warn: a bad
model never turns the graph red."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import dagster as dg
from dagster._core.definitions.asset_checks.asset_check_evaluation import (
    AssetCheckEvaluationTargetMaterializationData as Target,
)
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

from eval_pipeline.leaderboards.gates import Gate
from eval_pipeline.leaderboards.sweep_gates import GateLine
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pairs import ValidatedSuite
from eval_pipeline.sweeps.pass_rates import PassRate
from eval_pipeline.sweeps.snapshots import Snapshot
from eval_pipeline.sweeps.suite_gates import CASES

VALID, COVERAGE, PASS_RATE, NO_REGRESSION = "suite_is_valid", "coverage", "pass_rate", "no_regression"
TOKEN_SNAPSHOTS = "token_snapshots"
CONDITIONAL = frozenset({PASS_RATE, NO_REGRESSION, TOKEN_SNAPSHOTS})
"""Checks that are evaluated only of the pairs of which something is asked: a least pass rate, a baseline."""
_MOST_REASONS = 10


def suite_checks(asset: dg.AssetKey, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    """The checks of `suites`, evaluated per partition: one result for a whole run would hide which."""
    described = {VALID: "Every case can be loaded."}
    return [_spec(name, asset, text, partitions) for name, text in described.items()]


def pair_checks(asset: dg.AssetKey, partitions: dg.PartitionsDefinition[str]) -> list[dg.AssetCheckSpec]:
    """The checks of `evaluator_scores`, evaluated per partition."""
    described = {
        COVERAGE: "Graded plans over planned plans.",
        PASS_RATE: "Passed plans over graded plans, and what the suite asks of pass rate and mean score.",
        NO_REGRESSION: "Case by case no worse than the sweep that the gate of a named sweep compares with.",
        TOKEN_SNAPSHOTS: "Tokens of passing answers within the tolerance over their baselines.",
    }
    return [_spec(name, asset, text, partitions) for name, text in described.items()]


def _spec(name: str, asset: dg.AssetKey, text: str, partitions: dg.PartitionsDefinition[str]) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(name, asset=asset, description=text, partitions_def=partitions)


def check_target(context: dg.AssetExecutionContext, storage_id: int | None) -> Target | None:
    """Return how a check names the materialization of this run that it evaluates.

    The UI shows a check that names none as missing from its partition.
    """
    if storage_id is None:
        return None
    return Target(storage_id=storage_id, run_id=context.run.run_id, timestamp=time.time())


def suite_check(ready: ValidatedSuite, asset: dg.AssetKey, target: Target | None) -> dg.AssetCheckEvaluation:
    """Whether every case of a suite can be loaded. `target` is the materialization that was checked."""
    return dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=VALID,
        passed=not ready.errors,
        partition=ready.suite.name,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"invalid_cases": len(ready.errors), "cases": len(ready.suite.cases)},
        target_materialization_data=target,
    )


def checks_of_pair(
    outcome: PairOutcome,
    asset: dg.AssetKey,
    key: str,
    defaults: Defaults,
    target: Target | None,
    rate: PassRate | None = None,
    of_suite: Sequence[GateLine] = (),
    *,
    failed_before: bool = False,
) -> Iterator[dg.AssetCheckEvaluation]:
    """The checks of one pair: coverage against its minimum, pass rate by its interval against the project's, or by what
    its suite asks of it (`of_suite`). A pass rate of which nothing is asked is no check, unless it failed before."""
    counts, least = outcome.counts, defaults.min_pass_rate
    covered = counts.coverage is not None and counts.coverage >= defaults.min_coverage
    decision = rate.decision(least) if rate is not None and least is not None and rate.rate is not None else None
    by_suite = any(line.rule == CASES for line in of_suite)
    reached = by_suite or least is None or decision in ("GO", "INCONCLUSIVE")
    asked = {line.rule: line.text for line in of_suite}
    bounds = {} if rate is None else {"value": rate.rate, "low": rate.low, "high": rate.high, "decision": decision}
    checked: dict[str, tuple[bool, dict[str, Any]]] = {
        COVERAGE: (covered, {"value": counts.coverage, "least": defaults.min_coverage}),
        PASS_RATE: (
            reached and all(line.decision == "GO" for line in of_suite),
            {"value": counts.pass_rate, "least": None if by_suite else least, **bounds, **asked},
        ),
    }
    if least is None and not of_suite and not failed_before:
        del checked[PASS_RATE]
    for name, (passed, values) in checked.items():
        yield dg.AssetCheckEvaluation(
            asset_key=asset,
            check_name=name,
            passed=not counts.planned or passed,
            partition=key,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={name: value for name, value in values.items() if value is not None},
            target_materialization_data=target,
        )


def failed_pass_rates(instance: dg.DagsterInstance, asset: dg.AssetKey, keys: Sequence[str]) -> frozenset[str]:
    """Return the partitions whose newest evaluated pass rate is too low."""
    check, failed = dg.AssetCheckKey(asset, PASS_RATE), AssetCheckExecutionRecordStatus.FAILED
    newest = instance.event_log_storage.get_asset_check_partition_info([check], partition_keys=list(keys))
    return frozenset(
        each.partition_key for each in newest if each.partition_key and each.latest_execution_status is failed
    )


def regression_check(gate: Gate, asset: dg.AssetKey, key: str, target: Target | None) -> dg.AssetCheckEvaluation:
    """Whether a pair is not shown to be worse than before, case by case."""
    rules = {rule.rule: {"most": rule.margin, "low": rule.low, "high": rule.high} for rule in gate.rules}
    return dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=NO_REGRESSION,
        passed=gate.decision != "NO-GO",
        partition=key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"decision": gate.decision, "changes": rules},
        target_materialization_data=target,
    )


def snapshot_check(
    taken: Sequence[Snapshot], asset: dg.AssetKey, key: str, target: Target | None
) -> dg.AssetCheckEvaluation:
    """Whether the tokens of a pair are measured and within the tolerance over their baselines."""
    above = [each for each in taken if each.passed is False]
    metadata: dict[str, Any] = {"above": len(above), **Counter(each.kind for each in taken)}
    if above:
        metadata["reasons"] = "\n".join(f"{each.case_id}: {each.reason}" for each in above[:_MOST_REASONS])
    return dg.AssetCheckEvaluation(
        asset_key=asset,
        check_name=TOKEN_SNAPSHOTS,
        passed=not above,
        partition=key,
        severity=dg.AssetCheckSeverity.WARN,
        metadata=metadata,
        target_materialization_data=target,
    )


def logged_checks(context: dg.AssetExecutionContext) -> Iterator[dg.Output[None]]:
    """Mark the checks of a step as evaluated: its results are logged one by one, each with its partition.

    Without it Dagster reports that the step "did not yield or return expected outputs". Nothing is stored of these.
    """
    outputs = context.assets_def.check_specs_by_output_name
    selected = context.get_step_execution_context().selected_output_names
    yield from (dg.Output(None, name) for name in outputs if name in selected)
