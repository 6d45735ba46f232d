"""The end of `eval-pipeline run`: its exit code with the reasons, and which cases failed and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from eval_pipeline.cli.main import EXIT_INTERRUPTED
from eval_pipeline.cli.signals import Signals
from eval_pipeline.cli.tables import print_line, print_one_line
from eval_pipeline.errors import InputError
from eval_pipeline.executions.runners import RunnerErrors
from eval_pipeline.leaderboards.show import counted, percent
from eval_pipeline.leaderboards.sweep_gates import GateLine, SweepGate, of_decision
from eval_pipeline.parsing.source import show_path
from eval_pipeline.parsing.visible import escape_controls
from eval_pipeline.sweeps.failed_cases import FailedCase, FailedCases
from eval_pipeline.sweeps.outcomes import PairOutcome
from eval_pipeline.sweeps.pass_rates import PassRate
from eval_pipeline.warehouse.journal import PairKey

EXIT_INVALID = 2
EXIT_NOTHING_GRADED = 3
EXIT_NOT_SHOWN = 4
REASONS_SHOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRateLimit:
    """The lowest pass rate of a pair that is no failure, and where it is set; None: every failed case counts, unless a
    gate decides (`gated`). `rates` are those of the pairs; `required` is whether a pair has to be shown not to be below
    it. `lines` are what suites with least values of their own say of their pairs, `decided` those whose failed cases
    count by these alone."""

    rate: float | None
    gated: bool = False
    source: str = ""
    rates: Mapping[PairKey, PassRate] = field(default_factory=dict)
    required: bool = False
    lines: tuple[GateLine, ...] = ()
    decided: frozenset[PairKey] = frozenset()


@dataclass(frozen=True, slots=True)
class Ending:
    """The exit code of a run, and the reasons for it; none for 0. `open` are the pairs whose pass rate may be below the
    least one, and may be not."""

    code: int
    reasons: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def ending(
    outcomes: Sequence[PairOutcome],
    problems: Sequence[InputError],
    limit: PassRateLimit,
    problem: str | None,
    gate: SweepGate | None = None,
) -> Ending:
    """Return 0 to 4, as `eval-pipeline run --help` says, with the reasons; the worst of what happened. `gate` is that
    of a sweep of the project file, which decides in place of single failed cases."""
    graded = sum(outcome.counts.graded for outcome in outcomes)
    if problems:
        return Ending(EXIT_INVALID, (left_out(problems),))
    if not graded:
        return Ending(EXIT_NOTHING_GRADED, ("nothing could be graded", *_ungraded(outcomes, problem)))
    reasons = [reason for outcome in outcomes if (reason := _failure(outcome, limit)) is not None]
    if problem is not None:
        reasons.append("the run did not succeed (see the problem above)")
    lines = (*limit.lines, *(gate.lines if gate is not None else ()))
    reasons += [f"gate: {text}" for text in of_decision(lines, "NO-GO")]
    undecided = (
        *(text for outcome in outcomes if (text := _undecided(outcome, limit)) is not None),
        *(f"gate: {text}" for text in of_decision(lines, "INCONCLUSIVE")),
    )
    if reasons:
        return Ending(1, tuple(reasons), undecided)
    return Ending(EXIT_NOT_SHOWN if undecided and limit.required else 0, undecided if limit.required else (), undecided)


def interrupted_ending(kept: str, signals: Signals | None) -> Ending:
    """Return the ending of a sweep that was interrupted; `kept` says what is stored and how to go on."""
    code = signals.exit_code if signals is not None else None
    return Ending(EXIT_INTERRUPTED if code is None else code, (f"interrupted: {kept}",))


def left_out(problems: Sequence[InputError]) -> str:
    """Return how many cases are not carried out because they are invalid, and how many runners cannot be used."""
    runners = sum(isinstance(problem, RunnerErrors) for problem in problems)
    parts = [
        counted(len(problems) - runners, "invalid case") if runners < len(problems) else "",
        counted(runners, "unusable runner") if runners else "",
    ]
    return f"{' and '.join(filter(None, parts))} {'was' if len(problems) == 1 else 'were'} left out"


def _ungraded(outcomes: Sequence[PairOutcome], problem: str | None) -> Iterator[str]:
    errored = sum(outcome.counts.errored for outcome in outcomes)
    if errored:
        yield counted(errored, "execution is an error", "executions are errors")
    if problem is not None:
        yield "the run did not succeed (see the problem above)"


def _failure(outcome: PairOutcome, limit: PassRateLimit) -> str | None:
    """Return why a pair fails the run; None when it does not."""
    counts, name = outcome.counts, f"{outcome.pair.name.suite} × {outcome.pair.name.runner}"
    if outcome.error is not None:
        return f"{name}: not stored: {outcome.error}"
    if (limit.gated and limit.rate is None) or outcome.pair.name in limit.decided:
        return None
    if limit.rate is None or not counts.planned:
        failed = {"failed": counts.failed, "not graded": counts.errored}
        parts = [f"{number} {what}" for what, number in failed.items() if number]
        return (
            f"{name}: {' and '.join(parts)} of {counted(counts.graded + counts.errored, _unit(outcome))}"
            if parts
            else None
        )
    if counts.pass_rate is None:
        return f"{name}: nothing could be graded"
    known = limit.rates[outcome.pair.name]
    if known.decision(limit.rate) == "NO-GO":
        return f"{name}: pass rate {known} is below {percent(limit.rate)} ({limit.source})"
    return None


def _undecided(outcome: PairOutcome, limit: PassRateLimit) -> str | None:
    """Return that the cases of a pair do not show whether its pass rate is below the least one; None if they do."""
    known = limit.rates.get(outcome.pair.name)
    if (
        outcome.pair.name in limit.decided
        or limit.rate is None
        or known is None
        or known.rate is None
        or known.decision(limit.rate) != "INCONCLUSIVE"
    ):
        return None
    name = f"{outcome.pair.name.suite} × {outcome.pair.name.runner}"
    return f"{name}: pass rate {known} may be below {percent(limit.rate)}, or not ({limit.source})"


def _unit(outcome: PairOutcome) -> str:
    """Return what the counts of a pair count: plans, or cases where a strategy makes repetitions one result."""
    settings = outcome.pair.ready.suite.settings
    return (
        "case"
        if settings.strategy is not None or outcome.counts.planned == len(outcome.pair.ready.suite.cases)
        else "plan"
    )


def ending_document(end: Ending, failed: FailedCases, lines: Sequence[GateLine]) -> dict[str, Any]:
    """Return the reasons, what suites say of their pairs and the failed cases for `--json`."""
    cases = [{**asdict(case), "label": case.label, "command": case.command} for case in failed.cases]
    return {
        "exit_reasons": end.reasons,
        "undecided": end.open,
        "suite_gates": [asdict(line) for line in lines],
        "failed_cases": {"total": failed.total, "cases": cases},
    }


def show_failed_cases(console: Console, failed: FailedCases, options: str) -> None:
    """Print the first failed cases, each with its reason in one line; nothing when all passed.

    `options` are those of the command that shows more (--data, --project).
    """
    if not failed.cases:
        return
    count = f"{len(failed.cases)} of {failed.total}" if failed.hidden else f"{failed.total}"
    print_line(console, f"not passed: {count}", style="bold")
    for case in failed.cases:
        _show_case(console, case)
    print_line(console, f"more: {failed.cases[0].command}{options}")
    if failed.hidden:
        print_line(console, f"all of them: eval-pipeline show --failed{options}")
    console.print()


def _show_case(console: Console, case: FailedCase) -> None:
    repetitions = f"  ({case.failed} of {counted(case.repetitions, 'repetition')})" if case.repetitions > 1 else ""
    name = escape_controls(f"{case.suite}/{case.case_id}")
    which = escape_controls(f"  {case.runner}  {case.label}{repetitions}")
    console.print(Text.assemble((name, "red"), which), soft_wrap=True)
    print_one_line(console, f"    {' '.join((case.reason or 'no reason is stored').split())}")
    if case.workspace is not None:
        print_line(console, f"    workspace: {show_path(Path(case.workspace))}", style="dim")


def show_ending(console: Console, end: Ending) -> None:
    """Print which pass rates are undecided, and the exit code with its reasons; nothing for 0."""
    for text in end.open[:REASONS_SHOWN]:
        print_line(console, text, mark="INCONCLUSIVE", style="yellow")
    if not end.code:
        return
    print_line(console, _summary(end.reasons[:REASONS_SHOWN]), mark=f"exit {end.code}:", style="red")
    if len(end.reasons) > REASONS_SHOWN:
        print_line(
            console, f"        … and {counted(len(end.reasons) - REASONS_SHOWN, 'more reason')} (all with --json)"
        )


def _summary(reasons: Iterable[str]) -> str:
    return "\n        ".join(Counter(reasons))
