"""The job `plan`: the launchpad says what a sweep with the same configuration would do, before it costs anything."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import dagster as dg

from eval_pipeline.orchestration.config import form_of
from eval_pipeline.orchestration.sweep_step import or_fail
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.missing_programs import missing_programs
from eval_pipeline.sweeps.named_pairs import unknown_anchor_names
from eval_pipeline.sweeps.options import STAGES, SweepOptions
from eval_pipeline.sweeps.plan import SweepPlan, plan_sweep
from eval_pipeline.sweeps.plan_tables import plan_page
from eval_pipeline.sweeps.preflight import preflight
from eval_pipeline.sweeps.project_contents import read_project
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.selection import check_cases, pairs_of_sweep
from eval_pipeline.sweeps.snapshot_checks import snapshot_settings

_DESCRIPTION = "What a run of the job `sweep` with the same configuration would do: nothing is carried out or stored."


def plan_job(session: ProjectSession) -> dg.JobDefinition:
    """Return the job. Its pairs are those of the `sweep` in its configuration, else all that the project requests."""
    Form: Any = form_of(session)

    @dg.op(name="plan_sweep", description=_DESCRIPTION, out=dg.Out(dg.Nothing))
    def plan_sweep_op(context: dg.OpExecutionContext, config: Form) -> dg.Output[None]:
        options = or_fail(lambda: config.options(session.project, STAGES))
        plans = or_fail(partial(_plans, context, session, options))
        page = escape_controls(plan_page(session, plans, options))
        executed, planned = (sum(getattr(each.counts, name) for each in plans) for name in ("executed", "planned"))
        context.log.info(f"{executed} of {planned} plans would be executed; the output has the table")
        return dg.Output(None, metadata={"plan": dg.MetadataValue.md(page), "execute": executed, "plans": planned})

    @dg.job(name="plan", executor_def=dg.in_process_executor, description=_DESCRIPTION)
    def show_plan() -> None:
        plan_sweep_op()

    return show_plan


def _plans(context: dg.OpExecutionContext, session: ProjectSession, options: SweepOptions) -> list[SweepPlan]:
    """Return the plans of the pairs that can be carried out; why others cannot, and what else is worth knowing before,
    is logged. Raises InputError."""
    names = pairs_of_sweep(session, read_project(session).pairs(), options.sweep)
    pairs, unusable = session.usable_pairs(names)
    checked = preflight(session, pairs, options)
    unknown = unknown_anchor_names(session, options.sweep) if options.sweep is not None else ()
    _warn(context, [*unusable.values(), *map(str, checked.errors.values()), *unknown, *checked.warnings])
    usable = checked.usable(pairs)
    if usable:
        check_cases(usable, options)
    snapshot_settings((pair.ready.suite for pair in usable), session.project)
    plans = list(plan_sweep(session, [pair.name for pair in usable], options, checked))
    _warn(context, missing_programs(session, plans))
    return plans


def _warn(context: dg.OpExecutionContext, problems: Iterable[str]) -> None:
    for problem in problems:
        context.log.warning(escape_controls(problem))
