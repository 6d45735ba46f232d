"""`eval-pipeline plan`: what a run would do, before it does anything."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console

from eval_pipeline.cli.options import Selection, select, selection_options
from eval_pipeline.cli.tables import (
    Layout,
    message_console,
    print_line,
    print_problems,
    print_rows,
    print_warnings,
    table_console,
)
from eval_pipeline.cli.terminal import echo_json
from eval_pipeline.sweeps.missing_programs import missing_programs
from eval_pipeline.sweeps.plan import SweepPlan, plan_sweep
from eval_pipeline.sweeps.plan_tables import (
    PLAN_HEAD,
    anchor_line,
    detectable_lines,
    expected_line,
    plan_rows,
    reason_lines,
)
from eval_pipeline.sweeps.snapshot_checks import snapshot_settings


@click.command(name="plan")
@selection_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON on stdout.")
def plan_command(*, as_json: bool, **selected: Any) -> None:
    """Show for each suite × runner how many plans are reused, executed or scored again, and the estimated cost.

    Below the table is why plans are executed that, or whose cases, were executed before: a changed input, workspace or
    runner and what of it, an execution that did not complete, a refresh; and why stored answers are scored again: a
    changed evaluator and what of it (arguments, grader, files, fields of the case). `update` are verdicts that are
    decided again without any call: edited names, weights, thresholds or tags, or a new cost (after an edit of prices).
    Cost, time, calls and tokens are estimates from what executions of the same runner took so far; the time is that of
    targets, each as many executions at once as it may.
    """
    selection = select(**selected)
    print_problems(message_console(), selection.problems)
    print_warnings(message_console(), selection.warnings)
    selection.require_cases()
    snapshot_settings((ready.suite for ready in selection.suites), selection.session.project)
    plans = list(plan_sweep(selection.session, selection.pairs, selection.options, selection.checked))
    print_warnings(message_console(), missing_programs(selection.session, plans))
    if as_json:
        echo_json([_as_json(plan) for plan in plans])
        return
    console = table_console()
    print_rows(console, PLAN_HEAD, list(plan_rows(plans)), Layout(keep=2))
    _print_expected(message_console(), selection, plans)
    for line in reason_lines(plans):
        print_line(message_console(), line, style="dim")


def _print_expected(console: Console, selection: Selection, plans: list[SweepPlan]) -> None:
    """Print how long it takes and how much is called, and which differences it can show."""
    expected = expected_line(selection.session, plans, selection.options)
    if expected is not None:
        print_line(console, expected)
    for line in detectable_lines(plans):
        print_line(console, line, style="dim")
    anchors = anchor_line(selection.session, selection.options)
    if anchors is not None:
        print_line(console, anchors)


def _as_json(plan: SweepPlan) -> dict[str, Any]:
    return {
        "suite": plan.pair.suite,
        "runner": plan.pair.runner,
        "planned": plan.counts.planned,
        "reused": plan.counts.reused,
        "to_execute": plan.counts.executed,
        "to_rescore": plan.counts.rescored,
        "to_update": plan.counts.updated,
        "earlier_to_rescore": plan.counts.earlier,
        "estimated_cost_usd": plan.estimate.cost_usd,
        "estimated_calls": plan.estimate.calls,
        "estimated_tokens": plan.estimate.tokens,
        "estimated_seconds_one_by_one": plan.estimate.seconds,
        "detectable_difference": plan.detectable,
        "reasons": dict(plan.reasons),
        "rescore_reasons": dict(plan.rescore_reasons),
        "update_reasons": dict(plan.update_reasons),
    }
