"""Connexity's recorded facts, area by area; an area without a counterpart here, or not carried out yet, is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from eval_pipeline_tests.conformance import connexity_baselines as baselines
from eval_pipeline_tests.conformance import connexity_cases as cases
from eval_pipeline_tests.conformance import connexity_comparisons as comparisons
from eval_pipeline_tests.conformance import connexity_defaults as defaults
from eval_pipeline_tests.conformance import connexity_drafts as drafts
from eval_pipeline_tests.conformance import connexity_judging as judging
from eval_pipeline_tests.conformance import connexity_running as running
from eval_pipeline_tests.conformance import connexity_snapshots as snapshots
from eval_pipeline_tests.conformance import connexity_storage as storage
from eval_pipeline_tests.conformance import connexity_tools as tools
from eval_pipeline_tests.conformance import connexity_totals as run_totals
from eval_pipeline_tests.conformance import connexity_usage as usage
from eval_pipeline_tests.conformance.differences.connexity_row_model import RowDifference
from eval_pipeline_tests.conformance.differences.connexity_rows import ROW_DIFFERENCES, row_differences
from eval_pipeline_tests.conformance.judging import judge
from eval_pipeline_tests.conformance.recorded_facts import Row, conformance_folder, row_params
from eval_pipeline_tests.conformance.row_outcomes import Record, not_offered

Check = Callable[[Mapping[str, Any], Path, Record], None]
CHECKS: Mapping[str, Check] = {
    "examples.validate": lambda data, folder, record: cases.check_example(data),
    "migration.g0_to_g1": lambda data, folder, record: cases.check_migration(data, folder),
    "migration.g1_to_g2": lambda data, folder, record: cases.check_migration(data, folder),
    "set.membership": lambda data, folder, record: cases.check_membership(data, folder),
    "selection": lambda data, folder, record: cases.check_selection(data, folder),
    "aggregate.metrics": lambda data, folder, record: run_totals.check_totals(data, record),
    "compare.aggregate": lambda data, folder, record: comparisons.check_deltas(data, record),
    "compare.verdict": lambda data, folder, record: comparisons.check_verdict(data),
    "compare.test_case_status": lambda data, folder, record: comparisons.check_case_status(data, record),
    "compare.metric_status": lambda data, folder, record: comparisons.check_metric_status(data),
    "compare.metric_deltas": lambda data, folder, record: comparisons.check_metric_deltas(data),
    "compare.per_metric_aggregate": lambda data, folder, record: comparisons.check_metric_totals(data),
    "compare.api": lambda data, folder, record: comparisons.check_compare(data, record),
    "diff.prompt": lambda data, folder, record: comparisons.check_prompt(data),
    "diff.tools": lambda data, folder, record: comparisons.check_tools(data),
    "diff.config": lambda data, folder, record: comparisons.check_config(data, record),
    "diff.set": lambda data, folder, record: comparisons.check_cases(data),
    "diff.agent": lambda data, folder, record: comparisons.check_setup(data),
    "diff.run": lambda data, folder, record: comparisons.check_setup(data),
    "test_case.list": storage.check_list,
    "test_case.import": lambda data, folder, record: storage.check_import(data, folder),
    "test_case.export": lambda data, folder, record: storage.check_export(data, folder),
    "set.versioning": storage.check_version,
    "set.deletion": storage.check_deletion,
    "judge.metric_registry": lambda data, folder, record: judging.check_metrics(data),
    "run.snapshot": lambda data, folder, record: snapshots.check_snapshot(data, folder, record),
    "conversation_loop": running.check_loop,
    "user_simulator": running.check_user,
    "agent_contract": running.check_contract,
    "run.lifecycle": running.check_run,
    "runtimes.custom_endpoint": lambda data, folder, record: running.check_address(data, folder),
    **baselines.CHECKS,
    **drafts.CHECKS,
    **usage.CHECKS,
    **tools.CHECKS,
}
BY_OPERATION: Mapping[str, Check] = {
    "resolve_metrics": lambda data, folder, record: judging.check_metrics(data),
    "EvalSetMember": lambda data, folder, record: cases.check_member_defaults(data, folder),
    "ExpectedToolCall": lambda data, folder, record: cases.check_calls(data, folder),
    "MockResponse": lambda data, folder, record: cases.check_calls(data, folder),
}
_BY_OPERATION_IN = ("judge.metric_resolution", "schema.defaults")
WITHOUT_COUNTERPART = {
    "the HTTP server and its command": (
        "run.create", "run.events", "run.stream", "cli.errors", "cli.request",
        "cli.auth",
    ),
    "runtimes of vendors": ("runtimes", "runtimes.validation"),
    "deployments": ("deploy.gate",),
}  # fmt: skip
_REASONS = {area: reason for reason, areas in WITHOUT_COUNTERPART.items() for area in areas}


@pytest.mark.parametrize("row", row_params("connexity"))
def test_we_answer_as_connexity_does(row: Row, tmp_path: Path, record_property: Record) -> None:
    if "path" in row.data:
        example = conformance_folder() / "connexity" / "examples" / row.data["path"]
        cases.check_examples(Path(row.data["path"]))
        for file in sorted(example.glob("*.json")) if example.is_dir() else [example]:
            storage.check_conversion(file, tmp_path)
        return
    area = row.data["area"]
    if area in _REASONS:
        pytest.skip(f"without counterpart: {_REASONS[area]}")
    if area in cases.KINDS or judging.is_verdict(row):
        judge(row, record_property)
        return
    check = CHECKS.get(area)
    if area in _BY_OPERATION_IN:
        check = BY_OPERATION.get(row.data["op"], defaults.check_values)
    if check is None:
        not_offered(f"rows of '{area}' are not carried out yet")
    _carry_out(row, check, tmp_path, record_property)


def _carry_out(row: Row, check: Check, folder: Path, record: Record) -> None:
    """Carry a row out, and assert that its runner takes a way of its own exactly where the table has a difference."""
    named = {each.name for each in row_differences(row)}
    stated: set[str] = set()
    for name in sorted(named):
        record("difference", name)
    check(row.data, folder, lambda kind, name: stated.add(str(name)))
    assert stated == named


@pytest.mark.parametrize("difference", ROW_DIFFERENCES, ids=lambda difference: difference.name)
def test_a_row_of_ours_falls_under_each_difference(difference: RowDifference, tmp_path: Path) -> None:
    area = difference.example["area"]
    row = Row("connexity", "ours", area, 9000, dict(difference.example))
    check = defaults.check_values if area in _BY_OPERATION_IN else CHECKS[area]

    assert difference in row_differences(row)
    _carry_out(row, check, tmp_path, lambda kind, name: None)


def test_every_row_difference_has_a_name_and_a_reason_of_its_own() -> None:
    assert len({each.name for each in ROW_DIFFERENCES}) == len(ROW_DIFFERENCES)
    assert len({each.reason for each in ROW_DIFFERENCES}) == len(ROW_DIFFERENCES)
