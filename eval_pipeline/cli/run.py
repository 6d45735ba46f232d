"""`eval-pipeline run`: carry out suites × runners through Dagster, show the leaderboard and the outcome."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import polars as pl
from rich.console import Console

from eval_pipeline.cli import case_summary, github_report
from eval_pipeline.cli.ending import (
    Ending,
    PassRateLimit,
    ending,
    ending_document,
    interrupted_ending,
    left_out,
    show_ending,
    show_failed_cases,
)
from eval_pipeline.cli.gate import show_decision
from eval_pipeline.cli.importing import importing
from eval_pipeline.cli.missing_warehouse import NEW, RESTORE, settle_missing_warehouse
from eval_pipeline.cli.options import Selection, comma_separated, given_options, option_of, select, selection_options
from eval_pipeline.cli.progress import Progress, choose_progress
from eval_pipeline.cli.published_results import open_published
from eval_pipeline.cli.signals import Signals
from eval_pipeline.cli.snapshots import show_snapshots, with_snapshots
from eval_pipeline.cli.tables import (
    message_console,
    print_boards,
    print_line,
    print_problems,
    print_warnings,
    table_console,
)
from eval_pipeline.cli.terminal import echo, echo_json
from eval_pipeline.cli.warehouse_option import given_warehouse
from eval_pipeline.errors import InputError, NoResults, WarehouseError
from eval_pipeline.leaderboards.show import counted
from eval_pipeline.pages.links import page_url
from eval_pipeline.parsing.source import show_path
from eval_pipeline.sweeps.failed_cases import FailedCases
from eval_pipeline.sweeps.named_sweeps import named_sweep
from eval_pipeline.sweeps.options import Defaults
from eval_pipeline.sweeps.outcomes import INTERRUPTED, PairOutcome
from eval_pipeline.sweeps.pass_rates import pass_rate
from eval_pipeline.sweeps.project_session import ProjectSession
from eval_pipeline.sweeps.retirement import retire_vanished
from eval_pipeline.sweeps.snapshot_checks import snapshot_settings
from eval_pipeline.sweeps.suite_gates import CASES, suite_gate
from eval_pipeline.sweeps.summaries import failed_cases
from eval_pipeline.warehouse.queries import WHY_FAILED, newest_standings
from eval_pipeline.warehouse.store import kept_open
from eval_pipeline.warehouse.stored_pairs import case_results

if TYPE_CHECKING:
    from eval_pipeline.leaderboards.sweep_gates import GateLine, SweepGate
    from eval_pipeline.orchestration.run import SweepRun

WHY = f'eval-pipeline sql "{WHY_FAILED}"'


REPORTS = ("github", "summary")


def _check_reports(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    names = comma_separated(context, parameter, values)
    for name in names:
        if name not in REPORTS:
            cure = f"is not {' or '.join(REPORTS)}; every other report is written after a run by"
            raise click.BadParameter(f"'{name}' {cure} `eval-pipeline export --format NAME`")
    return names


@click.command(name="run")
@selection_options
@option_of(Defaults, "min_pass_rate")
@click.option("--require-go", is_flag=True, help="Exit 4 when a pass rate may be below --min-pass-rate, or may not.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="No progress display.")
@click.option(
    "--missing-warehouse",
    type=click.Choice([RESTORE, NEW]),
    help="When the warehouse is gone and its results are there: go on from them, or execute everything again.",
)
@click.option(
    "--report",
    "reports",
    metavar="[github|summary]",
    multiple=True,
    callback=_check_reports,
    help="github: annotations and a step summary; summary: each case with time and tokens, failures by class.",
)
def run_command(
    *,
    min_pass_rate: float | None,
    require_go: bool,
    as_json: bool,
    quiet: bool,
    missing_warehouse: str | None,
    reports: tuple[str, ...],
    **selected: Any,
) -> None:
    """Carry out SUITES (files, folders or globs; default: the project's) with every runner, and rank them.

    What was executed before and is unchanged is reused (--refresh missing). Exit codes: 0 done and nothing failed;
    1 something failed, or a threshold was missed; 2 invalid input; 3 nothing could be graded; 4 with --require-go when
    neither --min-pass-rate nor the gate of --sweep is shown to hold; 130 interrupted (143 SIGTERM, 129 SIGHUP).
    """
    selection = select(**selected)
    if selected["resume"] and selection.launch.resume is None:
        echo(f"nothing to resume: no sweep {_of_name(selected['sweep'])} was interrupted last", err=True)
    if require_go:
        _check_required(selection, min_pass_rate)
    with kept_open(selection.session.warehouse):
        carry_out(
            selection,
            selected,
            as_json=as_json,
            quiet=quiet,
            min_pass_rate=min_pass_rate,
            require_go=require_go,
            missing_warehouse=missing_warehouse,
            reports=reports,
            is_whole=_is_whole(selection.session, selected),
        )


def _of_name(name: str | None) -> str:
    return "without a name" if name is None else f"of {name}"


def _is_whole(session: ProjectSession, given: Mapping[str, Any]) -> bool:
    """Return whether options select all that a project has: no suites, or just those that it names itself."""
    named = {Path.cwd() / name for name in given["suites"]}
    own = {session.project.root / name for name in session.project.suites}
    return not (given["runners_file"] or session.broken) and named in (set(), own)


def _retire(session: ProjectSession, given: Mapping[str, Any], *, is_whole: bool) -> None:
    """Retire what the project has no more before it is carried out; before a part of it, as commands that show results.

    Published results that cannot be read are left to the run, which publishes them anew.
    """
    if is_whole:
        retire_vanished(session)
        return
    is_own = given.get("data") is None and given.get("runners_file") is None
    with suppress(NoResults, WarehouseError, OSError), open_published(session.project, is_own=is_own):
        pass


def _import_sweeps() -> Callable[..., SweepRun]:
    """Return what carries out a sweep: Dagster takes a second to import."""
    with importing():
        from eval_pipeline.orchestration.later_alembic import put_off_alembic  # noqa: PLC0415 — imports Dagster

        put_off_alembic()
        from eval_pipeline.orchestration.run import run_sweep  # noqa: PLC0415 — imports Dagster
    return run_sweep


def carry_out(
    selection: Selection,
    given: Mapping[str, Any],
    *,
    as_json: bool,
    quiet: bool,
    min_pass_rate: float | None = None,
    require_go: bool = False,
    missing_warehouse: str | None = None,
    reports: Sequence[str] = (),
    is_whole: bool = False,
) -> NoReturn:
    """Carry out a selection, show its boards and outcome, and end the process.

    `given` are the command's options; the selection of a whole project retires what the project has no more.
    """
    console = message_console()
    _check_selection(selection, console, missing_warehouse)
    snapshots = snapshot_settings((ready.suite for ready in selection.suites), selection.session.project)
    _retire(selection.session, given, is_whole=is_whole)
    run_sweep = _import_sweeps()
    with choose_progress(console, quiet or as_json) as progress:
        selection.session.observer = progress
        signals = _end_in_order(selection, progress)
        result = run_sweep(selection.session, selection.suites, selection.pairs, selection.launch.as_config())
    outcomes = [_by_case(selection, outcome) for outcome in result.outcomes]
    limit = _limit(selection, min_pass_rate, outcomes, require_go)
    gate = _end_of_named(selection, result, console)
    end = with_snapshots(ending(outcomes, selection.problems, limit, result.problem, gate), result.snapshots)
    if result.problem == INTERRUPTED or (signals is not None and signals.exit_code is not None):
        end = interrupted_ending(_kept(selection, progress), signals)
    failed = _failed(selection, result)
    standings = _standings(selection, result.standings)
    _report(selection, outcomes, result, reports, (gate, limit.lines), to_stderr=as_json)
    if as_json:
        _print_json(result, standings, selection, end, failed, limit)
    else:
        if result.problem != INTERRUPTED:  # else the newest board is of an earlier sweep
            print_boards(table_console(), standings)
        if "summary" not in reports:
            show_failed_cases(console, failed, given_options(given))
        show_snapshots(console, result.snapshots, snapshots)
        _show_outcome(console, selection, result.outcomes, result.problem)
        show_decision(console, selection.options.sweep, gate, limit.lines)
        show_ending(console, end)
    sys.exit(end.code)


def _failed(selection: Selection, result: SweepRun) -> FailedCases:
    """Return the failed cases: as the page of the run shows them, where it does."""
    if result.failed is not None:
        return result.failed.first()
    return failed_cases(selection.session.warehouse, result.outcomes, selection.options.cases)


def _check_selection(selection: Selection, console: Console, missing_warehouse: str | None) -> None:
    """Show what is wrong with a selection. Raises InputError where nothing can be carried out, or its warehouse is
    gone and nobody said what to do."""
    print_problems(console, selection.problems)
    print_warnings(console, selection.warnings)
    selection.require_cases()
    settle_missing_warehouse(selection.session.warehouse, missing_warehouse)


def _report(
    selection: Selection, outcomes: Sequence[PairOutcome], result: SweepRun, reports: Sequence[str],
    gates: tuple[SweepGate | None, Sequence[GateLine]], *, to_stderr: bool,
) -> None:  # fmt: skip
    """Write the reports of these names. `gates` are that of the sweep, and what suites say of their pairs."""
    if "github" in reports:
        _report_to_github(selection, outcomes, result.outcomes, to_stderr=to_stderr)
        _report_gates_to_github(selection.options.sweep, *gates, to_stderr=to_stderr)
    if "summary" in reports and not to_stderr and result.problem != INTERRUPTED:
        _show_summary(selection, result.outcomes)


def _show_summary(selection: Selection, outcomes: Sequence[PairOutcome]) -> None:
    """Print each case, and failures by class."""
    warehouse, cases = selection.session.warehouse, selection.options.cases
    failed = failed_cases(warehouse, outcomes, cases, most=case_summary.MOST_FAILURES)
    case_summary.show_summary(table_console(), warehouse, outcomes, failed, cases)


def _report_to_github(
    selection: Selection, outcomes: Sequence[PairOutcome], by_plan: Sequence[PairOutcome], *, to_stderr: bool
) -> None:
    """Print annotations, and write the summary of the step."""
    warehouse, cases = selection.session.warehouse, selection.options.cases
    failed = failed_cases(warehouse, by_plan, cases, most=github_report.MOST_ANNOTATIONS)
    root = github_report.repository_root(selection.session.project.root)
    for line in github_report.annotation_lines(failed, github_report.places_of(outcomes, root), root):
        echo(line, err=to_stderr)
    github_report.write_summary(github_report.summary(outcomes, failed))


def _report_gates_to_github(
    sweep: str | None, gate: SweepGate | None, of_suites: Sequence[GateLine], *, to_stderr: bool
) -> None:
    """Print annotations of the rules that are not shown to hold, and add the gate to the summary of the step."""
    of_sweep = github_report.gate_lines(sweep, gate.lines) if gate is not None else ()
    for line in (*github_report.gate_lines(None, of_suites), *of_sweep):
        echo(line, err=to_stderr)
    if gate is not None:
        github_report.write_summary(github_report.gate_summary(gate))


def _check_required(selection: Selection, min_pass_rate: float | None) -> None:
    """Raise InputError where nothing is set that a run could show."""
    if not _is_gated(selection) and min_pass_rate is None and selection.options.defaults.min_pass_rate is None:
        raise InputError("--require-go needs a least pass rate: --min-pass-rate, or a sweep with a gate")


def _is_gated(selection: Selection) -> bool:
    """Return whether it is a sweep of the project file that has a gate."""
    name = selection.options.sweep
    return name is not None and named_sweep(selection.session.project, name).gate is not None


def _end_in_order(selection: Selection, progress: Progress) -> Signals | None:
    """Let a signal stop the sweep instead of ending the process at once; None where none are handled."""
    signals = click.get_current_context().find_object(Signals)
    if signals is not None:
        selection.session.stop = signals.end_in_order(lambda: f": {_kept(selection, progress)}")
    return signals


def _kept(selection: Selection, progress: Progress) -> str:
    """Return how many executions of an interrupted sweep are kept, and how to go on."""
    refresh = selection.launch.refresh or selection.session.project.defaults.refresh
    again = "" if refresh == "missing" else f" with --resume, since --refresh {refresh} repeats executions"
    kept = counted(progress.stored, "execution is", "executions are")
    return f"{kept} kept; the same command goes on from there{again}"


def _end_of_named(selection: Selection, result: SweepRun, console: Console) -> SweepGate | None:
    """End a sweep that the project file names: gate, notifications, retention. Return its gate, None without one, and
    where the sweep did not finish."""
    name = selection.options.sweep
    if name is None or result.problem == INTERRUPTED:
        return None
    from eval_pipeline.cli.drift import show_anchors  # noqa: PLC0415 — only a named sweep needs it
    from eval_pipeline.sweeps.sweep_ends import gate_of_run, judge_at_end, send_notifications  # noqa: PLC0415 — only a named sweep needs it

    anchors = judge_at_end(selection.session, name, result.run_id)
    show_anchors(console, anchors)
    gate = gate_of_run(selection.session, name, result.run_id)
    for problem in send_notifications(selection.session, name, gate, result.problem, anchors):
        print_line(console, problem, mark="not notified:", style="yellow")
    _forget_old(selection, name, console)
    return gate


def _forget_old(selection: Selection, name: str, console: Console) -> None:
    """Delete what a sweep of the project file does not keep, with its Dagster runs."""
    from eval_pipeline.orchestration.deletion import forget_in_dagster  # noqa: PLC0415 — imports Dagster
    from eval_pipeline.sweeps.kept_sweeps import forget_old  # noqa: PLC0415 — only a named sweep needs it

    project, forgotten = selection.session.project, forget_old(selection.session, name)
    if forgotten:
        forget_in_dagster(project.data, project.root, runs=forgotten.dagster_runs)
        print_line(console, f"deleted, see sweeps.{name}.keep of the project file: {forgotten}", style="dim")


def _limit(
    selection: Selection, flag: float | None, outcomes: Sequence[PairOutcome], require_go: bool
) -> PassRateLimit:
    """Return the least pass rate with the rates of the pairs."""
    rate = selection.session.project.defaults.min_pass_rate if flag is None else flag
    warehouse, cases = selection.session.warehouse, selection.options.cases
    lines = {each.pair.name: suite_gate(warehouse, each, cases, with_rate=flag is None) for each in outcomes}
    limit = PassRateLimit(
        rate=None,
        gated=_is_gated(selection),
        required=require_go,
        lines=tuple(line for of_pair in lines.values() for line in of_pair),
        decided=frozenset(pair for pair, of_pair in lines.items() if any(line.rule == CASES for line in of_pair)),
    )
    if rate is None:
        return limit
    return replace(
        limit,
        rate=rate,
        source="defaults.min_pass_rate of the project file" if flag is None else "--min-pass-rate",
        rates={each.pair.name: pass_rate(warehouse, each.pair, cases) for each in outcomes if each.error is None},
    )


def _by_case(selection: Selection, outcome: PairOutcome) -> PairOutcome:
    """Return the outcome counted by cases, where a strategy of the suite makes repetitions one result."""
    if outcome.pair.ready.suite.settings.strategy is None or outcome.error is not None or not outcome.counts.planned:
        return outcome
    cases = case_results(selection.session.warehouse, outcome.pair.name)
    counted = replace(
        outcome.counts,
        passed=cases.get("passed", 0),
        failed=cases.get("failed", 0),
        errored=cases.get("error", 0),
    )
    return replace(outcome, counts=counted)


def _standings(selection: Selection, newest: pl.DataFrame | None) -> pl.DataFrame:
    """Return the newest board's rows of the selection; overall rows only when it has all suites of the board."""
    frame = newest_standings(selection.session.warehouse) if newest is None else newest
    suites = [ready.suite.name for ready in selection.suites]
    runners = [runner.name for runner in selection.runners]
    whole = set(frame.filter(pl.col("scope") == "suite")["suite"]) <= set(suites)
    shown = (pl.col("scope") == "suite") & pl.col("suite").is_in(suites)
    if whole:
        shown = shown | (pl.col("scope") == "overall")
    return frame.filter(shown & pl.col("runner").is_in(runners))


def _show_outcome(console: Console, selection: Selection, outcomes: list[PairOutcome], problem: str | None) -> None:
    tallies = [outcome.counts for outcome in outcomes]
    executed, reused = sum(t.executed for t in tallies), sum(t.reused for t in tallies)
    rescored, errored = sum(t.rescored for t in tallies), sum(t.errored for t in tallies)
    refused = sum(t.refused for t in tallies)
    brought_up_to_date = sum(t.updated for t in tallies)
    updated = f", {brought_up_to_date} updated" if brought_up_to_date else ""
    not_started = f", {refused} not started" if refused else ""
    if outcomes or problem != INTERRUPTED:
        print_line(console, f"{executed} executed, {reused} reused, {rescored} scored again{updated}{not_started}")
    if selection.problems:
        print_line(console, left_out(selection.problems), style="red")
    if errored:
        print_line(console, f"{counted(errored, 'execution')} could not be graded; why: {WHY}", style="yellow")
    if problem is not None and problem != INTERRUPTED:
        print_line(console, f"problem: {problem}", style="red")
    if selection.session.project.warehouse is not None:
        ask, look = (f"eval-pipeline {name}{given_warehouse()}" for name in ("sql", "view"))
        where = f"tables: {selection.session.project.warehouse}   ask: {ask}   look: {look}"
        print_line(console, where, style="dim")
        return
    data = show_path(Path(selection.session.project.data))
    look = f"look: eval-pipeline view --data {data} ({page_url()})"
    where = f"tables: {data}/results.duckdb   ask: eval-pipeline sql --data {data}   {look}"
    print_line(console, where, style="dim")


def _print_json(
    result: SweepRun,
    standings: pl.DataFrame,
    selection: Selection,
    end: Ending,
    failed: FailedCases,
    limit: PassRateLimit,
) -> None:
    document = {
        "exit_code": end.code,
        **ending_document(end, failed, limit.lines),
        "problem": result.problem,
        "dagster_run_id": result.run_id,
        "pairs": [
            {
                "suite": outcome.pair.name.suite,
                "runner": outcome.pair.name.runner,
                **{name: getattr(outcome.counts, name) for name in outcome.counts.__dataclass_fields__},
                "error": outcome.error,
            }
            for outcome in result.outcomes
        ],
        "snapshots": [asdict(snapshot) for snapshot in result.snapshots],
        "invalid_cases": [str(error) for error in selection.problems],
        "leaderboard": standings.to_dicts(),
    }
    echo_json(document)
