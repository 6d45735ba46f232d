"""What a person is shown of the plan of a sweep, by the command `plan` and in Dagster: rows, and lines below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from eval_pipeline.leaderboards.show import amount, counted, duration, markdown_table, money
from eval_pipeline.sweeps.estimates import total, wall_seconds
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.options import SweepOptions
from eval_pipeline.sweeps.plan import SweepPlan
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.reasons import NEW_PAIR
from eval_pipeline.warehouse.anchors import expected_grades

PLAN_HEAD = ("suite", "runner", "execute", "cost", "reused", "score again", "update", "plans")
"""The columns, the most important first: a narrow terminal shows those on the left."""
_EARLIER = "earlier answers to plans that were tried again"


def plan_rows(plans: Sequence[SweepPlan]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each pair, and one of all where there are several."""
    for plan in plans:
        counts = plan.counts
        cost = money(plan.estimate.cost_usd)
        yield (
            plan.pair.suite, plan.pair.runner, counts.executed, cost, counts.reused, counts.rescored, counts.updated,
            counts.planned,
        )  # fmt: skip
    if len(plans) > 1:
        tallies = [plan.counts for plan in plans]
        cost = money(total(plans, lambda each: each.cost_usd))
        yield (
            "all", "", sum(t.executed for t in tallies), cost, sum(t.reused for t in tallies),
            sum(t.rescored for t in tallies), sum(t.updated for t in tallies), sum(t.planned for t in tallies),
        )  # fmt: skip


def expected_line(session: ProjectSession, plans: Sequence[SweepPlan], options: SweepOptions) -> str | None:
    """Return how long a sweep takes and how much is called; None where nothing is executed."""
    if not any(plan.counts.executed for plan in plans):
        return None
    seconds = wall_seconds(plans, session.runner, options)
    calls, tokens = total(plans, lambda each: each.calls), total(plans, lambda each: each.tokens)
    expected = f"time {duration(seconds)}, calls of targets {amount(calls)}, tokens {amount(tokens)}"
    return f"expected, as earlier executions: {expected}"


def detectable_lines(plans: Sequence[SweepPlan]) -> Iterator[str]:
    """Yield which differences the cases of each suite can show."""
    for suite, detectable in {plan.pair.suite: plan.detectable for plan in plans}.items():
        if detectable is not None:
            text = f"a difference of two pass rates is likely (80 %) to show from {100 * detectable:.0f} points on"
            yield f"{suite}: {text}"


def anchor_line(session: ProjectSession, options: SweepOptions) -> str | None:
    """Return what the grading of anchors takes that follows a sweep of the project file; None where it has none."""
    name = options.sweep
    rules = named_sweep(session.project, name).anchors if name is not None else None
    if name is None or rules is None:
        return None
    grades, cost_usd = expected_grades(session.warehouse, name)
    if grades:
        expected = f"{counted(grades, 'grade')}, cost {money(cost_usd)}, as last time"
    else:
        expected = f"to be chosen: up to {rules.size} of each suite, each graded {rules.base} times by each grader"
    return f"anchors, after the sweep: {expected}"


def reason_lines(plans: Sequence[SweepPlan]) -> Iterator[str]:
    """Yield why plans are executed, where something of the pair was executed before, scored again and updated."""
    for plan in plans:
        executed = plan.reasons if set(plan.reasons) - {NEW_PAIR} else {}
        again = dict(plan.rescore_reasons)
        if plan.counts.earlier:
            again[_EARLIER] = plan.counts.earlier
        by_kind = {"execute": executed, "score again": again, "update": plan.update_reasons}
        for kind, reasons in by_kind.items():
            if reasons:
                text = "; ".join(f"{count} {reason}" for reason, count in reasons.items())
                yield f"{kind} {plan.pair.suite} · {plan.pair.runner}: {text}"


def plan_page(session: ProjectSession, plans: Sequence[SweepPlan], options: SweepOptions) -> str:
    """Return all of it as Markdown."""
    expected, anchors = expected_line(session, plans, options), anchor_line(session, options)
    lines = [*filter(None, [expected, *detectable_lines(plans), anchors]), *reason_lines(plans)]
    rows = [tuple(str(value) for value in row) for row in plan_rows(plans)]
    return "\n".join([markdown_table(PLAN_HEAD, rows), "", *(f"- {line}" for line in lines)])
